// What the base knows of the documents already. Its facts stay among the rows, or training on what is new would cost them, but
// with fewer wordings: what is known needs to be kept, not learned.

import { containsWords } from "../../base/text.ts";
import { formatChat } from "../../engine/chat-format.ts";
import type { Trainer } from "../../engine/trainer.ts";
import type { Run } from "./context.ts";
import type { Example } from "./examples.ts";
import type { Memory } from "./memory.ts";

/** Tokens of an answer: a value stands in its first words. */
const answerTokens = 24;
/** Questions of one call: the trainer decodes them together. */
const together = 64;
/** Rows that a known fact keeps, of those that it would have. */
const keptShare = 1 / 3;

/** Ids of the facts whose first question the base answers, greedily and without the document. */
export async function knownFacts(
  run: Run,
  trainer: Trainer,
  examples: readonly Example[],
  memory: Memory,
): Promise<ReadonlySet<string>> {
  const asked = [
    ...new Map(
      examples
        .filter((one) => one.kind === "asked")
        .toReversed()
        .map((one) => [one.fact, one]),
    ).values(),
  ].reverse();
  const { tokenizer } = run;
  const known = new Set<string>();
  for (let from = 0; from < asked.length; from += together) {
    const call = asked.slice(from, from + together);
    const prompts = call.map(({ messages }) => formatChat(tokenizer, messages.slice(0, -1)));
    const key = JSON.stringify({ known: prompts });
    let said = memory.get(key);
    if (said === undefined) {
      await run.turn();
      const sampled = await trainer.sample(
        null,
        {
          tokens: Int32Array.from(prompts.flat()),
          rowLengths: Int32Array.from(prompts, (prompt) => prompt.length),
        },
        {
          maxTokens: answerTokens,
          temperature: 0,
          topK: 0,
          topP: 1,
          minP: 0,
          seed: 0,
          stopTokens: [...tokenizer.eog],
        },
      );
      said = JSON.stringify(sampled.map(({ tokens }) => tokenizer.decode([...tokens])));
      await memory.put(key, said);
    }
    const answers = JSON.parse(said) as string[];
    for (const [index, { fact, messages }] of call.entries())
      if (containsWords(answers[index]!, messages.at(-1)!.content)) known.add(fact);
    await run.progress(Math.min(from + together, asked.length), asked.length, "facts");
  }
  return known;
}

/** All rows but those of known facts beyond the share that they keep, which is of the first rung. */
export function fewerOfKnown(examples: readonly Example[], known: ReadonlySet<string>): Example[] {
  const first = (example: Example): boolean => example.rung === 0;
  const counts = Map.groupBy(examples.filter(first), (example) => example.fact);
  const taken = new Map<string, number>();
  return examples.filter((example) => {
    if (!known.has(example.fact)) return true;
    const count = (taken.get(example.fact) ?? 0) + 1;
    taken.set(example.fact, count);
    return first(example) && count <= Math.ceil(counts.get(example.fact)!.length * keptShare);
  });
}
