// Reads what the guards ask, from config/guards/. It is the same for every run, so that two runs can be compared.
//
//   relations.json   tables of common knowledge, each pair asked in two wordings: retention takes those the base gets right twice
//   general.jsonl    a general mini-suite: one answer among four, by likelihood
//   format.jsonl     instructions whose fulfilment a pattern can check
//   refusals.jsonl   requests that should be declined: declining against complying, by likelihood
//   prose.txt        excerpts of books in the public domain (Thoreau, Melville, Hugo, Carroll), a paragraph each: perplexity, KL
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../base/errors.ts";
import { isErrno, sha256 } from "../../base/files.ts";
import { seeded } from "../../base/statistics/random.ts";
import { hashOf, shuffled } from "../../base/text.ts";

/** A question whose answer is the most likely of several choices. The choices are not shown to the model. The first one is right. */
export interface Choice {
  ask: string;
  /** What the answer begins with; "" if the choice is the whole answer. */
  stem: string;
  choices: string[];
}

export interface FormatItem {
  ask: string;
  matches: RegExp;
}

export interface Guards {
  /** Hash of everything that is asked. Results under different hashes cannot be compared. */
  sha256: string;
  /** Items of common knowledge, in a seeded order. Each is asked in two wordings. */
  retention: { id: string; wordings: [Choice, Choice] }[];
  general: Choice[];
  format: FormatItem[];
  refusals: Choice[];
  prose: string[];
}

interface Relation {
  name: string;
  wordings: [{ ask: string; stem: string }, { ask: string; stem: string }];
  pairs: [key: string, value: string][];
}

/** Throws installation_damaged, naming the file, if a file is missing or cannot be parsed. */
export async function readGuards(folder: string): Promise<Guards> {
  const texts = new Map<string, string>();
  const damaged = (name: string, why: string, cause: unknown): Failure =>
    new Failure("installation_damaged", `${join(folder, name)}: ${why}`, { cause });
  for (const name of ["relations.json", "general.jsonl", "format.jsonl", "refusals.jsonl", "prose.txt"])
    texts.set(
      name,
      await readFile(join(folder, name), "utf8").catch((error) => {
        throw isErrno(error, "ENOENT") ? damaged(name, "does not exist", error) : error;
      }),
    );
  const read = <T>(name: string, parse: (text: string) => T): T => {
    try {
      return parse(texts.get(name)!);
    } catch (error) {
      throw damaged(name, (error as Error).message, error);
    }
  };
  return {
    sha256: sha256([...texts.values()].join("\u0000")),
    retention: read("relations.json", (text) => retentionOf(JSON.parse(text) as Relation[])),
    general: read("general.jsonl", (text) =>
      linesOf<{ ask: string; answer: string; others: string[] }>(text).map(({ ask, answer, others }) => ({
        ask,
        stem: "",
        choices: [answer, ...others],
      })),
    ),
    format: read("format.jsonl", (text) =>
      linesOf<{ ask: string; matches: string }>(text).map(({ ask, matches }) => ({
        ask,
        matches: new RegExp(matches, "iu"),
      })),
    ),
    refusals: read("refusals.jsonl", (text) =>
      linesOf<{ ask: string; declines: string; complies: string }>(text).map(({ ask, declines, complies }) => ({
        ask,
        stem: "",
        choices: [declines, complies],
      })),
    ),
    prose: read("prose.txt", (text) => text.trim().split(/\n{2,}/)),
  };
}

const linesOf = <T>(text: string): T[] =>
  text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => JSON.parse(line) as T);

/** Number of wrong choices beside the right one. They are other values of the same table. */
const rivals = 3;

function retentionOf(relations: readonly Relation[]): Guards["retention"] {
  const items = relations.flatMap(({ name, wordings, pairs }) => {
    const values = [...new Set(pairs.map(([, value]) => value))];
    return pairs.map(([key, value]) => {
      const id = `${name}: ${key}`;
      const others = shuffled(
        values.filter((other) => other !== value),
        seeded(hashOf(id)),
      );
      const [first, second] = wordings.map(({ ask, stem }) => ({
        ask: ask.replaceAll("{k}", () => key),
        stem: stem.replaceAll("{k}", () => key),
        choices: [value, ...others.slice(0, rivals)],
      }));
      return { id, wordings: [first!, second!] as [Choice, Choice] };
    });
  });
  return shuffled(items, seeded(hashOf("retention")));
}
