// Finds tables in plain text: neighbouring lines whose cells are separated by bars, tabs, leader dots or aligned spaces. In a table that
// is made of spaces, a line may lack the last cells or continue a cell of the line above.
import { columnsOf, isRuleLine, partingOf, spacedCells } from "../../study/inline.ts";

/** Minimum rows of a table. Spaces separate words too, so a table that is made of spaces needs more rows. */
const fewestRows = { signs: 2, spaces: 3 };
/** Maximum characters of a cell that another one follows in a table made of spaces. Longer ones are prose. */
const longestCell = 60;

/** A stretch of lines. A table has one stretch for each row; lines that only draw its rules belong to none. */
export interface Stretch<Line> {
  /** 1 for the first row of a table, 2 for its other rows, 0 for what stands between tables. */
  level: 0 | 1 | 2;
  lines: Line[];
}

/** Splits neighbouring lines into the rows of tables and what stands between tables, in order. */
export function stretchesWithTables<Line extends { text: string }>(lines: readonly Line[]): Stretch<Line>[] {
  const stretches: Stretch<Line>[] = [];
  for (let at = 0; at < lines.length; ) {
    const { rows, end } = tableAt(lines, at);
    for (const [index, row] of rows.entries()) stretches.push({ level: index === 0 ? 1 : 2, lines: row });
    if (end === at && stretches.at(-1)?.level === 0) stretches.at(-1)!.lines.push(lines[at]!);
    else if (end === at) stretches.push({ level: 0, lines: [lines[at]!] });
    at = Math.max(end, at + 1);
  }
  return stretches;
}

/** The table that begins at a line, and the index after its last line, which is the line's own if none begins there. */
function tableAt<Line extends { text: string }>(
  lines: readonly Line[],
  first: number,
): { rows: Line[][]; end: number } {
  const rows: Line[][] = [];
  let end = first;
  for (let at = first; at < lines.length; at++) {
    const line = lines[at]!;
    const top = rows[0]?.[0]?.text;
    if (isRuleLine(line.text)) {
      if (top === undefined && !/[|+│┼]/.test(line.text)) break;
    } else if (isRow(top, line.text)) rows.push([line]);
    else if (top !== undefined && goesOn(rows.at(-1)![0]!.text, line.text)) rows.at(-1)!.push(line);
    else break;
    end = at + 1;
  }
  const top = rows[0]?.[0]?.text ?? "";
  const isOfSigns = partingOf(top) !== null;
  // Keys with colons are told as keys and values, line by line.
  const arePairs = !isOfSigns && rows.every(([line]) => columnsOf(line!.text)[0]!.endsWith(":"));
  const isTable = rows.length >= (isOfSigns ? fewestRows.signs : fewestRows.spaces) && !arePairs;
  return isTable ? { rows, end } : { rows: [], end: first };
}

/** A list's mark is no cell. */
const listMark = /^[ \t]*(?:[-*•–]|\d{1,3}[.)])\s/;

/** Whether a line is a row of the table whose first row is `top`, or may be the first row of one if there is none yet. */
function isRow(top: string | undefined, line: string): boolean {
  const cells = columnsOf(line);
  if (cells.length < 2 || cells.every((cell) => cell === "") || listMark.test(line)) return false;
  const parting = partingOf(line);
  const isShort = cells.slice(0, -1).every((cell) => cell.length <= longestCell);
  if (top === undefined) return parting !== null || isShort;
  if (parting?.source !== partingOf(top)?.source) return false;
  const columns = columnsOf(top).length;
  return parting !== null ? cells.length === columns : cells.length <= columns && isShort && isAligned(top, line);
}

/** Whether every cell of a line begins where the cell of the first row does, or ends there if both have figures. */
function isAligned(top: string, line: string): boolean {
  const columns = spacedCells(top);
  return spacedCells(line).every((cell, at) => {
    const above = columns[at]!;
    const areFigures = /\d/.test(cell.text) && /\d/.test(above.text);
    return cell.start === above.start || (areFigures && cell.end === above.end);
  });
}

/** Whether a line goes on with a cell of the row above: it begins under a cell that is not the row's first. */
function goesOn(row: string, line: string): boolean {
  const cells = spacedCells(line);
  return (
    partingOf(row) === null &&
    cells.length === 1 &&
    spacedCells(row)
      .slice(1)
      .some(({ start }) => start === cells[0]!.start)
  );
}
