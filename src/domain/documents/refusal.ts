// What is said of a file that was refused, as plain data: an error would lose its code between threads and processes.
import { Failure, type FailureCode } from "../../base/errors.ts";

export type Refused = { code: FailureCode; message: string };

/** Null for what is no fault of the file. */
export function refusalOf(error: unknown, name: string): Refused | null {
  if (error instanceof Failure) return { code: error.code, message: error.message };
  // Only a file that nests without end needs more calls than there are.
  if (error instanceof RangeError && /call stack/.test(error.message))
    return { code: "document_limit", message: `${name} is nested too deeply` };
  return null;
}
