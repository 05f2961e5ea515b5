// Compares two models on the same items: whether they differ, by how much, and how large a difference could go undetected.
import { binomialTail, bisect, studentQuantile } from "./distributions.ts";
import { bootstrapError, grouped, z95 } from "./intervals.ts";
import { seededWords } from "./random.ts";

export interface Comparison {
  n: number;
  /** Number of items that the first model answers better (gained) and worse (lost). */
  gained: number;
  lost: number;
  /** First minus second, in points, with the 95 % interval. */
  difference: number;
  low: number;
  high: number;
  method: "mcnemar" | "sign_flip";
  clusters: number;
  /** Two-sided probability that two equally good models differ at least as much as these two do. */
  p_value: number;
  /** One-sided probability of a result at least as bad for the first model, if the two models are equally good. */
  p_worse: number;
  /** The true difference in points that this comparison detects, two-sided at 5 %, in 80 % of all cases. */
  minimum_detectable: number;
}

export const significance = 0.05;
export const power = 0.8;

/** Compares two models by their scores in [0, 1] on the same items in the same order. `clusters` holds the cluster of each item. */
export function compareScores(
  first: readonly number[],
  second: readonly number[],
  clusters: readonly string[],
): Comparison {
  const n = first.length;
  const { gained, lost, groups, isExact } = tallied(first, second, clusters);
  const shown = { n, gained, lost, clusters: groups.length };
  if (isExact)
    return {
      ...shown,
      ...pairedShares(gained, lost, n),
      method: "mcnemar",
      p_value: mcnemar(gained, lost),
      p_worse: binomialTail(lost, gained + lost, 0.5),
      // At least one item is assumed to differ, because a small difference could go undetected even if no item differs.
      minimum_detectable: minimumDetectableEffect(n, Math.max(1, gained + lost) / n),
    };
  return { ...shown, ...meanDifference(groups, n), method: "sign_flip", ...signFlip(groups) };
}

/**
 * Counts the items that the first model answers better and worse, groups the differences by cluster, and says whether McNemar's exact
 * test applies: each item must be a cluster of its own, and each difference must be −1, 0 or 1.
 */
export function tallied(
  first: readonly number[],
  second: readonly number[],
  clusters: readonly string[],
): { gained: number; lost: number; groups: number[][]; isExact: boolean } {
  const differences = first.map((score, index) => score - second[index]!);
  const groups = grouped(differences, clusters);
  return {
    gained: differences.filter((difference) => difference > 0).length,
    lost: differences.filter((difference) => difference < 0).length,
    groups,
    isExact: groups.length === first.length && differences.every(Number.isInteger),
  };
}

/**
 * The p-value of McNemar's exact two-sided test: the probability that two equally good models split the items that only one of them
 * answers right at least as unevenly as `gained` to `lost`.
 */
export function mcnemar(gained: number, lost: number): number {
  const n = gained + lost;
  const fewer = Math.min(gained, lost);
  // In logarithms, because 2^-n underflows from n = 1075 on.
  let logTerm = -n * Math.LN2;
  let sum = Math.exp(logTerm);
  for (let k = 1; k <= fewer; k++) {
    logTerm += Math.log((n - k + 1) / k);
    sum += Math.exp(logTerm);
  }
  return Math.min(1, 2 * sum);
}

/** The difference of two paired shares in points, with the 95 % interval of Bonett and Price 2012. */
function pairedShares(gained: number, lost: number, n: number): { difference: number; low: number; high: number } {
  if (n === 0) return { difference: 0, low: -100, high: 100 };
  const [more, less] = [(gained + 1) / (n + 2), (lost + 1) / (n + 2)];
  const half = z95 * Math.sqrt((more + less - (more - less) ** 2) / (n + 2));
  return {
    difference: (100 * (gained - lost)) / n,
    low: Math.max(-100, 100 * (more - less - half)),
    high: Math.min(100, 100 * (more - less + half)),
  };
}

const flipDraws = 9999;
const flipSeed = 20_260_102;
/** Up to this many differing clusters, every pattern of signs is tried. */
const mostEnumerated = 14;

/**
 * The p-values of the sign-flip test. It assumes that, if both models are equally good, each cluster's summed difference is as likely to
 * have the other sign. The test is exact if at most `mostEnumerated` clusters differ. Otherwise it draws random patterns of signs and
 * counts the observed pattern as one of them (Phipson and Smyth 2010).
 */
export function signFlip(groups: readonly number[][]): { p_value: number; p_worse: number } {
  const sums = groups.map((group) => group.reduce((total, value) => total + value, 0)).filter((sum) => sum !== 0);
  const observed = sums.reduce((total, value) => total + value, 0);
  // Tolerance for rounding, because the same sum added in another order must count as equal to the observed one.
  const slack = 1e-9 * Math.max(1, Math.abs(observed));
  let [far, low] = [0, 0];
  const look = (sum: number): void => {
    if (Math.abs(sum) >= Math.abs(observed) - slack) far++;
    if (sum <= observed + slack) low++;
  };
  if (sums.length <= mostEnumerated) {
    const patterns = 2 ** sums.length;
    for (let pattern = 0; pattern < patterns; pattern++)
      look(sums.reduce((total, value, index) => total + ((pattern >> index) & 1 ? value : -value), 0));
    return { p_value: far / patterns, p_worse: low / patterns };
  }
  const next = seededWords(flipSeed);
  for (let drawn = 0; drawn < flipDraws; drawn++) {
    let total = 0;
    let word = 0;
    for (const [index, value] of sums.entries()) {
      if (index % 32 === 0) word = next();
      total += (word >>> (index % 32)) & 1 ? value : -value;
    }
    look(total);
  }
  return { p_value: (far + 1) / (flipDraws + 1), p_worse: (low + 1) / (flipDraws + 1) };
}

/**
 * The smallest true difference in points that McNemar's exact test over n items detects, by default two-sided at 5 % in 80 % of all
 * cases. It is 100 if no difference is detected that often. `discordance` is the share of items that exactly one of the two models
 * answers right. For a difference larger than `discordance`, the difference itself is used as that share.
 */
export function minimumDetectableEffect(
  n: number,
  discordance: number,
  { alpha = significance, found = power }: { alpha?: number; found?: number } = {},
): number {
  const isSeen = (effect: number): boolean => mcnemarPower(n, Math.max(discordance, effect), effect, alpha) >= found;
  return n > 0 && isSeen(1) ? 100 * bisect(isSeen, 0, 1) : 100;
}

/** Power of McNemar's exact test, two-sided at `alpha`, for a true difference `effect`. Both `effect` and `discordance` are shares. */
export function mcnemarPower(n: number, discordance: number, effect: number, alpha = significance): number {
  const favour = (discordance + effect) / (2 * discordance);
  const spread = 8 * Math.sqrt(n * discordance * (1 - discordance)) + 8;
  const first = Math.max(0, Math.floor(n * discordance - spread));
  const last = Math.min(n, Math.ceil(n * discordance + spread));
  let found = 0;
  let above = binomialTail(first, n, discordance);
  // Number of items that one model must win for significance. It rises with the number of items that differ.
  let needed = Math.ceil(first / 2);
  for (let differing = first; differing <= last; differing++) {
    while (binomialTail(needed, differing, 0.5) > alpha / 2) needed++;
    const next = binomialTail(differing + 1, n, discordance);
    const chance = above - next;
    above = next;
    if (chance > 1e-12)
      found += chance * (binomialTail(needed, differing, favour) + binomialTail(needed, differing, 1 - favour));
  }
  return found;
}

/**
 * The mean difference in points with its 95 % interval, and the minimum detectable difference. The interval and the minimum come from the
 * bootstrap's standard error over clusters and Student's t-distribution. A single cluster gives the widest interval, −100 to 100.
 */
function meanDifference(
  groups: readonly number[][],
  n: number,
): Pick<Comparison, "difference" | "low" | "high" | "minimum_detectable"> {
  const k = groups.length;
  const difference = n === 0 ? 0 : (100 * groups.flat().reduce((total, value) => total + value, 0)) / n;
  if (k < 2) return { difference, low: -100, high: 100, minimum_detectable: 100 };
  // As in compareScores, at least one item is assumed to differ.
  const error = 100 * Math.max(bootstrapError(groups), 1 / n);
  const reach = studentQuantile(1 - significance / 2, k - 1);
  return {
    difference,
    low: Math.max(-100, difference - reach * error),
    high: Math.min(100, difference + reach * error),
    minimum_detectable: Math.min(100, error * (reach + studentQuantile(power, k - 1))),
  };
}

/** Says which of several p-values are significant, with `alpha` as the error rate of all of them together (Holm 1979). */
export function holm(pValues: readonly number[], alpha = significance): boolean[] {
  const order = pValues.map((p, index) => ({ p, index })).sort((a, b) => a.p - b.p);
  const rejected = pValues.map(() => false);
  for (const [place, { p, index }] of order.entries()) {
    if (p > alpha / (order.length - place)) break;
    rejected[index] = true;
  }
  return rejected;
}

/**
 * The true loss in points that a comparison's one-sided test detects in 95 % of all cases, even at the strictest level of Holm's
 * procedure for `together` comparisons.
 */
export function detectableLoss(comparison: Comparison, together: number): number {
  const { method, n, clusters, gained, lost, minimum_detectable } = comparison;
  const alpha = significance / together;
  const found = 0.95;
  if (method === "mcnemar")
    return minimumDetectableEffect(n, Math.max(1, gained + lost) / Math.max(1, n), { alpha: 2 * alpha, found });
  if (clusters < 2) return 100;
  const t = (share: number): number => studentQuantile(share, clusters - 1);
  return Math.min(100, (minimum_detectable * (t(1 - alpha) + t(found))) / (t(1 - significance / 2) + t(power)));
}
