// Puts the study's prompts to models through the trainer, which decodes many rows at once. Every finished call is remembered, so that a run
// killed here does not repeat it and makes exactly the same rows.
import { formatChat } from "../engine/format/chat-format.ts";
import type { Tokenizer } from "../engine/generator.ts";
import type { Trainer } from "../engine/train/trainer.ts";
import type { SayOptions, Speaker } from "../study/writers/writer.ts";
import type { Run } from "./context.ts";
import { answerTo, type Memory } from "./folder/memory.ts";
import { packed } from "./rows.ts";
import { microBatches } from "./schedule.ts";

export interface SpeakerParts {
  /** Identifies the weights that answer. Part of the key under which answers are remembered. */
  name: string;
  tokenizer: Tokenizer;
  memory: Memory;
  /** Returns the trainer. Called only if an answer is not remembered. */
  trainer(): Promise<Trainer>;
  /** null for the base. */
  adapter: string | null;
}

/** Maximum number of tokens of a call, prompts and answers together. Between two calls, the run handles stop and pause. */
const callTokens = 16_384;
/** Maximum number of rows of a call, which are decoded together. */
const callRows = 192;

export function createSpeaker(
  run: Pick<Run, "turn">,
  { name, tokenizer, memory, trainer, adapter }: SpeakerParts,
): Speaker {
  /** Returns the answers in the order of the items. Calls are remembered as a whole. A call that is remembered is not made again. */
  async function inCalls<T, A>(
    items: readonly T[],
    lengthOf: (item: T) => number,
    options: unknown,
    ask: (call: readonly T[]) => Promise<A[]>,
  ): Promise<A[]> {
    const answers: A[] = [];
    const lengths = items.map(lengthOf);
    const calls = microBatches([...items.keys()], (at) => Math.max(lengths[at]!, callTokens / callRows), callTokens);
    for (const at of calls) {
      const call = at.map((index) => items[index]!);
      const key = JSON.stringify({ speaker: name, options, call });
      const said = await answerTo(memory, key, async () => {
        await run.turn();
        return JSON.stringify(await ask(call));
      });
      answers.push(...(JSON.parse(said) as A[]));
    }
    return answers;
  }

  async function goOn(rows: readonly number[][], { maxTokens, temperature, seed }: SayOptions): Promise<string[]> {
    const sampled = await (await trainer()).sample(adapter, packed(rows), {
      maxTokens,
      temperature,
      topK: 0,
      topP: 1,
      minP: 0,
      seed,
      stopTokens: [...tokenizer.eog],
    });
    return sampled.map(({ tokens }) => tokenizer.decode([...tokens].filter((one) => !tokenizer.eog.has(one))));
  }

  return {
    say: (prompts, options) =>
      inCalls(
        prompts,
        (prompt) => tokenizer.encode(prompt, false).length / 3 + options.maxTokens,
        options,
        (call) =>
          goOn(
            call.map((prompt) => tokenizer.encode(prompt, false)),
            options,
          ),
      ),
    chat: async (messages, options) => {
      const rows = messages.map((content) => formatChat(tokenizer, [{ role: "user", content }]));
      const fits = [...rows.keys()].filter((at) => rows[at]!.length + options.maxTokens <= tokenizer.trainContext);
      const said = await inCalls(
        fits.map((at) => ({ message: messages[at]!, row: rows[at]! })),
        ({ row }) => row.length + options.maxTokens,
        { chat: true, ...options },
        (call) =>
          goOn(
            call.map(({ row }) => row),
            options,
          ),
      );
      const answers = messages.map(() => "");
      for (const [index, at] of fits.entries()) answers[at] = said[index]!;
      return answers;
    },
    score: (rows) =>
      inCalls(
        rows,
        ({ prompt, text }) => tokenizer.encode(prompt + text, false).length,
        { score: true },
        async (call) => {
          const encoded = call.map(({ prompt, text }) => ({
            prompt: prompt === "" ? [] : tokenizer.encode(prompt, false),
            text: tokenizer.encode(text, false),
          }));
          const lengths = encoded.map(({ prompt, text }) => prompt.length + text.length);
          const logprobs = await (await trainer()).score(
            adapter,
            packed(encoded.map(({ prompt, text }) => [...prompt, ...text])),
            // The first token of a row has no log-prob, because no token precedes it.
            Int32Array.from(encoded, ({ prompt }) => Math.max(1, prompt.length)),
          );
          let from = 0;
          return encoded.map(({ prompt, text }, at) => {
            const own = [...logprobs.subarray(from + prompt.length, from + lengths[at]!)];
            from += lengths[at]!;
            return { ends: text.map((_, token) => tokenizer.decode(text.slice(0, token + 1)).length), logprobs: own };
          });
        },
      ),
  };
}
