// The only file that uses node-llama-cpp's internals. The public API schedules sequences one by one, silently truncates long
// prompts and hides raw logits; the native addon beneath it does not. The members of the addon that are used here are checked
// when the library is loaded, and the version is pinned.
import type { Llama } from "node-llama-cpp";
import { Failure } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { createTokenizer, type NativeVocabulary, present } from "../format/tokenizer.ts";
import type { Tokenizer, TopLogits } from "../generator.ts";
import { type GgufHeader, readGgufHeader } from "../gguf/header.ts";
import { type Pooling, poolingOf, poolingOverrides } from "../gguf/pooling.ts";
import { checkModel } from "../gguf/soundness.ts";
import { loadDecodeThread } from "./decode-thread.ts";

/** The part of node_modules/node-llama-cpp/dist/bindings/AddonTypes.d.ts that is used here. */
interface AddonModel extends NativeVocabulary {
  init(): Promise<boolean>;
  loadLora(lora: AddonLora): Promise<void>;
  getTotalSize(): number;
  getTotalParameters(): number;
  sepToken(): number;
  shouldAppendEosToken(): boolean;
  dispose(): Promise<void>;
}

interface AddonLora {
  dispose(): Promise<void>;
}

interface AddonGrammar {
  isTextCompatible(text: string): boolean;
}

/** Opaque. */
type AddonGrammarState = { readonly grammarState: never };

interface AddonSampler {
  applyConfig(config: {
    temperature: number;
    topK?: number;
    topP?: number;
    minP?: number;
    seed?: number;
    tokenBiasKeys?: Uint32Array;
    tokenBiasValues?: Float32Array;
    grammarEvaluationState?: AddonGrammarState;
  }): void;
  dispose(): void;
}

interface AddonContext {
  init(): Promise<boolean>;
  initBatch(size: number): void;
  addToBatch(sequence: number, position: number, tokens: Uint32Array, logitsAt: Uint32Array): Uint32Array;
  decodeBatch(): Promise<void>;
  sampleToken(
    row: number,
    sampler: AddonSampler,
    probabilities: boolean,
    confidence: boolean,
    logits: boolean | [tokens: number[], max: boolean, min: boolean, selected: boolean, top: number],
    totalLogitWeight: boolean,
  ): Promise<[token: number, unknown, unknown, logits: number[] | undefined, totalLogitWeight: number | undefined]>;
  disposeSequence(sequence: number): void;
  removeTokenCellsFromSequence(sequence: number, from: number, to: number): boolean;
  copySequenceStateFromOtherSequence(to: number, from: number): Promise<number>;
  getSequenceKvCacheMinPosition(sequence: number): number;
  saveSequenceStateToFile(path: string, sequence: number, tokens: Uint32Array): Promise<number>;
  loadSequenceStateFromFile(path: string, sequence: number, mostTokens: number): Promise<Uint32Array>;
  setLoras(loras: AddonLora[], scales: number[]): void;
  setThreads(threads: number): void;
  getMemoryBreakdown(): { cpuRam: number; gpuVram: number };
  getEmbedding(tokens: number): Float64Array;
  dispose(): Promise<void>;
}

interface Addon {
  AddonModel: new (path: string, options: Record<string, unknown>) => AddonModel;
  AddonModelLora: new (model: AddonModel, path: string) => AddonLora;
  AddonContext: new (model: AddonModel, options: Record<string, unknown>) => AddonContext;
  AddonGrammar: new (gbnf: string, options: { rootRuleName: string }) => AddonGrammar;
  AddonGrammarEvaluationState: {
    new (model: AddonModel, grammar: AddonGrammar): AddonGrammarState;
    /** Copies a state. */
    new (state: AddonGrammarState): AddonGrammarState;
  };
  AddonSampler: (new (
    model: AddonModel,
  ) => AddonSampler) & {
    canBeNextTokenForGrammarEvaluationState(state: AddonGrammarState, token: number): boolean;
    acceptGrammarEvaluationStateToken(state: AddonGrammarState, token: number): void;
  };
  getGpuVramInfo(): { total: number; used: number };
}

type Class = "AddonModel" | "AddonModelLora" | "AddonContext" | "AddonSampler" | "AddonGrammar";

const expected: Record<Class, string[]> = {
  AddonModel: [
    "init",
    "loadLora",
    "tokenize",
    "detokenize",
    "getTokenString",
    "getTokenAttributes",
    "isEogToken",
    "getVocabularyType",
    "shouldPrependBosToken",
    "tokenBos",
    "tokenEos",
    "sepToken",
    "shouldAppendEosToken",
    "getTotalSize",
    "getTotalParameters",
    "dispose",
  ],
  AddonModelLora: ["dispose"],
  AddonContext: [
    "init",
    "initBatch",
    "addToBatch",
    "decodeBatch",
    "sampleToken",
    "disposeSequence",
    "removeTokenCellsFromSequence",
    "copySequenceStateFromOtherSequence",
    "getSequenceKvCacheMinPosition",
    "saveSequenceStateToFile",
    "loadSequenceStateFromFile",
    "setLoras",
    "setThreads",
    "getEmbedding",
    "getMemoryBreakdown",
    "dispose",
  ],
  AddonSampler: ["applyConfig", "dispose"],
  AddonGrammar: ["isTextCompatible"],
};

const expectedStatics = ["canBeNextTokenForGrammarEvaluationState", "acceptGrammarEvaluationStateToken"];

/** Number of most probable tokens whose logits are kept at each step. */
const keptLogits = 64;

export interface Native {
  readonly gpu: "cuda" | "vulkan" | "metal" | false;
  /** Bytes of the GPU's memory; memory that any process uses is not free. Null without a GPU. */
  gpuMemory(): { total: number; free: number } | null;
  /** Throws model_invalid or model_load_failed. */
  openModel(path: string, options?: OpenOptions): Promise<NativeModel>;
}

export interface OpenOptions {
  /** Loads the tokenizer without the weights. */
  vocabularyOnly?: boolean;
  /** Refuses a file with a weight that is not a finite number, and keeps the weights off the GPU. */
  onTrial?: boolean;
}

export interface NativeModel {
  readonly header: GgufHeader;
  readonly tokenizer: Tokenizer;
  readonly bytes: number;
  readonly parameters: number;
  /**
   * Throws model_load_failed. The library identifies an adapter by its path, so the name of a file that can change must contain a
   * hash of its content.
   */
  openAdapter(path: string): Promise<NativeAdapter>;
  openContext(shape: ContextShape): Promise<NativeContext>;
  /** A grammar in its initial state. Throws validation for GBNF that the library rejects. */
  openGrammar(gbnf: string): NativeGrammar;
  openEmbeddingContext(shape: Omit<ContextShape, "sequences">): Promise<NativeEmbeddingContext>;
  /** Token that separates a query from a document, or null. */
  readonly sep: number | null;
  /** Tokens that are added to the end of a text that is read for its vector. */
  readonly ends: readonly number[];
  /** Whether a cross-encoder's first output is already a probability, because the library applies softmax for such models. */
  readonly ranksByProbability: boolean;
  dispose(): Promise<void>;
}

/**
 * A context of one sequence, which is read for its pooled state instead of its logits. The library returns this state for the first
 * sequence of a context only.
 */
export interface NativeEmbeddingContext {
  /** Reads tokens from `position` on; reading from 0 discards earlier tokens. Returns the pooled state of just these tokens. */
  read(tokens: readonly number[], position: number): Promise<Float64Array>;
  setAdapter(adapter: NativeAdapter | null): void;
  setThreads(threads: number): void;
  dispose(): Promise<void>;
}

/** State of an answer within a grammar. Its memory is freed by garbage collection. */
export interface NativeGrammar {
  readonly state: AddonGrammarState;
  /** Whether the grammar allows this token next; an end-of-generation token is allowed where the grammar may end. */
  allows(token: number): boolean;
  /** Advances by a token. The token must be allowed and must not end generation; any other makes the library abort the process. */
  accept(token: number): void;
}

export interface NativeAdapter {
  readonly addon: AddonLora;
  /** Call it only when no context uses the adapter any more. */
  dispose(): Promise<void>;
}

export interface ContextShape {
  sequences: number;
  /** Tokens of one sequence. */
  slotContext: number;
  /** Maximum number of tokens per decode. */
  batch: number;
  threads: number;
}

/** One sequence's part of a step: its tokens, from `position` on, and the indices among them at which logits are wanted. */
export interface BatchPart {
  sequence: number;
  position: number;
  tokens: readonly number[] | Uint32Array;
  logitsAt: readonly number[];
}

/** Each sequence has its own cells. No other call may overlap a running `decode`. */
export interface NativeContext {
  readonly memoryBytes: number;
  /** Runs one step. Returns the rows to sample from, for each part. */
  decode(parts: readonly BatchPart[]): Promise<number[][]>;
  openSampler(): NativeSampler;
  clear(sequence: number): void;
  /** Removes the cells of a sequence from `position` on. Returns false, and removes nothing, if the model cannot do this. */
  cut(sequence: number, position: number): boolean;
  /**
   * Writes the cells of a sequence to a file and returns the file's size in bytes. Returns null, and writes nothing, while a copy
   * from or to the sequence is pending.
   */
  save(sequence: number, path: string): Promise<number | null>;
  /**
   * Overwrites a sequence with what `save` wrote in this context. Returns false, and does nothing, while a copy from or to the
   * sequence is pending.
   */
  restore(sequence: number, path: string): Promise<boolean>;
  /** Overwrites `to` with the cells of `from`. */
  copy(from: number, to: number): Promise<void>;
  /** Overwrites `to` with the cells of `from`, and clears `from`. */
  move(from: number, to: number): Promise<void>;
  setAdapter(adapter: NativeAdapter | null): void;
  setThreads(threads: number): void;
  dispose(): Promise<void>;
}

export interface NativeSampler {
  /** Sets a bias on logits. It is added before the 64 are chosen, so that it can raise a token from outside them. */
  setBias(bias: ReadonlyMap<number, number>): void;
  /**
   * The kept logits of a row as the model gave them. Temperature 1 and a plain top-k do not change logits, and a bias is subtracted
   * again.
   */
  top(row: number): Promise<TopLogits>;
  /** As `top`, for the tokens that a grammar allows, which may be fewer than 64. Goes through the whole vocabulary. */
  under(row: number, grammar: NativeGrammar): Promise<TopLogits>;
  /**
   * `logprob`: ln p(token) over the whole vocabulary, in nats. `best`: the most probable token. `logZ`: ln of the sum of e^logit
   * over all tokens.
   */
  exact(row: number, token: number): Promise<{ logprob: number; best: number; logZ: number }>;
  dispose(): void;
}

let opened: Promise<Native> | null = null;

/** Loads the library once per process, on first use, because its import alone takes half a second. Throws engine_unusable. */
export function openNative(log: Log): Promise<Native> {
  opened ??= open(log).catch((error) => {
    opened = null;
    throw error;
  });
  return opened;
}

async function open(log: Log): Promise<Native> {
  loadDecodeThread(log);
  const { getLlama } = await import("node-llama-cpp");
  let llama: Llama;
  try {
    llama = await getLlama({
      gpu: "auto",
      build: "never",
      skipDownload: true,
      usePrebuiltBinaries: true,
      progressLogs: false,
      logger: (level, message) => {
        const text = message.trim();
        // Log the library's messages at a lower level than their own, because a load prints hundreds of lines.
        if (text.length > 3) log(level === "error" || level === "fatal" ? "warn" : "debug", "native", { text });
      },
    });
  } catch (cause) {
    throw new Failure(
      "engine_unusable",
      `The inference library does not run on this machine: ${(cause as Error).message}`,
      { cause },
    );
  }
  const addon = checkedAddon(llama);
  return {
    gpu: llama.gpu,
    gpuMemory: () => {
      if (llama.gpu === false) return null;
      const { total, used } = addon.getGpuVramInfo();
      return { total, free: total - used };
    },
    openModel: (path, options) => openModel(addon, llama.gpu !== false, path, options ?? {}),
  };
}

function checkedAddon(llama: Llama): Addon {
  const addon = (llama as unknown as { _bindings?: Record<string, { prototype?: object } | undefined> })._bindings;
  const missing: string[] = [];
  for (const [name, methods] of Object.entries(expected)) {
    const prototype = addon?.[name]?.prototype;
    for (const method of methods)
      if (prototype === undefined || !(method in prototype)) missing.push(`${name}.${method}`);
  }
  const statics = addon?.AddonSampler as object | undefined;
  for (const method of expectedStatics)
    if (statics === undefined || !(method in statics)) missing.push(`AddonSampler.${method}`);
  if (addon?.AddonGrammarEvaluationState === undefined) missing.push("AddonGrammarEvaluationState");
  if (missing.length > 0)
    throw new Failure("engine_unusable", `node-llama-cpp is not the pinned version: ${missing.join(", ")} is missing`);
  return addon as unknown as Addon;
}

async function openModel(addon: Addon, gpu: boolean, path: string, options: OpenOptions): Promise<NativeModel> {
  const { vocabularyOnly = false, onTrial = false } = options;
  const header = readGgufHeader(path);
  checkModel(header);
  const model = new addon.AddonModel(path, {
    addonExports: addon,
    vocabOnly: vocabularyOnly,
    useMmap: true,
    overridesList: poolingOverrides(header),
    // 9999 is more than the layers of any model, so all layers go to the GPU. The memory accounting has already refused models
    // that do not fit.
    gpuLayers: gpu && !vocabularyOnly && !onTrial ? 9999 : 0,
    checkTensors: onTrial,
  });
  await mustLoad(`the model ${path}`, () => model.init());
  return {
    header,
    tokenizer: createTokenizer(model, header),
    bytes: vocabularyOnly ? 0 : model.getTotalSize(),
    parameters: vocabularyOnly ? 0 : model.getTotalParameters(),
    openAdapter: async (adapterPath) => {
      const lora = new addon.AddonModelLora(model, adapterPath);
      await mustLoad(`the adapter ${adapterPath}`, () => model.loadLora(lora));
      return { addon: lora, dispose: () => lora.dispose() };
    },
    openContext: (shape) => openContext(addon, model, shape),
    openEmbeddingContext: (shape) => openEmbeddingContext(addon, gpu, model, shape, poolingOf(header)),
    sep: present(model.sepToken()),
    ends: endsOf(model),
    ranksByProbability: /^qwen3(vl)?$/.test(String(header.values.get("general.architecture"))),
    openGrammar: (gbnf) => {
      const state = new addon.AddonGrammarEvaluationState(model, parsedGrammar(addon, gbnf));
      return {
        state,
        allows: (token) => addon.AddonSampler.canBeNextTokenForGrammarEvaluationState(state, token),
        accept: (token) => addon.AddonSampler.acceptGrammarEvaluationStateToken(state, token),
      };
    },
    dispose: () => model.dispose(),
  };
}

/** llama.cpp's number for WordPiece vocabularies. */
const wordPiece = 3;

/** The tokens that end a text: the separator for WordPiece, otherwise the end-of-text token if the file says to append it. */
function endsOf(model: AddonModel): number[] {
  if (model.getVocabularyType() === wordPiece) return [model.sepToken()].filter((token) => token >= 0);
  return model.shouldAppendEosToken() ? [model.tokenEos()].filter((token) => token >= 0) : [];
}

function parsedGrammar(addon: Addon, gbnf: string): AddonGrammar {
  try {
    return new addon.AddonGrammar(gbnf, { rootRuleName: "root" });
  } catch (cause) {
    throw new Failure("validation", "The inference library rejected the grammar of this request", { cause });
  }
}

async function mustLoad(what: string, load: () => Promise<unknown>): Promise<void> {
  try {
    if ((await load()) !== false) return;
  } catch (cause) {
    throw new Failure("model_load_failed", `${what}: ${(cause as Error).message}`, { cause });
  }
  throw new Failure("model_load_failed", `${what}: the library rejected it; the log has the reasons`);
}

async function openContext(addon: Addon, model: AddonModel, shape: ContextShape): Promise<NativeContext> {
  const context = new addon.AddonContext(model, {
    contextSize: shape.slotContext * shape.sequences,
    sequences: shape.sequences,
    batchSize: shape.batch,
    threads: shape.threads,
    flashAttention: "auto",
  });
  await mustLoad("a context", () => context.init());
  const { cpuRam, gpuVram } = context.getMemoryBreakdown();
  /**
   * Sequences with a pending copy. The library copies cells only at its next decode. Until then, the target does not have its cells
   * yet, and the cells of the source are still needed.
   */
  const copied = new Set<number>();
  const copy = async (from: number, to: number): Promise<void> => {
    copied.add(from).add(to);
    await context.copySequenceStateFromOtherSequence(to, from);
  };
  return {
    memoryBytes: cpuRam + gpuVram,
    decode: async (parts) => {
      copied.clear();
      context.initBatch(parts.reduce((sum, part) => sum + part.tokens.length, 0));
      const rows = parts.map(({ sequence, position, tokens, logitsAt }) => [
        ...context.addToBatch(sequence, position, Uint32Array.from(tokens), Uint32Array.from(logitsAt)),
      ]);
      await context.decodeBatch();
      return rows;
    },
    openSampler: () => openSampler(addon, model, context),
    clear: (sequence) => context.disposeSequence(sequence),
    // A model with a sliding window drops the cells behind the window, so the cells before `position` may be incomplete.
    cut: (sequence, position) =>
      context.getSequenceKvCacheMinPosition(sequence) <= 0 &&
      context.removeTokenCellsFromSequence(sequence, position, -1),
    // The file also holds tokens, of which the library requires at least one.
    save: async (sequence, path) =>
      copied.has(sequence) ? null : context.saveSequenceStateToFile(path, sequence, Uint32Array.of(0)),
    restore: async (sequence, path) => {
      if (copied.has(sequence)) return false;
      context.disposeSequence(sequence);
      await context.loadSequenceStateFromFile(path, sequence, 1);
      return true;
    },
    copy,
    move: async (from, to) => {
      await copy(from, to);
      context.disposeSequence(from);
    },
    setAdapter: (adapter) => (adapter === null ? context.setLoras([], []) : context.setLoras([adapter.addon], [1])),
    setThreads: (threads) => context.setThreads(threads),
    dispose: () => context.dispose(),
  };
}

/**
 * Length in tokens up to which a CPU reads a text faster without flash attention, because below 64 tokens the library's flash
 * attention goes row by row. Measured without and with flash attention (MiniLM, 1 thread): 32 tokens take 22 and 34 ms, 63 tokens
 * 49 and 86 ms, 64 tokens 46 and 36 ms, and 512 tokens 668 and 362 ms.
 */
export const shortText = 63;

async function openEmbeddingContext(
  addon: Addon,
  gpu: boolean,
  model: AddonModel,
  shape: Omit<ContextShape, "sequences">,
  { by, isEncoder }: Pooling,
): Promise<NativeEmbeddingContext> {
  const context = new addon.AddonContext(model, {
    contextSize: shape.slotContext,
    sequences: 1,
    batchSize: shape.batch,
    threads: shape.threads,
    flashAttention: !gpu && isEncoder && shape.slotContext <= shortText ? false : "auto",
    embeddings: true,
    ranking: by === "rank",
  });
  await mustLoad("an embedding context", () => context.init());
  return {
    read: async (tokens, position) => {
      // An encoder keeps no cells, so there is nothing to clear.
      if (position === 0 && !isEncoder) context.disposeSequence(0);
      context.initBatch(shape.batch);
      context.addToBatch(0, position, Uint32Array.from(tokens), Uint32Array.of(tokens.length - 1));
      await context.decodeBatch();
      return context.getEmbedding(tokens.length);
    },
    setAdapter: (adapter) => (adapter === null ? context.setLoras([], []) : context.setLoras([adapter.addon], [1])),
    setThreads: (threads) => context.setThreads(threads),
    dispose: () => context.dispose(),
  };
}

function openSampler(addon: Addon, model: AddonModel, context: AddonContext): NativeSampler {
  let bias: ReadonlyMap<number, number> = new Map();
  /** Sets temperature 1 and a plain top-k, with the current bias. */
  const configure = (sampler: AddonSampler, more: { grammarEvaluationState?: AddonGrammarState } = {}): void =>
    sampler.applyConfig({
      ...{ temperature: 1, topK: keptLogits, topP: 1, minP: 0, seed: 0 },
      ...(bias.size > 0 && {
        tokenBiasKeys: Uint32Array.from(bias.keys()),
        tokenBiasValues: Float32Array.from(bias.values()),
      }),
      ...more,
    });
  const logitsOf = async (row: number, sampler: AddonSampler): Promise<TopLogits> =>
    topOf((await context.sampleToken(row, sampler, false, false, true, false))[3]!, bias);
  const kept = new addon.AddonSampler(model);
  configure(kept);
  let bound: AddonSampler | null = null;
  let greedy: AddonSampler | null = null;
  return {
    setBias: (next) => {
      if (next.size === 0 && bias.size === 0) return;
      bias = next;
      configure(kept);
    },
    top: (row) => logitsOf(row, kept),
    under: (row, { state }) => {
      bound ??= new addon.AddonSampler(model);
      // The library's own draw advances the state that it is given, so it is given a copy.
      configure(bound, { grammarEvaluationState: new addon.AddonGrammarEvaluationState(state) });
      return logitsOf(row, bound);
    },
    exact: async (row, token) => {
      if (greedy === null) {
        greedy = new addon.AddonSampler(model);
        greedy.applyConfig({ temperature: 0 });
      }
      const filter: [number[], boolean, boolean, boolean, number] = [[token], false, false, true, 0];
      const answer = await context.sampleToken(row, greedy, false, false, filter, true);
      const [best, logits, weight] = [answer[0], answer[3]!, answer[4]!];
      // `logits` alternates token and logit, for the wanted token and for the best one, which may be the same.
      const logitOf = (id: number): number =>
        logits[logits.findIndex((value, at) => at % 2 === 0 && value === id) + 1]!;
      const logZ = logitOf(best) + Math.log(weight);
      return { logprob: logitOf(token) - logZ, best, logZ };
    },
    dispose: () => {
      kept.dispose();
      bound?.dispose();
      greedy?.dispose();
    },
  };
}

/** Splits `pairs`, which alternates token and logit by falling logit, and subtracts the bias from the logits. */
function topOf(pairs: readonly number[], bias: ReadonlyMap<number, number>): TopLogits {
  const places: number[] = [];
  // Tokens that a grammar refuses have a logit of −∞.
  for (let at = 0; at < pairs.length; at += 2) if (pairs[at + 1]! > Number.NEGATIVE_INFINITY) places.push(at);
  const logitAt = (at: number): number => pairs[at + 1]! - (bias.get(pairs[at]!) ?? 0);
  if (bias.size > 0) places.sort((a, b) => logitAt(b) - logitAt(a));
  return {
    tokens: Int32Array.from(places, (at) => pairs[at]!),
    logits: Float32Array.from(places, logitAt),
  };
}
