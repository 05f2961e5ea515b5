// Accounting of memory and threads: who holds how much, and what still fits. Pure. A model that does not fit is refused
// before the native code sees it, because a failed allocation there ends the process.
//
// The machine's memory and the GPU's are separate pools. An eighth of the GPU's is reserved for inference, so that a run,
// which lasts for hours, leaves room for an evaluation or another model.
import type { GgufHeader } from "./header.ts";

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

export interface Pool {
  total: number;
  free: number;
}

export interface Gpu {
  /** Reports a GPU and its memory. The pool is limited to the `gpuBytes` setting, if that is set. */
  found(totalBytes: number): void;
  /** Reserves memory for inference; null when it does not fit. */
  reserve(holder: string, bytes: Bytes): Grant | null;
  /** As reserve, for a run. Also records the run's threads (as many as are free), so that inference does not use them. */
  reserveRun(holder: string, bytes: Bytes, threads: number): Grant | null;
  /**
   * Lends machine memory that still counts as free. `giveBack` is called when it is reserved, and must release the grant at
   * once.
   */
  lend(holder: string, bytes: number, giveBack: () => void): Grant | null;
  snapshot(): {
    machine: Pool;
    /** null until a GPU has been reported. */
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

/** `gpuBytes`: most of the GPU's memory to use; 0 = all of it. */
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

  function take(among: Set<Grant>, holder: string, bytes: Bytes, threads: number): Grant {
    const grant: Grant = { holder, bytes, threads, release: () => void among.delete(grant) };
    among.add(grant);
    for (const [loan, giveBack] of lent) {
      if (sum("machine", answers, runs, lent.keys()) <= machine.memoryBytes) break;
      giveBack();
      loan.release();
    }
    return grant;
  }

  return {
    found: (totalBytes) => {
      gpuBytes = machine.gpuBytes === 0 ? totalBytes : Math.min(machine.gpuBytes, totalBytes);
    },
    reserve: (holder, bytes) => (fits(bytes, free()) ? take(answers, holder, bytes, 0) : null),
    reserveRun: (holder, bytes, threads) =>
      fits(bytes, forRuns().free) ? take(runs, holder, bytes, Math.min(threads, freeThreads())) : null,
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
  heads: number;
  kvHeads: number;
  headSize: number;
  vocabulary: number;
}

/** Sizes of a model from its header. A number that the header does not state counts as 0. */
export function shapeOf(header: GgufHeader): ModelShape {
  const architecture = String(header.values.get("general.architecture") ?? "");
  const whole = (name: string): number => {
    const value = header.values.get(`${architecture}.${name}`);
    return typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : 0;
  };
  const tokens = header.values.get("tokenizer.ggml.tokens");
  const heads = whole("attention.head_count");
  const embedding = whole("embedding_length");
  return {
    weightBytes: header.tensors.reduce((sum, tensor) => sum + tensor.bytes, 0),
    layers: whole("block_count"),
    embedding,
    feedForward: whole("feed_forward_length"),
    heads,
    kvHeads: whole("attention.head_count_kv") || heads,
    headSize: whole("attention.key_length") || (heads > 0 ? Math.floor(embedding / heads) : 0),
    vocabulary: typeof tokens === "object" ? tokens.length : 0,
  };
}

/** Bytes of a context: keys and values in 16 bits, and the buffers of one decode of `batch` tokens. */
export function contextBytes(shape: ModelShape, use: { slots: number; slotContext: number; batch: number }): number {
  const cells = use.slots * use.slotContext;
  const keysAndValues = shape.layers * shape.kvHeads * shape.headSize * 2 * 2 * cells;
  const compute = use.batch * 4 * (shape.vocabulary + 4 * shape.feedForward + 8 * shape.embedding);
  return keysAndValues + compute;
}

/** Bytes of a context that reads one text for its vector. The library also keeps the logits of all tokens of a decode. */
export const embeddingBytes = (shape: ModelShape, use: { tokens: number; batch: number }): number =>
  contextBytes(shape, { slots: 1, slotContext: use.tokens, batch: use.batch }) + 4 * use.batch * shape.vocabulary;

/** Rows of the evaluation lane, or the number of slots where that is less. */
export const evaluationWidth = 8;
/** Tokens of a decode. */
export const batchTokens = 512;

/** Bytes of a base with its pool of slots. */
export const baseBytes = (shape: ModelShape, use: { slots: number; slotContext: number; batch: number }): number =>
  shape.weightBytes + contextBytes(shape, use);

/** Bytes of a model that answers while an evaluation runs: its lane takes as much as the pool of slots. */
export const evaluatedBytes = (shape: ModelShape, slotContext: number): number => {
  const use = { slots: evaluationWidth, slotContext, batch: batchTokens };
  return baseBytes(shape, use) + contextBytes(shape, use);
};
