// Files of JSON lines.
import { readFileSync } from "node:fs";

/** The values of a file with one JSON value a line; empty lines are skipped. */
export const readJsonLines = <T>(path: string): T[] =>
  readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => JSON.parse(line) as T);
