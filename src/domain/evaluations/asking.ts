// How an item is asked and graded, both in an evaluation and in an auto-align's look at a third of the sealed items.
import { type Chosen, choose } from "../../base/likelihood.ts";
import type { Item } from "../../catalog/benchmarks.ts";
import type { ItemType } from "../../catalog/store.ts";
import { formatChat } from "../../engine/format/chat-format.ts";
import type { Generator, ModelRef } from "../../engine/generator.ts";
import type { GradedItem } from "./grade.ts";

/** What is asked and graded of a benchmark's item. */
export type BenchmarkItem = Omit<Item, "citations" | "cluster">;

/** Items in a group, which is the engine's batch size. */
export const groupSize = 8;
/** Token limit of a short answer, which is in the first words. Calibration uses the same limit. */
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

export interface ChosenAnswer {
  item: BenchmarkItem;
  /** The prompt with each choice, then the prompt alone: the choices are part of what was asked. */
  prompt: number[];
  text: string;
  chosen: Chosen;
}

/** Scores each choice as the answer to its item, and picks one by `choose`. */
export async function chosenAnswers(
  asking: Asking,
  group: readonly BenchmarkItem[],
  signal: AbortSignal,
): Promise<ChosenAnswer[]> {
  const { generator, ref } = asking;
  const tokenizer = generator.tokenizer(ref.baseId);
  const asked = group.map((item) => {
    const prompt = promptOf(asking, item);
    return {
      item,
      prompt,
      rows: item.choices.map((choice) => ({
        tokens: [...prompt, ...tokenizer.encode(choice, false)],
        promptLength: prompt.length,
      })),
    };
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
