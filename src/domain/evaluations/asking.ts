// Asks items and prepares their grading, both for an evaluation and for an auto-align's look at a third of the sealed items.
import { type Chosen, choose } from "../../base/likelihood.ts";
import type { Item } from "../../catalog/benchmarks.ts";
import type { ItemType } from "../../catalog/store.ts";
import { formatChat } from "../../engine/format/chat-format.ts";
import type { Generator, ModelRef, Tokenizer } from "../../engine/generator.ts";
import type { GradedItem } from "./grade.ts";

/** The fields of a benchmark's item that asking and grading need. */
export type BenchmarkItem = Omit<Item, "citations">;

/** Number of items in a group, which is the engine's largest batch for evaluations. */
export const groupSize = 8;
/** Token limit of a brief answer, of which only the first words are graded. Calibration uses the same limit. */
export const answerTokens = 48;
/** Token limit of an answer that is judged by a rubric. */
export const longAnswerTokens = 256;

/** Types that are answered briefly and graded by matching. */
export const briefTypes: readonly ItemType[] = ["short", "numeric", "refusal"];

export interface Asking {
  generator: Generator;
  ref: ModelRef;
  /** Gold answers of other items, which a right answer must not name. */
  rivalsOf: (item: BenchmarkItem) => string[];
}

/** The prompt tokens of an item's question. */
export const promptOf = ({ generator, ref }: Asking, item: BenchmarkItem): number[] =>
  formatChat(generator.tokenizer(ref.baseId), [{ role: "user", content: item.instruction }]);

export function gradedItem({ rivalsOf }: Asking, item: BenchmarkItem): GradedItem {
  const { type, response, aliases } = item;
  // Without a tolerance in the benchmark, a number must match exactly.
  const tolerance = type === "numeric" ? (item.tolerance ?? 0) : item.tolerance;
  return {
    response,
    aliases,
    tolerance,
    competitors: rivalsOf(item),
    ...(type === "refusal" ? { declines: true } : {}),
  };
}

/** The rows by which the engine scores each of the texts as the answer to a prompt. */
export const scoredRows = (tokenizer: Tokenizer, prompt: readonly number[], answers: readonly string[]) =>
  answers.map((answer) => ({
    tokens: [...prompt, ...tokenizer.encode(answer, false)],
    promptLength: prompt.length,
  }));

export interface ChosenAnswer {
  item: BenchmarkItem;
  /** Tokens of the prompt with each choice, then of the prompt alone. The choices are included because they are part of the question. */
  prompt: number[];
  text: string;
  chosen: Chosen;
}

/** Scores each choice as the answer to its item, and picks one with `choose`. */
export async function chosenAnswers(
  asking: Asking,
  group: readonly BenchmarkItem[],
  signal: AbortSignal,
): Promise<ChosenAnswer[]> {
  const { generator, ref } = asking;
  const tokenizer = generator.tokenizer(ref.baseId);
  const asked = group.map((item) => {
    const prompt = promptOf(asking, item);
    return { item, prompt, rows: scoredRows(tokenizer, prompt, item.choices) };
  });
  const scored = await generator.score(
    ref,
    asked.flatMap(({ rows }) => rows),
    signal,
  );
  return asked.map(({ item, prompt, rows }) => {
    const chosen = choose(item.choices, scored.splice(0, rows.length));
    const whole = rows.flatMap(({ tokens }) => tokens).concat(prompt);
    return { item, prompt: whole, text: item.choices[chosen.index]!, chosen };
  });
}
