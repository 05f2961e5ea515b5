// The seam between everything that wants tokens and whatever makes them. Nothing here knows node-llama-cpp.
import type { Occupancy } from "../base/metrics.ts";
import type { ModelKind } from "./pooling.ts";

export type { GeneratorOptions } from "./base-model.ts";
export { createGenerator, openTokenizer } from "./bases.ts";
export type { ModelKind } from "./pooling.ts";

/** A base GGUF and, when aligned, the adapter over it. Paths come from the store, never from a request. */
export interface ModelRef {
  baseId: string;
  basePath: string;
  adapter?: { id: string; path: string };
}

/** What the GGUF says of its own text side. */
export interface Tokenizer {
  /** parseSpecial: whether `<|im_start|>` and the like become control tokens; false for anything a user wrote. */
  encode(text: string, parseSpecial: boolean): number[];
  /** What the tokens add to a text; control tokens add nothing. */
  decode(tokens: readonly number[]): string;
  readonly bos: number | null;
  readonly eos: number | null;
  /** Ends of generation. */
  readonly eog: ReadonlySet<number>;
  readonly addBos: boolean;
  readonly vocabulary: number;
  readonly trainContext: number;
  /** The Jinja source of the GGUF's chat template, or null. */
  readonly chatTemplate: string | null;
  /** Text → id of every token that text becomes only under parseSpecial. */
  readonly specials: ReadonlyMap<string, number>;
  /** The bytes a token adds to a text; none for control tokens. A code point may span several tokens. */
  bytesOf(token: number): Uint8Array;
  /** A token on its own, for people: control tokens by their name, unfinished code points as U+FFFD. */
  pieceOf(token: number): string;
}

export interface Sampling {
  temperature: number;
  /** 0 = off; over 64 counts as 64, a stated limit. */
  topK: number;
  topP: number;
  minP: number;
  seed: number;
  repetitionPenalty: number;
  frequencyPenalty: number;
  presencePenalty: number;
  logitBias: ReadonlyMap<number, number>;
}

/** interactive before evaluation before generation of data. */
export type Priority = "interactive" | "evaluation" | "generation";

export interface GenerateRequest {
  model: ModelRef;
  prompt: readonly number[];
  maxTokens: number;
  sampling: Sampling;
  stopStrings: readonly string[];
  ignoreEos: boolean;
  priority: Priority;
  /** Prompt prefixes are reused within one owner only. */
  owner: string;
  /** A conversation of the owner that goes on: what it computed is kept before that of requests without one. */
  session?: string;
  signal: AbortSignal;
  /** GBNF that the answer keeps to: from its first token on, or from where `steer` says. Not together with ignoreEos. */
  grammar?: string;
  /** Told of every token taken, in order, and of null before the first; what it returns rules the next ones. */
  steer?: (token: number | null) => Steering;
  /** Control tokens that the text shows by their name: those that delimit a tool call or a thought. */
  shown?: ReadonlySet<number>;
  /** Also work out `logZ` of every token. */
  exact?: boolean;
  /** Called once, when the prompt has been read, with all its tokens. Such a prompt is read whole, never reused. */
  onPrompt?: (tokens: readonly PromptToken[]) => void;
}

export interface Steering {
  /** Tokens to take next, whatever the model would draw. The grammar neither checks nor hears of them. */
  take?: readonly number[];
  /** Whether the grammar rules from here on; as before when left out, which is `true` at the beginning. */
  constrained?: boolean;
}

export interface PromptToken {
  token: number;
  /** Of the step that came before it; null for the first token, which nothing foretold. */
  step: { top: TopLogits; logZ: number; logprob: number } | null;
}

/**
 * The 64 most probable tokens of a step, by falling raw logit: as the model gave them, before temperature and penalties. Under a
 * logit bias the 64 are chosen with it, and their logits given without it. Fewer where the vocabulary is smaller.
 */
export interface TopLogits {
  tokens: Int32Array;
  logits: Float32Array;
}

/** The token that ends an answer is given too, as the last one: its text is what was held back until then. */
export interface GeneratedToken {
  token: number;
  /** Text that became complete with this token: whole code points only, "" while one is unfinished or a stop string may begin. */
  text: string;
  /** ln p over the 64 kept logits, in nats, whatever was done to them for the draw. */
  logprob: number;
  /** Holds the token, also where a grammar or `steer` took one that was not among the 64. */
  top: TopLogits;
  /** ln of the sum of e^logit over the whole vocabulary, when asked for: ln p of a token is its logit less this. */
  logZ: number | null;
  /** Taken by `steer`, not drawn. */
  isForced: boolean;
}

export type FinishReason = "stop" | "length" | "aborted";

export interface GenerateEnd {
  finishReason: FinishReason;
  /** That ended it, where one did. */
  stopString?: string;
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
}

export interface EvaluateRequest {
  model: ModelRef;
  prompts: readonly (readonly number[])[];
  maxTokens: number;
  signal: AbortSignal;
  /** Called in item order as groups finish. */
  onItem: (index: number, answer: EvaluatedAnswer) => void;
  /** Items before this one are not run again: a restart keeps group borders. */
  startAt: number;
}

export interface EvaluatedAnswer {
  text: string;
  /** With the token that ended it. */
  tokens: number[];
  steps: { logprob: number; top: TopLogits }[];
  finishReason: FinishReason;
  /** From its group's start to its last token, without the waiting for other work. */
  seconds: number;
}

export interface LoadedInfo {
  architecture: string;
  /** Tokens of one seat: `seatContext`, or what the model was made for where that is less. */
  context: number;
  parameters: number;
  /** Weights and the pool of seats, as the library counts them. */
  bytes: number;
  seats: number;
}

export interface EmbedOptions {
  /** Cuts what is longer than the model reads, instead of refusing it. */
  truncate: boolean;
  signal: AbortSignal;
}

export interface EmbeddedText {
  /** Of length 1. */
  vector: Float32Array;
  /** Read, with those that enclose the text. */
  tokens: number;
  /** Cut off its end. */
  truncated: number;
}

export interface RankedDocument {
  /** ln(p / (1 − p)) of being relevant, in nats. */
  logit: number;
  tokens: number;
  truncated: number;
}

/**
 * Tokens for (base, adapter). Throws Failure: model_load_failed, model_invalid, out_of_memory, prompt_too_long, engine_busy,
 * not_loaded, wrong_kind, inference_failed, engine_unusable, and validation for token ids that there are not. A prompt is never cut here.
 */
export interface Generator {
  /**
   * Loads the base when it is not yet there, and the adapter. Calls for one model share one load, and each wants its own unload.
   * The library knows adapters by their path: a file's name must carry a hash of its content.
   */
  load(model: ModelRef): Promise<LoadedInfo>;
  /** Takes one load back. With the last, new requests are refused, running ones finish, and what nobody else uses goes. */
  unload(model: ModelRef): Promise<void>;
  isLoaded(model: ModelRef): boolean;
  /** The tokenizer of a loaded base. */
  tokenizer(baseId: string): Tokenizer;
  /** Yields tokens as they are drawn; the return value is the summary. */
  generate(request: GenerateRequest): AsyncGenerator<GeneratedToken, GenerateEnd, void>;
  /**
   * Greedy answers in a fixed batch shape: groups of 8 (of `seats` where that is less) in item order, padded, never in one batch
   * with anything else, so that the same items give the same text whatever else the machine does. Takes turns with chat, step by
   * step. Needs memory for a second pool of seats while it runs. Rejects with the signal's reason when it is aborted.
   */
  evaluate(request: EvaluateRequest): Promise<void>;
  /** Exact log-probs (nats, over the whole vocabulary) of each row's tokens from promptLength on. Tells of each row in order. */
  score(
    model: ModelRef,
    rows: readonly { tokens: readonly number[]; promptLength: number }[],
    signal: AbortSignal,
    onRow?: (index: number) => void,
  ): Promise<Float64Array[]>;
  /** What a loaded base makes of texts. */
  kind(baseId: string): ModelKind;
  /** One vector per text, in order. Texts are read one by one, each as the model's makers enclose it; token ids as they are. */
  embed(
    model: ModelRef,
    inputs: readonly (string | readonly number[])[],
    options: EmbedOptions,
  ): Promise<EmbeddedText[]>;
  /** The relevance of documents by a cross-encoder, in order. */
  rank(model: ModelRef, query: string, documents: readonly string[], options: EmbedOptions): Promise<RankedDocument[]>;
  /** How full the loaded bases that answer are. */
  occupancy(): Occupancy[];
  /** Tokens one seat can hold, prompt and completion together. */
  readonly seatContext: number;
  dispose(): Promise<void>;
}
