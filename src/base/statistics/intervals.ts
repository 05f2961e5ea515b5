// Confidence intervals for the score of a set of items. Items are scores in [0, 1] with the cluster that each belongs to (its
// document, or the fact that it asks about). Items of one cluster tend to be right or wrong together, and so count for less.
import { studentQuantile } from "./distributions.ts";
import { seeded } from "./random.ts";

export interface Score {
  /** Points out of 100, and the 95 % interval around them. */
  score: number;
  low: number;
  high: number;
  n: number;
}

/** A score and how its interval was made. */
export interface ClusteredScore extends Score {
  method: "wilson" | "cluster_bootstrap";
  clusters: number;
  /** Factor by which clustering widens the variance; 1 for independent items. */
  design_effect: number;
}

/** 97.5 % of a normal distribution lies below it. */
export const z95 = 1.959963984540054;

/** Number of bootstrap draws, and their seed: the same items always give the same interval. */
const draws = 2000;
export const bootstrapSeed = 20_260_101;

/** Wilson's interval of a share; 0 to 100 when there are no items. `worth`: number of independent items that n count for. */
export function wilson(correct: number, n: number, worth = n): Score {
  if (n === 0) return { score: 0, low: 0, high: 100, n };
  const share = correct / n;
  const z2 = z95 * z95;
  const scale = 1 + z2 / worth;
  const middle = (share + z2 / (2 * worth)) / scale;
  const half = (z95 * Math.sqrt((share * (1 - share)) / worth + z2 / (4 * worth * worth))) / scale;
  // The ends are exact at 0 and n, where the formula leaves a rounding error.
  const low = correct === 0 ? 0 : 100 * (middle - half);
  const high = correct === n ? 100 : 100 * (middle + half);
  return { score: 100 * share, low, high, n };
}

/**
 * The score of items with Wilson's interval, over the number of independent items that they count for given their clusters. When
 * every item is right or wrong, the design effect gives that number; when some are in between, the bootstrap over clusters does.
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

/** Independent items that n clustered ones count for (Korn and Graubard 1998). Few clusters also estimate variance less well. */
function worth(n: number, clusters: number, design: number): number {
  if (n < 2) return n;
  if (clusters < 2) return 1;
  const unsure = studentQuantile(0.975, n - 1) / studentQuantile(0.975, clusters - 1);
  return (n / design) * unsure ** 2;
}

/** Values by cluster, in order of appearance. */
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
 * 1 + (m − 1)·ICC, at least 1: m is the mean size of the cluster that an item is in, ICC the intraclass correlation by the analysis
 * of variance (Donner 1986).
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
 * The variance of the mean, divided by that of as many independent items that are each right or wrong. It can be below 1 when
 * scores lie between right and wrong, and is 1 when all are the same, which tells nothing about their spread.
 */
function designByBootstrap(groups: readonly number[][]): number {
  const n = sum(groups.map((group) => group.length));
  const mean = sum(groups.map(sum)) / n;
  const design = (bootstrapError(groups) ** 2 * n) / (mean * (1 - mean));
  return design > 0 ? design : 1;
}

/** The standard error of the mean over all values, by drawing whole clusters with replacement (Field and Welsh 2007). */
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
