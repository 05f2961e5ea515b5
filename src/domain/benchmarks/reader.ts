// Reads benchmarks in worker threads, as for documents. A hostile file fails only its own upload.
import { createReaders } from "../../base/readers.ts";
import type { Item } from "../../catalog/benchmarks.ts";

export interface BenchmarkReader {
  /**
   * `owner`: the user whose turn it takes. Throws benchmark_invalid or benchmark_limit; bad_request if `signal` aborts.
   */
  read(owner: string, name: string, text: string, signal: AbortSignal): Promise<Item[]>;
  close(): Promise<void>;
}

/** `seconds`: computing time allowed for a file of so many bytes, if it is not the default. */
export function createBenchmarkReader(seconds?: (bytes: number) => number): BenchmarkReader {
  const readers = createReaders(new URL("./read.worker.ts", import.meta.url), "benchmark_limit", seconds);
  return {
    read: (owner, name, text, signal) =>
      readers.read(owner, text, { name: "items", of: name, bytes: text.length }, signal),
    close: () => readers.close(),
  };
}
