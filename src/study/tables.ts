// Counts the rows of a table that fit a question. A question for one row must not fit another, and a large table is cut into several
// passages, so the rows of all passages are compared.
import { wordsOf } from "../base/text.ts";
import type { Passage, Unit } from "./passages.ts";

export type Row = Unit & { type: "row" };

/** Rows with the same cells count as one. No count goes beyond 2, because a question fits no row, one row or several. */
export interface Rows {
  /** Number of rows that have all of these cells. */
  withCells(cells: readonly string[]): number;
  /** Number of rows that contain all of these words, which are in the form of `wordsOf`. */
  withWords(words: readonly string[]): number;
}

export interface Tables {
  /** Rows under the same headings with the same column names. */
  rowsOf(passage: Passage, row: Row): Rows;
  /** Rows of all tables of the document with the same column names. */
  alikeOf(passage: Passage, row: Row): Rows;
}

export function tablesOf(passages: readonly Passage[]): Tables {
  const found = new Map<string, string[][]>();
  for (const passage of passages)
    for (const unit of passage.units)
      if (unit.type === "row")
        for (const key of [tableOf(passage, unit), columnsOf(passage, unit)]) {
          const known = found.get(key);
          if (known) known.push(unit.cells);
          else found.set(key, [unit.cells]);
        }
  const indexed = new Map<string, Rows>();
  const at = (key: string): Rows => {
    const rows = indexed.get(key) ?? indexOf(found.get(key)!);
    indexed.set(key, rows);
    return rows;
  };
  return {
    rowsOf: (passage, row) => at(tableOf(passage, row)),
    alikeOf: (passage, row) => at(columnsOf(passage, row)),
  };
}

const columnsOf = ({ document }: Passage, { header }: Row): string => JSON.stringify([document, header]);
const tableOf = ({ document, path }: Passage, { header }: Row): string => JSON.stringify([document, header, path]);

function indexOf(rows: readonly string[][]): Rows {
  const different = new Map(rows.map((cells) => [JSON.stringify(cells), cells]));
  const byCell = new Map<string, Set<string>>();
  const byWord = new Map<string, Set<string>>();
  const add = (index: Map<string, Set<string>>, held: string, row: string): void => {
    const known = index.get(held);
    if (known) known.add(row);
    else index.set(held, new Set([row]));
  };
  for (const [row, cells] of different) {
    for (const cell of cells) add(byCell, cell, row);
    for (const word of wordsOf(cells.join(" "))) add(byWord, word, row);
  }
  const counts = new Map<string, number>();
  return {
    // Cells that many rows share occur together in few ways, each of which is asked for once a row.
    withCells(cells) {
      const key = JSON.stringify(cells);
      const count = counts.get(key) ?? countIn(cells.map((cell) => byCell.get(cell)));
      counts.set(key, count);
      return count;
    },
    withWords: (words) => countIn(words.map((word) => byWord.get(word))),
  };
}

/** Size of the intersection of the sets, up to 2; 0 if one is missing. */
function countIn(sets: readonly (ReadonlySet<string> | undefined)[]): number {
  const [least, ...others] = sets.map((set) => set ?? new Set<string>()).sort((a, b) => a.size - b.size);
  let count = 0;
  for (const row of least ?? []) {
    if (others.every((set) => set.has(row))) count++;
    if (count === 2) break;
  }
  return count;
}
