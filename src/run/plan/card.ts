// The decision card, which explains a decision in figures and two sentences.
import { scoreOf, z95 } from "../../base/statistics/intervals.ts";
import { reachOf } from "./beliefs.ts";
import { chanceAbove, pairedDifference } from "./evidence.ts";
import { judgeLook } from "./looks.ts";
import { highestBid, type Offer } from "./offers.ts";
import { leastGain, type Situation } from "./situation.ts";
import type { Bid, CardCode, DecisionCard, Next, PhasePlan, PhaseResult } from "./state.ts";
import { chanceOfTarget, clustersOf, meanOf, newRegressions, type Standing, type Survey } from "./survey.ts";

/** A decision with the sentences of its card. */
export interface Choice {
  next: Next;
  /** null where the sentences report something that the card has no field for. */
  code: CardCode | null;
  because: string;
  wouldChange: string;
}

export function cardOf(situation: Situation, { next, code, because, wouldChange }: Choice): DecisionCard {
  const { state, survey, offers, excluded } = situation;
  const { best } = survey;
  const { score, low, high, n } = scoreOf(best.checkpoint.dev, clustersOf(state));
  const { max_compute_hours } = state.limits;
  const last = survey.standings.at(-1)!;
  return {
    step: state.history.length + state.looks.length,
    // A phase's own account of how it ended is only in the sentence, so such a card has no code.
    ...(code !== null && last.phase?.outcome === undefined ? { code } : {}),
    because: told(situation, next) + because,
    would_change: wouldChange,
    bids: offers.map(bidOf).sort((one, other) => other.bid - one.bid),
    excluded: excluded.map(({ arm, reason }) => ({ arm, reason })),
    best: {
      checkpoint: best.checkpoint.id,
      dev: { score, low, high, n },
      chance_of_target: chanceOfTarget(state, best),
    },
    hours: { spent: state.hours, left: max_compute_hours === null ? null : max_compute_hours - state.hours },
    looks: state.looks.map((look) => judgeLook(look, state.limits.target_score)),
    result: resultOf(situation),
    regressions: newRegressions(last),
  };
}

function resultOf({ state, survey }: Situation): PhaseResult | null {
  const { checkpoint, phase, parent } = survey.standings.at(-1)!;
  if (phase === null || parent === null) return null;
  const { difference, error } = pairedDifference(checkpoint.dev, parent.checkpoint.dev, clustersOf(state));
  return {
    checkpoint: checkpoint.id,
    arm: phase.arm,
    headroom: reachOf(state, phase.arm, parent.headroom),
    dev: [meanOf(parent.checkpoint.dev), meanOf(checkpoint.dev)],
    difference,
    low: difference - z95 * error,
    high: difference + z95 * error,
    chance_better: chanceAbove(0, difference, error),
    forecast_error: phase.forecast.gain - difference,
    suites: checkpoint.guards.map(({ name, correct }, at) => ({
      name,
      points: meanOf(correct.map(Number)) - meanOf(survey.base.checkpoint.guards[at]!.correct.map(Number)),
    })),
  };
}

/**
 * Describes the outcome of the last phase and any regression that its check confirmed: what was lowered, by which arm,
 * and what follows.
 */
function told({ survey }: Situation, next: Next): string {
  const last = survey.standings.at(-1)!;
  return outcomeOf(last.phase) + regressionsOf(survey, last, next);
}

const outcomeOf = (phase: Standing["phase"]): string =>
  phase?.outcome === undefined ? "" : `${phase.arm} ended: ${phase.outcome.told}. `;

function regressionsOf(survey: Survey, last: Standing, next: Next): string {
  const lost = newRegressions(last).map(
    ({ suite, points, cause }) =>
      `${survey.byId.get(cause)!.phase!.arm} lowered ${suite} by ${points.toFixed(1)} points`,
  );
  if (lost.length === 0) return "";
  const isRepaired = next.kind === "phase" && next.phase.repairs !== null;
  const best = survey.best.checkpoint.id;
  const then = survey.best === last ? "; the gain is worth more" : `; the plan returns to ${best}`;
  return `${lost.join(", ")}, more than chance explains${isRepaired ? "" : then}. `;
}

const bidOf = ({ arm, steps, gain, sd, hours, risk, bid }: Bid): Bid => ({ arm, steps, gain, sd, hours, risk, bid });

/** The sentences that explain why a phase was chosen. */
export function becauseOf(situation: Situation, offer: Offer, { repairs, arm }: PhasePlan): Omit<Choice, "next"> {
  const { offers, state } = situation;
  const promise = `${arm} is expected to add ${offer.gain.toFixed(1)} points in ${offer.hours.toFixed(2)} hours`;
  if (repairs !== null)
    return {
      code: "repair",
      because: `A regression was confirmed at ${repairs.checkpoint}, and ${repairs.remedy} is the cheapest remedy left: ${promise}.`,
      wouldChange:
        "If the next check no longer shows the regression, the repair ends; if it still does, the next remedy follows.",
    };
  if (state.limits.sequencing !== null)
    return {
      code: "sequenced",
      because: `The given sequence names ${arm} here; ${promise}.`,
      wouldChange: "Another sequence.",
    };
  const bids = `${promise}, which is ${offer.bid.toFixed(2)} points per hour`;
  const edit = offers.find((one) => one.arm === "represent" && one.gain >= leastGain);
  const kept =
    edit === undefined || arm === "represent"
      ? ""
      : " Some hours are reserved for an edit of representations. It comes last, because training undoes most of it.";
  const next = highestBid(offers.filter((one) => one.arm !== arm && one !== edit));
  if (next === null)
    return {
      code: kept === "" ? "only" : null,
      because: `${bids}; no other arm offers a gain.${kept}`,
      wouldChange: "An offer from another arm.",
    };
  return {
    code: kept === "" ? "best" : null,
    because: `${bids}; the next best arm, ${next.arm}, offers ${next.bid.toFixed(2)}.${kept}`,
    wouldChange: `A gain of ${arm} below ${((offer.gain * Math.max(0, next.bid)) / offer.bid).toFixed(1)} points, because then ${next.arm} offers more.`,
  };
}
