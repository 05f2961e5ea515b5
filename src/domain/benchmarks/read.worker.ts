// Reads benchmarks in a worker thread.
import { Failure } from "../../base/errors.ts";
import type { Answer } from "../../base/readers.ts";
import type { Item } from "../../catalog/benchmarks.ts";
import { readBenchmark } from "./read.ts";

export function items(text: string): Answer<Item[]> {
  try {
    return { done: readBenchmark(text) };
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    const { code, message, details } = error;
    return { code, message, ...(details && { details }) };
  }
}
