// What a decision is made from: what is known of the checkpoints, what is believed of the arms, and what each of them offers.
import { type Beliefs, beliefsOf } from "./beliefs.ts";
import { mostLooks } from "./looks.ts";
import { bestSize, type Offer } from "./offers.ts";
import { isAbandoned, rateFactorOf } from "./repairs.ts";
import type { Arm, PlanState } from "./state.ts";
import { type Standing, type Survey, surveyOf } from "./survey.ts";

export interface Situation {
  state: PlanState;
  survey: Survey;
  beliefs: Beliefs;
  /** That the next phase may use: what is left once its check and a look are paid. */
  phaseHours: number;
  /** Of every arm its best size. */
  offers: Offer[];
  excluded: Exclusion[];
}

export interface Exclusion {
  arm: Arm;
  reason: string;
  /** Whether more hours would help. */
  isForHours: boolean;
}

/** Points below which no phase is worth running, however cheap it is. */
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
      found.excluded.push({ arm, reason: "the hours left do not pay for a phase", isForHours: true });
    return offer;
  };
  // An edit comes last, so that its hours are kept for it.
  const edit = state.limits.arms.includes("represent") ? ask("represent", phaseHours) : null;
  const trainHours = phaseHours - (edit !== null && edit.gain >= leastGain ? edit.hours : 0);
  for (const arm of state.limits.arms) if (arm !== "represent") ask(arm, trainHours);
  return { state, survey, beliefs, phaseHours, ...found };
}

/** Points by which some of eight samples are right more often than the greedy answer: reinforcement finds nothing below it. */
const leastSampledGap = 5;
/** Phases of an arm from the same checkpoint that brought nothing better, after which it waits until another one is best. */
const mostInVain = 2;

export function reasonAgainst(state: PlanState, survey: Survey, arm: Arm): string | null {
  const { best } = survey;
  if (isAbandoned(survey, arm)) return "abandoned: it regressed twice";
  const { has_usable_direction: hasDirection, profile } = state.diagnosis;
  if (arm === "represent" && !hasDirection)
    return `there is no usable direction${profile === null ? "" : `: ${profile}`}`;
  if (arm === "reinforce" && sampledGap(state, best) < leastSampledGap)
    return `samples are right by less than ${leastSampledGap} points more often than the greedy answer`;
  const inVain = state.history
    .slice(state.resumed_after)
    .filter((phase) => phase.arm === arm && phase.from === best.checkpoint.id);
  // An edit is looked for in a fixed grid: the same again would find the same.
  const most = arm === "represent" ? 1 : mostInVain;
  if (arm !== "scale" && inVain.length >= most) return "its phases from this checkpoint brought nothing better";
  return null;
}

/** pass@8 − pass@1 in points. */
function sampledGap({ diagnosis }: PlanState, { checkpoint: { dev, sampled } }: Standing): number {
  const gaps = dev.map((score, at) => ((sampled?.[at] ?? diagnosis.items[at]!.sampled) > 0 ? 1 - score : 0));
  return (100 * gaps.reduce((sum, gap) => sum + gap, 0)) / Math.max(1, gaps.length);
}
