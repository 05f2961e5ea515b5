// Who reads benchmarks: threads, as documents have them. A hostile file costs its own upload.
import { createReaders } from "../../base/readers.ts";
import type { Item } from "./read.ts";

export interface BenchmarkReader {
  /** `owner`: whose turn it takes. Throws benchmark_invalid, benchmark_limit; bad_request when `signal` ends it. */
  read(owner: string, name: string, text: string, signal: AbortSignal): Promise<Item[]>;
  close(): Promise<void>;
}

/** `seconds`: of computing that a file of so many bytes has, where that is not as usual. */
export function createBenchmarkReader(seconds?: (bytes: number) => number): BenchmarkReader {
  const readers = createReaders(new URL("./read.worker.ts", import.meta.url), "benchmark_limit", seconds);
  return {
    read: (owner, name, text, signal) =>
      readers.read(owner, text, { name: "items", of: name, bytes: text.length }, signal),
    close: () => readers.close(),
  };
}
