// Reads benchmarks in worker threads with limits, as documents are read, so that a hostile file fails only its own upload.
import { createReaders } from "../../base/readers.ts";
import type { Item } from "../../catalog/benchmarks.ts";

export interface BenchmarkReader {
  /**
   * Reads the items of a benchmark. Owners take turns, and the file uses a turn of `owner`. Throws benchmark_invalid,
   * benchmark_limit, or bad_request if `signal` aborts.
   */
  read(owner: string, name: string, text: string, signal: AbortSignal): Promise<Item[]>;
  close(): Promise<void>;
}

/** `seconds` returns the CPU seconds allowed for a file of the given size, if not the default. */
export function createBenchmarkReader(seconds?: (bytes: number) => number): BenchmarkReader {
  const readers = createReaders(new URL("./read.worker.ts", import.meta.url), "benchmark_limit", seconds);
  return {
    read: (owner, name, text, signal) =>
      readers.read(owner, text, { name: "items", of: name, bytes: text.length }, signal),
    close: () => readers.close(),
  };
}
