// Puts the study's prompts to models through the trainer, which decodes many rows at once. Every finished call is remembered, so that a run
// killed here does not repeat it and makes exactly the same rows.
import { formatChat } from "../engine/format/chat-format.ts";
import type { Tokenizer } from "../engine/generator.ts";
import { maxRowTokens, type Trainer } from "../engine/train/trainer.ts";
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
  /** Maximum number of tokens of a row. The trainer refuses longer rows, and a refused row would end the run. */
  const longest = Math.min(tokenizer.trainContext || maxRowTokens, maxRowTokens);

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

  /** Goes on with the row of each item that has room for the answer; the answer to the others is empty. */
  async function goOnFitting<T>(
    items: readonly T[],
    { rowOf, costOf }: { rowOf: (item: T) => number[]; costOf: (item: T) => number },
    options: SayOptions & { chat?: true },
  ): Promise<string[]> {
    const fits = [...items.keys()].filter((at) => rowOf(items[at]!).length + options.maxTokens <= longest);
    const said = await inCalls(
      fits.map((at) => items[at]!),
      costOf,
      options,
      (call) => goOn(call.map(rowOf), options),
    );
    const answers = items.map(() => "");
    for (const [index, at] of fits.entries()) answers[at] = said[index]!;
    return answers;
  }

  /**
   * Returns the tokens of a prompt and its text, of which a row that is too long loses some. The text loses its end. A prompt that takes more
   * than half of the row loses its beginning (left truncation), because its end is closest to the text.
   */
  function scoredRow({ prompt, text }: { prompt: string; text: string }): { prompt: number[]; text: number[] } {
    const before = tokenizer.encode(prompt, false);
    const all = tokenizer.encode(text, false);
    const kept = all.slice(0, Math.max(longest - before.length, Math.floor(longest / 2)));
    return { prompt: before.slice(Math.max(0, before.length + kept.length - longest)), text: kept };
  }

  return {
    say: (prompts, options) => {
      const rows = new Map(prompts.map((prompt) => [prompt, tokenizer.encode(prompt, false)]));
      const rowOf = (prompt: string): number[] => rows.get(prompt)!;
      const costOf = (prompt: string): number => rowOf(prompt).length / 3 + options.maxTokens;
      return goOnFitting(prompts, { rowOf, costOf }, options);
    },
    chat: (messages, options) =>
      goOnFitting(
        messages.map((message) => ({ message, row: formatChat(tokenizer, [{ role: "user", content: message }]) })),
        { rowOf: ({ row }) => row, costOf: ({ row }) => row.length + options.maxTokens },
        { chat: true, ...options },
      ),
    score: (rows) =>
      inCalls(
        rows,
        ({ prompt, text }) => Math.min(longest, tokenizer.encode(prompt + text, false).length),
        { score: true },
        async (call) => {
          const encoded = call.map(scoredRow);
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
            return { ends: endsOf(tokenizer, text), logprobs: own };
          });
        },
      ),
  };
}

/**
 * Returns for each token the offset in characters at which it ends in the text of all the tokens. Only the tokens since the last end of a
 * character are decoded again, because to decode the whole beginning for each token takes minutes for a long text.
 */
function endsOf(tokenizer: Tokenizer, tokens: readonly number[]): number[] {
  let from = 0;
  let before = 0;
  return tokens.map((_, token) => {
    const text = tokenizer.decode(tokens.slice(from, token + 1));
    const end = before + text.length;
    // The bytes of an unfinished character are decoded as U+FFFD.
    if (!text.endsWith("\ufffd")) [from, before] = [token + 1, end];
    return end;
  });
}
