// A RESULTS.md: every measurement has a section of its own between two comments, and leaves what stands around it.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { writeFileDurably } from "../../src/base/files.ts";

/** Of a folder of tests. */
export const resultsOf = (folder: string): string => join(folder, "RESULTS.md");

/** Puts `write`, given what the section says so far, in its place: at the end of the file when there is none yet. */
export async function writeSection(path: string, name: string, write: (old: string) => string): Promise<void> {
  const [begin, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const text = existsSync(path) ? readFileSync(path, "utf8") : "# Results\n";
  const [head, rest = ""] = text.split(begin);
  const [old = "", tail = "\n"] = rest.split(end);
  await writeFileDurably(path, `${head!.trimEnd()}\n\n${begin}\n${write(old)}\n${end}${tail}`);
}
