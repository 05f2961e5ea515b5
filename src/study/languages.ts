// Reads what a language adds to the plain forms: a dozen interrogatives and prompts, in config/study/<ISO 639-1>.json. Questions in
// a language without a file use symbols alone.
import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { installation } from "../base/config.ts";
import { normalised } from "../base/text.ts";
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
  /** Prompts for benchmark questions; training never uses them. */
  item: { cell: string[]; pair: string[] };
  /** Asks a teacher for questions. If a language lacks this text or one of those below, the English one is used. */
  teach?: string;
  /** Asks a teacher for more questions about the facts that it has named. */
  teach_further?: string;
  /** Shows a teacher the text before the passage, in both. */
  teach_before?: string;
  /** `quiz` asks for the items of a benchmark, and `verify` for the answers that passages give to them. */
  quiz?: string;
  verify?: string;
  /** `ask` asks a judge whether an answer meets a criterion. `yes` and `no` are the judge's replies. */
  judge?: { ask: string; yes: string; no: string };
  /** The answer to a question that no document answers. */
  not_stated?: string;
}

/** Prompts of symbols alone, which are understood in every language. */
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

/** The language's own text, or the English one if the language has none. */
export const ownOrEnglish = <
  What extends "teach" | "teach_further" | "teach_before" | "quiz" | "verify" | "not_stated" | "judge",
>(
  code: string | null,
  what: What,
): NonNullable<Language[What]> => (languageOf(code)[what] ?? languageOf("en")[what])!;

const hasLanguage = (code: string | null): boolean => languages().has(code ?? "");

const monthsByCode = new Map<string, ReadonlySet<string>>();

/** Month names beside a day, long and short, in lower case; the English ones if the language is unknown. */
export function monthsOf(code: string | null): ReadonlySet<string> {
  const known = monthsByCode.get(code ?? "en");
  if (known !== undefined) return known;
  const names = (["long", "short"] as const).flatMap((month) => {
    const format = new Intl.DateTimeFormat(code ?? "en", { day: "numeric", month });
    const parts = Array.from({ length: 12 }, (_, at) => format.formatToParts(new Date(2000, at, 1)));
    return parts.flat().flatMap(({ type, value }) => (type === "month" ? [normalised(value)] : []));
  });
  const months = new Set(names);
  monthsByCode.set(code ?? "en", months);
  return months;
}

/** Interrogatives that may ask for a span of this kind. */
export function interrogatives({ ask }: Language, kind: SpanKind): readonly string[] {
  if (kind === "number" || kind === "time" || kind === "name") return ask[kind];
  return ask.any;
}

/** Fills in the {placeholders} of a prompt. A placeholder without a word in `words` is kept. */
export const filled = (prompt: string, words: Record<string, string>): string =>
  prompt.replace(/\{(\w+)\}/g, (place, name: string) => words[name] ?? place);

/** Passages of each language, and whether its interrogatives are known. */
export type Languages = Record<string, { passages: number; interrogatives: boolean }>;

const unknown = "unknown";

export function languagesOf(passages: readonly { language: string | null }[]): Languages {
  const found: Languages = {};
  for (const { language } of passages) {
    const code = language ?? unknown;
    found[code] ??= { passages: 0, interrogatives: hasLanguage(language) };
    found[code].passages++;
  }
  return found;
}

/** Returns the language of most passages; null if it is of none known. */
export function mainLanguage(languages: Languages): string | null {
  const known = Object.entries(languages).filter(([code]) => code !== unknown);
  return known.toSorted(([, one], [, other]) => other.passages - one.passages)[0]?.[0] ?? null;
}
