// Keeps account of memory and threads: who holds how much, and what still fits. A model that does not fit is refused before
// the native code loads it, because a failed allocation there ends the process. Nothing here does I/O.
//
// The machine's memory and the GPU's memory are separate pools. An eighth of the GPU's memory is reserved for inference, so
// that a run, which lasts for hours, leaves room for an evaluation or another model.
import type { GgufHeader, GgufValue } from "./header.ts";

/** Bytes in each pool. */
export interface Bytes {
  machine: number;
  gpu: number;
}

export interface Grant {
  readonly holder: string;
  readonly bytes: Bytes;
  readonly threads: number;
  /** Safe to call twice. */
  release(): void;
}

/** What a run holds. */
export interface RunGrant extends Grant {
  /** Lends the threads to inference until `resume`. The memory stays reserved. */
  rest(): void;
  /** Takes as many of its threads back as are free. */
  resume(): void;
}

export interface Pool {
  total: number;
  free: number;
}

export interface Gpu {
  /** Called when a GPU has been found. The GPU's pool then has this size, or that of the setting `gpuBytes` if it is smaller. */
  found(totalBytes: number): void;
  /** Reserves memory for inference; null if it does not fit. */
  reserve(holder: string, bytes: Bytes): Grant | null;
  /** Like reserve, but for a run. Also reserves as many of the threads as are free, so that inference does not use them. */
  reserveRun(holder: string, bytes: Bytes, threads: number): RunGrant | null;
  /**
   * Lends machine memory, which still counts as free; null if it does not fit. `giveBack` is called when a reservation needs
   * the memory. It must free the memory at once.
   */
  lend(holder: string, bytes: number, giveBack: () => void): Grant | null;
  snapshot(): {
    machine: Pool;
    /** Null until a GPU has been found. */
    gpu: Pool | null;
    /** Memory that runs may take: in total, and now. */
    runs: { total: Bytes; free: Bytes };
    threads: number;
    freeThreads: number;
    grants: { holder: string; bytes: Bytes; threads: number }[];
  };
}

/** Share of the GPU's memory that only inference may use. */
const answersShare = 1 / 8;

/** `gpuBytes` is the maximum of the GPU's memory to use; 0 means all of it. */
export function createGpu(machine: { memoryBytes: number; gpuBytes: number; threads: number }): Gpu {
  const answers = new Set<Grant>();
  const runs = new Set<Grant>();
  const lent = new Map<Grant, () => void>();
  let gpuBytes: number | null = null;
  const sum = (pool: keyof Bytes, ...of: Iterable<Grant>[]): number =>
    of.flatMap((grants) => [...grants]).reduce((total, grant) => total + grant.bytes[pool], 0);
  const free = (): Bytes => ({
    machine: machine.memoryBytes - sum("machine", answers, runs),
    gpu: (gpuBytes ?? 0) - sum("gpu", answers, runs),
  });
  const forRuns = (): { total: Bytes; free: Bytes } => {
    const gpu = Math.floor((gpuBytes ?? 0) * (1 - answersShare));
    const left = free();
    return {
      total: { machine: machine.memoryBytes, gpu },
      free: { machine: left.machine, gpu: Math.min(left.gpu, gpu - sum("gpu", runs)) },
    };
  };
  const freeThreads = (): number => machine.threads - [...runs].reduce((total, grant) => total + grant.threads, 0);

  function take(among: Set<Grant>, grant: Grant): void {
    among.add(grant);
    for (const [loan, giveBack] of lent) {
      if (sum("machine", answers, runs, lent.keys()) <= machine.memoryBytes) break;
      giveBack();
      loan.release();
    }
  }

  function forAnswers(holder: string, bytes: Bytes): Grant {
    const grant: Grant = { holder, bytes, threads: 0, release: () => void answers.delete(grant) };
    take(answers, grant);
    return grant;
  }

  function forRun(holder: string, bytes: Bytes, wanted: number): RunGrant {
    const given = (): number => Math.min(wanted, freeThreads());
    const grant = {
      holder,
      bytes,
      threads: given(),
      release: () => void runs.delete(grant),
      rest: () => {
        grant.threads = 0;
      },
      resume: () => {
        grant.threads = 0;
        grant.threads = given();
      },
    };
    take(runs, grant);
    return grant;
  }

  return {
    found: (totalBytes) => {
      gpuBytes = machine.gpuBytes === 0 ? totalBytes : Math.min(machine.gpuBytes, totalBytes);
    },
    reserve: (holder, bytes) => (fits(bytes, free()) ? forAnswers(holder, bytes) : null),
    reserveRun: (holder, bytes, threads) => (fits(bytes, forRuns().free) ? forRun(holder, bytes, threads) : null),
    lend: (holder, bytes, giveBack) => {
      if (sum("machine", answers, runs, lent.keys()) + bytes > machine.memoryBytes) return null;
      const loan: Grant = {
        holder,
        bytes: { machine: bytes, gpu: 0 },
        threads: 0,
        release: () => void lent.delete(loan),
      };
      lent.set(loan, giveBack);
      return loan;
    },
    snapshot: () => {
      const left = free();
      return {
        machine: { total: machine.memoryBytes, free: left.machine },
        gpu: gpuBytes === null ? null : { total: gpuBytes, free: left.gpu },
        runs: forRuns(),
        threads: machine.threads,
        freeThreads: freeThreads(),
        grants: [...answers, ...runs].map(({ holder, bytes, threads }) => ({ holder, bytes, threads })),
      };
    },
  };
}

/** A size for display, rounded up. */
export const mebibytes = (bytes: number): string => `${Math.ceil(bytes / (1 << 20))} MiB`;

export const fits = (bytes: Bytes, free: Bytes): boolean => bytes.machine <= free.machine && bytes.gpu <= free.gpu;

export interface ModelShape {
  weightBytes: number;
  layers: number;
  embedding: number;
  feedForward: number;
  /** Heads of a layer: the first that has any. */
  heads: number;
  /** Heads of keys and values, of all layers together. */
  cachedHeads: number;
  headSize: number;
  vocabulary: number;
}

/** Sizes of a model from its header. A number that the header does not state counts as 0. */
export function shapeOf(header: GgufHeader): ModelShape {
  const architecture = String(header.values.get("general.architecture") ?? "");
  const stated = (name: string): GgufValue | undefined => header.values.get(`${architecture}.${name}`);
  const wholeOf = (value: GgufValue | undefined): number =>
    typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : 0;
  const whole = (name: string): number => wholeOf(stated(name));
  const layers = whole("block_count");
  /** The heads of each layer; one number stands for all layers. */
  const headsOf = (name: string): number[] => {
    const value = stated(name);
    return typeof value === "object" ? (value.numbers ?? []).map(wholeOf) : [wholeOf(value)];
  };
  const inAll = (heads: readonly number[]): number =>
    heads.length === 1 ? layers * heads[0]! : heads.reduce((sum, count) => sum + count, 0);
  const tokens = header.values.get("tokenizer.ggml.tokens");
  const queryHeads = headsOf("attention.head_count");
  const heads = queryHeads.find((count) => count > 0) ?? 0;
  const embedding = whole("embedding_length");
  return {
    weightBytes: header.tensors.reduce((sum, tensor) => sum + tensor.bytes, 0),
    layers,
    embedding,
    feedForward: whole("feed_forward_length"),
    heads,
    cachedHeads: inAll(headsOf("attention.head_count_kv")) || inAll(queryHeads),
    headSize: whole("attention.key_length") || (heads > 0 ? Math.floor(embedding / heads) : 0),
    vocabulary: typeof tokens === "object" ? tokens.length : 0,
  };
}

/** Bytes of a context: keys and values in 16 bits, and the buffers of one decode of `batch` tokens. */
export function contextBytes(shape: ModelShape, use: { slots: number; slotContext: number; batch: number }): number {
  const cells = use.slots * use.slotContext;
  const keysAndValues = shape.cachedHeads * shape.headSize * 2 * 2 * cells;
  const compute = use.batch * 4 * (shape.vocabulary + 4 * shape.feedForward + 8 * shape.embedding);
  return keysAndValues + compute;
}

/** Bytes of a context that computes the vector of one text. The library also keeps the logits of all tokens of a decode. */
export const embeddingBytes = (shape: ModelShape, use: { tokens: number; batch: number }): number =>
  contextBytes(shape, { slots: 1, slotContext: use.tokens, batch: use.batch }) + 4 * use.batch * shape.vocabulary;

/** Number of rows of the evaluation lane. It has fewer if there are fewer slots. */
export const evaluationWidth = 8;
/** Maximum number of tokens of a decode. */
export const batchTokens = 512;

/** Bytes of a base with its pool of slots. */
export const baseBytes = (shape: ModelShape, use: { slots: number; slotContext: number; batch: number }): number =>
  shape.weightBytes + contextBytes(shape, use);

/** Bytes of a base with a pool of `evaluationWidth` slots and an evaluation lane of the same size. */
export const evaluatedBytes = (shape: ModelShape, slotContext: number): number => {
  const use = { slots: evaluationWidth, slotContext, batch: batchTokens };
  return baseBytes(shape, use) + contextBytes(shape, use);
};
