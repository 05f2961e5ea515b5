// A RESULTS.md: every measurement has a section of its own between two comments, and leaves what stands around it.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { writeFileDurably } from "../../src/base/files.ts";

/** Of a folder of tests. */
export const resultsOf = (folder: string): string => join(folder, "RESULTS.md");

/** The rows of a table whose first column is a seed, with a new row for one of them: those of other seeds stay. */
export function rowsBySeed(old: string, seed: number, cells: readonly unknown[]): string[] {
  const own = `| ${[seed, ...cells].map((cell) => String(cell).replaceAll("\n", " ").replaceAll("|", "\\|")).join(" | ")} |`;
  const others = old.split("\n").filter((line) => /^\| +\d+ +\|/.test(line) && seedOf(line) !== seed);
  return [...others, own].sort((a, b) => seedOf(a) - seedOf(b));
}

const seedOf = (line: string): number => Number(line.split("|")[1]);

const marksOf = (name: string) => ({ begin: `<!-- ${name} -->`, end: `<!-- /${name} -->` });

/** What stands before a section, in it, and behind it. */
function parted(path: string, name: string): { head: string; old: string; tail: string } {
  const { begin, end } = marksOf(name);
  const text = existsSync(path) ? readFileSync(path, "utf8") : "# Results\n";
  const [head, rest = ""] = text.split(begin);
  const [old = "", tail = "\n"] = rest.split(end);
  return { head: head!, old, tail };
}

/** What the section says so far; "" when there is none yet. */
export const readSection = (path: string, name: string): string => parted(path, name).old;

/** Puts `write`, given what the section says so far, in its place: at the end of the file when there is none yet. */
export async function writeSection(path: string, name: string, write: (old: string) => string): Promise<void> {
  const { begin, end } = marksOf(name);
  const { head, old, tail } = parted(path, name);
  await writeFileDurably(path, `${head.trimEnd()}\n\n${begin}\n${write(old)}\n${end}${tail}`);
}
