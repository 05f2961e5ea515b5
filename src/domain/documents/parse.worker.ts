// A thread that reads documents. What it refuses comes back as plain data: an error would lose its code on the way.
import { Failure, type FailureCode } from "../../base/errors.ts";
import { type Parsed, parseFile } from "./parse.ts";

export type ParseResult = { parsed: Parsed } | { code: FailureCode; message: string };

export default function parse({ path, name }: { path: string; name: string }): ParseResult {
  try {
    return { parsed: parseFile(path, name) };
  } catch (error) {
    if (error instanceof Failure) return { code: error.code, message: error.message };
    throw error;
  }
}
