// What checks show: differences with their errors, losses beyond chance, and the uncertainty of a score. Differences
// and scores are in points.
import { binomialTail, normalCdf } from "../../base/statistics/distributions.ts";
import { designEffect, grouped } from "../../base/statistics/intervals.ts";
import { minimumDetectableEffect, signFlip, significance, tallied } from "../../base/statistics/paired.ts";
import type { CheckedCheckpoint } from "./state.ts";

/** The mean of (first − second) over the same items, in points, with its standard error from the sums of clusters. */
export function pairedDifference(
  first: readonly number[],
  second: readonly number[],
  clusters: readonly string[],
): { difference: number; error: number } {
  const n = first.length;
  if (n === 0) return { difference: 0, error: 100 };
  const differences = first.map((score, at) => score - second[at]!);
  const mean = differences.reduce((sum, value) => sum + value, 0) / n;
  let squares = 0;
  for (const group of grouped(differences, clusters))
    squares += group.reduce((sum, value) => sum + value - mean, 0) ** 2;
  // Checkpoints may differ although no item shows it, so the error is at least one item.
  return { difference: 100 * mean, error: 100 * Math.max(Math.sqrt(squares) / n, 1 / n) };
}

/**
 * The probability, if `first` is truly no worse than `second`, that it does at least as badly on these dev items by
 * chance.
 */
export function chanceOfLoss(first: readonly number[], second: readonly number[], clusters: readonly string[]): number {
  const { gained, lost, groups, isExact } = tallied(first, second, clusters);
  if (gained >= lost) return 1;
  return isExact ? binomialTail(lost, gained + lost, 0.5) : signFlip(groups).p_worse;
}

/**
 * The probability, if a suite has truly lost no more than its tolerance (in points), that it shows as many losses by
 * chance. This is McNemar's exact test after the tolerated losses are subtracted. It errs on the side of no alarm.
 */
export function chanceOfExcess(base: readonly boolean[], now: readonly boolean[], tolerance: number): number {
  let [gained, lost] = [0, 0];
  for (const [at, right] of base.entries())
    if (right && !now[at]) lost++;
    else if (!right && now[at]) gained++;
  const beyond = lost - Math.ceil((tolerance / 100) * base.length);
  return beyond <= gained ? 1 : binomialTail(beyond, beyond + gained, 0.5);
}

/**
 * Significance level of each of `tests` tests at check number `check` of a run, counted from 1. All checks together
 * spend the 5 % of one test, however many there will be, because the sum of 1/k² over all checks k is π²/6.
 */
export const spentAt = (check: number, tests: number): number => (significance * 6) / (Math.PI * check) ** 2 / tests;

/** Number of independent items that clustered items are worth. */
export const worthOf = (scores: readonly number[], clusters: readonly string[]): number =>
  scores.length / designEffect(grouped(scores, clusters));

/**
 * Standard error, in points, of a score estimated at `estimate` points. `scores` and their clusters only determine how
 * many independent items there are.
 */
export function errorOf(estimate: number, scores: readonly number[], clusters: readonly string[]): number {
  const worth = worthOf(scores, clusters);
  // One right and one wrong item are added, so that a perfect score does not count as certain.
  const share = ((estimate / 100) * worth + 1) / (worth + 2);
  return 100 * Math.sqrt((share * (1 - share)) / (worth + 2));
}

/** P(X ≥ limit) of a normal X. */
export const chanceAbove = (limit: number, mean: number, error: number): number => normalCdf((mean - limit) / error);

/** Share of items that only one of a checkpoint and its parent has right, assumed where it is unknown or 0. */
const usualDiscordance = 0.2;

/** The smallest gain, in points, that the dev items show in 80 % of all cases. */
export function smallestVisible(
  { dev }: CheckedCheckpoint,
  parent: CheckedCheckpoint | undefined,
  clusters: readonly string[],
): number {
  const n = dev.length;
  const differing = parent === undefined ? 0 : dev.filter((score, at) => score !== parent.dev[at]).length / n;
  const discordance = differing === 0 ? usualDiscordance : differing;
  return Math.min(100, minimumDetectableEffect(n, discordance) * Math.sqrt(designEffect(grouped(dev, clusters))));
}
