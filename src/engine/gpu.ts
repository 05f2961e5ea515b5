// Who holds how much memory, and what fits beside what. Pure book-keeping: a model that does not fit is refused before the native
// code sees it, because an allocation that fails there ends the process. Without a GPU the memory is the machine's.
import type { GgufHeader } from "./gguf-header.ts";

export interface Grant {
  readonly holder: string;
  readonly bytes: number;
  readonly threads: number;
  /** Safe to call twice. */
  release(): void;
}

export interface Gpu {
  /** null when it does not fit. Threads are refused only to those who ask for them by number. */
  reserve(holder: string, bytes: number, threads?: number): Grant | null;
  /** Memory that counts as free: `giveBack` is called when somebody reserves it, and must release the grant at once. */
  lend(holder: string, bytes: number, giveBack: () => void): Grant | null;
  snapshot(): {
    memoryBytes: number;
    freeBytes: number;
    threads: number;
    freeThreads: number;
    grants: { holder: string; bytes: number; threads: number }[];
  };
}

export function createGpu(machine: { memoryBytes: number; threads: number }): Gpu {
  const grants = new Set<Grant>();
  const lent = new Map<Grant, () => void>();
  const sum = (of: Iterable<Grant>, what: "bytes" | "threads"): number =>
    [...of].reduce((total, grant) => total + grant[what], 0);
  const used = (what: "bytes" | "threads"): number => sum(grants, what);
  return {
    reserve: (holder, bytes, threads = 0) => {
      if (bytes > machine.memoryBytes - used("bytes") || threads > machine.threads - used("threads")) return null;
      const grant: Grant = { holder, bytes, threads, release: () => void grants.delete(grant) };
      grants.add(grant);
      for (const [loan, giveBack] of lent) {
        if (used("bytes") + sum(lent.keys(), "bytes") <= machine.memoryBytes) break;
        giveBack();
        loan.release();
      }
      return grant;
    },
    lend: (holder, bytes, giveBack) => {
      if (used("bytes") + sum(lent.keys(), "bytes") + bytes > machine.memoryBytes) return null;
      const loan: Grant = { holder, bytes, threads: 0, release: () => void lent.delete(loan) };
      lent.set(loan, giveBack);
      return loan;
    },
    snapshot: () => ({
      memoryBytes: machine.memoryBytes,
      freeBytes: machine.memoryBytes - used("bytes"),
      threads: machine.threads,
      freeThreads: machine.threads - used("threads"),
      grants: [...grants].map(({ holder, bytes, threads }) => ({ holder, bytes, threads })),
    }),
  };
}

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

/** What a header says of a model's size. A number it does not state counts as 0. */
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
export function contextBytes(shape: ModelShape, use: { seats: number; seatContext: number; batch: number }): number {
  const cells = use.seats * use.seatContext;
  const keysAndValues = shape.layers * shape.kvHeads * shape.headSize * 2 * 2 * cells;
  const compute = use.batch * 4 * (shape.vocabulary + 4 * shape.feedForward + 8 * shape.embedding);
  return keysAndValues + compute;
}

/** Bytes of a context that reads one text for its vector. The library keeps the logits of all tokens of a decode beside it. */
export const embeddingBytes = (shape: ModelShape, use: { tokens: number; batch: number }): number =>
  contextBytes(shape, { seats: 1, seatContext: use.tokens, batch: use.batch }) + 4 * use.batch * shape.vocabulary;

/** Bytes of a base with its pool of seats. */
export const baseBytes = (shape: ModelShape, use: { seats: number; seatContext: number; batch: number }): number =>
  shape.weightBytes + contextBytes(shape, use);
