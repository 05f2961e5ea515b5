// Self-replay: rows drawn from the base itself at temperature 1, so that learning the documents does not cost existing
// abilities. Answers to generic prompts preserve chat; continued openings preserve the language.

import { seeded } from "../base/statistics/random.ts";
import { shuffled, wordsOf } from "../base/text.ts";
import { formatChat } from "../engine/format/chat-format.ts";
import type { SampledRow, Trainer, TrainerLimits, TrainerSampling } from "../engine/train/trainer.ts";
import { askedByWords } from "../study/forms.ts";
import { languageOf } from "../study/languages.ts";
import type { Run } from "./context.ts";
import { answerTo, type Memory } from "./folder/memory.ts";
import { packed, type TrainingRow } from "./rows.ts";

/** The beginning of a replayed row; none of it is trained. */
export interface Opening {
  kind: "replay" | "prose";
  text: string;
  tokens: number[];
}

/** Every third row is a chat and the others are prose, because prose drifts before chat does. */
const chatEvery = 3;
/** Least share of chats that are asked as their prompts stand. */
const leastNatural = 1 / 4;
/** Kinds of rows that ask as people do: a writer phrased the question, or the documents did. */
const naturalKinds: ReadonlySet<string> = new Set(["writer", "asked"]);
/** A word tells what a prompt is about if at most this percentage of all prompts contain it. */
const mostHaving = 1;
/** Shortest such word, in characters. */
const shortest = 3;
/** Maximum number of rows of one call, which the trainer decodes together. */
const mostTogether = 256;

/**
 * Share of chats that are asked as their prompts stand, the others being asked by some of their words: the share of
 * the documents' rows that ask as people do. If the style of a question told the two kinds apart, a natural question
 * about the documents would get the base's chat (`prove:study` without a teacher: 22.7 / 9.3 / 12.0 right with all chats
 * as they stand, 41.3 / 21.3 / 22.7 with a quarter). Where a teacher asks most rows, its manner tells nothing apart, and
 * requests as they stand hold what the base does with requests.
 */
export function naturalShareOf(rows: readonly Pick<TrainingRow, "kind">[]): number {
  const natural = rows.filter(({ kind }) => naturalKinds.has(kind)).length;
  return Math.max(leastNatural, natural / Math.max(1, rows.length));
}

/**
 * `count` openings in a seeded order; the lists start over when they are shorter than that. `natural`: share of chats
 * that are asked as their prompts stand.
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
  // Drawn at random, not counted: a count that divides the list's length would choose the same prompts in every round.
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
 * Rewrites a prompt in the manner of plain forms; returns it unchanged where none of its words tells what it is about.
 */
function queriesOf(prompts: readonly string[], random: () => number): (prompt: string) => string {
  const having = new Map<string, number>();
  for (const prompt of prompts)
    for (const word of new Set(wordsOf(prompt))) having.set(word, (having.get(word) ?? 0) + 1);
  const most = Math.max(1, (mostHaving * prompts.length) / 100);
  const tells = (word: string): boolean => word.length >= shortest && (having.get(word) ?? 0) <= most;
  return (prompt) => askedByWords(prompt, languageOf("en"), tells, random) ?? prompt;
}

/** Continuations by the adapter (null: the base) at temperature 1, one row per opening. */
export function continued(
  run: Pick<Run, "tokenizer">,
  trainer: Trainer,
  adapter: string | null,
  openings: readonly Opening[],
  options: Pick<TrainerSampling, "maxTokens" | "seed" | "reportTop">,
): Promise<SampledRow[]> {
  const rows = packed(openings.map((opening) => opening.tokens));
  const stopTokens = [...run.tokenizer.eog];
  return trainer.sample(adapter, rows, { ...options, temperature: 1, topK: 0, topP: 1, minP: 0, stopTokens });
}

/** The row of an opening and its continuation. An end-of-turn token is learned like any other. */
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
 * Maximum number of rows that a run draws, at a twelfth of a second each on two cores. In place of 8,540 different rows,
 * 4,096 that came twice left the same drift on vets: KL 0.115 and perplexity +5.6 %, beside 0.110 and +6.3 %.
 */
const mostDrawn = 4096;

/**
 * Rows said by the base, `counts[rung]` for each rung. Rungs have different rows as long as there are new ones: few rows
 * would be learned by heart and hold the base only there (measured: 880 rows seen six times left a divergence of 0.28
 * nats from the base on other prose). `natural`: share of chats that are asked as their prompts stand.
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
    const options = { maxTokens, reportTop, seed: training.seed + from };
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
 * Rows of one call: as many as are decoded together, and as a response holds. A row takes a length, and per token the
 * token, its log-prob and the likeliest ones.
 */
function rowsOfCall({ maxPayloadBytes }: TrainerLimits, maxTokens: number, reportTop: number): number {
  const bytes = 4 * (1 + maxTokens * (2 + 2 * reportTop));
  return Math.min(mostTogether, Math.floor(maxPayloadBytes / bytes));
}

type Said = Pick<SampledRow, "tokens" | "top">;

/**
 * Stores the bytes of the arrays: what a resumed run learns must be the same to the bit, and decimals take twice the
 * space.
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
