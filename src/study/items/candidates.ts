// Makes candidates for benchmark items from written and plain questions. A candidate has a question, the right answer, its
// citations and wrong answers.
import { sha256 } from "../../base/files.ts";
import { seeded } from "../../base/statistics/random.ts";
import { hashOf, holdsUncut, normalised, shuffled, wordsOf } from "../../base/text.ts";
import type { SnapshotDocument } from "../../contract/run-folder.ts";
import { nearestHeading } from "../forms.ts";
import { disputed } from "../gates.ts";
import { headingOf } from "../heading.ts";
import { monthsOf, ownOrEnglish } from "../languages.ts";
import { findOverlap } from "../leakage.ts";
import { lexiconOf } from "../lexicon.ts";
import { type Passage, type Place, passagesOf, type Unit } from "../passages.ts";
import { plainRowsOf } from "../plain.ts";
import { tablesOf } from "../tables.ts";
import type { ItemKind } from "./kinds.ts";
import { type PlainItem, plainItemsOf } from "./plain-items.ts";
import { inUsualLanguage, spreadOrder } from "./plan.ts";
import { rivalsOf } from "./rivals.ts";
import type { Verified } from "./written.ts";

export interface Citation extends Place {
  document: string;
  page: number | null;
  quote: string;
}

export interface Wording {
  question: string;
  /** Rank, from 1, of the item's passage in a search by the question; the best rank if the item has two passages. */
  rank: number;
  /** Whether the question is given away by one of the rows that every study makes without a model (plain.ts). */
  leaks: boolean;
  /** Whether a reader who saw only the passages gave the same answer; always true for plain questions. */
  verified: boolean;
}

export interface ItemCandidate {
  category: ItemKind;
  type: "short" | "choice" | "refusal";
  /** The best wording comes first. The first one that passes the gates is used. */
  wordings: Wording[];
  response: string;
  aliases: string[];
  choices: string[];
  citations: Citation[];
  /** The passages under their headings. This text must support the answer, and a checker sees no other text. */
  chunk: string;
  /** Plausible wrong answers: spans of the same kind in the same passage, and other cells of the column. */
  rivals: string[];
  /** Other cells of the same column. */
  siblings: string[];
  /** Items about the same fact share this hash. It depends on the text that states the fact and on the answer, not on their place. */
  cluster: string;
  document: string;
  passage: string;
  /** The table row or heading that the item is about. */
  subject: string;
  /** Whether a model wrote the question. Otherwise it is a plain form. */
  isWritten: boolean;
}

/** What a writer wrote about a passage. */
export interface WrittenOf {
  passage: string;
  near: string | null;
  items: readonly Verified[];
}

export interface CandidateTask {
  documents: readonly SnapshotDocument[];
  seed: number;
  wanted: number;
  written: readonly WrittenOf[];
}

/** Number of plain questions that are made for each question wanted. */
const spare = 3;
/** Of the candidates with enough siblings, one in this many becomes a multiple-choice item. */
const choiceEvery = 4;

/** Returns the candidates, passage by passage, in the order in which the passages are asked about. */
export function candidatesOf({ documents, seed, wanted, written }: CandidateTask): ItemCandidate[] {
  const studied = passagesOf(documents);
  const passages = inUsualLanguage(studied);
  const byId = new Map(passages.map((passage) => [passage.id, passage]));
  const source = new Map(documents.map((document) => [document.id, document]));
  const said = new Map(written.map((one) => [one.passage, one]));
  const inOrder = spreadOrder(passages, seed);
  const tables = tablesOf(studied);
  const plain = withoutDisputed(
    inOrder.map((passage) => plainItemsOf(passage, tables, seeded(seed ^ hashOf(`plain ${passage.text}`)))),
  );
  // Only passages with tables or with lines of key and value give plain questions. There may be few of them, so each gives more.
  const each = Math.ceil((spare * wanted) / Math.max(1, plain.filter((items) => items.length > 0).length));
  const drafts = inOrder.flatMap((passage, at) => {
    const { near = null, items = [] } = said.get(passage.id) ?? {};
    const shown = near === null ? [passage] : [passage, byId.get(near)!];
    const asked: Asked[] = [...byAnswer(items, shown), ...plain[at]!.slice(0, each)];
    return asked.map((one) => draftOf(one, shown, source));
  });
  return withRivals(lookedUp(drafts, studied, byId), passages, seed);
}

/**
 * Drops the plain questions that have several answers, such as the one for the telephone number under "Contact" if several documents have
 * such a heading. All plain items are compared, because only some of them become candidates.
 */
function withoutDisputed(all: readonly PlainItem[][]): PlainItem[][] {
  const found = disputed(
    all.flat().flatMap(({ questions, answer }) => questions.map(({ question }) => ({ question, answer }))),
  );
  return all.map((items) =>
    items
      .map((item) => ({
        ...item,
        questions: item.questions.filter(({ question }) => !found.has(normalised(question))),
      }))
      .filter(({ questions }) => questions.length > 0),
  );
}

interface Asked {
  kind: ItemKind;
  answer: string;
  questions: { question: string; verified: boolean }[];
  /** The unit that states the answer; null if several units state it together, or none does. */
  unit: Unit | null;
  /** Column of the cell asked for. */
  column?: number;
  isWritten: boolean;
}

/** Groups the questions for the same answer into one item with several wordings. */
const byAnswer = (items: readonly Verified[], shown: readonly Passage[]): Asked[] =>
  [...Map.groupBy(items, ({ kind, answer, question }) => JSON.stringify([kind, answer || question])).values()].map(
    (same) => {
      const [{ kind, answer, question }] = same as [Verified];
      return {
        kind,
        answer,
        questions: same.map(({ question, verified }) => ({ question, verified })),
        unit: kind === "unanswerable" ? null : unitOf(saying(shown, kind, answer), answer, question),
        isWritten: true,
      };
    },
  );

/** The passage that contains the answer: for multi_hop the first that contains it, otherwise the item's own passage. */
const saying = (shown: readonly Passage[], kind: ItemKind, answer: string): Passage =>
  (kind === "multi_hop" ? shown.find(({ text }) => holdsUncut(text, answer)) : undefined) ?? shown[0]!;

/** Of the units that contain the answer, the one that shares most words with the question; null if none contains it. */
function unitOf({ units }: Passage, answer: string, question: string): Unit | null {
  const asked = new Set(wordsOf(question));
  const shared = ({ text }: Unit): number => wordsOf(text).filter((word) => asked.has(word)).length;
  const holding = units.filter(({ text }) => holdsUncut(text, answer));
  return holding.reduce<Unit | null>((best, one) => (best === null || shared(one) > shared(best) ? one : best), null);
}

type Draft = Omit<ItemCandidate, "wordings" | "rivals" | "siblings"> & {
  questions: Asked["questions"];
  /** The passage that contains the answer. */
  at: Passage;
  unit: Unit | null;
  column: number;
};

function draftOf(
  { kind, answer, questions, unit, column = -1, isWritten }: Asked,
  shown: readonly Passage[],
  source: ReadonlyMap<string, SnapshotDocument>,
): Draft {
  const [passage] = shown as [Passage];
  const at = saying(shown, kind, answer);
  const cite = ({ document, start, end }: Place & { document: string }): Citation =>
    citationOf(source.get(document)!, { start, end });
  const own = cite({ document: at.document, start: (unit ?? at).start, end: (unit ?? at).end });
  const others = kind === "multi_hop" ? shown.filter((one) => one !== at).map(cite) : [];
  const common = {
    category: kind,
    questions,
    choices: [],
    document: passage.document,
    passage: passage.id,
    subject: unit?.type === "row" ? unit.cells[0]! : nearestHeading(at),
    isWritten,
    at,
    unit,
    column,
  };
  if (kind === "unanswerable")
    return {
      ...common,
      type: "refusal",
      response: ownOrEnglish(passage.language, "not_stated"),
      aliases: [],
      citations: [],
      chunk: textOf(shown),
      cluster: clusterOf("", questions[0]!.question),
    };
  return {
    ...common,
    type: "short",
    response: answer,
    aliases: aliasesOf(answer, passage.language),
    citations: [...others, own],
    chunk: textOf(kind === "multi_hop" ? shown : [passage]),
    cluster: clusterOf(saidBy(at, unit), answer),
  };
}

const textOf = (passages: readonly Passage[]): string =>
  passages.map((passage) => `${headingOf(passage)}\n${passage.text}`).join("\n\n");

/** What identifies the fact: a row's first cell, a pair's heading and key, or else the text of the unit or passage. */
function saidBy(passage: Passage, unit: Unit | null): string {
  if (unit === null) return passage.text;
  if (unit.type === "row") return unit.cells[0]!;
  return unit.type === "pair" ? `${nearestHeading(passage)} ${unit.key}` : unit.text;
}

const clusterOf = (saidBy: string, answer: string): string =>
  `fact-${sha256(`${normalised(saidBy)}\n${normalised(answer)}`).slice(0, 16)}`;

/** The citation of a place, without white space at its ends. */
function citationOf({ id, text, pages }: SnapshotDocument, place: Place): Citation {
  const said = text.slice(place.start, place.end);
  const start = place.start + said.length - said.trimStart().length;
  const quote = said.trim();
  const page = pages?.filter((begin) => begin <= start).length || null;
  return { document: id, page, start, end: start + quote.length, quote };
}

/** A number and its unit, without a second number. A number that ends with a full stop is an ordinal. */
const withUnit = /^(\d(?:[\d.,]*\d)?)\s+(?=\p{L})(?!.*(?<!\p{L})\p{N})(.+)$/u;

/**
 * Returns equally correct forms of an answer: a number without its unit, because the question may name the unit, and a number
 * without grouping commas. The day of a date is not such a number.
 */
function aliasesOf(value: string, language: string | null): string[] {
  const [, number, unit] = withUnit.exec(value) ?? [];
  const isDate = unit !== undefined && wordsOf(unit).some((word) => monthsOf(language).has(word));
  const ungrouped = /^\d{1,3}(?:,\d{3})+/.test(value) ? value.replaceAll(",", "") : undefined;
  return [isDate ? undefined : number, ungrouped].filter((alias) => alias !== undefined);
}

type LookedUp = Omit<Draft, "questions"> & Pick<ItemCandidate, "wordings">;

/** Adds the search rank of each question, and whether the rows that every study makes without a model give the question away. */
function lookedUp(
  drafts: readonly Draft[],
  passages: readonly Passage[],
  byId: ReadonlyMap<string, Passage>,
): LookedUp[] {
  const lexicon = lexiconOf(passages);
  const all = [...new Set(drafts.flatMap(({ questions }) => questions.map(({ question }) => question)))];
  const leaking = new Set(findOverlap(all, plainRowsOf(passages, lexicon)).items.map(({ question }) => all[question]!));
  return drafts.map(({ questions, ...draft }) => {
    const about = new Set([byId.get(draft.passage)!, draft.at]);
    const wordings = questions.map((one) => ({
      ...one,
      rank: Math.min(...[...about].map((passage) => lexicon.rankOf(one.question, passage))),
      leaks: leaking.has(one.question),
    }));
    return { ...draft, wordings };
  });
}

/** Adds the wrong answers. Some of the items whose column gives enough wrong answers become multiple choice. */
function withRivals(drafts: readonly LookedUp[], passages: readonly Passage[], seed: number): ItemCandidate[] {
  const rivals = rivalsOf(passages);
  let withSiblings = 0;
  return drafts.map(({ at, unit, column, ...draft }): ItemCandidate => {
    if (draft.type === "refusal") return { ...draft, rivals: [], siblings: [] };
    const found = rivals(at, unit, draft.response, column);
    const wrong = found.siblings.slice(0, 3);
    const isChoice = wrong.length === 3 && ++withSiblings % choiceEvery === 0;
    if (!isChoice) return { ...draft, ...found };
    const random = seeded(seed ^ hashOf(draft.cluster));
    return { ...draft, ...found, type: "choice", aliases: [], choices: shuffled([draft.response, ...wrong], random) };
  });
}
