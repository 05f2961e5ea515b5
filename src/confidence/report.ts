// Reports on held-out scores: how often the answers at each score were right, and from which score on an answer can be trusted.
import { lowerBound, upperBound } from "../base/statistics/clopper-pearson.ts";
import type { HeldOut } from "./calibration.ts";

type Counts = HeldOut["counts"];

/** Probability that an interval or bound here does not contain the true share. */
const miss = 0.05;
const reliabilityRows = 10;
/** Maximum number of thresholds tried, which accept the best-scored tenth, two tenths, and so on up to all answers. */
const triedShares = 10;

export interface ReliabilityRow {
  /** Least and greatest score of the row's answers, 0–100. */
  low: number;
  high: number;
  n: number;
  /** Mean score, 0–100. */
  score: number;
  /** Share that was right, 0–100, with its 95 % interval. */
  accuracy: number;
  accuracy_low: number;
  accuracy_high: number;
}

/** Groups answers by score into at most ten rows, with numbers of answers as equal as whole scores allow. */
export function reliabilityTable({ n, right }: Counts): ReliabilityRow[] {
  const total = sumOf(n);
  const rows: ReliabilityRow[] = [];
  let [from, before] = [0, 0];
  for (let left = reliabilityRows; before < total; left--) {
    // If one score fills several rows, the remaining answers are shared among the remaining rows.
    const wanted = before + (total - before) / left;
    let [to, until] = [from, before];
    while (until < wanted) until += n[to++]!;
    const scores = Array.from({ length: to - from }, (_, at) => from + at).filter((score) => n[score]! > 0);
    const count = until - before;
    const good = sumOf(right.slice(from, to));
    rows.push({
      low: scores[0]!,
      high: scores.at(-1)!,
      n: count,
      score: scores.reduce((sum, score) => sum + score * n[score]!, 0) / count,
      accuracy: (100 * good) / count,
      accuracy_low: 100 * lowerBound(good, count, miss / 2),
      accuracy_high: 100 * upperBound(good, count, miss / 2),
    });
    [from, before] = [to, until];
  }
  return rows;
}

export interface CoveragePoint {
  /** Answers of at least this score are accepted. */
  threshold: number;
  /** Share of all answers that is accepted, 0–100. */
  coverage: number;
  n: number;
  /** Share of wrong answers among the accepted, 0–100. */
  error: number;
}

/** Returns one point per score that occurs, from the strictest threshold to the one that accepts all answers. */
export function riskCoverage({ n, right }: Counts): CoveragePoint[] {
  const total = sumOf(n);
  const points: CoveragePoint[] = [];
  let [accepted, wrong] = [0, 0];
  for (let threshold = 100; threshold >= 0; threshold--) {
    if (!n[threshold]) continue;
    accepted += n[threshold]!;
    wrong += n[threshold]! - right[threshold]!;
    points.push({ threshold, coverage: (100 * accepted) / total, n: accepted, error: (100 * wrong) / accepted });
  }
  return points;
}

export interface SuggestedThreshold extends CoveragePoint {
  /** With 95 % confidence, the error among accepted answers is at most this, 0–100, on questions like the benchmark's. */
  error_bound: number;
}

/**
 * Returns the lowest threshold at which, with 95 % confidence, the error is at most `maxError` (a share). Clopper-Pearson bounds are
 * computed at up to ten coverages, which are chosen without looking at the labels, with Bonferroni's correction for their number. Null if
 * no threshold qualifies. With a single coverage, 59 answers without an error would give a bound of 5 %.
 */
export function suggestThreshold(counts: Counts, maxError: number): SuggestedThreshold | null {
  const points = riskCoverage(counts);
  const tried = new Set<CoveragePoint>();
  for (let share = 1; share <= triedShares; share++) {
    const point = points.find(({ coverage }) => coverage >= (100 * share) / triedShares - 1e-9);
    // A point is tried only if it would qualify without a single error, which depends on its number of answers and not on the labels.
    if (point && upperBound(0, point.n, miss / triedShares) <= maxError) tried.add(point);
  }
  let best: SuggestedThreshold | null = null;
  for (const point of tried) {
    const wrong = Math.round((point.error * point.n) / 100);
    const bound = upperBound(wrong, point.n, miss / tried.size);
    if (bound <= maxError && point.coverage > (best?.coverage ?? 0)) best = { ...point, error_bound: 100 * bound };
  }
  return best;
}

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);
