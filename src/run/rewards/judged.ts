// Rewards that a model judges. The models are handed in: here is what is asked of them and what their words are worth.
import type { Criterion, Importance } from "./item.ts";

/** For each criterion whether the answer meets it; null where the judge's words are neither. */
export type Judge = (
  criteria: readonly string[],
  prompt: string,
  answer: string,
  signal: AbortSignal,
) => Promise<readonly (boolean | null)[]>;

/** How a judge errs. */
export interface JudgeError {
  /** Of criteria that are met, the share that it says are; of those that are not, the share that it says are not. */
  sensitivity: number;
  specificity: number;
}

export interface MeasuredJudge extends JudgeError {
  judge: Judge;
}

/** Any number: the higher, the better the answer to its prompt. */
export type PreferenceModel = (
  pairs: readonly { prompt: string; answer: string }[],
  signal: AbortSignal,
) => Promise<readonly number[]>;

/** What the levels weigh in "Rubrics as Rewards" (Gunjal et al., 2025). */
const weights: Readonly<Record<Importance, number>> = { essential: 1, important: 0.7, optional: 0.3 };

/**
 * The share of the rubric's weight that is met, corrected for how often the judge errs; null without a rubric, or where a verdict is
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

/** What a right answer surely meets: all that is essential, or everything where nothing is. */
export function essentialOf(rubric: readonly Criterion[]): string[] {
  const essential = rubric.filter(({ level }) => level === "essential");
  return (essential.length > 0 ? essential : rubric).map(({ text }) => text);
}

/** The share of criteria that are met, corrected for how often the judge errs; null where a verdict is missing. */
export function judgedReward(verdicts: readonly (boolean | null)[], error: JudgeError): number | null {
  if (verdicts.length === 0 || verdicts.includes(null)) return null;
  return correctedShare(verdicts.filter((met) => met === true).length / verdicts.length, error);
}

/**
 * The true share behind an observed one (Rogan and Gladen, 1978), held within 0 and 1. A judge no better than a coin has no such
 * share: `isTelling` first.
 */
export const correctedShare = (observed: number, { sensitivity, specificity }: JudgeError): number =>
  Math.min(1, Math.max(0, (observed + specificity - 1) / (sensitivity + specificity - 1)));

export const isTelling = ({ sensitivity, specificity }: JudgeError): boolean =>
  sensitivity + specificity > 1 && sensitivity <= 1 && specificity <= 1;

export const sigmoid = (score: number): number | null => (Number.isNaN(score) ? null : 1 / (1 + Math.exp(-score)));
