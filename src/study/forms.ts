// Plain forms: questions made of a document's own words, in any language. Right by construction, since nothing is said that the
// document does not say: words are left out, put in another order, or asked for in their place.
import { containsWords, shuffled, wordsOf } from "../base/text.ts";
import { filled, interrogatives, type Language } from "./languages.ts";
import type { Lexicon } from "./lexicon.ts";
import { cellsJoin, headingOf, type Passage } from "./passages.ts";
import { isQuestion, namesOf, type Target } from "./targets.ts";

export type FormKind = "keywords" | "in_place" | "gap" | "complete" | "cell" | "reverse" | "pair" | "asked" | "writer";

export interface Form {
  kind: FormKind;
  question: string;
  answer: string;
}

const gap = "____";

/** The heading that tells most about a passage: the last one, or the document's title. */
export const nearestHeading = ({ path, title }: Pick<Passage, "path" | "title">): string => path.at(-1) ?? title;

const pick = <T>(items: readonly T[], random: () => number): T => items[Math.floor(random() * items.length)]!;

/** A sentence that may follow other words: its end sign goes. */
const open = (text: string): string => text.trim().replace(/[.!?;:,]+$/, "");

/** One form of a kind; null where the target has none. Draws differ from call to call. */
export function formOf(
  target: Target,
  kind: FormKind,
  language: Language,
  lexicon: Lexicon,
  random: () => number,
): Form | null {
  const question = questionOf(target, kind, language, lexicon, random);
  return question === null || containsAnswer(question, target) ? null : { kind, question, answer: target.answer };
}

/** A question that says its own answer teaches nothing. */
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
    const question = rowQuestion(target, language, random);
    return question && `${random() < 0.5 ? `${heading}: ` : ""}${question}`;
  }
  if (unit.type === "row" || unit.type === "pair" || span === null) return null;
  const said = [target.earlier && random() < 0.6 ? `${target.earlier} ` : "", before].join("");
  const ask = pick(interrogatives(language, span.kind), random);
  if (kind === "in_place") return `${heading}: ${open(`${said}${ask}${after}`)}?`;
  if (kind === "gap") return filled(language.gap, { text: `${heading}: ${said}${gap}${after}` });
  if (kind === "complete" && wordsOf(before).length >= 4)
    return filled(language.complete, { text: `${heading}: ${said.trimEnd()}` });
  return null;
}

function rowQuestion(target: Target, language: Language, random: () => number): string | null {
  const { unit } = target;
  if (unit.type !== "row") throw new TypeError("not of a table");
  const { cells, header } = unit;
  if (target.kind === "key") {
    const row = cells[0]!;
    const others = cells
      .map((value, column) => ({ value, column: (header[column] ?? "").replaceAll("_", " ") }))
      .slice(1);
    const told = shuffled(
      others.filter(({ value }) => value !== "" && value !== row),
      random,
    ).slice(0, 2);
    if (told.length === 0) return null;
    const value = told.map((one) => one.value).join(", ");
    return filled(pick(language.reverse, random), { column: told[0]!.column, value }).replace(/\s+/g, " ");
  }
  const asked = columnOf(target, cells);
  const column = (header[asked] ?? "").replaceAll("_", " ");
  const row = rowNamed(target.passage, namesOf(cells, asked), random).join(", ");
  if (row === "") return null;
  return column === ""
    ? filled(pick(language.row, random), { row })
    : filled(pick(language.cell, random), { row, column });
}

/** Two cells of a row may say the same: the asked one is known by its place. */
function columnOf({ unit, span }: Target, cells: readonly string[]): number {
  let at = unit.at;
  return cells.findIndex((cell) => {
    const here = at;
    at += cell.length + cellsJoin.length;
    return here === span?.start;
  });
}

/** As many of a row's names as tell it from the other rows of its passage. */
function rowNamed(passage: Passage, names: readonly string[], random: () => number): string[] {
  const rows = passage.units.flatMap((unit) => (unit.type === "row" ? [unit.cells] : []));
  const told: string[] = [];
  for (const name of shuffled(names, random)) {
    told.push(name);
    if (rows.filter((cells) => told.every((one) => cells.includes(one))).length === 1) break;
  }
  return names.filter((name) => told.includes(name));
}

/** Words of a keyword query, at least and at most, before what is needed to find the passage. */
const fewest = 3;
const most = 7;

/**
 * The words around an answer that tell most, some left out, and an interrogative. Words of the headings are added until the passage is
 * found by them: a query that fits two passages has two answers.
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
  const own = distinct([...told(before), ...told(after)]);
  // A reader who judged such queries found no answer in headings alone, and two where words of two sentences were mixed.
  if (own.length === 0) return null;
  const near = isQuestion(earlier) ? distinct(told(earlier)) : [];
  const above = distinct(told(headingOf(passage)));
  const size = fewest + Math.floor(random() * (most - fewest + 1));
  // Drawn by weight: rare words are those that a person would not leave out.
  const drawn = new Set(
    own
      .map((word) => ({ word, key: random() ** (1 / Math.max(0.5, weight(word, lexicon))) }))
      .sort((a, b) => b.key - a.key)
      .slice(0, size)
      .map(({ word }) => word),
  );
  for (const word of near) if (random() < 0.25) drawn.add(word);
  const spare = [
    ...shuffled(above, random),
    ...shuffled(
      [...own, ...near].filter((word) => !drawn.has(word)),
      random,
    ),
  ];
  if (drawn.size < fewest || random() < 0.5)
    for (const word of spare.splice(0, 1 + Math.floor(random() * 2))) drawn.add(word);
  while (spare.length > 0 && lexicon.rankOf([...drawn].join(" "), passage) > 1) drawn.add(spare.shift()!);
  const said = new Set([...drawn].map((word) => word.toLowerCase()));
  // One word may be anything.
  if (said.size < 2) return null;
  const inOrder = distinct([...above, ...near, ...own]).filter((word) => said.has(word.toLowerCase()));
  const words = (random() < 0.6 ? inOrder : shuffled(inOrder, random)).join(" ");
  const ask = pick(interrogatives(language, target.span?.kind ?? "part"), random);
  return random() < 0.6 ? `${ask} ${words}?` : `${words}: ${ask}?`;
}

const weight = (word: string, lexicon: Lexicon): number => Math.max(...wordsOf(word).map(lexicon.weightOf));

const distinct = (words: readonly string[]): string[] => [
  ...new Map(words.map((word) => [word.toLowerCase(), word])).values(),
];

/** Which plain forms a target has, the most telling first. */
export function formsFor(target: Target): FormKind[] {
  if (target.kind === "asked") return ["asked"];
  if (target.kind === "key") return ["reverse", "keywords"];
  if (target.unit.type === "row")
    return target.unit.cells.includes(target.answer) ? ["cell", "keywords", "keywords", "cell"] : [];
  if (target.unit.type === "pair") return ["pair", "keywords", "keywords", "pair"];
  return ["keywords", "in_place", "keywords", "gap", "keywords", "complete"];
}

/** A unit's words with most of them left out, to be written out in full; null of one too short to miss any. */
export function statementOf(
  passage: Passage,
  text: string,
  language: Language,
  lexicon: Lexicon,
  random: () => number,
): Form | null {
  const words = text.split(/\s+/);
  if (words.length < 5) return null;
  const told = words.filter((word) => wordsOf(word).some(lexicon.tells));
  const kept = distinct(told).filter(() => random() < 0.45);
  if (kept.length < 2) return null;
  const prompt = random() < 0.5 ? kept.map(open).join(" ") : masked(words, new Set(kept));
  const question =
    random() < 0.5
      ? filled(language.state, { words: `${nearestHeading(passage)}: ${open(prompt)}` })
      : filled(language.restore, { text: `${nearestHeading(passage)}: ${prompt}` });
  return { kind: "complete", question, answer: text };
}

/** Words that are not kept become a gap; neighbours share one. */
const masked = (words: readonly string[], kept: ReadonlySet<string>): string =>
  words
    .map((word) => (kept.has(word) ? word : gap))
    .filter((word, at, all) => word !== gap || all[at - 1] !== gap)
    .join(" ");

/** A whole passage from its headings and some of its words. */
export function recallOf(passage: Passage, language: Language, lexicon: Lexicon, random: () => number): Form {
  const words = distinct(passage.text.split(/\s+/).filter((word) => wordsOf(word).some(lexicon.tells)));
  const told = shuffled(words, random).slice(0, 3).map(open).join(", ");
  const heading = `${headingOf(passage)}${told === "" ? "" : ` (${told})`}`;
  return { kind: "complete", question: filled(language.recall, { heading }), answer: passage.text };
}
