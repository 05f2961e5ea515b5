// Measures calibration: whether scores agree with the observed share of right answers. Scores are in [0, 1].
import { seeded } from "./random.ts";

export interface ReliabilityBin {
  /** Least and greatest score in the bin. */
  low: number;
  high: number;
  n: number;
  /** Means over the bin's answers. */
  score: number;
  accuracy: number;
}

/** Sorts answers by score and cuts them into `bins` bins of nearly equal size, or into one bin per answer if there are fewer answers. */
export function reliability(scores: readonly number[], labels: readonly boolean[], bins: number): ReliabilityBin[] {
  const n = scores.length;
  const order = Array.from(scores.keys()).sort((a, b) => scores[a]! - scores[b]!);
  const count = Math.min(bins, n);
  return Array.from({ length: count }, (_, bin) => {
    const within = order.slice(Math.round((bin * n) / count), Math.round(((bin + 1) * n) / count));
    return {
      low: scores[within[0]!]!,
      high: scores[within.at(-1)!]!,
      n: within.length,
      score: within.reduce((sum, at) => sum + scores[at]!, 0) / within.length,
      accuracy: within.filter((at) => labels[at]).length / within.length,
    };
  });
}

/** Number of equal-mass bins for both calibration errors. */
const binCount = 10;

/** Expected calibration error: the mean distance between accuracy and score over ten bins of equal mass, weighted by size. */
export function expectedCalibrationError(scores: readonly number[], labels: readonly boolean[]): number {
  const bins = reliability(scores, labels, binCount);
  return bins.reduce((sum, { n, score, accuracy }) => sum + n * Math.abs(accuracy - score), 0) / scores.length;
}

/**
 * The root-mean-square calibration error over the same bins, less the part due to chance (Kumar, Liang and Ma 2019,
 * arXiv 1909.10155, definition 4.1). It is 0 if chance explains the whole error. Bins of one answer are skipped.
 */
export function debiasedCalibrationError(scores: readonly number[], labels: readonly boolean[]): number {
  let sum = 0;
  for (const { n, score, accuracy } of reliability(scores, labels, binCount))
    if (n > 1) sum += n * ((accuracy - score) ** 2 - (accuracy * (1 - accuracy)) / (n - 1));
  return Math.sqrt(Math.max(0, sum / scores.length));
}

/**
 * Simulates the `expectedCalibrationError` of perfectly calibrated scores, for which labels are drawn `draws` times with the scores as
 * probabilities. An error of at most `p95` is no evidence that the real scores are badly calibrated.
 */
export function perfectScoreBand(
  scores: readonly number[],
  { draws = 1000, seed = 1 } = {},
): { mean: number; p95: number } {
  const random = seeded(seed);
  const errors = Array.from({ length: draws }, () =>
    expectedCalibrationError(
      scores,
      scores.map((score) => random() < score),
    ),
  ).sort((a, b) => a - b);
  return {
    mean: errors.reduce((sum, error) => sum + error, 0) / draws,
    p95: errors[Math.ceil(0.95 * draws) - 1]!,
  };
}

/** Mean squared distance between score and outcome. */
export const brierScore = (scores: readonly number[], labels: readonly boolean[]): number =>
  scores.reduce((sum, score, at) => sum + (score - Number(labels[at])) ** 2, 0) / scores.length;

/** 1 − Brier / (accuracy · (1 − accuracy)): what the scores add to the accuracy alone. Null if the accuracy is 0 or 1. */
export function brierSkill(scores: readonly number[], labels: readonly boolean[]): number | null {
  const accuracy = labels.filter(Boolean).length / labels.length;
  const known = accuracy * (1 - accuracy);
  return known === 0 ? null : 1 - brierScore(scores, labels) / known;
}
