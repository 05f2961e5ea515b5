// Finds plausible wrong answers: other cells of the same column, and other spans of the same kind in the same passage.
import { containsWords, normalised } from "../../base/text.ts";
import type { Passage, Unit } from "../passages.ts";
import { spansOf } from "../spans.ts";

const mostRivals = 6;

/** `column`: the column of the cell asked for; −1 if it must be found or there is none. */
type Find = (passage: Passage, unit: Unit | null, answer: string, column: number) => Rivals;

export interface Rivals {
  rivals: string[];
  /** Other cells of the same column. */
  siblings: string[];
}

export function rivalsOf(passages: readonly Passage[]): Find {
  const columns = new Map<string, string[]>();
  for (const { document, units } of passages)
    for (const unit of units)
      if (unit.type === "row")
        unit.cells.forEach((cell, column) => {
          const key = keyOf(document, unit.header, column);
          const known = columns.get(key);
          if (known) known.push(cell);
          else columns.set(key, [cell]);
        });
  return (passage, unit, answer, asked) => {
    const column = asked < 0 && unit?.type === "row" ? unit.cells.indexOf(answer) : asked;
    const ofColumn =
      unit?.type === "row" && column >= 0 ? columns.get(keyOf(passage.document, unit.header, column))! : [];
    const siblings = others(ofColumn, answer);
    return { rivals: others([...ofPassage(passage, answer), ...siblings], answer), siblings };
  };
}

const keyOf = (document: string, header: readonly string[], column: number): string =>
  JSON.stringify([document, header, column]);

/** Returns the spans that could be mistaken for the answer: figures if it has a figure, otherwise spans of its kind. */
function ofPassage(passage: Passage, answer: string): string[] {
  const spans = passage.units.flatMap((unit) =>
    spansOf(unit, () => true).map(({ start, end, kind }) => ({ kind, text: passage.text.slice(start, end) })),
  );
  const hasFigure = (text: string): boolean => /\p{N}/u.test(text);
  const own = spans.find(({ text }) => text === answer)?.kind;
  const isAlike = ({ kind, text }: (typeof spans)[number]): boolean =>
    hasFigure(answer) ? hasFigure(text) && kind !== "part" : kind === own && !hasFigure(text);
  return spans.filter(isAlike).map(({ text }) => text);
}

/**
 * Returns up to `mostRivals` distinct values. It leaves out those that contain the answer or are contained in it, because they are the
 * same answer, only longer or shorter.
 */
function others(values: readonly string[], answer: string): string[] {
  const kept = new Map<string, string>();
  for (const value of values) {
    const key = normalised(value);
    if (key === "" || kept.has(key) || containsWords(value, answer) || containsWords(answer, value)) continue;
    kept.set(key, value);
    if (kept.size === mostRivals) break;
  }
  return [...kept.values()];
}
