// What all documents together tell: the organisation's name, which capitalised words are names, what a heading is about.
import type { SnapshotDocument } from "../../../contract/run-folder.ts";
import { conceptOf } from "./concepts.ts";
import { valuesOf } from "./values.ts";

export interface Corpus {
  /** The name that most documents mention, when at least half of them do; else the one that their addresses spell. */
  company: string | null;
  /** Words that stand capitalised in the middle of a sentence or alone in a cell, and nowhere in lower case. */
  names: ReadonlySet<string>;
}

export function readCorpus(documents: readonly SnapshotDocument[]): Corpus {
  return { company: organisation(documents), names: properNames(documents) };
}

function organisation(documents: readonly SnapshotDocument[]): string | null {
  const seen = new Map<string, { documents: Set<string>; count: number }>();
  for (const document of documents)
    for (const line of document.text.split(/\n+/).filter((one) => !shouted.test(one)))
      for (const value of valuesOf(line.replace(/^[#\s>*-]+/, ""))) {
        if (value.kind !== "name" || value.text.length < 4) continue;
        const entry = seen.get(value.text) ?? { documents: new Set<string>(), count: 0 };
        entry.documents.add(document.id);
        entry.count++;
        seen.set(value.text, entry);
      }
  const ranked = [...seen].sort(([, a], [, b]) => b.documents.size - a.documents.size || b.count - a.count);
  const [name, entry] = ranked[0] ?? [null, null];
  const enough = entry !== null && entry.documents.size >= 2 && entry.documents.size * 2 >= documents.length;
  return enough
    ? name
    : addressed(
        documents,
        ranked.map(([one]) => one),
      );
}

const domain = /(?:@|https?:\/\/(?:www\.)?)([\w-]+)\./g;

/** The name that the addresses of mail and web pages spell: most documents need not mention whose they are. */
function addressed(documents: readonly SnapshotDocument[], names: readonly string[]): string | null {
  const hosts = new Map<string, number>();
  for (const { text } of documents)
    for (const [, host] of text.matchAll(domain)) {
      const label = host!.toLowerCase().replaceAll("-", "");
      hosts.set(label, (hosts.get(label) ?? 0) + 1);
    }
  const [host, count] = [...hosts].sort(([, a], [, b]) => b - a)[0] ?? ["", 0];
  const spelled = (name: string) => name.toLowerCase().replace(/[^\p{L}\d]/gu, "");
  return count < 2 ? null : (names.find((name) => spelled(name) === host) ?? null);
}

const word = /\p{L}[\p{L}'’-]*/gu;
const shouted = /^\P{Ll}{5,}$/u;

function properNames(documents: readonly SnapshotDocument[]): ReadonlySet<string> {
  const names = new Set<string>();
  const common = new Set<string>();
  for (const { text, media_type } of documents) {
    const lines = text.split(/\r?\n/);
    for (const [at, line] of lines.entries()) {
      const header = (media_type === "text/csv" && at === 0) || /^[\s|:-]*-{3}[\s|:-]*$/.test(lines[at + 1] ?? "");
      if (header || shouted.test(line)) continue;
      for (const part of line.split(/(?<=[.!?:]["')]?)\s+|[|;,\t]/)) {
        const words = part.replace(/^[\s#>*+-]+/, "").match(word) ?? [];
        const allCapital = words.length <= 4 && words.every((one) => /^\p{Lu}/u.test(one));
        words.forEach((one, index) => {
          if (/^\p{Ll}/u.test(one)) common.add(one);
          else if (index > 0 || allCapital) names.add(one);
        });
      }
    }
  }
  const known = (name: string) => common.has(name.toLowerCase()) || common.has(`${name.toLowerCase()}s`);
  return new Set([...names].filter((name) => !known(name)));
}

const determiner = /^(The|A|An|Our|Your|Its|Their|Each|Every|All|Any|No|This|These|Both|Some|Most|It|They|We|You)\b/;

/** A subject as it stands inside a sentence: in lower case at its start unless it starts with a name. */
export function lowered(phrase: string, corpus: Corpus): string {
  const first = /^\p{L}[\p{L}'’-]*/u.exec(phrase)?.[0] ?? "";
  const rest = phrase.slice(first.length);
  const relates = /^\s(?:of|for)\s/.test(rest) && conceptOf(first.toLowerCase(), "text", "").concept !== null;
  const acronym = /^\p{Lu}{2}/u.test(first);
  const common =
    determiner.test(phrase) ||
    relates ||
    (!acronym && !corpus.names.has(first) && !/^\s(?:(?:and|&)\s)?\p{Lu}/u.test(rest));
  return common ? phrase.charAt(0).toLowerCase() + phrase.slice(1) : phrase;
}

const label =
  /^(overview|general|introduction|facts?|details?|key (?:facts|figures|data)|figures|profile|summary|contacts?|data|about(?: us)?|at a glance|specifications?|technical data|notes?(?: .*)?|information|background|history|contents?|scope|purpose|appendix|annex|misc(?:ellaneous)?|other|faq|questions and answers|company profile|fact sheet|data sheet|(?:what|who|when|where|how|why|which)\b.*)$/i;

/** The thing a heading path is about, as it stands inside a sentence: its deepest heading that is no mere label, else the organisation. */
export function subjectOf(path: readonly string[], corpus: Corpus): string | null {
  for (const heading of path.toReversed()) {
    const parts = heading
      .replace(/^(?:§\s*)?[\dIVX]+(?:\.\d+)*[.)]?\s+/, "")
      .split(/\s+[–—|]\s+|:\s+/)
      .map((part) => part.trim());
    const part = parts.find((text) => text !== "" && !label.test(text) && text !== corpus.company);
    if (part) return titled(part, corpus);
    if (parts.some((text) => text === corpus.company)) return corpus.company;
  }
  return corpus.company;
}

/** «Help line» is «the help line»; «Project Aspen» is a name. */
function titled(heading: string, corpus: Corpus): string {
  const words = heading.split(/\s+/);
  const shouting = heading === heading.toUpperCase() && /\p{Lu}{4}/u.test(heading);
  const known = new Map([...corpus.names].map((name) => [name.toLowerCase(), name]));
  const plain = shouting ? words.map((word) => known.get(word.toLowerCase()) ?? word.toLowerCase()) : words;
  const text = lowered(plain.join(" "), corpus);
  const named = /^\p{Lu}/u.test(text) || determiner.test(heading) || /^(?:a|an|the|our|your)\s/.test(text);
  return named ? text : `the ${text}`;
}
