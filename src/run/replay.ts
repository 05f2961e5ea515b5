// Self-replay: rows are sampled from the base itself at temperature 1, so that learning the documents does not cost existing abilities.
// Answers to generic prompts preserve chat; continued openings preserve the language.

import { seeded } from "../base/statistics/random.ts";
import { shuffled, wordsOf } from "../base/text.ts";
import { formatChat } from "../engine/format/chat-format.ts";
import type { SampledRow, Trainer, TrainerLimits, TrainerSampling } from "../engine/train/trainer.ts";
import { askedByWords } from "../study/forms.ts";
import { languageOf } from "../study/languages.ts";
import type { Run } from "./context.ts";
import { answerTo, type Memory } from "./folder/memory.ts";
import { packed, type TrainingRow } from "./rows.ts";

/** The beginning of a replayed row. Its tokens are not trained. */
export interface Opening {
  kind: "replay" | "prose";
  text: string;
  tokens: number[];
}

/** Every third row is a chat and the others are prose, because prose drifts before chat does. */
const chatEvery = 3;
/** Minimum share of chats whose prompts are asked unchanged. */
const leastNatural = 1 / 4;
/** Kinds of rows with natural questions, phrased by a writer or in the documents. */
const naturalKinds: ReadonlySet<string> = new Set(["writer", "asked"]);
/** A word indicates a prompt's subject if at most this percentage of all prompts contain it. */
const mostHaving = 1;
/** Minimum length of such a word, in characters. */
const shortest = 3;
/** Maximum number of rows in one call. The trainer decodes them together. */
const mostTogether = 256;

/**
 * Returns the share of chats whose prompts are asked unchanged. The other prompts are reduced to some of their words. The share is that of
 * natural questions among the rows of the documents, but at least a quarter. If a question's style showed whether it is about the
 * documents, a natural question about them would get an answer in the base's chat style. In `prove:study` without a teacher, 22.7 / 9.3 /
 * 12.0 % were right with all prompts unchanged, and 41.3 / 21.3 / 22.7 % with a quarter. If a teacher wrote most questions, style shows
 * nothing, and unchanged requests preserve how the base handles requests.
 */
export function naturalShareOf(rows: readonly Pick<TrainingRow, "kind">[]): number {
  const natural = rows.filter(({ kind }) => naturalKinds.has(kind)).length;
  return Math.max(leastNatural, natural / Math.max(1, rows.length));
}

/**
 * Returns `count` openings in a seeded order. Lists that are too short start over. `natural` is the share of chats whose prompts are asked
 * unchanged.
 */
export function openingsOf(
  run: Pick<Run, "tokenizer" | "parts">,
  count: number,
  seed: number,
  natural: number,
): Opening[] {
  const { tokenizer, parts } = run;
  const prompts = shuffled(parts.replayPrompts, seeded(seed));
  const prose = shuffled(parts.replayOpenings, seeded(seed + 1));
  const inManner = queriesOf(parts.replayPrompts, seeded(seed + 2));
  // Chosen at random, because choosing every n-th would take the same prompts in every round if n divides the list's length.
  const random = seeded(seed + 3);
  return Array.from({ length: count }, (_, index): Opening => {
    const chats = Math.floor(index / chatEvery);
    if (index % chatEvery > 0) {
      const text = prose[(index - chats - 1) % prose.length]!;
      return { kind: "prose", text, tokens: tokenizer.encode(text, false) };
    }
    const prompt = prompts[chats % prompts.length]!;
    const text = random() < natural ? prompt : inManner(prompt);
    return { kind: "replay", text, tokens: formatChat(tokenizer, [{ role: "user", content: text }]) };
  });
}

/**
 * Returns a function that reduces a prompt to some of its words, as plain forms do. It returns the prompt unchanged if no word indicates
 * its subject.
 */
function queriesOf(prompts: readonly string[], random: () => number): (prompt: string) => string {
  const having = new Map<string, number>();
  for (const prompt of prompts)
    for (const word of new Set(wordsOf(prompt))) having.set(word, (having.get(word) ?? 0) + 1);
  const most = Math.max(1, (mostHaving * prompts.length) / 100);
  const tells = (word: string): boolean => word.length >= shortest && (having.get(word) ?? 0) <= most;
  return (prompt) => askedByWords(prompt, languageOf("en"), tells, random) ?? prompt;
}

/** Continues the openings with the adapter (null: the base) at temperature 1, one row per opening. */
export function continued(
  run: Pick<Run, "tokenizer">,
  trainer: Trainer,
  adapter: string | null,
  openings: readonly Opening[],
  options: Pick<TrainerSampling, "maxTokens" | "seed" | "reportTop" | "asTrained">,
): Promise<SampledRow[]> {
  const rows = packed(openings.map((opening) => opening.tokens));
  const stopTokens = [...run.tokenizer.eog];
  return trainer.sample(adapter, rows, { ...options, temperature: 1, topK: 0, topP: 1, minP: 0, stopTokens });
}

/** Makes the row of an opening and its continuation. An end-of-turn token is trained like any other. */
export function rowOf(run: Pick<Run, "tokenizer">, opening: Opening, said: ArrayLike<number>): TrainingRow {
  const tokens = Int32Array.from([...opening.tokens, ...Array.from(said)]);
  const weights = new Float32Array(tokens.length).fill(1);
  weights.fill(0, 0, opening.tokens.length);
  const text = run.tokenizer.decode(Array.from(said).filter((token) => !run.tokenizer.eog.has(token)));
  const messages: TrainingRow["messages"] =
    opening.kind === "prose"
      ? [{ role: "assistant", content: opening.text + text }]
      : [
          { role: "user", content: opening.text },
          { role: "assistant", content: text },
        ];
  return { kind: opening.kind, messages, rung: 0, tokens, weights };
}

/**
 * Maximum number of rows that a run samples. Each takes a twentieth of a second on two cores with bf16. On the corpus `vets`, 4,096 rows
 * used twice left about the same drift as 8,540 different rows: KL 0.115 and perplexity +5.6 %, compared with 0.110 and +6.3 %.
 */
const mostDrawn = 4096;

/**
 * Samples replayed rows from the base, `counts[rung]` for each rung. Rows repeat only after `mostDrawn`, because a few rows would be
 * learned by heart and preserve the base on these rows alone: 880 rows seen six times left a divergence of 0.28 nats from the base on
 * other prose. `natural` is the share of chats whose prompts are asked unchanged.
 */
export async function replayRows(
  run: Run,
  trainer: Trainer,
  counts: number[],
  { memory, natural }: { memory: Memory; natural: number },
): Promise<TrainingRow[]> {
  const { training, dataset } = run.request.recipe;
  const { replay_tokens: maxTokens = 32, replay_top_k: reportTop = 0 } = dataset;
  const rungs = counts.flatMap((count, rung) => new Array<number>(count).fill(rung));
  const count = Math.min(rungs.length, mostDrawn);
  const openings = openingsOf(run, count, training.seed, natural);
  const together = rowsOfCall((await trainer.hello()).limits, maxTokens, reportTop);
  const rows: TrainingRow[] = [];
  for (let from = 0; from < openings.length; from += together) {
    const call = openings.slice(from, from + together);
    // Training compares with these rows in its own precision anyway, and so they are drawn in less time.
    const options = { maxTokens, reportTop, asTrained: true, seed: training.seed + from };
    const key = JSON.stringify({ replay: call.map((opening) => opening.text), ...options });
    const remembered = await answerTo(memory, key, async () => {
      await run.turn();
      return toMemory(await continued(run, trainer, null, call, options));
    });
    const said = fromMemory(remembered);
    const made = call.map((opening, index) => {
      const { tokens, top } = said[index]!;
      return { ...rowOf(run, opening, tokens), ...(top && { softTargets: top }) };
    });
    rows.push(...made.filter((row) => row.weights.some((weight) => weight > 0)));
    await run.progress(Math.min(from + together, count), count, "answers");
  }
  return rows.length === 0 ? [] : rungs.map((rung, index) => ({ ...rows[index % rows.length]!, rung }));
}

/**
 * Returns the maximum number of rows in one call, limited by `mostTogether` and by the size of a response. A row takes up its length and,
 * per token, the token, its log-prob, and the likeliest tokens with theirs; 4 bytes each.
 */
function rowsOfCall({ maxPayloadBytes }: TrainerLimits, maxTokens: number, reportTop: number): number {
  const bytes = 4 * (1 + maxTokens * (2 + 2 * reportTop));
  return Math.min(mostTogether, Math.floor(maxPayloadBytes / bytes));
}

type Said = Pick<SampledRow, "tokens" | "top">;

/**
 * Encodes the arrays' bytes as base64. A resumed run must learn from exactly the same bits, and decimals would take twice the space.
 */
function toMemory(said: readonly Said[]): string {
  const base64 = (values: Int32Array | Float32Array): string =>
    Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("base64");
  return JSON.stringify(
    said.map(({ tokens, top }) => [tokens, ...(top ? [top.tokens, top.logprobs] : [])].map(base64)),
  );
}

function fromMemory(text: string): Said[] {
  const bytes = (base64: string): ArrayBuffer => Uint8Array.from(Buffer.from(base64, "base64")).buffer;
  return (JSON.parse(text) as [string, string?, string?][]).map(([tokens, ids, logprobs]) => ({
    tokens: new Int32Array(bytes(tokens)),
    ...(ids !== undefined &&
      logprobs !== undefined && {
        top: { tokens: new Int32Array(bytes(ids)), logprobs: new Float32Array(bytes(logprobs)) },
      }),
  }));
}

export const isReplayed = (row: Pick<TrainingRow, "kind">): boolean => row.kind === "replay" || row.kind === "prose";
