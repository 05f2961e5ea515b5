// What is said of a file that was refused.
import { Failure } from "../../base/errors.ts";
import type { Refused } from "../../base/readers.ts";
import { mostColumns } from "./limits.ts";

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
