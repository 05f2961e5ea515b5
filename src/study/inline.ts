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

/** The text after a word, because a sign such as ">" or "-" at the start of a text would begin a block. */
const inlineText = (raw: string): string => flattened(fromMarkdown(`a ${raw}`)).slice(1);

/** Returns a block of Markdown with spaces in place of the marks of a quotation, which begin the lines after its first. */
export const unquoted = (raw: string): string =>
  raw.replace(/(?<=\n)[ \t]*>[ \t>]*/g, (marks) => " ".repeat(marks.length));

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

/** The delimiter that occurs most often in the first line; a comma if there is none. */
export function delimiterOf(text: string): string {
  const first = text.slice(0, text.search(/\n|$/));
  return [",", ";", "\t", "|"].reduce((best, mark) =>
    first.split(mark).length > first.split(best).length ? mark : best,
  );
}
