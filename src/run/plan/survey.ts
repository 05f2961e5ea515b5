// Estimates for every checkpoint, from its forecast and its check together. The best of several checks is an
// overestimate; it is less of one if each check is drawn towards its forecast.
import { type Headroom, headroomOf } from "./deficits.ts";
import { chanceAbove, chanceOfExcess, chanceOfLoss, errorOf, pairedDifference, spentAt } from "./evidence.ts";
import {
  type Arm,
  type CheckedCheckpoint,
  type DecisionCard,
  gradientArms,
  type PhaseRecord,
  type PlanState,
} from "./state.ts";

/** A regression that a test confirmed. `dev` is compared with the parent, a suite with the base. */
export type Regression = DecisionCard["regressions"][number];

export interface Standing {
  checkpoint: CheckedCheckpoint;
  /** The phase that made the checkpoint; null for the base. */
  phase: PhaseRecord | null;
  parent: Standing | null;
  /** Estimated points on the population of dev questions, and the standard error. */
  score: number;
  error: number;
  /** Points that each suite is estimated to have lost. */
  losses: number[];
  /** Points by which suites and divergence exceed their limits. */
  penalty: number;
  headroom: Headroom;
  regressions: Regression[];
  /**
   * Estimated score at which a look is worth opening. A checkpoint whose look missed the target was overestimated, so
   * another checkpoint must be estimated one standard error higher than that before another third is opened.
   */
  aim: number;
  /** Score, capped at the aim, less the penalty. */
  worth: number;
}

export interface Survey {
  standings: Standing[];
  byId: ReadonlyMap<string, Standing>;
  base: Standing;
  /** The standing with the greatest worth. */
  best: Standing;
}

/**
 * The probability of meeting the target at which a look is worth opening: 80 % at first, 90 % after one miss, 95 %
 * after two. So a checkpoint that missed is trained further before the next look. Given as normal quantiles.
 */
const lookQuantiles = [0.8416, 1.2816, 1.6449] as const;

/**
 * Mean and standard deviation of the points that a usual phase loses on a suite; a suite's check is weighed against
 * them.
 */
const usualLoss = { mean: 0.8, sd: 2.5 };
/**
 * Standard deviation, in points, of a usual phase's gain around its forecast, beyond the forecast's own uncertainty.
 */
const surprise = 4;
/**
 * One phase in ten misses its forecast for a reason that no forecast covers; `sd` is the spread of such a miss, in
 * points.
 */
export const accident = { chance: 0.1, sd: 15 };

export function surveyOf(state: PlanState): Survey {
  const clusters = clustersOf(state);
  const made = new Map(state.history.map((phase) => [phase.checkpoint, phase]));
  const byId = new Map<string, Standing>();
  for (const [at, checkpoint] of state.checkpoints.entries()) {
    const parent = checkpoint.parent === null ? null : byId.get(checkpoint.parent)!;
    const phase = made.get(checkpoint.id) ?? null;
    byId.set(
      checkpoint.id,
      parent === null || phase === null
        ? standingOfBase(state, checkpoint, clusters)
        : standingOf(state, {
            checkpoint,
            parent,
            phase,
            clusters,
            check: at,
            base: byId.get(state.checkpoints[0]!.id)!,
          }),
    );
  }
  const standings = [...byId.values()];
  const missed = state.looks.map(({ checkpoint }) => byId.get(checkpoint)!.score);
  const quantile = lookQuantiles[Math.min(missed.length, lookQuantiles.length - 1)]!;
  for (const one of standings) {
    const likely = state.limits.target_score + quantile * one.error;
    one.aim = Math.min(100, Math.max(likely, ...missed.map((score) => score + one.error)));
    one.worth = Math.min(one.score, one.aim) - one.penalty;
  }
  const best = standings.reduce((most, one) => (one.worth > most.worth ? one : most));
  return { standings, byId, base: standings[0]!, best };
}

export const clustersOf = ({ diagnosis }: PlanState): string[] => diagnosis.items.map((item) => item.cluster);

export const chanceOfTarget = ({ limits }: PlanState, { score, error }: Standing): number =>
  chanceAbove(limits.target_score, score, error);

/** Points by which losses exceed the suites' tolerances, added up. */
export const excessOf = (losses: readonly number[], { guards }: CheckedCheckpoint): number =>
  losses.reduce((sum, loss, at) => sum + Math.max(0, loss - guards[at]!.tolerance), 0);

export const meanOf = (scores: readonly number[]): number =>
  (100 * scores.reduce((sum, score) => sum + score, 0)) / scores.length;

function standingOfBase(state: PlanState, checkpoint: CheckedCheckpoint, clusters: readonly string[]): Standing {
  const score = meanOf(checkpoint.dev);
  return {
    checkpoint,
    phase: null,
    parent: null,
    score,
    error: errorOf(score, checkpoint.dev, clusters),
    losses: checkpoint.guards.map(() => 0),
    penalty: 0,
    headroom: headroomOf(state.diagnosis, checkpoint),
    regressions: [],
    aim: 0,
    worth: 0,
  };
}

interface Found {
  checkpoint: CheckedCheckpoint;
  parent: Standing;
  phase: PhaseRecord;
  base: Standing;
  clusters: readonly string[];
  /** Which check of the run this is, from 1. */
  check: number;
}

function standingOf(state: PlanState, found: Found): Standing {
  const { checkpoint, parent, phase, base, clusters } = found;
  const { difference, error } = pairedDifference(checkpoint.dev, parent.checkpoint.dev, clusters);
  // If a phase kept no edit or made no step, its checkpoint equals its parent, and its forecast does not apply.
  const isParent = phase.outcome?.is_kept === false || isWithoutStep(phase);
  const ran = shareRun(phase);
  const [expected, sd] = [ran * phase.forecast.gain, Math.hypot(ran * phase.forecast.sd, surprise)];
  const gain = isParent ? 0 : weighed(expected, sd, difference, error);
  const score = Math.min(100, Math.max(0, parent.score + gain));
  const losses = checkpoint.guards.map(({ correct }, at) => {
    if (isParent) return parent.losses[at]!;
    const { difference: gained, error: spread } = pairedDifference(
      correct.map(Number),
      base.checkpoint.guards[at]!.correct.map(Number),
      correct.map((_, index) => `${index}`),
    );
    return weighed(usualLoss.mean, usualLoss.sd, -gained, spread);
  });
  return {
    checkpoint,
    phase,
    parent,
    score,
    error: errorOf(score, checkpoint.dev, clusters),
    losses,
    penalty: excessOf(losses, checkpoint) + checkpoint.divergence_penalty,
    headroom: headroomOf(state.diagnosis, checkpoint),
    regressions: [...devRegression(found), ...suiteRegressions(found)],
    aim: 0,
    worth: 0,
  };
}

/** Whether a phase that trains made no step, because it found nothing to learn from. */
export const isWithoutStep = (phase: PhaseRecord): boolean => shareRun(phase) === 0;

/** Share of its planned steps that a phase ran. Of an edit or a scale, whatever is kept was forecast as a whole. */
const shareRun = ({ arm, steps, steps_run }: PhaseRecord): number =>
  gradientArms.includes(arm) ? steps_run / steps : 1;

/**
 * Mean of the expected and the observed value, each weighted by its precision. An observation far outside the usual
 * spread is more likely an accident, and is then taken nearly as observed.
 */
function weighed(expected: number, sd: number, observed: number, error: number): number {
  const [usual, gone] = [sd, accident.sd].map((spread) => {
    const variance = spread ** 2 + error ** 2;
    return {
      likelihood: Math.exp(-0.5 * ((observed - expected) ** 2 / variance)) / Math.sqrt(variance),
      mean: expected + (spread ** 2 / variance) * (observed - expected),
    };
  }) as [Guess, Guess];
  const odds = accident.chance * gone.likelihood;
  const share = odds / (odds + (1 - accident.chance) * usual.likelihood);
  return share * gone.mean + (1 - share) * usual.mean;
}

interface Guess {
  likelihood: number;
  mean: number;
}

/**
 * Significance level of every test at this check, on dev and on each suite: an equal share of what the run may spend at
 * this check.
 */
const levelOf = ({ checkpoint, check }: Found): number => spentAt(check, 1 + checkpoint.guards.length);

function devRegression(found: Found): Regression[] {
  const { checkpoint, parent, clusters } = found;
  if (chanceOfLoss(checkpoint.dev, parent.checkpoint.dev, clusters) > levelOf(found)) return [];
  const points = meanOf(parent.checkpoint.dev) - meanOf(checkpoint.dev);
  return [{ checkpoint: checkpoint.id, suite: "dev", points, cause: checkpoint.id }];
}

function suiteRegressions(found: Found): Regression[] {
  const { checkpoint, base } = found;
  return checkpoint.guards.flatMap(({ name, correct, tolerance }, at) => {
    const before = base.checkpoint.guards[at]!.correct;
    if (chanceOfExcess(before, correct, tolerance) > levelOf(found)) return [];
    const points = meanOf(before.map(Number)) - meanOf(correct.map(Number));
    return [{ checkpoint: checkpoint.id, suite: name, points, cause: causeOf(found, at) }];
  });
}

/** The checkpoint at which most of the questions that a suite has lost became wrong; its phase is the cause. */
function causeOf({ checkpoint, parent, base }: Found, suite: number): string {
  const lost = new Map<string, number>();
  for (const [item, right] of checkpoint.guards[suite]!.correct.entries()) {
    if (right || !base.checkpoint.guards[suite]!.correct[item]) continue;
    let cause = checkpoint.id;
    for (let at: Standing | null = parent; at && !at.checkpoint.guards[suite]!.correct[item]; at = at.parent)
      cause = at.checkpoint.id;
    lost.set(cause, (lost.get(cause) ?? 0) + 1);
  }
  return [...lost].reduce((most, one) => (one[1] > most[1] ? one : most))[0];
}

/**
 * Regressions that a checkpoint has and its parent does not. A regression on dev is always new, because dev is compared
 * with the parent.
 */
export const newRegressions = ({ regressions, parent }: Standing): Regression[] =>
  regressions.filter(({ suite }) => suite === "dev" || !parent?.regressions.some((one) => one.suite === suite));

/**
 * Units of effort that an arm has put into a checkpoint. Edits before a later supervised or reinforce phase do not
 * count, because that phase undoes most of them.
 */
export function effortOn(state: PlanState, standing: Standing, arm: Arm): number {
  let effort = 0;
  for (let at: Standing | null = standing; at?.phase; at = at.parent) {
    if (at.phase.arm === arm) effort += effortOf(state, at.phase);
    else if (arm === "represent" && (at.phase.arm === "supervised" || at.phase.arm === "reinforce")) break;
  }
  return effort;
}

export const effortOf = ({ costs }: PlanState, { arm, steps_run, rate_factor }: PhaseRecord): number =>
  (steps_run / costs[arm].steps) * rate_factor;
