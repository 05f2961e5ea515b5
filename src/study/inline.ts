// Reads the text of a block without its markup, and the cells of a row.
import { parse as parseCsv } from "csv-parse/sync";
import type { Nodes } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import type { SnapshotDocument } from "../contract/run-folder.ts";

/** Returns the text without markup, on one line. */
export function plainText(raw: string, mediaType: SnapshotDocument["media_type"]): string {
  const text = mediaType === "text/markdown" && /[*_`[\]\\<&!]/.test(raw) ? inlineText(raw) : raw;
  return text.replace(/\s+/g, " ").trim();
}

/** A word before a text, because a sign such as ">" or "-" at the start would begin a block. */
const ahead = "a ";
const inlineText = (raw: string): string => flattened(fromMarkdown(ahead + raw)).slice(1);

/** Returns a block of Markdown with spaces in place of the marks of a quotation, which begin the lines after its first. */
export const unquoted = (raw: string): string =>
  raw.replace(/(?<=\n)[ \t]*>[ \t>]*/g, (marks) => " ".repeat(marks.length));

/** Returns a block of Markdown with full stops in place of pictures and of the addresses of links, whose letters are not read. */
export function withoutAddresses(raw: string): string {
  if (!raw.includes("](")) return raw;
  let text = "";
  const hide = (from: number, to: number): void => {
    text += raw.slice(text.length, from);
    text += ".".repeat(to - from);
  };
  const look = (node: Nodes): void => {
    const [start, end] = [startOf(node), endOf(node)];
    if (node.type === "image") hide(start, end);
    if (!("children" in node)) return;
    for (const child of node.children) look(child);
    const label = node.children.at(-1);
    if (node.type === "link") hide(label === undefined ? start : endOf(label), end);
  };
  look(fromMarkdown(ahead + raw));
  return text + raw.slice(text.length);
}

const startOf = (node: Nodes): number => node.position!.start.offset! - ahead.length;
const endOf = (node: Nodes): number => node.position!.end.offset! - ahead.length;

function flattened(node: Nodes): string {
  if ("children" in node) return node.children.map(flattened).join(node.type === "root" ? " " : "");
  if (node.type === "break") return " ";
  return "value" in node ? node.value : "";
}

export function cellsOf(raw: string, isCsv: boolean, delimiter: string): string[] {
  if (isCsv) {
    const [cells = []] = parseCsv(raw, { delimiter, relax_quotes: true, relax_column_count: true }) as string[][];
    return cells.map((cell) => cell.replace(/\s+/g, " ").trim());
  }
  return raw
    .trim()
    .replace(/^\||\|$/g, "")
    .split(/(?<!\\)\|/)
    .map((cell) => plainText(cell.trim(), "text/markdown"));
}

/** A cell of a line of plain text, with its offsets in the line. */
export interface PlacedCell {
  text: string;
  start: number;
  end: number;
}

/** Cells between runs of spaces. */
export const spacedCells = (line: string): PlacedCell[] =>
  [...line.matchAll(/\S+(?: \S+)*/g)].map(({ 0: text, index }) => ({ text, start: index, end: index + text.length }));

/** The signs that separate the cells of a line of plain text: bars, tabs or leader dots. Null if it has none of them. */
export function partingOf(line: string): RegExp | null {
  const bare = line.trim();
  return [/[|│]/, /\t+/, / ?(?:\.{4,}|…{2,}|(?: \.){4,}) ?/].find((sign) => sign.test(bare)) ?? null;
}

/**
 * The cells of a row of a table in plain text. They are separated by bars, tabs or leader dots, or else by runs of spaces. Each further
 * line of a row continues the column under which it begins.
 */
export function columnsOf(row: string): string[] {
  const [line = "", ...more] = row.split("\n");
  const parting = partingOf(line);
  if (parting !== null)
    return line
      .trim()
      .replace(/^[|│]|[|│]$/g, "")
      .split(parting)
      .map((cell) => cell.trim());
  const cells = spacedCells(line);
  for (const { text, start } of more.flatMap(spacedCells))
    cells.findLast((cell) => cell.start <= start)!.text += ` ${text}`;
  return cells.map(({ text }) => text);
}

/** Whether a line only draws the rules of a table: "+----+----+", "--- | ---". */
export const isRuleLine = (line: string): boolean => /^[\s|+:=\-─━═│┌┐└┘├┤┬┴┼]*$/.test(line) && /[-=─━═]{3}/.test(line);

/** The delimiter that occurs most often in the first line; a comma if there is none. */
export function delimiterOf(text: string): string {
  const first = text.slice(0, text.search(/\n|$/));
  return [",", ";", "\t", "|"].reduce((best, mark) =>
    first.split(mark).length > first.split(best).length ? mark : best,
  );
}
