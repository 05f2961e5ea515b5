// The repair ladder, cheapest rung first. A phase whose check confirms a regression is repaired from its own checkpoint
// (a smaller scale, then distillation from the base). Where that does not help, the phase is rolled back, and its arm
// continues at half the learning rate. If the arm regresses again, it is abandoned, and an arm that trained earlier is
// revisited, with rows that contain the lost answers. A rung is left out if it is not expected to win back enough.
//
//   confirmed → scale → distil → roll back, half the rate        the arm's first regression
//   confirmed → scale → distil → revisit → abandon the arm        the second
import { type Arm, gradientArms, type PlanState, type Remedy, remedies } from "./state.ts";
import { newRegressions, type Standing, type Survey } from "./survey.ts";

export interface OpenRegression {
  standing: Standing;
  /** The arm that caused the regression. */
  arm: Arm;
  /** Remedies not tried yet, in the order of the ladder. */
  left: Remedy[];
}

/**
 * Number of phases of an arm that caused a confirmed regression. Regressions that first show after a repair do not
 * count.
 */
function faultsOf({ standings, byId }: Survey, arm: Arm): number {
  const causes = standings
    .filter(({ phase }) => phase !== null && phase.repairs === null)
    .flatMap((one) => newRegressions(one).map(({ cause }) => cause));
  return [...new Set(causes)].filter((cause) => byId.get(cause)!.phase?.arm === arm).length;
}

/** The latest phase with a regression; null if there is none, or if a phase other than a repair has followed. */
export function openRegression(state: PlanState, survey: Survey): OpenRegression | null {
  const fault = survey.standings.findLast((one) => one.phase?.repairs === null && newRegressions(one).length > 0);
  if (fault?.phase == null) return null;
  const arm = survey.byId.get(newRegressions(fault)[0]!.cause)!.phase!.arm;
  // A later phase that is not a repair closes the regression.
  const at = state.history.indexOf(fault.phase);
  if (state.history.slice(at + 1).some((phase) => phase.repairs === null)) return null;
  const tried = state.history.flatMap(({ repairs }) =>
    repairs?.checkpoint === fault.checkpoint.id ? [repairs.remedy] : [],
  );
  const isAgain = isAbandoned(survey, arm);
  const left = remedies.filter((remedy) => {
    if (remedy === "revisit") return isAgain && !tried.includes(remedy) && revisited(fault, arm) !== null;
    // A smaller scale and distillation from the base win back what suites lost, not what dev lost.
    if (newRegressions(fault).every(({ suite }) => suite === "dev")) return false;
    return !tried.includes(remedy);
  });
  return { standing: fault, arm, left };
}

/** Arm of the last gradient phase before the fault whose arm is not `cause`; null where there is none. */
export function revisited({ parent }: Standing, cause: Arm): Arm | null {
  for (let at = parent; at?.phase; at = at.parent)
    if (at.phase.arm !== cause && gradientArms.includes(at.phase.arm)) return at.phase.arm;
  return null;
}

/** 0.5 once an arm has caused a regression, unless the learning rate is pinned; otherwise 1. */
export const rateFactorOf = ({ limits }: PlanState, survey: Survey, arm: Arm): number =>
  !limits.has_pinned_rate && faultsOf(survey, arm) > 0 ? 0.5 : 1;

/**
 * Whether an arm is abandoned: it has caused a regression twice, the second time at half the rate unless that is
 * pinned.
 */
export const isAbandoned = (survey: Survey, arm: Arm): boolean => faultsOf(survey, arm) > 1;

/** Indices of the dev items on which a checkpoint scores less than its parent. */
export const lostItems = ({ checkpoint, parent }: Standing): number[] =>
  parent === null ? [] : checkpoint.dev.flatMap((score, at) => (score < parent.checkpoint.dev[at]! ? [at] : []));
