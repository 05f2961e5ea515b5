// A document as blocks: sections with their headings, lines of prose, key-value lines, tables. Every piece keeps where in
// the document's text it stands (character offsets).
import { CsvError, type Options as CsvOptions, parse as parseCsv } from "csv-parse/sync";
import type { Nodes, Table } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmTableFromMarkdown } from "mdast-util-gfm-table";
import { gfmTable } from "micromark-extension-gfm-table";
import type { SnapshotDocument } from "../../../contract/run-folder.ts";

/** Plain text of a piece and, for each of its characters, the offset in the document. */
export interface Piece {
  text: string;
  offsets: number[];
}

/** `path`: the headings above, outermost first. `verbatim`: code and raw HTML, which state nothing in sentences. */
export type Block =
  | { type: "heading"; piece: Piece; depth: number; path: string[] }
  | { type: "prose"; piece: Piece; path: string[] }
  | { type: "verbatim"; piece: Piece; path: string[] }
  | { type: "pair"; key: Piece; value: Piece; path: string[] }
  | { type: "table"; header: Piece[]; rows: Piece[][]; path: string[] };

export interface Span {
  start: number;
  end: number;
}

export function spanOf(piece: Piece, start = 0, end = piece.text.length): Span {
  const first = piece.offsets[start] ?? 0;
  return { start: first, end: (piece.offsets[end - 1] ?? first - 1) + 1 };
}

export function blocksOf(document: SnapshotDocument): Block[] {
  if (document.media_type === "text/markdown") return markdownBlocks(document.text);
  if (document.media_type === "text/csv") return csvBlocks(document.text);
  return plainBlocks(document.text);
}

function slice(piece: Piece, start: number, end: number): Piece {
  const lead = /^\s*/.exec(piece.text.slice(start, end))![0].length;
  const text = piece.text.slice(start, end).trim();
  return { text, offsets: piece.offsets.slice(start + lead, start + lead + text.length) };
}

const straight = (text: string, at: number): Piece => ({ text, offsets: Array.from(text, (_, i) => at + i) });

/** The plain text under a node; markup and escapes leave gaps in the offsets. */
function flatten(node: Nodes): Piece {
  const piece: Piece = { text: "", offsets: [] };
  const walk = (at: Nodes): void => {
    if ("children" in at) {
      for (const child of at.children) walk(child);
      return;
    }
    const value = at.type === "break" ? " " : "value" in at ? at.value : "";
    const start = (at.position?.start.offset ?? 0) + (at.type === "inlineCode" ? 1 : 0);
    const last = Math.max(start, (at.position?.end.offset ?? start + value.length) - 1);
    for (let i = 0; i < value.length; i++) piece.offsets.push(Math.min(start + i, last));
    piece.text += value;
  };
  walk(node);
  return piece;
}

/** Headings seen so far, as the path of what follows. */
class Path {
  #open: { depth: number; text: string }[] = [];

  enter(depth: number, text: string): void {
    while (this.#open.length > 0 && this.#open.at(-1)!.depth >= depth) this.#open.pop();
    this.#open.push({ depth, text });
  }

  get texts(): string[] {
    return this.#open.map((heading) => heading.text);
  }
}

function markdownBlocks(text: string): Block[] {
  const blocks: Block[] = [];
  const path = new Path();
  const walk = (node: Nodes): void => {
    if (node.type === "heading") {
      const piece = slice(flatten(node), 0, Number.POSITIVE_INFINITY);
      path.enter(node.depth, piece.text);
      blocks.push({ type: "heading", piece, depth: node.depth, path: path.texts.slice(0, -1) });
    } else if (node.type === "table") blocks.push(markdownTable(node, path.texts));
    else if (node.type === "paragraph") blocks.push(...lineBlocks(flatten(node), path.texts));
    else if (node.type === "code" || node.type === "html")
      blocks.push({ type: "verbatim", piece: flatten(node), path: path.texts });
    else if (node.type === "root" || node.type === "list" || node.type === "listItem" || node.type === "blockquote")
      for (const child of node.children) walk(child);
  };
  walk(fromMarkdown(text, { extensions: [gfmTable()], mdastExtensions: [gfmTableFromMarkdown()] }));
  return blocks;
}

function markdownTable(table: Table, path: string[]): Block {
  const rows = table.children.map((row) =>
    row.children.map((cell) => slice(flatten(cell), 0, Number.POSITIVE_INFINITY)),
  );
  return { type: "table", header: rows[0] ?? [], rows: rows.slice(1), path };
}

/** «Founded: 1987», «Founded – 1987»; no sentence before the colon. */
const pairLine = /^([\p{Lu}\d][^:.?!;|]{0,48}?)(?::\s+| [–—] )(\S.*)$/u;
const notKeys = /^(note|notes|warning|important|tip|example|examples|caution|remember|todo|see|https?|p\.?s)$/i;

/** A paragraph's lines: key-value lines where most lines are such, else prose. */
function lineBlocks(piece: Piece, path: string[]): Block[] {
  const lines: Piece[] = [];
  let at = 0;
  for (const line of piece.text.split("\n")) {
    if (line.trim() !== "") lines.push(slice(piece, at, at + line.length));
    at += line.length + 1;
  }
  const pairs = lines.map((line) => pairLine.exec(line.text));
  const isPair = (match: RegExpExecArray | null) => match !== null && !notKeys.test(match[1]!.trim());
  if (pairs.filter(isPair).length * 2 <= lines.length) {
    const flat = { text: piece.text.replaceAll("\n", " "), offsets: piece.offsets };
    return [{ type: "prose", piece: slice(flat, 0, flat.text.length), path }];
  }
  return lines.map((line, index): Block => {
    const match = pairs[index]!;
    if (!isPair(match)) return { type: "prose", piece: line, path };
    const from = line.text.length - match![2]!.length;
    return { type: "pair", key: slice(line, 0, match![1]!.length), value: slice(line, from, line.text.length), path };
  });
}

function csvBlocks(text: string): Block[] {
  const body = text.replace(/^\ufeff/, "");
  const shift = text.length - body.length;
  const first = body.slice(0, body.search(/[\r\n]|$/));
  const delimiter = [",", ";", "\t", "|"].reduce((best, mark) =>
    first.split(mark).length > first.split(best).length ? mark : best,
  );
  const options = { delimiter, raw: true, relax_column_count: true, relax_quotes: true, skip_empty_lines: true };
  const records = csvRecords(body, options);
  let at = 0;
  const rows = records.map(({ record, raw }) => {
    const start = Math.max(at, body.indexOf(raw.trim(), at));
    at = start + raw.trim().length;
    return cellsOf(record, body, start, at, shift);
  });
  if (rows.length < 2) return [];
  return [{ type: "table", header: rows[0]!, rows: rows.slice(1), path: [] }];
}

/** A quote that never closes is an inch mark or a slip: then no quote means anything. */
function csvRecords(body: string, options: CsvOptions): { record: string[]; raw: string }[] {
  const read = (more: CsvOptions) =>
    parseCsv(body, { ...options, ...more }) as unknown as { record: string[]; raw: string }[];
  try {
    return read({});
  } catch (error) {
    if (error instanceof CsvError) return read({ quote: false });
    throw error;
  }
}

/** Cells found again in their line, so that each keeps its own offsets; a cell with doubled quotes takes the line's. */
function cellsOf(record: string[], body: string, start: number, end: number, shift: number): Piece[] {
  let at = start;
  return record.map((cell) => {
    const text = cell.trim();
    const found = body.indexOf(text, at);
    if (found < 0 || found + text.length > end)
      return { text, offsets: Array.from(text, (_, i) => shift + Math.min(start + i, end - 1)) };
    at = found + text.length;
    return straight(text, shift + found);
  });
}

const underlined = /^(=+|-{3,}|~{3,})\s*$/;
const listMark = /^\s*(?:[-*•–]|\d{1,2}[.)])\s+/;

/** Plain text: blank lines part paragraphs; a short line that ends like no sentence, or is underlined, is a heading. */
function plainBlocks(text: string): Block[] {
  const blocks: Block[] = [];
  const path = new Path();
  for (const match of text.matchAll(/(?:[^\r\n]*\S[^\r\n]*(?:\r?\n|$))+/g)) {
    const lines = linesOf(match[0], match.index);
    while (lines.length > 0) {
      const level = headingLevel(lines, blocks.length === 0);
      if (level === 0) break;
      const piece = slice(lines.shift()!, 0, Number.POSITIVE_INFINITY);
      if (lines[0] && underlined.test(lines[0].text)) lines.shift();
      path.enter(level, piece.text);
      blocks.push({ type: "heading", piece, depth: level, path: path.texts.slice(0, -1) });
    }
    for (const paragraph of itemsOf(lines)) blocks.push(...lineBlocks(paragraph, path.texts));
  }
  return blocks;
}

function linesOf(text: string, at: number): Piece[] {
  const lines: Piece[] = [];
  for (const match of text.matchAll(/[^\r\n]+/g)) lines.push(straight(match[0], at + match.index));
  return lines;
}

/** 0 = no heading. The first line of all is the title; underlined or upper-case lines are sections, others sub-sections. */
function headingLevel(lines: Piece[], first: boolean): number {
  const line = lines[0]!.text.trim();
  const marked = lines[1] !== undefined && underlined.test(lines[1].text);
  if (marked) return first || lines[1]!.text.startsWith("=") ? 1 : 2;
  if (line.length <= 80 && /\p{Lu}{3}/u.test(line) && line === line.toUpperCase()) return first ? 1 : 2;
  if (line.length > 60 || /[.:;,?!]$/.test(line) || pairLine.test(line) || listMark.test(line)) return 0;
  if (first && lines.length === 1) return 1;
  return lines.length === 1 && /^\p{Lu}/u.test(line) && line.split(" ").length <= 8 ? 3 : 0;
}

/** The lines of a paragraph, cut where a list item begins, joined by line feeds. */
function itemsOf(lines: Piece[]): Piece[] {
  const items: Piece[] = [];
  for (const line of lines) {
    const mark = listMark.exec(line.text)?.[0].length ?? 0;
    const own = slice(line, mark, line.text.length);
    const open = items.at(-1);
    if (open && mark === 0) {
      open.text += `\n${own.text}`;
      open.offsets.push((open.offsets.at(-1) ?? 0) + 1, ...own.offsets);
    } else items.push(own);
  }
  return items;
}
