// The planner of an auto-align. From the state it decides on the next phase, a look or the end, and makes a card that says
// why. It is a pure function: it reads no clock and no file and draws no random numbers, so that a run killed at any point
// makes the same decision again.
//
//   dev meets the target ─► look (three at most) ─► reached, or continue
//   a sequence is given ─► its next phase
//   otherwise: a confirmed regression ─► the repair ladder          none ─► the offer with the most points per hour
//   no phase is affordable, or no visible gain is left ─► a last look if dev is at the target ─► end
import { invalid } from "../base/errors.ts";
import { becauseOf, type Choice, cardOf } from "./plan/card.ts";
import { smallestVisible } from "./plan/evidence.ts";
import { helpOf } from "./plan/help.ts";
import { judgeLook, mostLooks } from "./plan/looks.ts";
import { bestSize, highestBid, type Offer, outlookOf } from "./plan/offers.ts";
import { lostItems, openRegression, rateFactorOf, revisited } from "./plan/repairs.ts";
import { allocate } from "./plan/sequence.ts";
import { leastGain, reasonAgainst, resumedAfter, type Situation, situationOf } from "./plan/situation.ts";
import type { Arm, CardCode, Decision, PhasePlan, PlanState } from "./plan/state.ts";
import { chanceOfTarget, clustersOf } from "./plan/survey.ts";

export function nextDecision(state: PlanState): Decision {
  if (state.diagnosis.items.length === 0) throw invalid(["benchmark_id"], "has no dev questions to plan with");
  const situation = situationOf(state);
  const choice =
    reached(situation) ??
    lookWhenMet(situation) ??
    (state.limits.sequencing === null
      ? (repairPhase(situation) ?? bestPhase(situation))
      : sequencedPhase(situation, state.limits.sequencing)) ??
    lastLook(situation) ??
    ended(situation);
  return { next: choice.next, card: cardOf(situation, choice) };
}

/** Ends the run when the last look met the target. */
function reached({ state }: Situation): Choice | null {
  const last = state.looks.at(-1);
  if (last === undefined) return null;
  const target = state.limits.target_score;
  const verdict = judgeLook(last, target);
  if (!verdict.reached) return null;
  const { score, low, n, confirmed, smallest_visible } = verdict;
  return {
    next: { kind: "end", status: "REACHED", checkpoint: last.checkpoint, confirmed, help: [] },
    code: "reached",
    because: `Look ${state.looks.length}: ${n} sealed questions give a score of ${score.toFixed(1)}; the target is ${target}. The lower bound is ${low.toFixed(1)}${confirmed ? ", which reaches the target too" : ", so it is not confirmed that the target is reached"}. The smallest effect that this look could detect is ${smallest_visible.toFixed(1)} points.`,
    wouldChange: "Nothing: the sealed questions have been used and gave this answer.",
  };
}

/**
 * Decides on a look when the best checkpoint's dev score is at its aim. Before any phase, a score at the target itself
 * is enough, because no checkpoint has been chosen by that score yet.
 */
function lookWhenMet(situation: Situation): Choice | null {
  const { state, survey } = situation;
  const { score, aim } = survey.best;
  const isMet =
    state.history.length === 0 && state.looks.length === 0 ? score >= state.limits.target_score : score >= aim;
  if (!isMet || !canLook(situation)) return null;
  const chance = chanceOfTarget(state, survey.best);
  return look(
    situation,
    "likely",
    `By the dev questions, the target is reached with probability ${chance.toFixed(2)}.`,
  );
}

function lastLook(situation: Situation): Choice | null {
  const { state, survey } = situation;
  if (survey.best.score < state.limits.target_score || !canLook(situation)) return null;
  return look(
    situation,
    "worth_a_look",
    "No further phase is worth its hours, and the dev score has reached the target.",
  );
}

/**
 * Whether a look at the best checkpoint is possible. A checkpoint gets only one look, because a look at a second third
 * would only be another chance to be lucky.
 */
function canLook({ state, survey }: Situation): boolean {
  const { max_compute_hours } = state.limits;
  return (
    state.looks.length < mostLooks &&
    !state.looks.some(({ checkpoint }) => checkpoint === survey.best.checkpoint.id) &&
    (max_compute_hours === null || state.hours + state.look_hours <= max_compute_hours)
  );
}

const look = ({ state, survey }: Situation, code: CardCode, because: string): Choice => ({
  next: { kind: "look", checkpoint: survey.best.checkpoint.id, third: state.looks.length },
  code,
  because,
  wouldChange: "A miss: then phases continue with dev questions only, and this checkpoint gets no further look.",
});

function repairPhase(situation: Situation): Choice | null {
  const { state, survey, beliefs, phaseHours } = situation;
  const open = openRegression(state, survey);
  for (const remedy of open?.left ?? []) {
    const { standing } = open!;
    const isRevisit = remedy === "revisit";
    const arm = isRevisit ? revisited(standing, open!.arm)! : remedy;
    if (!state.limits.arms.includes(arm) || (isRevisit && reasonAgainst(state, survey, arm) !== null)) continue;
    const from = isRevisit ? survey.best : standing;
    const rateFactor = rateFactorOf(state, survey, arm);
    const best = bestSize(state, beliefs, { arm, from, hours: phaseHours, rateFactor });
    // Once repaired, the checkpoint has to be worth more than the best one, to which the plan could return.
    if (best === null || best.gain < leastGain || from.worth + best.gain <= survey.best.worth) continue;
    const repairs = { checkpoint: standing.checkpoint.id, remedy };
    return phaseChoice(situation, best, { repairs, focus: isRevisit ? lostItems(standing) : [] });
  }
  return null;
}

const bestOf = (offers: readonly Offer[]): Offer | null => highestBid(offers.filter(({ gain }) => gain >= leastGain));

/**
 * The best phase. An edit comes after all training, because later training would undo most of it, unless the edit is
 * likely to meet the target by itself.
 */
function bestPhase(situation: Situation): Choice | null {
  const edit = bestOf(situation.offers.filter(({ arm }) => arm === "represent"));
  const train = isFutile(situation) ? null : bestOf(situation.offers.filter(({ arm }) => arm !== "represent"));
  const best = edit !== null && isLikelyEnough(situation, edit) ? edit : (train ?? edit);
  return best === null ? null : phaseChoice(situation, best, { repairs: null, focus: [] });
}

function isLikelyEnough({ state, beliefs }: Situation, { arm, from, steps, scale, rateFactor }: Offer): boolean {
  const effort = (steps / state.costs[arm].steps) * rateFactor;
  return outlookOf(state, beliefs, { arm, from, effort, scale }).chanceOf(from.aim - from.score) > 0.5;
}

/** Least probability of a visible gain at which an arm is still worth trying when hours are unlimited. */
const leastHope = 0.1;

/**
 * Whether more training is futile although hours are unlimited: either no look is left, or every arm that bids has been
 * tried and none is likely to add a gain that dev could show. After a pause that was ended by hand, at least one more
 * phase runs if a look is left.
 */
function isFutile({ state, survey, beliefs, offers }: Situation): boolean {
  const { best } = survey;
  if (state.limits.max_compute_hours !== null) return false;
  // Without a look, the target can no longer be claimed, so phases would run without end.
  if (state.looks.length >= mostLooks) return true;
  if (state.history.length > 0 && state.history.length === resumedAfter(state)) return false;
  const visible = smallestVisible(best.checkpoint, best.parent?.checkpoint, clustersOf(state));
  if (best.penalty >= visible) return false;
  return offers
    .filter(({ bid, arm }) => bid > 0 && arm !== "represent")
    .every(({ arm, scale }) => {
      const isTried = arm === "scale" || state.history.some((phase) => phase.arm === arm);
      const { chanceOf } = outlookOf(state, beliefs, { arm, from: best, effort: Number.MAX_VALUE, scale });
      return isTried && chanceOf(visible) < leastHope;
    });
}

function sequencedPhase(situation: Situation, sequencing: readonly Arm[]): Choice | null {
  const { state, phaseHours } = situation;
  const left = sequencing.slice(state.history.length - resumedAfter(state));
  const offer = allocate(situation, left, phaseHours);
  return offer === null ? null : phaseChoice(situation, offer, { repairs: null, focus: [] });
}

/** A phase ends at this multiple of its expected hours, so that a slow phase does not use up the hours of others. */
const overrun = 1.3;

function phaseChoice(situation: Situation, offer: Offer, purpose: Pick<PhasePlan, "repairs" | "focus">): Choice {
  const { state } = situation;
  const { arm, from, steps, mostHours, rateFactor, scale, devGain, sd } = offer;
  const phase: PhasePlan = {
    arm,
    from: from.checkpoint.id,
    steps,
    hours: Math.min(mostHours, overrun * (offer.hours - state.check_hours)),
    rate_factor: rateFactor,
    scale,
    seed: state.seed + state.history.length,
    ...purpose,
    forecast: { gain: devGain, sd },
  };
  return { next: { kind: "phase", phase }, ...becauseOf(situation, offer, phase) };
}

function ended(situation: Situation): Choice {
  const { state, survey, excluded } = situation;
  const { sequencing, max_compute_hours } = state.limits;
  const help = helpOf(situation);
  const end = (status: "BUDGET_SPENT" | "PAUSED", code: CardCode, because: string, wouldChange: string): Choice => ({
    next: { kind: "end", status, checkpoint: survey.best.checkpoint.id, confirmed: null, help },
    code,
    because,
    wouldChange,
  });
  if (sequencing !== null && state.history.length - resumedAfter(state) >= sequencing.length)
    return end("PAUSED", "sequence_ended", "The given sequence of phases has ended.", "Another sequence, or none.");
  if (max_compute_hours !== null && (sequencing !== null || excluded.some(({ isForHours }) => isForHours)))
    return end(
      "BUDGET_SPENT",
      "hours_spent",
      `${state.hours.toFixed(2)} of ${max_compute_hours} hours are used, and the rest is not enough for another phase.`,
      "More hours.",
    );
  if (state.looks.length >= mostLooks)
    return end(
      "PAUSED",
      "looks_spent",
      `${mostLooks} looks at the sealed questions missed the target, and no third of them is left.`,
      "A benchmark with more questions.",
    );
  return end(
    "PAUSED",
    "nothing_left",
    "No allowed arm is likely to add a gain that these dev questions could detect.",
    help[0]?.text ?? "More documents, or a larger base model.",
  );
}
