// Sealed looks: at most three, on disjoint thirds that were fixed beforehand. The target is reached when the look's
// point estimate meets it, and confirmed when the lower bound does. The bound is taken at a third of the usual level,
// because three looks share the error.
import { lowerBound } from "../../base/statistics/clopper-pearson.ts";
import { studentQuantile } from "../../base/statistics/distributions.ts";
import { power, significance } from "../../base/statistics/paired.ts";
import { worthOf } from "./evidence.ts";
import type { LookRecord, LookVerdict } from "./state.ts";
import { meanOf } from "./survey.ts";

export const mostLooks = 3;

export function judgeLook({ checkpoint, scores, clusters }: LookRecord, target: number): LookVerdict {
  const n = scores.length;
  const score = meanOf(scores);
  const worth = worthOf(scores, clusters);
  // The Clopper-Pearson bound also holds for items that are partly right, because their scores vary less than scores of
  // 0 and 1.
  const low = 100 * lowerBound((score / 100) * worth, worth, significance / mostLooks);
  return {
    checkpoint,
    n,
    score,
    low,
    smallest_visible: smallestVisibleMiss(worth, target),
    reached: score >= target,
    confirmed: low >= target,
  };
}

/**
 * The smallest miss of the target that a look detects, in points: the sum of the quantiles for 97.5 % and for the
 * power, times the standard error of a score at the target (Miller, arXiv 2411.00640).
 */
function smallestVisibleMiss(worth: number, target: number): number {
  const degrees = Math.max(1, worth - 1);
  const reach = studentQuantile(1 - significance / 2, degrees) + studentQuantile(power, degrees);
  const share = ((target / 100) * worth + 1) / (worth + 2);
  return Math.min(100, 100 * reach * Math.sqrt((share * (1 - share)) / worth));
}
