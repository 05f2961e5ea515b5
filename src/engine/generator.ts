// The interface between code that needs tokens and the engine that generates them. Nothing here refers to node-llama-cpp.
import { Failure } from "../base/errors.ts";
import type { Occupancy } from "../base/metrics.ts";
import type { ModelKind } from "./gguf/pooling.ts";

export type { ModelKind } from "./gguf/pooling.ts";

/** A base and, for an aligned model, its adapter; both are GGUF files. Paths come from the store, never from a request. */
export interface ModelRef {
  baseId: string;
  basePath: string;
  adapter?: { id: string; path: string };
}

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

/**
 * Tokens of a model that one slot can hold, prompt and completion together: the slot's size, or the training context if the
 * model states a smaller one.
 */
export const contextOf = (
  { slotContext }: Pick<Generator, "slotContext">,
  { trainContext }: Pick<Tokenizer, "trainContext">,
): number => Math.min(slotContext, trainContext || slotContext);

/** The refusal of a request for an answer, for models of the other kinds. */
export const answersNothing = (kind: string): Failure =>
  new Failure("wrong_kind", `The model is for ${kind} and does not generate answers; use another model`);

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

/** The kinds of waiting requests, in the order in which they get slots: interactive, evaluation, generation of data. */
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
  /** A conversation of the owner that continues. A request that needs a fresh slot takes slots of conversations last. */
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
  /** Called once, when the request takes its slot. */
  onSlot?: () => void;
}

export interface Steering {
  /** Tokens to take next instead of drawing. The grammar neither checks them nor advances by them. */
  take?: readonly number[];
  /** Whether the grammar applies from here on. Left out, nothing changes. At the beginning the grammar applies. */
  constrained?: boolean;
}

export interface PromptToken {
  token: number;
  /** The step that predicted the token; null for the first token, which has none. */
  step: { top: TopLogits; logZ: number; logprob: number } | null;
}

/**
 * The 64 most probable tokens of a step and their raw logits in descending order: the model's own, before temperature and
 * penalties. A logit bias affects which 64 tokens are kept, but `logits` and the order are without the bias. There are fewer
 * than 64 if the vocabulary is smaller.
 */
export interface TopLogits {
  tokens: Int32Array;
  logits: Float32Array;
}

/** One token of an answer. The token that ends the answer is the last one; its text is what was held back until then. */
export interface GeneratedToken {
  token: number;
  /** Text that became complete with this token. "" while a code point is unfinished or a stop string may have begun. */
  text: string;
  /** ln p over the 64 kept raw logits, in nats, whatever the sampling settings. */
  logprob: number;
  /** Always includes the token, even when a grammar or `steer` took one from outside the 64. */
  top: TopLogits;
  /** ln of the sum of e^logit over the whole vocabulary; null unless `exact`. ln p of a token is its logit minus this. */
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
  /** First item to report. The groups do not depend on it, so a restart inside a group runs the whole group again. */
  startAt: number;
}

export interface EvaluatedAnswer {
  text: string;
  /** Includes the token that ended the answer. */
  tokens: number[];
  steps: { logprob: number; top: TopLogits }[];
  finishReason: FinishReason;
  /** Computing time from the start of the answer's group to its last token, without waits for other work. */
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

/** Keeps a model loaded until the lease is released. */
export interface Lease extends AsyncDisposable {
  info: LoadedInfo;
  /**
   * Ends the lease. If it was the last lease of an aligned model, resolves once the adapter is unloaded; a base stays loaded
   * for a while. A second release does nothing.
   */
  release(): Promise<void>;
}

/**
 * Keeps account of who uses which loaded model. The library identifies adapters by path, so the name of an adapter's file must
 * contain a hash of its content.
 */
export interface ModelPool {
  /**
   * Loads the model unless it is loaded. Leases that are taken at the same time share one load. Undeploying a model waits for
   * leases for requests, not for leases for other work. Throws out_of_memory, model_load_failed, model_invalid,
   * load_ended_appliance, and load_cooling for a while after a load that failed.
   */
  lease(model: ModelRef, use: "request" | "work"): Promise<Lease>;
  /**
   * Takes a lease under a name, unless the name has a lease already, and keeps it until letGo. Calls of `hold` run one after
   * another. They try to load the model even while load_cooling would refuse a lease.
   */
  hold(name: string, model: ModelRef): Promise<void>;
  /** Releases the lease of that name, if there is one. */
  letGo(name: string): Promise<void>;
  /** Resolves when no request has a lease on the model. */
  quiet(model: ModelRef): Promise<void>;
  /** Unloads the base that has been idle for longest; false if none is idle. */
  freeIdle(): Promise<boolean>;
  isLoaded(model: ModelRef): boolean;
}

/**
 * Generates tokens with a base and its adapter. Throws Failure: model_load_failed, model_invalid, out_of_memory,
 * prompt_too_long, engine_busy, not_loaded, wrong_kind, inference_failed, engine_unusable, and validation for unknown token
 * ids. The prompt of an answer is never truncated here.
 */
export interface Generator {
  /** The loaded models. A model can be used only while there is a lease on it. */
  readonly pool: ModelPool;
  /** The tokenizer of a loaded base. */
  tokenizer(baseId: string): Tokenizer;
  /** Yields tokens as they are drawn; the return value is the summary. */
  generate(request: GenerateRequest): AsyncGenerator<GeneratedToken, GenerateEnd, void>;
  /**
   * Answers greedily in batches of a fixed shape: groups of 8 items (of `slots` items if that is less), in item order. The last
   * group is padded, and nothing else is in the batch, so that the same items give the same text whatever else the machine does.
   * Alternates with chat step by step, and with other evaluations and scorings by the base group by group. Needs memory for a
   * second context of this many slots while it runs. Rejects with the signal's reason if it is aborted.
   */
  evaluate(request: EvaluateRequest): Promise<void>;
  /**
   * Returns the exact log-probs (nats, over the whole vocabulary) of each row's tokens from promptLength on. Calls `onRow`
   * after each row.
   */
  score(
    model: ModelRef,
    rows: readonly { tokens: readonly number[]; promptLength: number }[],
    signal: AbortSignal,
    onRow?: (index: number) => void,
  ): Promise<Float64Array[]>;
  /** What a loaded base is for. */
  kind(baseId: string): ModelKind;
  /** Returns a vector per input, in order. The model's start and end tokens are added to texts, but not to token ids. */
  embed(
    model: ModelRef,
    inputs: readonly (string | readonly number[])[],
    options: EmbedOptions,
  ): Promise<EmbeddedText[]>;
  /** Returns the relevance of each document to a query by a cross-encoder, in the order of the documents. */
  rank(model: ModelRef, query: string, documents: readonly string[], options: EmbedOptions): Promise<RankedDocument[]>;
  /** Busy slots and waiting requests of each loaded base that generates text. */
  occupancy(): Occupancy[];
  /** The size of a slot in tokens. Of a model with a smaller context, a slot holds less: see contextOf. */
  readonly slotContext: number;
  dispose(): Promise<void>;
}
