// Rewards judged by a model. The models are passed in; this file says how their verdicts become rewards.
import type { Criterion, Importance } from "./item.ts";

/** For each criterion whether the answer meets it; null where the judge's reply is neither yes nor no. */
export type Judge = (
  criteria: readonly string[],
  prompt: string,
  answer: string,
  signal: AbortSignal,
) => Promise<readonly (boolean | null)[]>;

/** Error rates of a judge. */
export interface JudgeError {
  /** The share of met criteria that it calls met, and the share of unmet criteria that it calls unmet. */
  sensitivity: number;
  specificity: number;
}

export interface MeasuredJudge extends JudgeError {
  judge: Judge;
}

/** A score of any size: the higher, the better the answer to its prompt. */
export type PreferenceModel = (
  pairs: readonly { prompt: string; answer: string }[],
  signal: AbortSignal,
) => Promise<readonly number[]>;

/** Weights of the levels in "Rubrics as Rewards" (Gunjal et al., 2025). */
const weights: Readonly<Record<Importance, number>> = { essential: 1, important: 0.7, optional: 0.3 };

/**
 * The share of the rubric's weight that is met, corrected for the judge's error rates; null without a rubric, or where
 * a verdict is missing.
 */
export function rubricReward(
  rubric: readonly Criterion[],
  verdicts: readonly (boolean | null)[],
  error: JudgeError,
): number | null {
  if (rubric.length === 0 || verdicts.length !== rubric.length || verdicts.includes(null)) return null;
  const total = rubric.reduce((sum, { level }) => sum + weights[level], 0);
  const met = rubric.reduce((sum, { level }, at) => sum + (verdicts[at] === true ? weights[level] : 0), 0);
  return correctedShare(met / total, error);
}

/** The criteria that a right answer is sure to meet: the essential ones, or all where none is essential. */
export function essentialOf(rubric: readonly Criterion[]): string[] {
  const essential = rubric.filter(({ level }) => level === "essential");
  return (essential.length > 0 ? essential : rubric).map(({ text }) => text);
}

/** The share of criteria that are met, corrected for the judge's error rates; null where a verdict is missing. */
export function judgedReward(verdicts: readonly (boolean | null)[], error: JudgeError): number | null {
  if (verdicts.length === 0 || verdicts.includes(null)) return null;
  return correctedShare(verdicts.filter((met) => met === true).length / verdicts.length, error);
}

/**
 * The true share behind an observed one (Rogan and Gladen, 1978), clamped to 0 and 1. It does not exist for a judge
 * that is no better than a coin: check `isTelling` first.
 */
export const correctedShare = (observed: number, { sensitivity, specificity }: JudgeError): number =>
  Math.min(1, Math.max(0, (observed + specificity - 1) / (sensitivity + specificity - 1)));

export const isTelling = ({ sensitivity, specificity }: JudgeError): boolean =>
  sensitivity + specificity > 1 && sensitivity <= 1 && specificity <= 1;

export const sigmoid = (score: number): number | null => (Number.isNaN(score) ? null : 1 / (1 + Math.exp(-score)));
