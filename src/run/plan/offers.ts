// Expected gain and cost of a phase. Each arm offers phases of several sizes, of which the planner takes the one with
// the most points per hour.
import { type Beliefs, gainAt } from "./beliefs.ts";
import type { Arm, Bid, PlanState } from "./state.ts";
import { effortOn, excessOf, type Standing } from "./survey.ts";

/** Share of a suite's loss that remains after one unit of distillation from the base. */
const leftByDistilling = 0.25;

/**
 * An adapter at a smaller scale keeps scale^exponent of its harm and of its gain, so harm falls faster (arXiv
 * 2309.06256, 2510.17426).
 */
const scalePower = { harm: 1.6, gain: 0.5 };
export const scales = [0.85, 0.7, 0.5] as const;

export interface Outlook {
  /**
   * Expected points gained on dev, capped at the aim, less the earlier gains that the phase undoes. `sd` is the
   * standard deviation of the uncapped gain.
   */
  gain: number;
  sd: number;
  /** The gain, less the expected increase of the penalty for suites and divergence. */
  net: number;
  /** Probability that the arm gains at least `points` on dev, even beyond the aim and before anything is undone. */
  chanceOf(points: number): number;
}

/**
 * What a phase is expected to bring. `effort`: the steps, in usual phases, times the factor on the learning rate,
 * because at a lower rate the same number of steps does less.
 */
export function outlookOf(
  state: PlanState,
  beliefs: Beliefs,
  { arm, from, effort, scale }: { arm: Arm; from: Standing; effort: number; scale: number | null },
): Outlook {
  const room = Math.max(0, from.aim - from.score);
  const before = effortOn(state, from, arm);
  const gains = beliefs[arm].points.map((point) => ({
    weight: point.weight,
    gain: gainAt(state, point, { arm, headroom: from.headroom, before, effort }),
  }));
  const mean = (value: (gain: number) => number): number =>
    gains.reduce((sum, { weight, gain }) => sum + weight * value(gain), 0);
  const whole = mean((gain) => gain);
  const lost = scale === null ? undoneEdit(from, arm) : scaleLoss(from, scale);
  const gain = mean((one) => Math.min(one, room)) - lost;
  const left = scale === null ? (arm === "distil" ? leftByDistilling ** effort : 1) : scale ** scalePower.harm;
  const harm = beliefs[arm].harm.map((points) => points * effort);
  const losses = from.losses.map((loss, at) => loss * left + harm[at]!);
  const mended = from.checkpoint.divergence_penalty * (1 - left);
  return {
    gain,
    sd: Math.sqrt(mean((one) => (one - whole) ** 2)),
    net: gain + excessOf(from.losses, from.checkpoint) - excessOf(losses, from.checkpoint) + mended,
    chanceOf: (points) => gains.reduce((sum, one) => sum + (one.gain >= points ? one.weight : 0), 0),
  };
}

/** Points gained over the base that a smaller scale is expected to give up. */
function scaleLoss(from: Standing, scale: number): number {
  let first = from;
  while (first.parent !== null) first = first.parent;
  const gained = Math.max(0, Math.min(from.score, from.aim) - first.score);
  return gained * (1 - scale ** scalePower.gain);
}

/** Share of an edit's gain that later training undoes. According to published results, that is most of it. */
const undoneShare = 0.7;

function undoneEdit(from: Standing, arm: Arm): number {
  if (arm !== "supervised" && arm !== "reinforce") return 0;
  let before = from;
  while (before.parent !== null && before.phase?.arm === "represent") before = before.parent;
  return undoneShare * Math.max(0, from.score - before.score);
}

/** Hours per step of an arm: as measured in its own phases, or as forecast before it has any. */
export function hoursPerStep({ history, costs }: PlanState, arm: Arm): number {
  const ran = history.filter((phase) => phase.arm === arm && phase.steps_run > 0);
  const steps = ran.reduce((sum, phase) => sum + phase.steps_run, 0);
  return steps === 0 ? costs[arm].hours_per_step : ran.reduce((sum, phase) => sum + phase.hours_run, 0) / steps;
}

/** Hours before the first step of an arm's first phase; 0 for later phases. */
export const setupHours = ({ history, costs }: PlanState, arm: Arm): number =>
  history.some((phase) => phase.arm === arm) ? 0 : costs[arm].setup_hours;

/** Sizes of phase to consider, in units of effort. Each is twice the one before. */
const efforts = [0.35, 0.7, 1.4, 2.8, 5.6] as const;
/**
 * Least size of a phase, as a share of a usual phase. If the hours left do not suffice for the smallest size above, a
 * smaller phase may run, but none below this share.
 */
const leastEffort = 0.1;

export interface Offer extends Bid {
  from: Standing;
  rateFactor: number;
  scale: number | null;
  /** Expected points gained on dev alone. */
  devGain: number;
  /** Hours that the phase may use if it is slower than forecast, without its check. */
  mostHours: number;
}

export interface Terms {
  arm: Arm;
  from: Standing;
  /** Hours that the phase may use at most, without its check. */
  hours: number;
  rateFactor: number;
  /** Scales that a phase of `scale` may try; by default, those of `scales` that are not tried yet. */
  scales?: readonly number[];
}

/** An offer for every size of phase that an arm could run within the hours. */
export function offersOf(state: PlanState, beliefs: Beliefs, terms: Terms): Offer[] {
  const { arm, from, hours, rateFactor, scales: factors = untriedScales(state, from) } = terms;
  if (hours < 0) return [];
  const offer = (steps: number, scale: number | null): Offer => {
    const effort = (steps / state.costs[arm].steps) * rateFactor;
    const { gain, sd, net } = outlookOf(state, beliefs, { arm, from, effort, scale });
    const cost = setupHours(state, arm) + steps * hoursPerStep(state, arm) + state.check_hours;
    const { risk } = beliefs[arm];
    // A confirmed regression is rolled back: the gain is lost, and the hours are spent all the same.
    const bid = (net * (net > 0 ? 1 - risk : 1)) / Math.max(cost, leastHours);
    return {
      arm,
      steps,
      gain: net,
      sd,
      hours: cost,
      risk,
      bid,
      from,
      rateFactor,
      scale,
      devGain: gain,
      mostHours: hours,
    };
  };
  if (arm === "scale") return factors.map((scale) => offer(1, scale));
  return sizesOf(state, arm, hours).map((steps) => offer(steps, null));
}

/** One second. The cost of a phase is at least this, so that the points per hour of a cheap phase stay bounded. */
const leastHours = 1 / 3600;

function sizesOf(state: PlanState, arm: Arm, hours: number): number[] {
  const { limits, costs } = state;
  const rate = hoursPerStep(state, arm);
  const left = hours - setupHours(state, arm);
  if (left < 0) return [];
  const affordable = rate === 0 ? Number.POSITIVE_INFINITY : Math.floor(left / rate);
  const usual = costs[arm].steps;
  if (arm === "represent") return usual <= affordable ? [usual] : [];
  if (limits.steps !== null) return limits.steps <= affordable ? [limits.steps] : [];
  const most = Math.min(affordable, limits.max_steps ?? Number.POSITIVE_INFINITY);
  const least = Math.min(Math.max(1, leastEffort * usual), limits.max_steps ?? Number.POSITIVE_INFINITY);
  const sizes = efforts.map((effort) => Math.min(most, Math.max(1, Math.round(effort * usual))));
  return [...new Set(sizes)].filter((steps) => steps >= least);
}

/** Scales not tried yet from this checkpoint. Only a trained checkpoint is scaled; a scaled one is not scaled again. */
function untriedScales({ history }: PlanState, from: Standing): number[] {
  if (from.phase === null || from.phase.arm === "scale") return [];
  const tried = history.filter((phase) => phase.from === from.checkpoint.id).map(({ scale }) => scale);
  return scales.filter((scale) => !tried.includes(scale));
}

/** The offer of the size with the most points per hour, even where that is a loss; null when no size is affordable. */
export const bestSize = (state: PlanState, beliefs: Beliefs, terms: Terms): Offer | null =>
  highestBid(offersOf(state, beliefs, terms));

/** The offer with the highest bid, the first among equals; null when there are none. */
export const highestBid = (offers: readonly Offer[]): Offer | null =>
  offers.reduce<Offer | null>((best, one) => (best === null || one.bid > best.bid ? one : best), null);
