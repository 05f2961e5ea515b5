// Checks that an adapter is served as it was trained, by comparing the log-probs of the trainer and of the generator on the
// same tokens.
//
// On an F32 base both compute the same sums and must agree token by token, except for the half precision of keys, values and
// flash attention; the effect of half precision is measured on the base alone. On a quantised base llama.cpp also quantises
// activations, so single tokens differ with or without an adapter. A wrong adapter then shifts the mean, or causes larger
// differences than the base alone has. Tokens of one row differ together, so chance alone shifts the mean of few rows too: an adapter
// that was right, trained on rows of a single form, shifted it by -0.0205 nats, with a standard error of 0.0076.
import { medianOf } from "../../base/statistics/median.ts";

/** Log-probs in nats, row by row, without and with the adapter. */
interface ScoredRows {
  base: readonly ArrayLike<number>[];
  aligned: readonly ArrayLike<number>[];
}

const adapterBounds = {
  /** F32 base: largest accepted difference of one token, in nats, unless the base alone differs more. */
  exactDifference: 1e-3,
  /**
   * F32 base: largest accepted ratio of the difference to the largest difference of the base alone. Differences of up to 8e-3
   * nats were observed.
   */
  exactRatio: 1.25,
  /** F32 base: half precision cannot explain a larger difference than this, in nats. */
  halfPrecision: 0.02,
  /** Quantised base: largest accepted absolute value of the mean signed difference, in nats, less what chance may add. */
  meanShift: 0.02,
  /** Quantised base: number of standard errors that chance may add to the mean. */
  standardErrors: 2,
  /** Quantised base: largest accepted ratio of the median absolute difference with the adapter to that without. */
  medianRatio: 1.25,
  /** Quantised base: fewest tokens for a result. */
  leastTokens: 500,
} as const;

export interface Comparison {
  faithful: boolean;
  /** What is wrong, or the figures if nothing is wrong. */
  message: string;
  tokens: number;
  /** Largest absolute difference with the adapter, and without, in nats. */
  largest: number;
  baseLargest: number;
  /** Mean of trainer − generator with the adapter, in nats. */
  meanShift: number;
  /** Standard error of meanShift, in nats. The tokens of a row count together. */
  meanShiftError: number;
  /** Median absolute difference with the adapter, and without, in nats. */
  median: number;
  baseMedian: number;
}

/** Returns trainer − generator, row by row. */
function differences(trainer: readonly ArrayLike<number>[], generator: readonly ArrayLike<number>[]): number[][] {
  if (trainer.length !== generator.length || trainer.some((row, r) => row.length !== generator[r]!.length))
    throw new RangeError("the trainer and the generator scored different tokens");
  return trainer.map((row, r) => Array.from({ length: row.length }, (_, i) => row[i]! - generator[r]![i]!));
}

const largestOf = (values: number[]): number => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

/** Standard error of the mean over all tokens, where rows are independent and the tokens of a row are not. */
function standardErrorOf(rows: readonly number[][], mean: number): number {
  const tokens = rows.reduce((sum, row) => sum + row.length, 0);
  const squares = rows.reduce((sum, row) => sum + row.reduce((total, value) => total + value - mean, 0) ** 2, 0);
  return Math.sqrt(squares) / tokens;
}

const nats = (value: number): string => `${value.toPrecision(3)} nats`;

function problemsOf(figures: Omit<Comparison, "faithful" | "message">, quantised: boolean): string[] {
  const { tokens, largest, baseLargest, meanShift, meanShiftError, median, baseMedian } = figures;
  const { exactDifference, exactRatio, halfPrecision, leastTokens, medianRatio, standardErrors } = adapterBounds;
  if (![largest, baseLargest, meanShift, median, baseMedian].every(Number.isFinite))
    return ["a log-prob is not a finite number"];
  if (!quantised) {
    const most = Math.max(exactDifference, Math.min(halfPrecision, exactRatio * baseLargest));
    return largest > most ? [`a token differs by ${nats(largest)}; the limit is ${nats(most)}`] : [];
  }
  const problems: string[] = [];
  if (tokens < leastTokens) problems.push(`${tokens} tokens were compared; at least ${leastTokens} are needed`);
  const chance = standardErrors * meanShiftError;
  if (Math.abs(meanShift) > adapterBounds.meanShift + chance)
    problems.push(
      `the mean shifts by ${nats(meanShift)}; the limit is ${nats(adapterBounds.meanShift)}, and chance adds up to ${nats(chance)}`,
    );
  if (median > medianRatio * baseMedian)
    problems.push(
      `the median difference is ${nats(median)}, which is more than ${medianRatio} × the base's ${nats(baseMedian)}`,
    );
  return problems;
}

/**
 * Compares the log-probs of the trainer and of the generator. `quantised` means any base but F32. Throws RangeError if the
 * two scored different tokens, or none.
 */
export function compareScores(scores: { trainer: ScoredRows; generator: ScoredRows; quantised: boolean }): Comparison {
  const rows = differences(scores.trainer.aligned, scores.generator.aligned);
  const aligned = rows.flat();
  const base = differences(scores.trainer.base, scores.generator.base).flat();
  if (aligned.length === 0 || base.length === 0) throw new RangeError("there are no tokens to compare");
  const meanShift = aligned.reduce((sum, value) => sum + value, 0) / aligned.length;
  const figures = {
    tokens: aligned.length,
    largest: largestOf(aligned),
    baseLargest: largestOf(base),
    meanShift,
    meanShiftError: standardErrorOf(rows, meanShift),
    median: medianOf(aligned.map(Math.abs)),
    baseMedian: medianOf(base.map(Math.abs)),
  };
  const problems = problemsOf(figures, scores.quantised);
  const found = `mean shift ${nats(figures.meanShift)}, median ${nats(figures.median)} over ${figures.tokens} tokens`;
  return { faithful: problems.length === 0, message: problems.length > 0 ? problems.join("; ") : found, ...figures };
}
