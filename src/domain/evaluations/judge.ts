// The judge of long answers: a model that is asked, point by point of the rubric, whether the answer meets it, and says Yes or No by
// likelihood, so that it decides the same way every time. How often it errs is measured on answers of which the truth is known: the
// reference, which meets its own rubric, and the reference of another item, which does not.
import { type Score, wilson } from "../../base/statistics/intervals.ts";
import { formatChat } from "../../engine/chat-format.ts";
import type { Generator, ModelRef } from "../../engine/generator.ts";

export interface RubricPoint {
  id: string;
  text: string;
  weight: number;
  level: "essential" | "important" | "optional";
}

export interface RubricItem {
  instruction: string;
  response: string;
  rubric: readonly RubricPoint[];
}

export interface Verdict {
  id: string;
  met: boolean;
  /** Of Yes, given that it is Yes or No. */
  probability: number;
}

export interface Judge {
  /** The points of each answer's rubric, in order. */
  judge(answers: readonly { item: RubricItem; answer: string }[], signal: AbortSignal): Promise<Verdict[][]>;
}

export const judgeQuestion = (item: RubricItem, answer: string, point: RubricPoint): string =>
  [
    `Question: ${item.instruction}`,
    `Reference answer: ${item.response}`,
    `Answer to be checked: ${answer.trim() === "" ? "(none)" : answer.trim()}`,
    `Requirement: ${point.text}`,
    "Does the answer to be checked meet the requirement? Reply with Yes or No.",
  ].join("\n");

export function createJudge(generator: Generator, ref: ModelRef): Judge {
  return {
    async judge(answers, signal) {
      const tokenizer = generator.tokenizer(ref.baseId);
      const words = ["Yes", "No"].map((word) => tokenizer.encode(word, false));
      const asked = answers.flatMap(({ item, answer }) =>
        item.rubric.map((point) => judgeQuestion(item, answer, point)),
      );
      const rows = asked.flatMap((question) => {
        const prompt = formatChat(tokenizer, [{ role: "user", content: question }]);
        return words.map((word) => ({ tokens: [...prompt, ...word], promptLength: prompt.length }));
      });
      const scored = await generator.score(ref, rows, signal);
      const logprob = (row: number): number => scored[row]!.reduce((total, value) => total + value, 0);
      let next = 0;
      return answers.map(({ item }) =>
        item.rubric.map(({ id }) => {
          const probability = 1 / (1 + Math.exp(logprob(next + 1) - logprob(next)));
          next += 2;
          return { id, met: probability > 0.5, probability };
        }),
      );
    },
  };
}

/** A failed essential point leaves half of the score at most. */
const withoutEssential = 0.5;

/** Σ weight·met / Σ weight. */
export function rubricScore(rubric: readonly RubricPoint[], verdicts: readonly Verdict[]): number {
  const total = rubric.reduce((sum, { weight }) => sum + weight, 0);
  const met = rubric.reduce((sum, { weight }, index) => sum + (verdicts[index]!.met ? weight : 0), 0);
  const lacks = rubric.some(({ level }, index) => level === "essential" && !verdicts[index]!.met);
  return Math.min(met / total, lacks ? withoutEssential : 1);
}

export interface JudgeError {
  /** Of points that are met, how many it says are: in points out of 100. */
  sensitivity: Score;
  /** Of points that are not, how many it says are not. */
  specificity: Score;
}

/** Items whose references are judged at most. */
const mostItems = 40;

/** `others`: texts that answer other items, one for each of the items. */
export async function measureJudge(
  judge: Judge,
  items: readonly RubricItem[],
  others: readonly string[],
  signal: AbortSignal,
): Promise<JudgeError> {
  const asked = items.slice(0, mostItems);
  const own = (
    await judge.judge(
      asked.map((item) => ({ item, answer: item.response })),
      signal,
    )
  ).flat();
  const foreign = (
    await judge.judge(
      asked.map((item, at) => ({ item, answer: others[at]! })),
      signal,
    )
  ).flat();
  return {
    sensitivity: wilson(own.filter(({ met }) => met).length, own.length),
    specificity: wilson(foreign.filter(({ met }) => !met).length, foreign.length),
  };
}

/**
 * The share of points that are truly met, in points, from the share that the judge says are (Rogan and Gladen 1978); null where it
 * was not shown to tell met from unmet better than chance: divided by next to nothing, its error would become the score.
 */
export function correctedShare(observed: number, { sensitivity, specificity }: JudgeError): number | null {
  const [hit, spared] = [sensitivity.score / 100, specificity.score / 100];
  const gain = hit + spared - 1;
  if (sensitivity.low + specificity.low <= 100) return null;
  return 100 * Math.min(1, Math.max(0, (observed / 100 + spared - 1) / gain));
}
