// A thread that reads benchmarks. What it refuses comes back as plain data: an error would lose its code on the way.
import { Failure, type ValidationDetail } from "../../base/errors.ts";
import { type Item, readBenchmark } from "./read.ts";

export type ReadResult = { items: Item[] } | { message: string; details: ValidationDetail[] };

export default function read(text: string): ReadResult {
  try {
    return { items: readBenchmark(text) };
  } catch (error) {
    if (error instanceof Failure) return { message: error.message, details: error.details ?? [] };
    throw error;
  }
}
