// The repair ladder, cheapest rung first. A phase whose check confirms a regression is repaired from its own checkpoint (a smaller
// scale, then distillation from the base), rolled back where that does not help, and its arm goes on at half the learning rate. If the
// arm does it again, the earlier phase whose answers were lost is revisited, and the arm is abandoned. A rung that is expected to cost
// more than it wins back is left out.
//
//   confirmed → scale → distil → roll back, half the rate        the arm's first regression
//   confirmed → scale → distil → revisit → abandon the arm        the second
import { type Arm, gradientArms, type PlanState, type Remedy, remedies } from "./state.ts";
import { newRegressions, type Standing, type Survey } from "./survey.ts";

export interface OpenRegression {
  standing: Standing;
  /** That caused it. */
  arm: Arm;
  /** Remedies that are left, in the order of the ladder. */
  left: Remedy[];
}

/** Phases of an arm that caused a confirmed regression. What a repair does is judged with what it repairs. */
function faultsOf({ standings, byId }: Survey, arm: Arm): number {
  const causes = standings
    .filter(({ phase }) => phase !== null && phase.repairs === null)
    .flatMap((one) => newRegressions(one).map(({ cause }) => cause));
  return [...new Set(causes)].filter((cause) => byId.get(cause)!.phase?.arm === arm).length;
}

/** The latest phase's regression, as long as no other phase but its repairs has followed. */
export function openRegression(state: PlanState, survey: Survey): OpenRegression | null {
  const fault = survey.standings.findLast((one) => one.phase?.repairs === null && newRegressions(one).length > 0);
  if (fault?.phase == null) return null;
  const arm = survey.byId.get(newRegressions(fault)[0]!.cause)!.phase!.arm;
  // A phase that was planned after it has closed it.
  const at = state.history.indexOf(fault.phase);
  if (state.history.slice(at + 1).some((phase) => phase.repairs === null)) return null;
  const tried = state.history.flatMap(({ repairs }) =>
    repairs?.checkpoint === fault.checkpoint.id ? [repairs.remedy] : [],
  );
  const isAgain = isAbandoned(survey, arm);
  const left = remedies.filter((remedy) => {
    if (remedy === "revisit") return isAgain && !tried.includes(remedy) && revisited(fault, arm) !== null;
    // A smaller scale and the base's own answers win back what suites lost, not what dev lost.
    if (newRegressions(fault).every(({ suite }) => suite === "dev")) return false;
    return !tried.includes(remedy);
  });
  return { standing: fault, arm, left };
}

/** The last gradient phase on the way to a fault that is of another arm than what caused it; null where there is none. */
export function revisited({ parent }: Standing, cause: Arm): Arm | null {
  for (let at = parent; at?.phase; at = at.parent)
    if (at.phase.arm !== cause && gradientArms.includes(at.phase.arm)) return at.phase.arm;
  return null;
}

/** Half of the usual learning rate once an arm has done harm; the pinned one stays. */
export const rateFactorOf = ({ limits }: PlanState, survey: Survey, arm: Arm): number =>
  !limits.has_pinned_rate && faultsOf(survey, arm) > 0 ? 0.5 : 1;

/** An arm is abandoned once it has regressed twice: the second time at half the rate. */
export const isAbandoned = (survey: Survey, arm: Arm): boolean => faultsOf(survey, arm) > 1;

/** Dev items that a checkpoint answers and a phase from it lost. */
export const lostItems = ({ checkpoint, parent }: Standing): number[] =>
  parent === null ? [] : checkpoint.dev.flatMap((score, at) => (score < parent.checkpoint.dev[at]! ? [at] : []));
