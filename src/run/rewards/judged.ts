// Turns the verdicts of judging models into rewards. The models are passed in.
import type { Criterion, Importance } from "./item.ts";

/** Returns for each criterion whether the answer meets it; null if the judge's reply is neither yes nor no. */
export type Judge = (
  criteria: readonly string[],
  prompt: string,
  answer: string,
  signal: AbortSignal,
) => Promise<readonly (boolean | null)[]>;

/** Error rates of a judge. */
export interface JudgeError {
  /** Share of the met criteria that the judge calls met. `specificity` is the share of the unmet criteria that it calls unmet. */
  sensitivity: number;
  specificity: number;
}

export interface MeasuredJudge extends JudgeError {
  judge: Judge;
}

/** Scores each answer to its prompt. Scores are not bounded; a higher score is a better answer. */
export type PreferenceModel = (
  pairs: readonly { prompt: string; answer: string }[],
  signal: AbortSignal,
) => Promise<readonly number[]>;

/** Weights of the levels in "Rubrics as Rewards" (Gunjal et al., 2025). */
const weights: Readonly<Record<Importance, number>> = { essential: 1, important: 0.7, optional: 0.3 };

/**
 * Returns the share of the rubric's weight that is met, corrected for the judge's error rates; null without a rubric, or if a verdict is
 * missing.
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

/** Returns the criteria that every right answer meets: the essential ones, or all if none is essential. */
export function essentialOf(rubric: readonly Criterion[]): string[] {
  const essential = rubric.filter(({ level }) => level === "essential");
  return (essential.length > 0 ? essential : rubric).map(({ text }) => text);
}

/** Returns the share of criteria that are met, corrected for the judge's error rates; null without verdicts, or if one is missing. */
export function judgedReward(verdicts: readonly (boolean | null)[], error: JudgeError): number | null {
  if (verdicts.length === 0 || verdicts.includes(null)) return null;
  return correctedShare(verdicts.filter((met) => met === true).length / verdicts.length, error);
}

/**
 * Estimates the true share from an observed one (Rogan and Gladen, 1978), clamped to [0, 1]. There is no estimate for a judge that is no
 * better than a coin, so check `isTelling` first.
 */
export const correctedShare = (observed: number, { sensitivity, specificity }: JudgeError): number =>
  Math.min(1, Math.max(0, (observed + specificity - 1) / (sensitivity + specificity - 1)));

export const isTelling = ({ sensitivity, specificity }: JudgeError): boolean =>
  sensitivity + specificity > 1 && sensitivity <= 1 && specificity <= 1;

export const sigmoid = (score: number): number | null => (Number.isNaN(score) ? null : 1 / (1 + Math.exp(-score)));
