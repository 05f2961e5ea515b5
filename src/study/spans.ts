// Finds the spans of a passage that are worth asking about. Candidates come from surface features of the text: figures with their
// unit, names, quotations, parts between punctuation marks, and values. The most surprising spans are asked about, but not those
// that a model would have guessed anyway.
import { isQuestion, isUnspaced, placedWordsOf, placeUncut, unspacedLetter, wordsOf } from "../base/text.ts";
import type { Passage, Unit } from "./passages.ts";

export type SpanKind = "number" | "time" | "name" | "quote" | "part" | "value" | "cell" | "proposed" | "clause";

export interface Span {
  /** Character offsets in the passage's text. */
  start: number;
  end: number;
  kind: SpanKind;
}

/** Maximum words of an answer. */
const longest = 9;

/**
 * Makes sure that a figure is not inside a name: "C9", "TW-210" and "ISO.1-2017" contain no figure. In scripts without spaces, the digits
 * of a figure follow a letter directly.
 */
const alone = String.raw`(?:(?<![\p{L}\p{N}])|(?<=(?!\p{N})${unspacedLetter})(?=[\p{Sc}\p{Nd}]))(?<!\p{L}[-–/.](?:\p{N}{1,8}[-–/.]){0,6})`;
const figure = String.raw`[-−+]?(?:\p{Sc}\s?)?\p{N}+(?:[.,:/–-]\p{N}+|\s\p{N}{2,4}(?!\p{N}))*(?:\s?[\p{Sc}%°‰]\p{L}?)?`;
const year = String.raw`\s(?:\p{Ll}{1,3}\s)?\p{L}+\.?\s(?:\p{Ll}{1,3}\s)?[12]\p{N}{3}(?!\p{N})`;
/** A figure, and words and figures that belong to it: "8.30 to 18.30", "41 pence", "12 March 2025", "3. Mai". */
const numbers = new RegExp(
  `${alone}${figure}(?:\\.?${year}|\\s(?:\\p{Ll}{1,3}\\s)?${figure})?(?:\\.?\\s\\p{L}[\\p{L}-]*(?:\\s\\p{L}[\\p{L}-]*(?=[.,;:!?)]|$))?)?`,
  "gu",
);
const times = /^\p{N}{1,2}:\p{N}{2}\b|\b[12]\p{N}{3}\b|\p{N}{1,2}[.:]\p{N}{2}\s\p{L}+\s\p{N}{1,2}[.:]\p{N}{2}\b/u;
/** Ambiguous figures: "8.30" is an hour or a price, and "3." before a word is a day or an ordinal. */
const unsure = /^\p{N}{1,2}\.(?:\p{N}{2}\b|\s)/u;
/** Capitalised words inside a sentence; in a language that capitalises nouns, this is every noun. */
const names = /(?<=[\p{L}\p{N},;)]\s)\p{Lu}[\p{L}\p{N}'’-]*(?:\s(?:\p{Ll}{1,3}\s)?\p{Lu}[\p{L}\p{N}'’-]*)*/gu;
const quotes = /["“„«»‘]([^"“”„«»‘’]{2,60})["”“»«’]/gu;

/** Words after a figure that may be its unit, if it has no unit sign: one word, or two at the end of a sentence. */
const unitAfter = /(?:\.?\s\p{L}[\p{L}-]*)+$/u;

/**
 * Candidate spans of a unit; they may overlap. `tells`: whether a word is informative, and not a mere function word.
 */
export function spansOf(unit: Unit, tells: (word: string) => boolean): Span[] {
  const spans: Span[] = [];
  const add = (start: number, end: number, kind: SpanKind): void => {
    const text = unit.text.slice(start, end);
    const lead = text.length - text.trimStart().length;
    const from = start + lead;
    const to = from + text.trim().replace(/[\s.,;:!]+$/, "").length;
    if (to > from && unit.text.slice(from, to).split(/\s+/).length <= longest)
      spans.push({ start: unit.at + from, end: unit.at + to, kind });
  };
  if (unit.type === "code") return [];
  if (unit.type === "pair") {
    add(unit.text.length - unit.value.length - (unit.text.endsWith(unit.value) ? 0 : 1), unit.text.length, "value");
    return spans;
  }
  // A question does not state a fact, and the cells of a row are targets already (targets.ts).
  if (unit.type === "row" || isQuestion(unit.text)) return [];
  for (const { 0: text, index } of unit.text.matchAll(numbers)) {
    const kind = times.test(text) ? "time" : unsure.test(text) ? "value" : "number";
    const after = unitAfter.exec(text)?.[0] ?? "";
    const mayHaveUnit = kind !== "time" && !/[\p{Sc}%°‰]/u.test(text);
    add(index, index + text.length - after.length + (mayHaveUnit ? unitOf(after, tells).length : 0), kind);
  }
  for (const { 1: text, index } of unit.text.matchAll(quotes)) add(index + 1, index + 1 + text!.length, "quote");
  for (const { 0: text, index } of unit.text.matchAll(names))
    if (wordsOf(text).some(tells)) add(index, index + text.length, "name");
  for (const { start, end } of partsOf(unit.text)) add(start, end, "part");
  if (spans.length === 0) {
    const { start, end } = endOf(unit.text, tells);
    add(start, end, "part");
  }
  return spans;
}

/** The words at the beginning of `after`, up to the first one that is not informative. */
function unitOf(after: string, tells: (word: string) => boolean): string {
  let unit = "";
  for (const [word] of after.matchAll(/\.?\s[\p{L}-]+/gu)) {
    if (!wordsOf(word).some(tells)) break;
    unit += word;
  }
  return unit;
}

/** Maximum words at the end of a sentence that become a span. */
const longestEnd = 4;

/** Place of the last informative words of a sentence that has no other candidates; an empty place if there are none. */
function endOf(text: string, tells: (word: string) => boolean): { start: number; end: number } {
  const isTelling = ({ word }: { word: string }): boolean => wordsOf(word).some(tells);
  const all = placedWordsOf(text);
  // In scripts without spaces, a sentence often ends with particles, which say nothing.
  const words = all.slice(0, 1 + all.findLastIndex((one) => isTelling(one) || !isUnspaced(one.word)));
  const last = words.findLastIndex((one) => !isTelling(one));
  const first = words[Math.max(1, last + 1, words.length - longestEnd)];
  if (first === undefined) return { start: 0, end: 0 };
  return { start: first.at, end: words.at(-1)!.at + words.at(-1)!.word.length };
}

/** The parts between punctuation marks, for example the consequence of a condition, an exception or a member of a list. */
function partsOf(text: string): { start: number; end: number }[] {
  const parts: { start: number; end: number }[] = [];
  let from = 0;
  for (const { 0: sign, index } of text.matchAll(/[,;:–—)]\s|\s[–—]\s|\s\(|[.!?)]+$|$/g)) {
    if (index > from && !(from === 0 && sign === "")) parts.push({ start: from, end: index });
    from = index + sign.length;
  }
  // Without punctuation inside, the only part is the sentence itself, which cannot answer a question about itself.
  return parts.length < 2 ? [] : parts;
}

/**
 * Maximum words of a clause. A longer sentence is split where possible, into parts of at least `shortestClause` words.
 */
const longestClause = 40;
const shortestClause = 5;

/**
 * Returns the clauses of a unit. A clause is a sentence or, if the sentence is long, one of the statements that it joins with
 * semicolons. A sentence is not split at other punctuation, because readers found that a condition without its consequence, or the end
 * of a list, says something different or nothing.
 */
export function clausesOf(unit: Unit): Span[] {
  if (unit.type !== "sentence" && unit.type !== "item") return [];
  const count = (start: number, end: number): number => wordsOf(unit.text.slice(start, end)).length;
  const clauses: { start: number; end: number }[] = [];
  for (const { 0: text, index } of unit.text.matchAll(/[^;]+(?:;\s?|$)/g)) {
    const end = index + text.replace(/[;\s]+$/, "").length;
    const last = clauses.at(-1);
    const joins =
      last !== undefined &&
      (count(last.start, end) <= longestClause ||
        Math.min(count(last.start, last.end), count(index, end)) < shortestClause);
    if (joins) last.end = end;
    else clauses.push({ start: index, end });
  }
  return clauses.map(({ start, end }) => ({ start: unit.at + start, end: unit.at + end, kind: "clause" }));
}

/** Texts of a passage's clauses, in order. */
export const clauseTextsOf = ({ units, text }: Passage): string[] =>
  units.flatMap((unit) => clausesOf(unit).map(({ start, end }) => text.slice(start, end)));

const overlaps = (a: Span, b: Span): boolean => a.start < b.end && b.start < a.end;

/** Maximum spans of a unit. */
const mostOfUnit = 3;
/** Minimum surprise of a span, in nats. A span such as "of the year" can be guessed. */
const leastSurprise = 4;

/**
 * Returns the spans to ask for, in the order of the text. These are all spans that a writer proposed, and the most surprising
 * candidates of each unit that do not overlap another span.
 * `surprise`: −ln p of a span given the text before it, in nats.
 * `isWhole`: if a writer proposed spans of a unit, only these are asked for.
 */
export function worthAsking(
  passage: Passage,
  proposed: readonly string[],
  surprise: (span: Span) => number,
  tells: (word: string) => boolean,
  { isWhole }: { isWhole: boolean } = { isWhole: false },
): { unit: Unit; span: Span }[] {
  const offered = [...new Set(proposed)].flatMap((text): Span[] => {
    const start = text.trim() === "" ? -1 : placeUncut(passage.text, text);
    return start < 0 ? [] : [{ start, end: start + text.length, kind: "proposed" }];
  });
  return passage.units.flatMap((unit) => {
    const inside = ({ start, end }: Span): boolean => start >= unit.at && end <= unit.at + unit.text.length;
    const isCell = ({ start, end }: Span): boolean =>
      unit.type === "row" && unit.cells.includes(passage.text.slice(start, end));
    const chosen = offered.filter((span) => inside(span) && !isCell(span));
    if (isWhole && chosen.length > 0) return chosen.map((span) => ({ unit, span }));
    const ranked = spansOf(unit, tells)
      .map((span) => ({ span, nats: surprise(span) }))
      .filter(
        ({ span, nats }) => nats >= leastSurprise && /[\p{L}\p{N}]/u.test(passage.text.slice(span.start, span.end)),
      )
      .sort((a, b) => preference(b) - preference(a));
    for (const { span } of ranked)
      if (chosen.length < mostOfUnit && !chosen.some((other) => overlaps(span, other))) chosen.push(span);
    return chosen.sort((a, b) => a.start - b.start).map((span) => ({ unit, span }));
  });
}

/** Surprise weighted by kind. Figures come before parts of sentences, because questions are mostly about figures. */
function preference({ span, nats }: { span: Span; nats: number }): number {
  const factor = {
    proposed: 1,
    number: 1.5,
    time: 1.5,
    quote: 1.2,
    name: 1.2,
    value: 1,
    cell: 1,
    part: 0.6,
    clause: 1,
  }[span.kind];
  return factor * Math.min(nats, 20);
}
