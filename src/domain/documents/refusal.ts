// Makes the failures that are reported when a file is refused.
import { Failure } from "../../base/errors.ts";
import type { Refused } from "../../base/readers.ts";
import { mostColumns } from "./limits.ts";

export const tooWide = (name: string): Failure =>
  new Failure("document_limit", `${name} has a table with too many columns; the limit is ${mostColumns}`);

/** Turns an error into the refusal that is reported. Null if the error is not the file's fault. */
export function refusalOf(error: unknown, name: string): Refused | null {
  if (error instanceof Failure) return { code: error.code, message: error.message };
  // Only a file that is nested far too deeply overflows the call stack.
  if (error instanceof RangeError && /call stack/.test(error.message))
    return { code: "document_limit", message: `${name} is nested too deeply` };
  return null;
}
