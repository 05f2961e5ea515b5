// Makes plain forms, which are questions made from a document's own words, in any language. They are correct by construction,
// because they never say more than the document: they leave words out, reorder them, or replace them by an interrogative.
import { containsWords, isQuestion, placedWordsOf, shuffled, wordsOf } from "../base/text.ts";
import { headingOf } from "./heading.ts";
import { filled, interrogatives, type Language } from "./languages.ts";
import type { Lexicon } from "./lexicon.ts";
import { cellsJoin, type Passage, type Unit } from "./passages.ts";
import type { SpanKind } from "./spans.ts";
import type { Rows } from "./tables.ts";
import { isClause, namesOf, saidOf, type Target } from "./targets.ts";

export type FormKind = "keywords" | "fragment" | "in_place" | "gap" | "cell" | "reverse" | "pair" | "asked";

export interface Form {
  kind: FormKind;
  question: string;
  answer: string;
}

const gap = "____";

/** The most specific heading of a passage: the last one, or the document's title. */
export const nearestHeading = ({ path, title }: Pick<Passage, "path" | "title">): string => path.at(-1) ?? title;

const pick = <T>(items: readonly T[], random: () => number): T => items[Math.floor(random() * items.length)]!;

/** The text without punctuation at its ends, so that other words can follow it. */
const open = (text: string): string => text.replace(/^[\s.,;:)、，；：–—-]+|[\s.,;:!?(。、，；：！？–—-]+$/g, "");

/**
 * Returns a randomly drawn form of the given kind; null if the target has none, or if the drawn question contains the answer. Draws
 * differ from call to call.
 */
export function formOf(
  target: Target,
  kind: FormKind,
  language: Language,
  lexicon: Lexicon,
  random: () => number,
): Form | null {
  const asked = isClause(target) ? partOf(target, kind, random) : target;
  if (asked === null) return null;
  const question = questionOf(asked, kind, language, lexicon, random);
  if (question === null || [asked, target].some((one) => containsAnswer(question, one))) return null;
  return { kind, question, answer: saidOf(target) };
}

/** Maximum words of a part that is drawn from a clause. */
const longestPart = 4;

/**
 * Returns the target of a clause with a part of the clause as the answer; null if there is no such part. The part is a span that was
 * found in the clause, or some drawn words. For `in_place`, the drawn words are the last ones of the clause, because the question
 * puts an interrogative in their place.
 */
function partOf(target: Target, form: FormKind, random: () => number): Target | null {
  const { answer, span, parts = [] } = target;
  const signs = parts
    .map(({ start, end, kind }) => ({ start: start - span!.start, end: end - span!.start, kind }))
    .filter(({ start, end, kind }) => end - start < answer.length / 2 && (form !== "in_place" || kind !== "part"));
  const words = placedWordsOf(answer);
  const size = 1 + Math.floor(random() * longestPart);
  const at = form === "in_place" ? Math.max(1, words.length - size) : Math.floor(random() * words.length);
  const until = Math.min(words.length - 1, at + size - 1);
  if (at > until) return null;
  const drawn = {
    start: words[at]!.at,
    end: words[until]!.at + words[until]!.word.replace(/[.,;:!?]+$/, "").length,
    kind: "part" as const,
  };
  const part = signs.length > 0 && random() < 0.5 ? pick(signs, random) : drawn;
  if (wordsOf(answer.slice(part.start, part.end)).length === 0) return null;
  return {
    ...target,
    kind: part.kind,
    span: { start: span!.start + part.start, end: span!.start + part.end, kind: part.kind },
    earlier: [target.earlier, target.before, target.after].filter((text) => text.trim() !== "").join(" "),
    answer: answer.slice(part.start, part.end),
    before: answer.slice(0, part.start),
    after: answer.slice(part.end),
  };
}

/** Whether a question contains its own answer, in which case it teaches nothing. */
const containsAnswer = (question: string, { answer, kind }: Target): boolean =>
  kind !== "asked" && containsWords(question, answer);

function questionOf(
  target: Target,
  kind: FormKind,
  language: Language,
  lexicon: Lexicon,
  random: () => number,
): string | null {
  const { unit, before, after, passage, span } = target;
  const heading = nearestHeading(passage);
  if (kind === "keywords") return target.kind === "asked" ? null : keywords(target, language, lexicon, random);
  if (kind === "asked") return target.kind === "asked" ? before : null;
  if (kind === "pair")
    return unit.type === "pair" ? `${heading}: ${filled(pick(language.pair, random), { key: unit.key })}` : null;
  if (kind === "cell" || kind === "reverse") {
    if (unit.type !== "row" || (kind === "reverse") !== (target.kind === "key")) return null;
    const row = rowQuestion(target, language, lexicon, random);
    if (row === null) return null;
    // Tables with the same columns, such as one for each product, are told apart by their headings.
    const isUnder = random() < 0.5 || lexicon.tables.alikeOf(passage, unit).withCells(row.told) > 1;
    return `${isUnder ? `${heading}: ` : ""}${row.question}`;
  }
  if (unit.type === "row" || unit.type === "pair" || span === null) return null;
  const ask = pick(interrogatives(language, askedAs(target)), random);
  if (kind === "in_place") return `${heading}: ${open(`${before}${ask}${after}`)}?`;
  if (kind === "fragment") return fragment(target, language, lexicon, random);
  if (kind === "gap") return filled(language.gap, { text: `${heading}: ${before}${gap}${after}` });
  return null;
}

/** Returns a question for a cell, and the cells by which it names the row; null if they do not distinguish the row. */
function rowQuestion(
  target: Target,
  language: Language,
  lexicon: Lexicon,
  random: () => number,
): { question: string; told: string[] } | null {
  const { unit, passage } = target;
  if (unit.type !== "row") throw new TypeError("not of a table");
  const { cells, header } = unit;
  const rows = lexicon.tables.rowsOf(passage, unit);
  if (target.kind === "key") {
    const row = cells[0]!;
    const others = cells
      .map((value, column) => ({ value, column: (header[column] ?? "").replaceAll("_", " ") }))
      .slice(1);
    // Add cells, at least two, until they distinguish the row from the other rows of its table.
    const told: typeof others = [];
    const values = (): string[] => told.map((one) => one.value);
    for (const one of shuffled(
      others.filter(({ value }) => value !== "" && value !== row),
      random,
    )) {
      told.push(one);
      if (told.length > 1 && rows.withCells(values()) === 1) break;
    }
    if (told.length === 0 || told.length > mostTold || rows.withCells(values()) > 1) return null;
    const value = values().join(", ");
    const question = filled(pick(language.reverse, random), { column: told[0]!.column, value }).replace(/\s+/g, " ");
    return { question, told: values() };
  }
  const asked = columnOf(target, cells);
  const column = (header[asked] ?? "").replaceAll("_", " ");
  const told = rowNamed(rows, namesOf(cells, asked), random);
  if (told === null) return null;
  const row = told.join(", ");
  const isUnnamed = column === "" || (hasOneCell(unit) && random() < 0.5);
  const question = isUnnamed
    ? filled(pick(language.row, random), { row })
    : filled(pick(language.cell, random), { row, column });
  return { question, told };
}

/**
 * Whether a row has a single cell beside its name, as in a glossary. Its name alone then asks for the cell, as people do, who would not
 * name the column.
 */
const hasOneCell = (unit: Unit): boolean => unit.type === "row" && unit.cells.length === 2;

/** Maximum cells that identify a row. */
const mostTold = 3;

/** Column of the cell that is asked for, found by its offset, because two cells of a row may have the same text. */
function columnOf({ unit, span }: Target, cells: readonly string[]): number {
  let at = unit.at;
  return cells.findIndex((cell) => {
    const here = at;
    at += cell.length + cellsJoin.length;
    return here === span?.start;
  });
}

/** Draws names of a row until they distinguish the row from the others. Returns them in the row's order; null if they never do. */
function rowNamed(rows: Rows, names: readonly string[], random: () => number): string[] | null {
  const told: string[] = [];
  for (const name of shuffled(names, random)) {
    told.push(name);
    if (rows.withCells(told) === 1) return names.filter((one) => told.includes(one));
  }
  return null;
}

/** Minimum and maximum words that are drawn for a keyword query, before words are added until the query finds the passage. */
const fewest = 3;
const most = 7;
/** Maximum words of the headings that are drawn in addition. */
const mostAbove = 2;
/** Number of words at which no more words are added to a query. */
const longestQuery = 11;

/**
 * Returns a query of words around the answer; null if there are too few. Informative words are preferred, and some are left out.
 * Words are added until the passage ranks first for the query, because a query that fits two passages has two answers. The words
 * come from a single sentence, the question before it and the headings, because readers could make no sense of queries that mixed
 * words of two sentences.
 */
function keywords(target: Target, language: Language, lexicon: Lexicon, random: () => number): string | null {
  const { passage, before, after, earlier, answer } = target;
  const taken = new Set(wordsOf(answer));
  const told = (text: string): string[] =>
    (text.match(/[\p{L}\p{M}\p{N}][\p{L}\p{M}\p{N}.,:'’/-]*/gu) ?? [])
      .map((word) => word.replace(/[.,:'’/-]+$/, ""))
      .filter((word) => {
        const plain = wordsOf(word);
        return plain.length > 0 && plain.every((one) => lexicon.tells(one) && !taken.has(one));
      });
  const needsColumn = target.kind === "cell" && !(hasOneCell(target.unit) && random() < 0.5);
  const column = needsColumn ? distinct(told(columnNamed(target))) : [];
  const own = distinct([...told(before), ...told(after)]);
  // Headings alone do not make a question, and neither do two words of a sentence. A query for one of several cells of a row must name
  // the column.
  const isRow = target.unit.type === "row" || target.unit.type === "pair";
  if (own.length < (isRow ? 1 : fewest) || (needsColumn && column.length === 0)) return null;
  const asked = isQuestion(earlier) ? distinct(told(earlier)) : [];
  const above = distinct(told(headingOf(passage)).filter(isWord));
  const size = fewest + Math.floor(random() * (most - fewest + 1));
  const drawn = new Set([...column, ...byWeight(own, lexicon, random).slice(0, size)]);
  for (const word of asked) if (random() < 0.25) drawn.add(word);
  // A question that stands alone must name its subject, which the headings contain.
  for (const word of byWeight(above, lexicon, random).slice(0, Math.floor(random() * (mostAbove + 1)))) drawn.add(word);
  const spare = shuffled(
    [...above, ...own, ...asked].filter((word) => !drawn.has(word)),
    random,
  );
  if (drawn.size < fewest || random() < 0.5)
    for (const word of spare.splice(0, 1 + Math.floor(random() * 2))) drawn.add(word);
  while (spare.length > 0 && drawn.size < longestQuery && lexicon.rankOf([...drawn].join(" "), passage) > 1)
    drawn.add(spare.shift()!);
  if (target.kind === "cell" && !addsNames(drawn, target, lexicon, shuffled(own, random))) return null;
  const said = new Set([...drawn].map((word) => word.toLowerCase()));
  // A single word is too ambiguous.
  if (said.size < 2) return null;
  const inOrder = distinct([...above, ...asked, ...own]).filter((word) => said.has(word.toLowerCase()));
  return query(target, inOrder.join(" "), language, random);
}

/** Adds words of a row's names to a query for a cell until they distinguish the row. Returns false if they never do. */
function addsNames(drawn: Set<string>, target: Target, lexicon: Lexicon, own: readonly string[]): boolean {
  const { passage, unit } = target;
  if (unit.type !== "row") throw new TypeError("not of a table");
  const rows = lexicon.tables.rowsOf(passage, unit);
  const names = new Set(namesOf(unit.cells, columnOf(target, unit.cells)).flatMap(wordsOf));
  const ofNames = (words: Iterable<string>): string[] =>
    [...words].filter((word) => wordsOf(word).every((one) => names.has(one)));
  const isTold = (): boolean => rows.withWords(ofNames(drawn).flatMap(wordsOf)) === 1;
  for (const word of ofNames(own)) if (!isTold()) drawn.add(word);
  return isTold();
}

/**
 * Returns the words in a random order that favours rare ones, which a person would not leave out (Efraimidis and Spirakis 2006).
 */
const byWeight = (words: readonly string[], lexicon: Lexicon, random: () => number): string[] =>
  words
    .map((word) => ({ word, key: random() ** (1 / Math.max(0.5, weight(word, lexicon))) }))
    .sort((a, b) => b.key - a.key)
    .map(({ word }) => word);

function columnNamed(target: Target): string {
  const { unit } = target;
  return unit.type === "row" ? (unit.header[columnOf(target, unit.cells)] ?? "").replaceAll("_", " ") : "";
}

/**
 * The kind of interrogative that asks for the answer. A figure without a unit may be a label, such as the number of a section, and
 * nobody asks "how many" for that.
 */
function askedAs({ span, answer }: Pick<Target, "span" | "answer">): SpanKind {
  const kind = span?.kind ?? "part";
  return kind === "number" && !/\p{L}\P{N}*$|[\p{Sc}%°‰]/u.test(answer) ? "value" : kind;
}

/**
 * Makes a question of keywords. For a part of a sentence, a quotation or a proposed span, it asks what is said about the keywords. For
 * any other kind, it uses an interrogative of that kind. Without interrogatives, the same rows taught a model to answer 31 % of natural
 * questions instead of 34 % (`prove:study`).
 */
function query(
  target: Pick<Target, "span" | "answer">,
  words: string,
  language: Language,
  random: () => number,
): string {
  const kind = askedAs(target);
  if (kind === "part" || kind === "quote" || kind === "proposed")
    return filled(pick(language.about, random), { words });
  const ask = pick(interrogatives(language, kind), random);
  return random() < 0.6 ? `${ask} ${words}?` : `${words}: ${ask}?`;
}

/** Maximum words of a query for a text that belongs to no document. */
const mostOfText = 4;

/**
 * Returns a question for a text that belongs to no document, made of some of its words as a query for a document's text is. Null if
 * the text has no informative word. `tells` is called with a word in lower case.
 */
export function askedByWords(
  text: string,
  language: Language,
  tells: (word: string) => boolean,
  random: () => number,
): string | null {
  const telling = [...new Set(wordsOf(text).filter(tells))];
  if (telling.length === 0) return null;
  const drawn = shuffled(telling, random).slice(0, 1 + Math.floor(random() * mostOfText));
  const kind = pick(["number", "time", "name", "part", "part"] as const, random);
  const words = telling.filter((word) => drawn.includes(word)).join(" ");
  return query({ span: { start: 0, end: 0, kind }, answer: text }, words, language, random);
}

/** Minimum and maximum words of a fragment, before it grows until it finds its passage. */
const shortFragment = 3;
const longFragment = 6;
/** Minimum informative words of a fragment, because readers could make no sense of fewer. */
const leastTold = 2;

/**
 * Returns a query of some consecutive words beside the answer, unchanged, and words of the headings; null if too few of the
 * consecutive words are informative. The query grows until the passage ranks first for it.
 */
function fragment(target: Target, language: Language, lexicon: Lexicon, random: () => number): string | null {
  const side = shuffled([target.before, target.after], random).find((text) => wordsOf(text).some(lexicon.tells));
  if (side === undefined) return null;
  const words = side.match(/\S+/g)!;
  const size = Math.min(words.length, shortFragment + Math.floor(random() * (longFragment - shortFragment + 1)));
  let from = Math.floor(random() * (words.length - size + 1));
  let until = from + size;
  const said = (): string => open(words.slice(from, until).join(" "));
  const headings = wordsOf(headingOf(target.passage)).filter((word) => lexicon.tells(word) && isWord(word));
  const above = byWeight(distinct(headings), lexicon, random);
  const named = above.splice(0, Math.floor(random() * (mostAbove + 1)));
  const told = (): string => [...named.filter((word) => !containsWords(said(), word)), said()].join(" ");
  const isTold = (): boolean =>
    wordsOf(said()).filter(lexicon.tells).length >= leastTold && lexicon.rankOf(told(), target.passage) === 1;
  while (!isTold() && wordsOf(told()).length < longestQuery) {
    if (above.length > 0 && random() < 0.5) named.push(above.shift()!);
    else if (until < words.length) until++;
    else if (from > 0) from--;
    else if (above.length > 0) named.push(above.shift()!);
    else break;
  }
  if (wordsOf(said()).filter(lexicon.tells).length < leastTold) return null;
  return query(target, told(), language, random);
}

const weight = (word: string, lexicon: Lexicon): number => Math.max(...wordsOf(word).map(lexicon.weightOf));

/** Whether a word has a letter. This excludes the number of a heading, which identifies nothing. */
const isWord = (word: string): boolean => /\p{L}/u.test(word);

const distinct = (words: readonly string[]): string[] => [
  ...new Map(words.map((word) => [word.toLowerCase(), word])).values(),
];

/** The kinds of plain forms for a target, the most informative first. A kind that is listed twice is used more often. */
export function formsFor(target: Target): FormKind[] {
  if (target.kind === "asked") return ["asked"];
  if (target.kind === "key") return ["reverse"];
  if (target.unit.type === "row")
    return target.unit.cells.includes(target.answer) ? ["cell", "keywords", "keywords", "cell"] : [];
  if (target.unit.type === "pair") return ["pair", "keywords", "keywords", "pair"];
  return isClause(target) ? ["keywords", "fragment", "in_place", "keywords", "fragment", "gap"] : [];
}

/** Returns a form that asks for a whole passage by its headings and some of its words. */
export function recallOf(
  passage: Passage,
  language: Language,
  lexicon: Lexicon,
  random: () => number,
): Pick<Form, "question" | "answer"> {
  const words = distinct(passage.text.split(/\s+/).filter((word) => wordsOf(word).some(lexicon.tells)));
  const told = shuffled(words, random).slice(0, 3).map(open).join(", ");
  const heading = `${headingOf(passage)}${told === "" ? "" : ` (${told})`}`;
  return { question: filled(language.recall, { heading }), answer: passage.text };
}
