// The one file that knows node-llama-cpp's insides. Its public API schedules sequences one by one, cuts long prompts without a
// word and hides raw logits; the addon under it does not. The names used here are checked at start: the version is pinned.
import type { Llama } from "node-llama-cpp";
import { Failure } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { loadDecodeThread } from "./decode-thread.ts";
import type { Tokenizer, TopLogits } from "./generator.ts";
import { type GgufHeader, readGgufHeader } from "./gguf-header.ts";
import { type Pooling, poolingOf, poolingOverrides } from "./pooling.ts";
import { checkModel } from "./soundness.ts";
import { createTokenizer, type NativeVocabulary } from "./tokenizer.ts";

/** As in node_modules/node-llama-cpp/dist/bindings/AddonTypes.d.ts, only what is used. */
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
    /** A copy. */
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

/** How many candidates a step keeps. */
export const keptLogits = 64;

export interface Native {
  readonly gpu: "cuda" | "vulkan" | "metal" | false;
  /** Bytes of the GPU's memory, whoever uses it; null without a GPU. */
  gpuMemory(): { total: number; free: number } | null;
  /** Throws model_invalid or model_load_failed. */
  openModel(path: string, options?: OpenOptions): Promise<NativeModel>;
}

export interface OpenOptions {
  /** The tokenizer without the weights. */
  vocabularyOnly?: boolean;
  /** Looks at every weight, and refuses what is no number; keeps them off the GPU. */
  onTrial?: boolean;
}

export interface NativeModel {
  readonly header: GgufHeader;
  readonly tokenizer: Tokenizer;
  readonly bytes: number;
  readonly parameters: number;
  /** Throws model_load_failed. The file name must carry a hash of the content when the file can ever change. */
  openAdapter(path: string): Promise<NativeAdapter>;
  openContext(shape: ContextShape): Promise<NativeContext>;
  /** At its beginning. Throws validation for a GBNF that the library does not take. */
  openGrammar(gbnf: string): NativeGrammar;
  openEmbeddingContext(shape: Omit<ContextShape, "sequences">): Promise<NativeEmbeddingContext>;
  /** The separator of a query and a document, or null. */
  readonly sep: number | null;
  /** What closes a text that is read whole. */
  readonly ends: readonly number[];
  /** Whether a cross-encoder's first output is a probability already: the library takes the softmax of these. */
  readonly ranksByProbability: boolean;
  dispose(): Promise<void>;
}

/** One sequence, read for its pooled state instead of its logits. The library gives that of its first sequence alone. */
export interface NativeEmbeddingContext {
  /** Tokens from `position` on; at 0 what was read before is forgotten. The pooled state of just these tokens. */
  read(tokens: readonly number[], position: number): Promise<Float64Array>;
  setAdapter(adapter: NativeAdapter | null): void;
  setThreads(threads: number): void;
  dispose(): Promise<void>;
}

/** Where an answer stands in a grammar. Its memory goes with the garbage. */
export interface NativeGrammar {
  readonly state: AddonGrammarState;
  /** Whether the token goes on from here; an end of generation, where the grammar may end. */
  allows(token: number): boolean;
  /** The token must be allowed and no end of generation: the library aborts the process on that. */
  accept(token: number): void;
}

export interface NativeAdapter {
  readonly addon: AddonLora;
  /** Only after no context uses it any more. */
  dispose(): Promise<void>;
}

export interface ContextShape {
  sequences: number;
  /** Tokens of one sequence. */
  seatContext: number;
  /** Most tokens of one decode. */
  batch: number;
  threads: number;
}

/** What one sequence adds to a step: its tokens, from `position` on, and where among them logits are wanted. */
export interface BatchPart {
  sequence: number;
  position: number;
  tokens: readonly number[] | Uint32Array;
  logitsAt: readonly number[];
}

/** Sequences hold their own cells. Nothing here may overlap a running `decode`. */
export interface NativeContext {
  readonly memoryBytes: number;
  /** One step; the answer holds, per part, the rows to sample from. */
  decode(parts: readonly BatchPart[]): Promise<number[][]>;
  openSampler(): NativeSampler;
  clear(sequence: number): void;
  /** Forgets the cells of a sequence from `position` on. false: this model cannot, and nothing was forgotten. */
  cut(sequence: number, position: number): boolean;
  /** Writes the cells of a sequence to a file; its bytes. null: they are still on their way from another sequence. */
  save(sequence: number, path: string): Promise<number | null>;
  /** Overwrites a sequence with what `save` wrote in this context; false: its place is still to be read, and nothing was done. */
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
  /** Added to the logits before the 64 are chosen; a token outside the 64 could not be raised otherwise. */
  setBias(bias: ReadonlyMap<number, number>): void;
  /** The kept logits of a row, as the model gave them: temperature 1 and a bare top-k leave them alone; a bias is taken off. */
  top(row: number): Promise<TopLogits>;
  /** The same of the tokens that a grammar allows, fewer where it allows fewer: costs a look at the whole vocabulary. */
  under(row: number, grammar: NativeGrammar): Promise<TopLogits>;
  /** ln p(token) over the whole vocabulary, in nats, the most probable token, and ln of the sum of e^logit over all. */
  exact(row: number, token: number): Promise<{ logprob: number; best: number; logZ: number }>;
  dispose(): void;
}

let opened: Promise<Native> | null = null;

/** Loads the library once a process: its import alone takes half a second, so nothing is imported before it is needed. */
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
        // The library's own notes go below ours: a load prints hundreds of lines.
        if (text.length > 3) log(level === "error" || level === "fatal" ? "warn" : "debug", "native", { text });
      },
    });
  } catch (cause) {
    throw new Failure("engine_unusable", `No inference binary runs here: ${(cause as Error).message}`, { cause });
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
    throw new Failure("engine_unusable", `node-llama-cpp is not the pinned version: it lacks ${missing.join(", ")}`);
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
    // More than any model has: all of them. What does not fit is refused before, by the memory book-keeping.
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
    sep: tokenOf(model.sepToken()),
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

const tokenOf = (token: number): number | null => (token < 0 ? null : token);
/** llama.cpp's number of WordPiece vocabularies. */
const wordPiece = 3;

/** WordPiece texts end with the separator; others with the end of text, where the file asks for it. */
function endsOf(model: AddonModel): number[] {
  if (model.getVocabularyType() === wordPiece) return [model.sepToken()].filter((token) => token >= 0);
  return model.shouldAppendEosToken() ? [model.tokenEos()].filter((token) => token >= 0) : [];
}

function parsedGrammar(addon: Addon, gbnf: string): AddonGrammar {
  try {
    return new addon.AddonGrammar(gbnf, { rootRuleName: "root" });
  } catch (cause) {
    throw new Failure("validation", "The inference library does not take the grammar of this request", { cause });
  }
}

async function mustLoad(what: string, load: () => Promise<unknown>): Promise<void> {
  try {
    if ((await load()) !== false) return;
  } catch (cause) {
    throw new Failure("model_load_failed", `${what}: ${(cause as Error).message}`, { cause });
  }
  throw new Failure("model_load_failed", `${what}: the library refused it; its reasons are in the log`);
}

async function openContext(addon: Addon, model: AddonModel, shape: ContextShape): Promise<NativeContext> {
  const context = new addon.AddonContext(model, {
    contextSize: shape.seatContext * shape.sequences,
    sequences: shape.sequences,
    batchSize: shape.batch,
    threads: shape.threads,
    flashAttention: "auto",
  });
  await mustLoad("a context", () => context.init());
  const { cpuRam, gpuVram } = context.getMemoryBreakdown();
  /** The library copies cells only when it decodes next: until then these are not what they will be, or are still wanted. */
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
    // A model with a sliding window forgets by itself what lies behind it: then what is left before `position` has holes.
    cut: (sequence, position) =>
      context.getSequenceKvCacheMinPosition(sequence) <= 0 &&
      context.removeTokenCellsFromSequence(sequence, position, -1),
    // Of the tokens that the file could carry the library wants one at least.
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
 * Tokens up to which a CPU reads a text sooner without flash attention: the library's goes row by row below 64 of them. Measured
 * (MiniLM, 1 thread): 32 tokens 22 ms and 34 with it, 63 tokens 49 and 86, 64 tokens 46 and 36, 512 tokens 668 and 362.
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
    contextSize: shape.seatContext,
    sequences: 1,
    batchSize: shape.batch,
    threads: shape.threads,
    flashAttention: !gpu && isEncoder && shape.seatContext <= shortText ? false : "auto",
    embeddings: true,
    ranking: by === "rank",
  });
  await mustLoad("an embedding context", () => context.init());
  return {
    read: async (tokens, position) => {
      // An encoder keeps no cells that could be forgotten.
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
  /** Temperature 1 and a bare top-k, with the bias of now. */
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
      // The library's own draw moves the state it is given: a copy.
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
      // Pairs (token, logit) of the wanted token and of the best one, which may be the same.
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

/** pairs: token, logit, token, logit, by falling logit. */
function topOf(pairs: readonly number[], bias: ReadonlyMap<number, number>): TopLogits {
  const places: number[] = [];
  // What a grammar refuses stands at −∞.
  for (let at = 0; at < pairs.length; at += 2) if (pairs[at + 1]! > Number.NEGATIVE_INFINITY) places.push(at);
  const logitAt = (at: number): number => pairs[at + 1]! - (bias.get(pairs[at]!) ?? 0);
  if (bias.size > 0) places.sort((a, b) => logitAt(b) - logitAt(a));
  return {
    tokens: Int32Array.from(places, (at) => pairs[at]!),
    logits: Float32Array.from(places, logitAt),
  };
}
