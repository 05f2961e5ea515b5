// The interface between code that needs tokens and the engine that generates them. Nothing here refers to node-llama-cpp.
import type { Occupancy } from "../base/metrics.ts";
import type { ModelKind } from "./gguf/pooling.ts";

export type { ModelKind } from "./gguf/pooling.ts";

/** A base GGUF and, when aligned, the adapter over it. Paths come from the store, never from a request. */
export interface ModelRef {
  baseId: string;
  basePath: string;
  adapter?: { id: string; path: string };
}

/** The tokenizer of a GGUF. */
export interface Tokenizer {
  /** parseSpecial: whether `<|im_start|>` and the like become control tokens; false for anything a user wrote. */
  encode(text: string, parseSpecial: boolean): number[];
  /** The text of the tokens; control tokens add nothing. */
  decode(tokens: readonly number[]): string;
  readonly bos: number | null;
  readonly eos: number | null;
  /** Tokens that end generation. */
  readonly eog: ReadonlySet<number>;
  readonly addBos: boolean;
  readonly vocabulary: number;
  readonly trainContext: number;
  /** The Jinja source of the GGUF's chat template, or null. */
  readonly chatTemplate: string | null;
  /** Text → id of every control, user-defined and unknown token. */
  readonly specials: ReadonlyMap<string, number>;
  /** The bytes a token adds to a text; none for control tokens. A code point may span several tokens. */
  bytesOf(token: number): Uint8Array;
  /** A token as text for display: control tokens by their name, unfinished code points as U+FFFD. */
  pieceOf(token: number): string;
}

export interface Sampling {
  temperature: number;
  /** 0 = off. Values over 64 count as 64, a documented limit. */
  topK: number;
  topP: number;
  minP: number;
  seed: number;
  repetitionPenalty: number;
  frequencyPenalty: number;
  presencePenalty: number;
  logitBias: ReadonlyMap<number, number>;
}

/** Served in this order: interactive requests, evaluation, generation of data. */
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
  /** A continuing conversation of the owner: its cells are kept in preference to those of requests without one. */
  session?: string;
  signal: AbortSignal;
  /** GBNF that the answer must follow, from its first token or from where `steer` says. Not together with ignoreEos. */
  grammar?: string;
  /** Called with every token taken, in order, and with null before the first; the result controls the next tokens. */
  steer?: (token: number | null) => Steering;
  /** Control tokens whose names appear in the text: those that delimit a tool call or a thought. */
  shown?: ReadonlySet<number>;
  /** Whether to compute `logZ` of every token. */
  exact?: boolean;
  /**
   * Called once, when the prompt has been read, with all its tokens. Such a prompt is read whole, without a cached prefix.
   */
  onPrompt?: (tokens: readonly PromptToken[]) => void;
  /** Called once, when the request has waited for its slot and takes it. */
  onSlot?: () => void;
}

export interface Steering {
  /** Tokens to take next instead of drawing. The grammar neither checks them nor advances by them. */
  take?: readonly number[];
  /** Whether the grammar applies from here on. Left out: as before; it is `true` at the beginning. */
  constrained?: boolean;
}

export interface PromptToken {
  token: number;
  /** The step that predicted the token; null for the first token, which has none. */
  step: { top: TopLogits; logZ: number; logprob: number } | null;
}

/**
 * The 64 most probable tokens of a step and their raw logits, falling, as the model gave them: before temperature and
 * penalties. With a logit bias the 64 are chosen under it, but the logits are given without it. Fewer where the vocabulary is
 * smaller.
 */
export interface TopLogits {
  tokens: Int32Array;
  logits: Float32Array;
}

/** One token of an answer. The token that ends the answer is the last one; its text is what was held back until then. */
export interface GeneratedToken {
  token: number;
  /** Text that became complete with this token: whole code points only, "" while one is unfinished or a stop string may begin. */
  text: string;
  /** ln p over the 64 kept raw logits, in nats, whatever the sampling settings. */
  logprob: number;
  /** Always includes the token, even when a grammar or `steer` took one from outside the 64. */
  top: TopLogits;
  /** ln of the sum of e^logit over the whole vocabulary, if asked for: ln p of a token is its logit minus this. */
  logZ: number | null;
  /** Whether `steer` set the token instead of a draw. */
  isForced: boolean;
}

export type FinishReason = "stop" | "length" | "aborted";

export interface GenerateEnd {
  finishReason: FinishReason;
  /** The stop string that ended the answer, if one did. */
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
  /** First item to report. Group borders stay as they are, so a restart inside a group runs the whole group again. */
  startAt: number;
}

export interface EvaluatedAnswer {
  text: string;
  /** Includes the token that ended the answer. */
  tokens: number[];
  steps: { logprob: number; top: TopLogits }[];
  finishReason: FinishReason;
  /** FLOPs per token of a training step with rows of longestRow tokens, not counting anything computed twice. */
  seconds: number;
}

export interface LoadedInfo {
  architecture: string;
  /** Tokens per slot: `slotContext`, or the model's training context if that is smaller. */
  context: number;
  parameters: number;
  /** Weights and the pool of slots, as the library counts them. */
  bytes: number;
  slots: number;
}

export interface EmbedOptions {
  /** Whether to cut texts that are too long for the model instead of refusing them. */
  truncate: boolean;
  signal: AbortSignal;
}

export interface EmbeddedText {
  /** A vector of length 1. */
  vector: Float32Array;
  /** Tokens read, including those added at the beginning and end. */
  tokens: number;
  /** Tokens cut off the end. */
  truncated: number;
}

export interface RankedDocument {
  /** Log-odds of relevance, ln(p / (1 − p)), in nats. */
  logit: number;
  tokens: number;
  truncated: number;
}

/** Keeps a model loaded until it is released. */
export interface Lease extends AsyncDisposable {
  info: LoadedInfo;
  /** Resolves once the model is unloaded, if this was its last lease. A second release does nothing. */
  release(): Promise<void>;
}

/** Who uses which loaded model. The library identifies adapters by path: a file's name must contain a hash of its content. */
export interface ModelPool {
  /**
   * Loads the model unless it is loaded; leases asked at once share one load. Undeploying waits for requests, not for other work.
   * Throws out_of_memory, model_load_failed, model_invalid, load_ended_appliance, and load_cooling for a while after a load that
   * failed.
   */
  lease(model: ModelRef, use: "request" | "work"): Promise<Lease>;
  /**
   * Takes a lease under a name, unless the name has one, and keeps it until letGo. Loads under a name wait for one another, and are
   * tried even where load_cooling would refuse a lease.
   */
  hold(name: string, model: ModelRef): Promise<void>;
  /** Releases the lease of that name, if there is one. */
  letGo(name: string): Promise<void>;
  /** Resolves when no request has a lease of the model. */
  quiet(model: ModelRef): Promise<void>;
  /** Unloads the base that has been idle for longest; false if none is idle. */
  freeIdle(): Promise<boolean>;
  isLoaded(model: ModelRef): boolean;
}

/**
 * Generates tokens for a base and adapter. Throws Failure: model_load_failed, model_invalid, out_of_memory, prompt_too_long,
 * engine_busy, not_loaded, wrong_kind, inference_failed, engine_unusable, and validation for unknown token ids. A prompt is
 * never cut here.
 */
export interface Generator {
  /** The models that are loaded. A model answers only while somebody has a lease of it. */
  readonly pool: ModelPool;
  /** The tokenizer of a loaded base. */
  tokenizer(baseId: string): Tokenizer;
  /** Yields tokens as they are drawn; the return value is the summary. */
  generate(request: GenerateRequest): AsyncGenerator<GeneratedToken, GenerateEnd, void>;
  /**
   * Greedy answers in a fixed batch shape: groups of 8 (of `slots` where that is less) in item order, padded, never in one batch
   * with anything else, so that the same items give the same text whatever else the machine does. Takes turns with chat, step by
   * step. Needs memory for a second pool of slots while it runs. Rejects with the signal's reason when it is aborted.
   */
  evaluate(request: EvaluateRequest): Promise<void>;
  /**
   * Exact log-probs (nats, over the whole vocabulary) of each row's tokens from promptLength on. Calls `onRow` after each
   * row.
   */
  score(
    model: ModelRef,
    rows: readonly { tokens: readonly number[]; promptLength: number }[],
    signal: AbortSignal,
    onRow?: (index: number) => void,
  ): Promise<Float64Array[]>;
  /** What a loaded base is for. */
  kind(baseId: string): ModelKind;
  /** One vector per text, in order. The model's start and end tokens are added to texts; token ids are read as they are. */
  embed(
    model: ModelRef,
    inputs: readonly (string | readonly number[])[],
    options: EmbedOptions,
  ): Promise<EmbeddedText[]>;
  /** The relevance of documents to a query by a cross-encoder, in order. */
  rank(model: ModelRef, query: string, documents: readonly string[], options: EmbedOptions): Promise<RankedDocument[]>;
  /** Busy slots and waiting requests of each loaded base that generates text. */
  occupancy(): Occupancy[];
  /** Tokens one slot can hold, prompt and completion together. */
  readonly slotContext: number;
  dispose(): Promise<void>;
}
