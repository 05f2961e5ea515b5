// The judge of long answers is a model that is asked, for each point of the rubric, whether the answer meets the point. The judge's
// verdict is the more likely of Yes and No, so that it is deterministic. The judge's error rates are measured on answers with a known
// verdict: an item's reference answer, which meets the item's rubric, and another item's reference answer, which does not.
import { type Score, wilson } from "../../base/statistics/intervals.ts";
import type { RubricPoint } from "../../catalog/benchmarks.ts";
import { formatChat } from "../../engine/format/chat-format.ts";
import type { Generator, ModelRef } from "../../engine/generator.ts";
import { scoredRows } from "./asking.ts";

export interface RubricItem {
  instruction: string;
  response: string;
  rubric: readonly RubricPoint[];
}

export interface Verdict {
  id: string;
  met: boolean;
  /** Probability of Yes, given that the reply is Yes or No. */
  probability: number;
}

export interface Judge {
  /** Verdicts on the points of each answer's rubric, in order. */
  judge(answers: readonly { item: RubricItem; answer: string }[], signal: AbortSignal): Promise<Verdict[][]>;
}

const judgeQuestion = (item: RubricItem, answer: string, point: RubricPoint): string =>
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
      const asked = answers.flatMap(({ item, answer }) =>
        item.rubric.map((point) => judgeQuestion(item, answer, point)),
      );
      const rows = asked.flatMap((content) =>
        scoredRows(tokenizer, formatChat(tokenizer, [{ role: "user", content }]), ["Yes", "No"]),
      );
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

/** Maximum score of an answer that fails an essential point. */
const withoutEssential = 0.5;

/** Σ weight·met / Σ weight, but at most 0.5 if an essential point is not met. */
export function rubricScore(rubric: readonly RubricPoint[], verdicts: readonly Verdict[]): number {
  const total = rubric.reduce((sum, { weight }) => sum + weight, 0);
  const met = rubric.reduce((sum, { weight }, index) => sum + (verdicts[index]!.met ? weight : 0), 0);
  const lacks = rubric.some(({ level }, index) => level === "essential" && !verdicts[index]!.met);
  return Math.min(met / total, lacks ? withoutEssential : 1);
}

export interface JudgeError {
  /** Share of the met points that the judge says are met, in points out of 100. */
  sensitivity: Score;
  /** Share of the unmet points that the judge says are unmet, in points out of 100. */
  specificity: Score;
}

/** Maximum number of items whose references are judged. */
const mostItems = 40;

/** Measures the judge's error rates. `others` has, for each item, a text that answers a question about another fact. */
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
 * The share of points that are truly met, in points out of 100, from the share that the judge says are met (Rogan and
 * Gladen 1978). Null if the judge was not shown to tell met from unmet better than chance, because the formula would then divide by
 * almost 0.
 */
export function correctedShare(observed: number, { sensitivity, specificity }: JudgeError): number | null {
  const [hit, spared] = [sensitivity.score / 100, specificity.score / 100];
  const gain = hit + spared - 1;
  if (sensitivity.low + specificity.low <= 100) return null;
  return 100 * Math.min(1, Math.max(0, (observed / 100 + spared - 1) / gain));
}
