// What is said of a file that was refused, as plain data: an error would lose its code between threads and processes.
import { Failure, type FailureCode } from "../../base/errors.ts";
import { mostColumns, readingTimeoutMs } from "./limits.ts";

export type Refused = { code: FailureCode; message: string };

/** `seconds`: of computing. */
export function tooSlow(name: string, seconds: number, cause?: unknown): Failure {
  const most = `${seconds} s of computing, or ${readingTimeoutMs / 1000} s by the clock`;
  return new Failure("document_limit", `${name} takes too long to read; ${most} are the most`, { cause });
}

export const tooWide = (name: string): Failure =>
  new Failure("document_limit", `${name} has a table of more than ${mostColumns} columns`);

/** Null for what is no fault of the file. */
export function refusalOf(error: unknown, name: string): Refused | null {
  if (error instanceof Failure) return { code: error.code, message: error.message };
  // Only a file that nests without end needs more calls than there are.
  if (error instanceof RangeError && /call stack/.test(error.message))
    return { code: "document_limit", message: `${name} is nested too deeply` };
  return null;
}
