// How an item is asked and graded, whoever asks: an evaluation, or an auto-align's look at a third of the sealed items.
import { type Chosen, choose } from "../../base/likelihood.ts";
import { formatChat } from "../../engine/chat-format.ts";
import type { Generator, ModelRef } from "../../engine/generator.ts";
import type { GradedItem } from "./grade.ts";
import type { RubricPoint } from "./judge.ts";
import type { ItemType, Split } from "./store.ts";

export interface BenchmarkItem {
  sample_num: number;
  instruction: string;
  response: string;
  aliases: string[];
  split: Split;
  type: ItemType;
  /** Absolute; null where numbers must be exact. */
  tolerance: number | null;
  /** Of a choice; the response is one of them. */
  choices: string[];
  /** Of a long answer. */
  rubric: RubricPoint[];
}

/** The engine's batch shape. */
export const groupSize = 8;
/** A short answer stands in the first words; calibration answers with as many. */
export const answerTokens = 48;
/** Of an answer that a rubric judges. */
export const longAnswerTokens = 256;

/** Answered with few words, and matched. */
export const briefTypes: readonly ItemType[] = ["short", "numeric", "refusal"];

export interface Asking {
  generator: Generator;
  ref: ModelRef;
  /** Golds of other items that an answer must not name. */
  rivalsOf: (item: BenchmarkItem) => string[];
}

/** What the model reads for a question. */
export const promptOf = ({ generator, ref }: Asking, item: BenchmarkItem): number[] =>
  formatChat(generator.tokenizer(ref.baseId), [{ role: "user", content: item.instruction }]);

export function gradedItem({ rivalsOf }: Asking, item: BenchmarkItem): GradedItem {
  const { type, response, aliases } = item;
  // A number must be the number, also where the benchmark allows no distance from it.
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
  /** The choices belong to what was asked. */
  prompt: number[];
  text: string;
  chosen: Chosen;
}

/** Each choice is scored as the answer. */
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
