// What a decision is made from: the estimates of the checkpoints, the beliefs about the arms, and what each arm offers.
import { type Beliefs, beliefsOf } from "./beliefs.ts";
import { gainByDeclining } from "./deficits.ts";
import { mostLooks } from "./looks.ts";
import { bestSize, type Offer } from "./offers.ts";
import { isAbandoned, rateFactorOf } from "./repairs.ts";
import type { Arm, PlanState } from "./state.ts";
import { type Standing, type Survey, surveyOf } from "./survey.ts";

export interface Situation {
  state: PlanState;
  survey: Survey;
  beliefs: Beliefs;
  /** Hours that the next phase may use: those left after its check and, if a look is left, that look. */
  phaseHours: number;
  /** The offer of the best size for every arm that has one. */
  offers: Offer[];
  excluded: Exclusion[];
}

export interface Exclusion {
  arm: Arm;
  reason: string;
  /** Whether more hours would help. */
  isForHours: boolean;
}

/** Gain in points below which no phase is worth running, however cheap it is. */
export const leastGain = 0.1;

export function situationOf(state: PlanState): Situation {
  const survey = surveyOf(state);
  const beliefs = beliefsOf(state, survey);
  const { max_compute_hours } = state.limits;
  const left = max_compute_hours === null ? Number.POSITIVE_INFINITY : max_compute_hours - state.hours;
  const lookHours = state.looks.length < mostLooks ? state.look_hours : 0;
  const phaseHours = left - state.check_hours - lookHours;
  const found: Pick<Situation, "offers" | "excluded"> = { offers: [], excluded: [] };
  const ask = (arm: Arm, hours: number): Offer | null => {
    const reason = reasonAgainst(state, survey, arm);
    const terms = { arm, from: survey.best, hours, rateFactor: rateFactorOf(state, survey, arm) };
    const offer = reason === null ? bestSize(state, beliefs, terms) : null;
    if (offer !== null) found.offers.push(offer);
    else if (reason !== null) found.excluded.push({ arm, reason, isForHours: false });
    else if (arm !== "scale")
      found.excluded.push({ arm, reason: "the hours left are not enough for a phase", isForHours: true });
    return offer;
  };
  // An edit comes last, so its hours are reserved.
  const edit = state.limits.arms.includes("represent") ? ask("represent", phaseHours) : null;
  const trainHours = phaseHours - (edit !== null && edit.gain >= leastGain ? edit.hours : 0);
  for (const arm of state.limits.arms) if (arm !== "represent") ask(arm, trainHours);
  return { state, survey, beliefs, phaseHours, ...found };
}

/** Number of phases before the latest resume that precedes this decision; 0 if none does. */
export const resumedAfter = ({ resumes, history, looks }: PlanState): number =>
  resumes.findLast((resume) => resume.phases <= history.length && resume.looks <= looks.length)?.phases ?? 0;

/**
 * Least gap between pass@8 and pass@1 in points, including what declining would gain. Below this gap, reinforcement has
 * nothing to learn from.
 */
const leastSampledGap = 5;
/**
 * After this many phases of an arm from the same checkpoint without a better result, the arm waits until another
 * checkpoint is best.
 */
const mostInVain = 2;

export function reasonAgainst(state: PlanState, survey: Survey, arm: Arm): string | null {
  const { best } = survey;
  if (isAbandoned(survey, arm)) return "abandoned: it caused a regression twice";
  const { has_usable_direction: hasDirection, profile, unjudged } = state.diagnosis;
  if (arm === "represent" && !hasDirection)
    return `there is no usable direction${profile === null ? "" : `: ${profile}`}`;
  if (arm === "reinforce" && unjudged !== undefined) return unjudged;
  const { reinforce_needs: needed } = state.limits;
  if (arm === "reinforce" && needed !== undefined && !state.checkpoints.some(({ id }) => id === needed))
    return `its reference, the checkpoint ${needed}, does not exist yet`;
  if (arm === "reinforce" && sampledGap(state, best) < leastSampledGap)
    return `sampled answers are right less than ${leastSampledGap} points more often than the greedy answer`;
  const inVain = state.history
    .slice(resumedAfter(state))
    .filter((phase) => phase.arm === arm && phase.from === best.checkpoint.id);
  // Edits come from a fixed grid, so a second search would find the same edit.
  const most = arm === "represent" ? 1 : mostInVain;
  if (arm !== "scale" && inVain.length >= most) return "its phases from this checkpoint brought no improvement";
  return null;
}

/**
 * pass@8 − pass@1 in points, where pass@1 is the score of the greedy answers. An item with no right sample counts with
 * what declining would gain.
 */
function sampledGap({ diagnosis: { items } }: PlanState, { checkpoint: { dev, sampled } }: Standing): number {
  const gaps = dev.map((score, at) =>
    (sampled?.[at] ?? items[at]!.sampled) > 0 ? 1 - score : gainByDeclining(items[at]!, score),
  );
  return (100 * gaps.reduce((sum, gap) => sum + gap, 0)) / Math.max(1, gaps.length);
}
