// Self-replay: what the base says of itself, drawn at temperature 1, as rows, so that learning the documents does not cost what
// was there before. Answers to generic prompts keep the chat; continued openings keep the language.

import { seeded } from "../base/statistics/random.ts";
import { shuffled, wordsOf } from "../base/text.ts";
import { formatChat } from "../engine/chat-format.ts";
import type { SampledRow, Trainer, TrainerLimits, TrainerSampling } from "../engine/trainer.ts";
import { askedByWords } from "../study/forms.ts";
import { languageOf } from "../study/languages.ts";
import type { Run } from "./context.ts";
import type { Memory } from "./folder/memory.ts";
import { packed, type TrainingRow } from "./rows.ts";

/** What a replayed row begins with; nothing of it is trained. */
export interface Opening {
  kind: "replay" | "prose";
  text: string;
  tokens: number[];
}

/** Every so many-th row is a chat, the others are prose: it drifts before the chat does. */
const chatEvery = 3;
/**
 * One of so many chats is asked as its prompt stands, the others by some of its words, as rows of documents ask: else the manner of a
 * question tells which of both is meant, and a natural one about the documents gets the base's chat (`prove:study`: 22.7 / 9.3 / 12.0 right
 * where all chats stood as they are, 41.3 / 21.3 / 22.7 with this).
 */
const oneNaturalOf = 4;
/** A word tells what a prompt is about if no more of all prompts have it, in a hundred. */
const mostHaving = 1;
/** Characters of such a word. */
const shortest = 3;
/** Rows of one call, at most: the trainer decodes them together. */
const mostTogether = 256;

/** `count` openings in a seeded order, round again when there are fewer than that. */
export function openingsOf(run: Pick<Run, "tokenizer" | "parts">, count: number, seed: number): Opening[] {
  const { tokenizer, parts } = run;
  const prompts = shuffled(parts.replayPrompts, seeded(seed));
  const prose = shuffled(parts.replayOpenings, seeded(seed + 1));
  const inManner = queriesOf(parts.replayPrompts, seeded(seed + 2));
  // Drawn, not counted: a count that divides the list's length would choose the same prompts in every round.
  const random = seeded(seed + 3);
  return Array.from({ length: count }, (_, index): Opening => {
    const chats = Math.floor(index / chatEvery);
    if (index % chatEvery > 0) {
      const text = prose[(index - chats - 1) % prose.length]!;
      return { kind: "prose", text, tokens: tokenizer.encode(text, false) };
    }
    const prompt = prompts[chats % prompts.length]!;
    const text = random() < 1 / oneNaturalOf ? prompt : inManner(prompt);
    return { kind: "replay", text, tokens: formatChat(tokenizer, [{ role: "user", content: text }]) };
  });
}

/** A prompt in the manner of plain forms; as it stands where none of its words tells what it is about. */
function queriesOf(prompts: readonly string[], random: () => number): (prompt: string) => string {
  const having = new Map<string, number>();
  for (const prompt of prompts)
    for (const word of new Set(wordsOf(prompt))) having.set(word, (having.get(word) ?? 0) + 1);
  const most = Math.max(1, (mostHaving * prompts.length) / 100);
  const tells = (word: string): boolean => word.length >= shortest && (having.get(word) ?? 0) <= most;
  return (prompt) => askedByWords(prompt, languageOf("en"), tells, random) ?? prompt;
}

/** What the weights go on with, at temperature 1, one row per opening. */
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

/** The row of an opening and what came after it. An end of the turn is learned like any other token. */
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
 * Rows said by the base, `counts[rung]` for each rung. The same ones for all rungs would be learned by heart and hold the base only
 * there (measured: six times over 880 rows left a divergence of 0.28 nats from the base on other prose).
 */
export async function replayRows(run: Run, trainer: Trainer, counts: number[], memory: Memory): Promise<TrainingRow[]> {
  const { training, dataset } = run.request.recipe;
  const { replay_tokens: maxTokens = 32, replay_top_k: reportTop = 0 } = dataset;
  const rungs = counts.flatMap((count, rung) => new Array<number>(count).fill(rung));
  const count = rungs.length;
  const openings = openingsOf(run, count, training.seed);
  const together = rowsOfCall((await trainer.hello()).limits, maxTokens, reportTop);
  const rows: TrainingRow[] = [];
  for (let from = 0; from < openings.length; from += together) {
    const call = openings.slice(from, from + together);
    const options = { maxTokens, reportTop, seed: training.seed + from };
    const key = JSON.stringify({ replay: call.map((opening) => opening.text), ...options });
    let remembered = await memory.get(key);
    if (remembered === undefined) {
      await run.turn();
      remembered = toMemory(await continued(run, trainer, null, call, options));
      await memory.put(key, remembered);
    }
    const said = fromMemory(remembered);
    const made = call.map((opening, index) => {
      const { tokens, top } = said[index]!;
      return {
        ...rowOf(run, opening, tokens),
        rung: rungs[from + index]!,
        ...(top && { lesson: top }),
      };
    });
    rows.push(...made.filter((row) => row.weights.some((weight) => weight > 0)));
    await run.progress(Math.min(from + together, count), count, "answers");
  }
  return rows;
}

/** As many as are decoded together and as an answer holds: a length a row, and of every token it, its log-prob and the likeliest ones. */
function rowsOfCall({ maxPayloadBytes }: TrainerLimits, maxTokens: number, reportTop: number): number {
  const bytes = 4 * (1 + maxTokens * (2 + 2 * reportTop));
  return Math.min(mostTogether, Math.floor(maxPayloadBytes / bytes));
}

type Said = Pick<SampledRow, "tokens" | "top">;

/** The bytes of the arrays: what a resumed run learns must be the same to the bit, and numbers in decimals take twice the space. */
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
