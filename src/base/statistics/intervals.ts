// Confidence intervals for the score of a set of items. Each item has a score in [0, 1] and belongs to a cluster (its document, or the
// fact that it asks about). Items of one cluster tend to be right or wrong together, so they tell less than independent items.
import { studentQuantile } from "./distributions.ts";
import { seeded } from "./random.ts";

export interface Score {
  /** Points out of 100, with the 95 % interval. */
  score: number;
  low: number;
  high: number;
  n: number;
}

/** A score, and how its interval was computed. */
export interface ClusteredScore extends Score {
  method: "wilson" | "cluster_bootstrap";
  clusters: number;
  /** Factor by which clustering widens the variance; 1 for independent items. */
  design_effect: number;
}

/** 97.5 % of the standard normal distribution lies below this value. */
export const z95 = 1.959963984540054;

/** Number of bootstrap draws and their seed, which is fixed so that the same items always give the same interval. */
const draws = 2000;
export const bootstrapSeed = 20_260_101;

/** Wilson's interval of a share; 0 to 100 if there are no items. `worth` is the number of independent items that n items are worth. */
export function wilson(correct: number, n: number, worth = n): Score {
  if (n === 0) return { score: 0, low: 0, high: 100, n };
  const share = correct / n;
  const z2 = z95 * z95;
  const scale = 1 + z2 / worth;
  const middle = (share + z2 / (2 * worth)) / scale;
  const half = (z95 * Math.sqrt((share * (1 - share)) / worth + z2 / (4 * worth * worth))) / scale;
  // For 0 or n correct items, the end is set exactly, because the formula leaves a rounding error.
  const low = correct === 0 ? 0 : 100 * (middle - half);
  const high = correct === n ? 100 : 100 * (middle + half);
  return { score: 100 * share, low, high, n };
}

/**
 * Returns the score of clustered items with Wilson's interval, which is computed for the number of independent items that tell as much.
 * If every score is 0 or 1, that number comes from `designEffect`; otherwise it comes from a bootstrap over clusters.
 */
export function scoreOf(scores: readonly number[], clusters: readonly string[]): ClusteredScore {
  const groups = grouped(scores, clusters);
  const n = scores.length;
  const total = sum(scores);
  const isGraded = scores.some((score) => score !== 0 && score !== 1);
  const design = isGraded ? designByBootstrap(groups) : designEffect(groups);
  return {
    ...wilson(total, n, worth(n, groups.length, design)),
    method: isGraded ? "cluster_bootstrap" : "wilson",
    clusters: groups.length,
    design_effect: design,
  };
}

/**
 * Number of independent items that tell as much as n clustered ones (Korn and Graubard 1998). `unsure` lowers the number further if there
 * are few clusters, because these estimate the variance less well.
 */
function worth(n: number, clusters: number, design: number): number {
  if (n < 2) return n;
  if (clusters < 2) return 1;
  const unsure = studentQuantile(0.975, n - 1) / studentQuantile(0.975, clusters - 1);
  return (n / design) * unsure ** 2;
}

/** Groups values by cluster, with the clusters in order of appearance. */
export function grouped(values: readonly number[], clusters: readonly string[]): number[][] {
  const groups = new Map<string, number[]>();
  for (const [index, value] of values.entries()) {
    const group = groups.get(clusters[index]!);
    if (group) group.push(value);
    else groups.set(clusters[index]!, [value]);
  }
  return [...groups.values()];
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/**
 * The design effect 1 + (m − 1)·ICC, or 1 if that is less. m is the mean, over items, of the size of an item's cluster. ICC is the
 * intraclass correlation from the analysis of variance (Donner 1986).
 */
export function designEffect(groups: readonly number[][]): number {
  const n = sum(groups.map((group) => group.length));
  const k = groups.length;
  if (k < 2 || k === n) return 1;
  const mean = sum(groups.map(sum)) / n;
  let between = 0;
  let within = 0;
  for (const group of groups) {
    const own = sum(group) / group.length;
    between += group.length * (own - mean) ** 2;
    within += sum(group.map((value) => (value - own) ** 2));
  }
  const squares = sum(groups.map((group) => group.length ** 2));
  const size = (n - squares / n) / (k - 1);
  const [msb, msw] = [between / (k - 1), within / (n - k)];
  const scale = msb + (size - 1) * msw;
  if (scale === 0) return 1;
  return Math.max(1, 1 + (squares / n - 1) * ((msb - msw) / scale));
}

/**
 * The variance of the mean, divided by what it would be for as many independent items that are each right or wrong. The quotient can be
 * below 1, because scores can lie between 0 and 1. If the bootstrap finds no variance, the spread is unknown and the result is 1.
 */
function designByBootstrap(groups: readonly number[][]): number {
  const n = sum(groups.map((group) => group.length));
  const mean = sum(groups.map(sum)) / n;
  const design = (bootstrapError(groups) ** 2 * n) / (mean * (1 - mean));
  return design > 0 ? design : 1;
}

/** The standard error of the mean over all values, estimated by drawing whole clusters with replacement (Field and Welsh 2007). */
export function bootstrapError(groups: readonly number[][]): number {
  const k = groups.length;
  if (k < 2) return 0;
  const sums = groups.map(sum);
  const sizes = groups.map((group) => group.length);
  const next = seeded(bootstrapSeed);
  const means = Float64Array.from({ length: draws }, () => {
    let [total, count] = [0, 0];
    for (let drawn = 0; drawn < k; drawn++) {
      const which = Math.floor(next() * k);
      total += sums[which]!;
      count += sizes[which]!;
    }
    return total / count;
  });
  const middle = means.reduce((total, mean) => total + mean, 0) / draws;
  const variance = means.reduce((total, mean) => total + (mean - middle) ** 2, 0) / draws;
  // Resampling k clusters underestimates the variance by the factor (k − 1) / k.
  return Math.sqrt((variance * k) / (k - 1));
}
