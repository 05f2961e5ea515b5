// Computes vectors of texts, and scores of (query, document) pairs, in a context sized for them. An encoder reads a text in one
// piece. Other models read it in pieces, and the mean over the text is the mean of the pieces weighted by length.
import { Failure, invalid } from "../../base/errors.ts";
import { givingWay } from "../../base/time.ts";
import { encodeInParts } from "../format/in-parts.ts";
import type { EmbeddedText, EmbedOptions, RankedDocument } from "../generator.ts";
import type { Pooling } from "../gguf/pooling.ts";
import { type NativeAdapter, type NativeEmbeddingContext, type NativeModel, shortText } from "./binding.ts";
import type { ThreadChoice } from "./thread-choice.ts";
import type { Turns } from "./turns.ts";

/** Tokens per decode of a model that is not an encoder. Each of them is an output and takes a row of the vocabulary in memory. */
const pieceTokens = 256;

/** Time that a request reads texts before another gets its turn. It is long compared to opening a context for the next turn. */
const turnMs = 250;

export interface EmbeddingLane {
  model: NativeModel;
  pooling: Pooling;
  turns: Turns;
  /** Kept across the requests for this model. */
  threadChoice: ThreadChoice;
  /** Returns the maximum number of threads to read with at this moment. */
  threads: () => number;
  /** Maximum number of tokens of a text. */
  context: number;
  /**
   * Runs `work` with a context for texts of at most `tokens` tokens, read `batch` at a time. Calls run one after another, in
   * the order in which they were made.
   */
  within<T>(tokens: number, batch: number, work: (context: NativeEmbeddingContext) => Promise<T>): Promise<T>;
  /** Whether another call of `within` waits. */
  isWanted(): boolean;
}

interface ReadText {
  tokens: readonly number[];
  truncated: number;
}

/**
 * Returns one unit vector per text. Throws wrong_kind, validation for an unknown token id or a text without tokens, inference_failed
 * for a vector of length zero, and prompt_too_long unless `truncate` is set.
 */
export async function embedTexts(
  lane: EmbeddingLane,
  adapter: NativeAdapter | null,
  inputs: readonly (string | readonly number[])[],
  options: EmbedOptions,
): Promise<EmbeddedText[]> {
  if (lane.pooling.by === "rank")
    throw new Failure("wrong_kind", "The model ranks documents and returns no vectors; use it for reranking");
  const texts = await inTurn(inputs, options.signal, async (input, index) => {
    const isText = typeof input === "string";
    const whole = isText ? await enclosed(lane, input) : input;
    const read = fitted(whole, lane.context, `input[${index}]`, options.truncate, isText ? lane.model.ends : []);
    // Only the ids that the model will read are checked.
    if (!isText) check(lane, read.tokens, ["input", index]);
    return read;
  });
  return readAll(lane, adapter, texts, options.signal, (vector, text) => ({
    vector: unit(vector),
    tokens: text.tokens.length,
    truncated: text.truncated,
  }));
}

/**
 * Returns the relevance of each document to the query, as the log-odds that a cross-encoder gives. Throws wrong_kind, model_invalid,
 * and prompt_too_long if the query alone is too long or, unless `truncate` is set, a document is.
 */
export async function rankDocuments(
  lane: EmbeddingLane,
  query: string,
  documents: readonly string[],
  options: EmbedOptions,
): Promise<RankedDocument[]> {
  if (lane.pooling.by !== "rank") throw new Failure("wrong_kind", "The model is not a cross-encoder");
  const join = await pairing(lane.model, query);
  const texts = await inTurn(documents, options.signal, async (document, index) => {
    const [before, inner, after] = await join(document);
    const room = lane.context - before.length - after.length;
    if (room < 1) throw new Failure("prompt_too_long", `The query alone fills the model's ${lane.context} tokens`);
    const cut = fitted(inner, room, `documents[${index}]`, options.truncate, []);
    return { tokens: [...before, ...cut.tokens, ...after], truncated: cut.truncated };
  });
  return readAll(lane, null, texts, options.signal, (scores, text) => ({
    logit: lane.model.ranksByProbability ? Math.log(scores[0]! / (1 - scores[0]!)) : scores[0]!,
    tokens: text.tokens.length,
    truncated: text.truncated,
  }));
}

/** Maps the items one after another, and lets other work on the same thread run in between. */
async function inTurn<From, To>(
  all: readonly From[],
  signal: AbortSignal,
  make: (one: From, index: number) => To | Promise<To>,
): Promise<To[]> {
  const made: To[] = [];
  const giveWay = givingWay();
  for (const [index, one] of all.entries()) {
    made.push(await make(one, index));
    await giveWay();
    signal.throwIfAborted();
  }
  return made;
}

async function readAll<T>(
  lane: EmbeddingLane,
  adapter: NativeAdapter | null,
  texts: readonly ReadText[],
  signal: AbortSignal,
  result: (pooled: Float64Array, text: ReadText) => T,
): Promise<T[]> {
  // A context is sized for its longest text. Short texts have a context of their own, so that an encoder's result for a short
  // text does not depend on the other texts of the request.
  const isShort = ({ tokens }: ReadText): boolean => lane.pooling.kind !== "text" && tokens.length <= shortText;
  const sizes = Map.groupBy(texts.keys(), (place) => isShort(texts[place]!));
  const results: T[] = [];
  for (const places of sizes.values()) {
    const longest = Math.max(...places.map((place) => texts[place]!.tokens.length));
    const batch = lane.pooling.isEncoder ? longest : Math.min(longest, pieceTokens);
    for (let next = 0; next < places.length; )
      await lane.within(longest, batch, async (context) => {
        context.setAdapter(adapter);
        const end = performance.now() + turnMs;
        do {
          const place = places[next++]!;
          const text = texts[place]!;
          results[place] = result(await pooled(lane, context, text.tokens, batch, signal), text);
          // Others get a turn in between, so that a single text does not wait for all texts of a large request.
        } while (next < places.length && !(lane.isWanted() && performance.now() > end));
      });
  }
  return results;
}

async function pooled(
  lane: EmbeddingLane,
  context: NativeEmbeddingContext,
  tokens: readonly number[],
  batch: number,
  signal: AbortSignal,
): Promise<Float64Array> {
  const { pooling, turns } = lane;
  let sum: Float64Array | null = null;
  for (let at = 0; at < tokens.length; at += batch) {
    const piece = tokens.slice(at, at + batch);
    const state = await turns.run(() => {
      signal.throwIfAborted();
      return timed(lane, context, piece, at);
    });
    if (pooling.by === "mean") sum = state.map((value, index) => value * piece.length + (sum?.[index] ?? 0));
    else if (sum === null || pooling.by !== "cls") sum = state;
  }
  return sum!;
}

function timed(
  { threadChoice, threads }: EmbeddingLane,
  context: NativeEmbeddingContext,
  piece: readonly number[],
  at: number,
): Promise<Float64Array> {
  // A token takes longer in a short piece than in a long one, so steps are grouped by length.
  const kind = `2^${Math.ceil(Math.log2(piece.length))}`;
  return threadChoice.step(kind, threads(), piece.length, (chosen) => {
    context.setThreads(chosen);
    return context.read(piece, at);
  });
}

/** Returns the tokens of a text, with the tokens that the model expects at the beginning and the end. */
async function enclosed({ model }: EmbeddingLane, text: string): Promise<number[]> {
  const { tokenizer, ends } = model;
  const start = tokenizer.addBos && tokenizer.bos !== null ? [tokenizer.bos] : [];
  const tokens = [...start, ...(await encodeInParts(tokenizer, text, false)), ...ends];
  if (tokens.length === 0) throw invalid(["input"], "is empty, and this model has no start token to use instead");
  return tokens;
}

function check({ model }: EmbeddingLane, ids: readonly number[], loc: (string | number)[]): void {
  const { vocabulary } = model.tokenizer;
  const wrong = ids.findIndex((id) => id >= vocabulary);
  if (wrong >= 0) throw invalid(["body", ...loc, wrong], `the model's last token id is ${vocabulary - 1}`);
}

/**
 * Cuts the end of a text of more than `most` tokens, but keeps the closing tokens `ends`. Without `truncate`, throws
 * prompt_too_long for such a text.
 */
function fitted(
  tokens: readonly number[],
  most: number,
  name: string,
  truncate: boolean,
  ends: readonly number[],
): ReadText {
  const truncated = Math.max(0, tokens.length - most);
  if (truncated === 0) return { tokens, truncated };
  if (!truncate)
    throw new Failure(
      "prompt_too_long",
      `${name} has ${tokens.length} tokens; the limit is ${most}. Set \`truncate\` to cut it`,
    );
  return { tokens: [...tokens.slice(0, most - ends.length), ...ends], truncated };
}

/**
 * Returns a function that gives three lists for a document: the tokens before it, its own tokens, and the tokens after it. The lists
 * follow the model's rerank template. If there is no template, the query and the document are joined with the model's separator
 * tokens. Throws model_invalid.
 */
async function pairing(
  { tokenizer, header, sep }: NativeModel,
  query: string,
): Promise<(document: string) => Promise<[number[], number[], number[]]>> {
  const template = header.values.get("tokenizer.chat_template.rerank");
  const plain = (text: string): Promise<number[]> => encodeInParts(tokenizer, text, false);
  const asked = await plain(query);
  if (typeof template === "string") {
    const at = template.indexOf("{document}");
    if (at < 0) throw new Failure("model_invalid", "The model's rerank template has no {document}");
    const marked = (text: string): number[] =>
      text.split("{query}").flatMap((part, index) => [...(index > 0 ? asked : []), ...tokenizer.encode(part, true)]);
    const [before, after] = [marked(template.slice(0, at)), marked(template.slice(at + "{document}".length))];
    return async (document) => [before, await plain(document), after];
  }
  const end = tokenizer.eos ?? sep;
  if (end === null) throw new Failure("model_invalid", "The model has no token to end a query with");
  const between = tokenizer.eos !== null && sep !== null ? [end, sep] : [end];
  const before = [...(tokenizer.bos === null ? [] : [tokenizer.bos]), ...asked, ...between];
  return async (document) => [before, await plain(document), [end]];
}

/** Scales a vector to length 1 and rounds it to 32-bit floats, the type in which vectors are returned. */
function unit(vector: Float64Array): Float32Array {
  const length = Math.hypot(...vector);
  if (!(length > 0) || !Number.isFinite(length))
    throw new Failure("inference_failed", "The model returned a vector of length zero");
  return Float32Array.from(vector, (value) => value / length);
}
