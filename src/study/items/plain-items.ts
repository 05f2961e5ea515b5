// Makes benchmark questions without a writer. They ask for a cell by its row and column, or for a value by its key. They are
// correct by construction, and worded differently from every training row. Questions that a document itself asks are left out,
// because training asks them in the same words.
import { shuffled } from "../../base/text.ts";
import { nearestHeading } from "../forms.ts";
import { filled, languageOf } from "../languages.ts";
import type { Passage, Unit } from "../passages.ts";
import type { Row, Rows, Tables } from "../tables.ts";
import { namesOf } from "../targets.ts";
import { type ItemKind, kindOf } from "./kinds.ts";

export interface PlainItem {
  kind: ItemKind;
  answer: string;
  questions: { question: string; verified: true }[];
  unit: Unit;
  /** Column of the cell asked for. */
  column?: number;
  isWritten: false;
}

/** Maximum words of an answer. A longer cell or value is not asked for. */
const longest = 8;

/** The plain items of a passage, in random order. */
export function plainItemsOf(passage: Passage, tables: Tables, random: () => number): PlainItem[] {
  const items = passage.units.flatMap((unit) =>
    unit.type === "row"
      ? cellItems(passage, unit, tables, random)
      : unit.type === "pair"
        ? keyedItem(passage, unit, unit.key, unit.value, random)
        : [],
  );
  return shuffled(items, random);
}

function cellItems(passage: Passage, unit: Row, tables: Tables, random: () => number): PlainItem[] {
  const { cells, header } = unit;
  if (tellsOneThing(passage, header)) return keyedItem(passage, unit, cells[0]!, cells[1]!, random);
  return cells.flatMap((cell, column): PlainItem[] => {
    const title = (header[column] ?? "").replaceAll("_", " ").trim();
    const row = telling(tables.rowsOf(passage, unit), cells, column);
    if (column === 0 || title === "" || row === null || !isAnswer(cell)) return [];
    const asked = languageOf(passage.language).item.cell;
    const words = { row, column: title, heading: nearestHeading(passage) };
    return [{ ...itemOf(passage, unit, cell, asked, words, random), column }];
  });
}

/**
 * Joins the first names of a row, as many as it takes to distinguish the row from the other rows of its table. Null if all of its
 * names do not.
 */
function telling(rows: Rows, cells: readonly string[], asked: number): string | null {
  const names = namesOf(cells, asked);
  for (let n = 1; n <= names.length; n++) {
    const told = names.slice(0, n);
    if (rows.withCells(told) === 1) return told.join(", ");
  }
  return null;
}

/**
 * Whether the table has two columns and the second holds both figures and words. Its rows are then keys and values of
 * one thing, and its header row may be such a pair too.
 */
function tellsOneThing({ units }: Passage, header: readonly string[]): boolean {
  const isOfTable = (unit: Unit): unit is Unit & { type: "row" } =>
    unit.type === "row" && unit.header.join("\n") === header.join("\n");
  const rows = units.filter(isOfTable).map(({ cells }) => cells);
  const withFigures = rows.filter(([, value = ""]) => /\p{N}/u.test(value)).length;
  return rows.every(({ length }) => length === 2) && withFigures > 0 && withFigures < rows.length;
}

function keyedItem(passage: Passage, unit: Unit, key: string, value: string, random: () => number): PlainItem[] {
  if (!isAnswer(value) || key === "") return [];
  const asked = languageOf(passage.language).item.pair;
  return [itemOf(passage, unit, value, asked, { key, heading: nearestHeading(passage) }, random)];
}

/** Matches a name followed by an e-mail address. It says who sent or received a letter, which is not a fact to ask for. */
const mailbox = /\S\s<?[^<>\s@]+@[^<>\s@]+>?$/;

const isAnswer = (text: string): boolean =>
  /[\p{L}\p{N}]/u.test(text) && !mailbox.test(text) && text.split(/\s+/).length <= longest;

/**
 * Makes a plain item. Each wording is offered as it is, and also with the heading before it, because a question must find its passage.
 */
function itemOf(
  passage: Passage,
  unit: Unit,
  answer: string,
  asked: readonly string[],
  words: Record<string, string>,
  random: () => number,
): PlainItem {
  const plain = shuffled(asked, random).map((prompt) => filled(prompt, words));
  const heading = nearestHeading(passage);
  const under = plain.filter((question) => !question.includes(heading)).map((question) => `${heading}: ${question}`);
  // In a table of two columns, the name of the second column seldom describes its cells, so wordings with the heading come first.
  const isBare = unit.type === "row" && unit.cells.length === 2;
  const questions = (isBare ? [...under, ...plain] : [...plain, ...under]).map((question) => ({
    question,
    verified: true as const,
  }));
  return { kind: kindOf(unit, { kind: "value" }, answer, false), answer, questions, unit, isWritten: false };
}
