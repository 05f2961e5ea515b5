// What a language adds to the plain forms: a dozen interrogatives and prompts, in config/study/<ISO 639-1>.json. A language without
// a file is asked by signs alone.
import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { installation } from "../base/config.ts";
import type { SpanKind } from "./spans.ts";

export interface Language {
  ask: { number: string[]; time: string[]; name: string[]; any: string[] };
  cell: string[];
  row: string[];
  reverse: string[];
  pair: string[];
  about: string[];
  gap: string;
  recall: string;
  /** Of benchmarks: training never asks so. */
  item: { cell: string[]; pair: string[] };
  /** Asks a teacher for questions; that of English where a language has none. The same holds of what follows. */
  teach?: string;
  /** Asks for the items of a benchmark, and for the answers that passages give to them. */
  quiz?: string;
  verify?: string;
  /** Asks whether an answer meets a criterion, and what a judge says to it. */
  judge?: { ask: string; yes: string; no: string };
  /** The answer to what no document says. */
  not_stated?: string;
}

/** Signs that every language reads. */
const signs: Language = {
  ask: { number: ["…"], time: ["…"], name: ["…"], any: ["…"] },
  cell: ["{row}, {column}: …?"],
  row: ["{row}: …?"],
  reverse: ["{column} {value}: …?"],
  pair: ["{key}: …?"],
  about: ["{words}: …?"],
  gap: "{text}",
  recall: "{heading}: …?",
  item: {
    cell: ["{column} ({row}) = …?", "{row} ∈ {heading}; {column} = …?"],
    pair: ["{key} ∈ {heading}; {key} = …?"],
  },
};

let read: ReadonlyMap<string, Language> | null = null;

function languages(): ReadonlyMap<string, Language> {
  const folder = join(installation, "config/study");
  read ??= new Map(
    readdirSync(folder)
      .filter((name) => name.endsWith(".json"))
      .map((name) => [basename(name, ".json"), JSON.parse(readFileSync(join(folder, name), "utf8")) as Language]),
  );
  return read;
}

export const languageOf = (code: string | null): Language => languages().get(code ?? "") ?? signs;

/** What every language has, if only in English. */
export const ownOrEnglish = <What extends "quiz" | "verify" | "not_stated" | "judge">(
  code: string | null,
  what: What,
): NonNullable<Language[What]> => (languageOf(code)[what] ?? languageOf("en")[what])!;

export const hasLanguage = (code: string | null): boolean => languages().has(code ?? "");

/** Interrogatives that may ask for a span of this kind. */
export function interrogatives({ ask }: Language, kind: SpanKind): readonly string[] {
  if (kind === "number" || kind === "time" || kind === "name") return ask[kind];
  return ask.any;
}

/** A prompt with its places filled. */
export const filled = (prompt: string, words: Record<string, string>): string =>
  prompt.replace(/\{(\w+)\}/g, (place, name: string) => words[name] ?? place);
