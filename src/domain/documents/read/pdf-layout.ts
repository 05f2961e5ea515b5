// Turns the text items of PDF pages into elements. Only the items' positions and fonts are known, so lines, columns, tables,
// paragraphs and headings are inferred from them. Independent of the PDF format. Lengths are in points, and y grows downwards
// from the top of the page.
import { type Element, PageText, type Piece, wordsOf } from "../elements.ts";
import { hyphenBetween, wordsWithin } from "../hyphens.ts";
import { goesOn, markOf } from "./list-marks.ts";

export interface TextItem {
  text: string;
  /** Position of the left end, and of the baseline. */
  x: number;
  y: number;
  width: number;
  /** Height of the letters. */
  size: number;
  font: string;
  fixedWidth: boolean;
  rightToLeft: boolean;
}

export interface TextPage {
  width: number;
  height: number;
  items: TextItem[];
}

/** Items beside each other with no wide gap between them. */
interface Segment {
  items: TextItem[];
  left: number;
  right: number;
  y: number;
  size: number;
}

/** Segments on one baseline. */
interface Row {
  segments: Segment[];
  y: number;
  size: number;
  left: number;
  right: number;
}

/**
 * Returns the elements of all pages, and each page's number of characters. `chapters` has the pages (from 0) on which chapters begin;
 * null if the file does not name them. Footnotes are placed at the end of their chapter, as in HTML and EPUB. Without chapters, they
 * are placed after their page.
 */
export function layOut(
  pages: readonly TextPage[],
  chapters: ReadonlySet<number> | null,
): { elements: Element[]; characters: number[] } {
  const rows = pages.map((page) => rowsOf(page.items));
  const body = bodyOf(rows);
  const running = runningRows(rows, pages, body);
  const segments = rows.flat().flatMap((row) => row.segments);
  const flow = new Flow(body, wordsWithin(segments.map(({ items }) => textIn(items))));
  const characters = pages.map((_, index) => {
    const text = new PageText(index);
    const [kept, dropped] = [[] as Row[], [] as Row[]];
    for (const row of rows[index]!) (running.has(row) ? dropped : kept).push(row);
    flow.page(kept, text, chapters === null || chapters.has(index));
    // Rows left out of the clean text still count as text of the page.
    for (const row of dropped)
      lineOf(
        row.segments.flatMap((segment) => segment.items),
        text,
      );
    return text.characters;
  });
  return { elements: flow.finished(), characters };
}

// ---- lines

function rowsOf(items: readonly TextItem[]): Row[] {
  const visible = items.filter((item) => item.text.trim() !== "" && item.size > 0);
  const lines: TextItem[][] = [];
  const open: TextItem[][] = [];
  for (const item of visible.toSorted((a, b) => a.y - b.y || a.x - b.x)) {
    const found = open.findLast((line) => Math.abs(line[0]!.y - item.y) < 0.45 * Math.max(sizeOf(line), item.size));
    if (found) found.push(item);
    else {
      const line = [item];
      lines.push(line);
      open.push(line);
      if (open.length > 8) open.shift();
    }
  }
  return lines.map(rowOf).sort((a, b) => a.y - b.y);
}

const sizeOf = (items: readonly TextItem[]): number => Math.max(...items.map((item) => item.size));

function rowOf(items: TextItem[]): Row {
  const sorted = items.toSorted((a, b) => a.x - b.x);
  const size = mostCommon(sorted.map((item) => [item.size, item.text.length]));
  const segments: Segment[] = [];
  for (const item of sorted) {
    const last = segments.at(-1);
    const right = item.x + item.width;
    if (last && item.x - last.right < 1.15 * size) {
      last.items.push(item);
      last.right = Math.max(last.right, right);
    } else segments.push({ items: [item], left: item.x, right, y: item.y, size });
  }
  // The baseline of most of the letters, because a footnote's number is raised above it.
  const y = mostCommon(sorted.map((item) => [item.y, item.text.length]));
  return { segments, y, size, left: segments[0]!.left, right: Math.max(...segments.map((segment) => segment.right)) };
}

/** The value with the greatest total weight. */
function mostCommon<T>(values: Iterable<[T, number]>): T {
  const weights = new Map<T, number>();
  for (const [value, weight] of values) weights.set(value, (weights.get(value) ?? 0) + weight);
  return [...weights].reduce((best, one) => (one[1] > best[1] ? one : best))[0];
}

const textIn = (items: readonly TextItem[]): string => items.map((item) => item.text).join(" ");
const textOfRow = (row: Row): string => textIn(row.segments.flatMap((segment) => segment.items));

// ---- headers and footers

/**
 * Finds headers and footers: rows at the top or bottom of a page that recur at about the same height, at least three times. The rows
 * are the same except for numbers, or count the pages.
 */
function runningRows(rows: readonly Row[][], pages: readonly TextPage[], body: BodyStyle): Set<Row> {
  /** Indexes of the pages that have a sign at a height, keyed by both. A sign is a row's text without numbers, or its page count. */
  const seen = new Map<string, number[]>();
  const edges = rows.flatMap((page, index) => {
    const height = pages[index]!.height;
    // Rows in larger letters are left out, because a chapter's title is at the same height in every chapter too.
    const small = page.filter((row) => row.size <= body.size * 1.12);
    const [top, bottom] = [small.slice(0, 3), small.slice(-3)];
    return [...top.filter((row) => row.y < height * 0.15), ...bottom.filter((row) => row.y > height * 0.85)].map(
      (row) => {
        const text = textOfRow(row).replace(/\s+/g, " ").trim();
        // In smaller letters, a number at the start counts only if it is the whole row, because footnotes begin with a number too.
        const first = row.size < 0.93 * body.size ? /^\d+$/ : /^\d+\b/;
        const numbers = [first.exec(text)?.[0], /\b\d+$/.exec(text)?.[0]].filter((number) => number !== undefined);
        // The row's page count: the number of a page minus the page's index is the same on every page.
        const counted = numbers.map((number) => `counts ${Number(number) - index}`);
        return { row, index, signs: [text.replace(/\d+|\b[ivxlc]+\b/g, "#"), ...counted] };
      },
    );
  });
  const at = (row: Row): number => Math.round(row.y / 3);
  for (const { row, index, signs } of edges)
    for (const sign of signs) {
      const key = `${at(row)} ${sign}`;
      const found = seen.get(key);
      if (found) found.push(index);
      else seen.set(key, [index]);
    }
  const isRunning = (row: Row, index: number, sign: string): boolean => {
    const others = [-1, 0, 1].flatMap((off) => seen.get(`${at(row) + off} ${sign}`) ?? []);
    // Left and right pages may differ, so the next page but one counts too. A row that recurs only farther apart is text.
    return others.length >= 3 && others.some((other) => other !== index && Math.abs(other - index) <= 2);
  };
  return new Set(
    edges.filter(({ row, index, signs }) => signs.some((sign) => isRunning(row, index, sign))).map(({ row }) => row),
  );
}

// ---- body style

interface BodyStyle {
  size: number;
  font: string;
  /** Sizes larger than the body's, largest first. */
  headings: number[];
  /** Distance between the baselines of two lines, as a multiple of the size. */
  leading: number;
}

const roughly = (size: number): number => Math.round(size * 2) / 2;

function bodyOf(pages: readonly Row[][]): BodyStyle {
  const rows = pages.flat();
  if (rows.length === 0) return { size: 10, font: "", headings: [], leading: 1.2 };
  const items = rows
    .flatMap((row) => row.segments.flatMap((segment) => segment.items))
    .filter((item) => !item.fixedWidth);
  const size = mostCommon(rows.map((row) => [roughly(row.size), textOfRow(row).length]));
  const font = items.length === 0 ? "" : mostCommon(items.map((item) => [item.font, item.text.length]));
  const headings = [...new Set(rows.map((row) => roughly(row.size)))]
    .filter((one) => one > size * 1.12)
    .sort((a, b) => b - a);
  const steps: [number, number][] = [];
  for (const page of pages)
    for (const [index, row] of page.entries()) {
      const step = row.y - (page[index - 1]?.y ?? row.y);
      if (step > 0.8 * size && step < 2.5 * size) steps.push([Math.round((step / size) * 20) / 20, 1]);
    }
  return { size, font, headings, leading: steps.length === 0 ? 1.2 : mostCommon(steps) };
}

// ---- regions

type Region = { columns: Row[][] } | { table: Row[]; gutters: Gutter[] };
interface Gutter {
  left: number;
  right: number;
}

/** Splits a page's rows, from top to bottom, into regions of one column, of several columns, and tables. */
function regionsOf(rows: readonly Row[], entries: ReadonlySet<Row>, body: BodyStyle): Region[] {
  const regions: Region[] = [];
  let plain: Row[] = [];
  const closePlain = (): void => {
    if (plain.length > 0) regions.push({ columns: [plain] });
    plain = [];
  };
  let at = 0;
  while (at < rows.length) {
    const band = entries.has(rows[at]!) ? null : bandFrom(rows, at, body);
    if (band === null) {
      plain.push(rows[at]!);
      at++;
      continue;
    }
    closePlain();
    regions.push(band.region);
    at += band.length;
  }
  closePlain();
  return regions;
}

/**
 * Finds the longest run of rows from `at` that all leave the same gaps free. Null if the run is neither a table nor columns.
 */
function bandFrom(rows: readonly Row[], at: number, body: BodyStyle): { region: Region; length: number } | null {
  const isLarge = (row: Row): boolean => row.size > body.size * 1.12;
  if (isLarge(rows[at]!) || fixed(rows[at]!) || (rows[at]!.segments.length < 2 && !besideNext(rows, at))) return null;
  let gutters = gapsOf(rows[at]!);
  if (gutters.length === 0) gutters = gapsOf(mergedRow(rows[at]!, rows[at + 1]!));
  let end = at + 1;
  for (; end < rows.length; end++) {
    const row = rows[end]!;
    if (isLarge(row) || (fixed(row) && row.segments.length === 1)) break;
    if (row.y - rows[end - 1]!.y > 4 * body.leading * body.size) break;
    const left = gutters.flatMap((gutter) => narrowed(gutter, row));
    if (left.length === 0) break;
    gutters = left;
  }
  // Rows of one segment at the end of the run that stand apart from the others belong to what follows.
  const isColumns = fillsColumns(rows.slice(at, end), gutters, body);
  if (!isColumns)
    while (end - 1 > at && rows[end - 1]!.segments.length === 1 && apart(rows, end - 1, body, gutters)) end--;
  const band = rows.slice(at, end);
  gutters = mostGaps(band) ?? gutters;
  const both = band.filter((row) => row.segments.length > 1).length;
  if (isColumns) return { region: { columns: columnsOf(band, gutters) }, length: band.length };
  if (both >= 2 && both * 3 >= band.length && !band.some(isLed))
    return { region: { table: band, gutters }, length: band.length };
  return null;
}

/**
 * The gaps that all rows leave free, taken from the row that has the most of them. The first row of a table may have fewer, because
 * its cells may be empty. Null if there are none.
 */
function mostGaps(band: readonly Row[]): Gutter[] | null {
  let most: Gutter[] | null = null;
  for (const row of band) {
    let gaps = gapsOf(row);
    for (const other of band) gaps = gaps.flatMap((gap) => narrowed(gap, other));
    if (gaps.length > (most?.length ?? 0)) most = gaps;
  }
  return most;
}

/** Whether two rows overlap in height and are side by side, as in columns whose lines do not share baselines. */
function besideNext(rows: readonly Row[], at: number): boolean {
  const [row, next] = [rows[at]!, rows[at + 1]];
  if (!next || next.y - row.y > 0.8 * row.size) return false;
  return next.left > row.right || next.right < row.left;
}

const mergedRow = (a: Row, b: Row): Row => ({
  ...a,
  segments: [...a.segments, ...b.segments].sort((x, y) => x.left - y.left),
});

const gapsOf = (row: Row): Gutter[] =>
  row.segments.slice(1).map((segment, index) => ({ left: row.segments[index]!.right, right: segment.left }));

/** The part of a gap that a row leaves free. Empty if that part is too narrow. */
function narrowed(gutter: Gutter, row: Row): Gutter[] {
  let { left, right } = gutter;
  for (const segment of row.segments) {
    if (segment.right <= left || segment.left >= right) continue;
    if (segment.left <= left && segment.right < right) left = segment.right;
    else if (segment.left > left && segment.right >= right) right = segment.left;
    else return [];
  }
  return right - left >= 0.7 * row.size ? [{ left, right }] : [];
}

/**
 * Whether a row at the end of a band belongs to what follows, because it is spaced apart, starts further left, or has larger letters.
 */
function apart(rows: readonly Row[], at: number, body: BodyStyle, gutters: readonly Gutter[]): boolean {
  const [row, above] = [rows[at]!, rows[at - 1]!];
  const step = row.y - above.y;
  return step > 1.5 * body.leading * body.size || row.left < gutters[0]!.left || row.size > body.size * 1.12;
}

/** Whether most lines on each side of every gap run nearly from edge to edge, as prose does and cells do not. */
function fillsColumns(band: readonly Row[], gutters: readonly Gutter[], body: BodyStyle): boolean {
  if (band.length < 4) return false;
  const segments = band.flatMap((row) => row.segments);
  const edges = [
    Math.min(...segments.map((one) => one.left)),
    ...gutters.flatMap((one) => [one.left, one.right]),
    Math.max(...segments.map((one) => one.right)),
  ];
  for (let i = 0; i < edges.length; i += 2) {
    const [left, right] = [edges[i]!, edges[i + 1]!];
    const within = segments.filter((one) => one.left >= left - 1 && one.right <= right + 1);
    const widths = within.map((one) => one.right - one.left).sort((a, b) => a - b);
    const median = widths[widths.length >> 1] ?? 0;
    if (within.length < 4 || right - left < 9 * body.size || median < 0.7 * (right - left)) return false;
  }
  return true;
}

/** Whether a row ends with dots that lead to a page number. */
const isLed = (row: Row): boolean => /(?:\.\s*){4,}\d+\s*$/.test(textOfRow(row));

/**
 * Finds the entries of a table of contents, if at least three rows have dot leaders. Rows whose page number is set apart without dots,
 * as for chapters, are entries too.
 */
function entriesOf(rows: readonly Row[]): Set<Row> {
  if (rows.filter(isLed).length < 3) return new Set();
  const isNumber = (segment: Segment): boolean => /^\d+$/.test(textIn(segment.items).trim());
  return new Set(rows.filter((row) => isLed(row) || (row.segments.length > 1 && isNumber(row.segments.at(-1)!))));
}

function columnsOf(band: readonly Row[], gutters: readonly Gutter[]): Row[][] {
  const columns: Row[][] = Array.from({ length: gutters.length + 1 }, () => []);
  for (const row of band)
    for (const [column, items] of cellsOf(row, gutters).entries())
      if (items.length > 0) columns[column]!.push(rowOf(items));
  return columns;
}

function cellsOf(row: Row, gutters: readonly Gutter[]): TextItem[][] {
  const cells: TextItem[][] = Array.from({ length: gutters.length + 1 }, () => []);
  for (const segment of row.segments)
    for (const item of segment.items)
      cells[gutters.filter((gutter) => item.x >= (gutter.left + gutter.right) / 2).length]!.push(item);
  return cells;
}

/**
 * Groups the lines of a table into rows. A row begins where the first cell has text, or after more space than there is within a row.
 * Returns the text items by row, column and line.
 */
function tableRows(band: readonly Row[], gutters: readonly Gutter[], body: BodyStyle): TextItem[][][][] {
  const logical: TextItem[][][][] = [];
  const lines = band.map((row) => ({ row, cells: cellsOf(row, gutters) }));
  const wrapped = lines.some(({ cells }) => cells[0]!.length === 0);
  for (const [index, { row, cells }] of lines.entries()) {
    const step = index === 0 ? Number.POSITIVE_INFINITY : row.y - lines[index - 1]!.row.y;
    const begins = cells[0]!.length > 0 || step > 1.6 * body.leading * body.size;
    // Text in the first cell alone, directly below another line, continues that line's row.
    const rest = wrapped && cells.slice(1).every((cell) => cell.length === 0) && step < 1.3 * body.leading * body.size;
    if (index === 0 || (begins && !rest)) logical.push(cells.map((cell) => [cell]));
    else for (const [column, cell] of cells.entries()) if (cell.length > 0) logical.at(-1)![column]!.push(cell);
  }
  return logical;
}

// ---- lines to text

const noMarks: ReadonlySet<string> = new Set();

/**
 * A line's words as pieces. Items that touch form one word, but a space separates a word from the raised mark of a footnote after it.
 * `marks` has the marks of the page's footnotes.
 */
function lineOf(items: readonly TextItem[], text: PageText, marks: ReadonlySet<string> = noMarks): Piece[] {
  if (items.length === 0) return [];
  text.part();
  const backwards = items.filter((item) => item.rightToLeft).length * 2 > items.length;
  const sorted = items.toSorted((a, b) => (backwards ? b.x - a.x : a.x - b.x));
  const pieces: Piece[] = [];
  for (const [index, item] of sorted.entries()) {
    const before = sorted[index - 1];
    if (before) {
      const gap = backwards ? before.x - item.x - item.width : item.x - before.x - before.width;
      const spaces = item.fixedWidth && before.fixedWidth ? Math.round(gap / letterWidth(item)) : 1;
      const isMark =
        marks.has(item.text.trim()) && item.size < 0.85 * before.size && item.y < before.y - 0.15 * before.size;
      if (isMark || gap > 0.12 * Math.max(item.size, before.size))
        pieces.push(text.take(" ".repeat(Math.max(1, Math.min(spaces, 200)))));
    }
    pieces.push(text.take(item.text));
  }
  return withoutLeaders(pieces);
}

const letterWidth = (item: TextItem): number => item.width / Math.max(1, item.text.length) || item.size / 2;

/** Replaces the dots that lead to a page number with a space. */
function withoutLeaders(pieces: Piece[]): Piece[] {
  if (!/(?:\.\s*){4}/.test(pieces.map((piece) => piece.text).join(""))) return pieces;
  return pieces.flatMap((piece) => {
    const parts: Piece[] = [];
    let at = 0;
    for (const { 0: dots, index } of piece.text.matchAll(/(?:\s*\.){2,}\s*|^\s*\.\s*$/g)) {
      parts.push({ ...piece, text: piece.text.slice(at, index), start: piece.start + at });
      parts.push({ ...piece, text: " ", start: piece.start + index });
      at = index + dots.length;
    }
    parts.push({ ...piece, text: piece.text.slice(at), start: piece.start + at });
    return parts;
  });
}

// ---- lines to elements

interface OpenParagraph {
  element: Extract<Element, { pieces: Piece[] }>;
  last: Row;
  /** Right edge of the region. A line that ends well before this edge, at the end of a sentence, is a paragraph's last. */
  right: number;
  left: number;
  column: number;
}

class Flow {
  #elements: Element[] = [];
  /** Footnotes held back until their chapter or page ends. */
  #notes: Element[] = [];
  /** Entries of this page's table of contents. */
  #entries: ReadonlySet<Row> = new Set();
  /** Numbers of this page's footnotes. */
  #marks: ReadonlySet<string> = noMarks;
  #body: BodyStyle;
  #words: Set<string>;
  #open: OpenParagraph | null = null;
  /** What the last item of each style of marks counted. */
  #counted = new Map<string, number[]>();
  /** The paragraph that may continue on the next page. */
  #carried: OpenParagraph | null = null;
  #column = 0;

  constructor(body: BodyStyle, words: Set<string>) {
    this.#body = body;
    this.#words = words;
  }

  /** Adds a page. If `ends`, the footnotes held back so far are placed before the page. */
  page(rows: readonly Row[], text: PageText, ends: boolean): void {
    const { main, notes } = this.#withoutNotes(rows);
    if (ends) this.#release();
    this.#marks = new Set(notes.flatMap((row) => /^\d+\b/.exec(textOfRow(row).trim())?.[0] ?? []));
    this.#entries = entriesOf(main);
    for (const region of regionsOf(main, this.#entries, this.#body)) {
      if ("table" in region) this.#table(region.table, region.gutters, text);
      else for (const column of region.columns) this.#prose(column, text);
    }
    const carried = this.#open ?? this.#carried;
    this.#open = null;
    if (notes.length > 0) {
      const main = this.#elements;
      this.#elements = this.#notes;
      this.#prose(notes, text);
      this.#elements = main;
    }
    this.#carried = carried;
    this.#open = null;
  }

  #release(): void {
    this.#elements.push(...this.#notes);
    this.#notes = [];
  }

  finished(): Element[] {
    this.#release();
    return this.#elements;
  }

  /** Splits off the footnotes, which are the rows in smaller letters at the end of a page. */
  #withoutNotes(rows: readonly Row[]): { main: readonly Row[]; notes: readonly Row[] } {
    let from = rows.length;
    while (from > 0 && rows[from - 1]!.size < this.#body.size * 0.93 && !fixed(rows[from - 1]!)) from--;
    return from === 0 ? { main: rows, notes: [] } : { main: rows.slice(0, from), notes: rows.slice(from) };
  }

  #table(band: readonly Row[], gutters: readonly Gutter[], text: PageText): void {
    this.#open = null;
    this.#carried = null;
    for (const [index, row] of tableRows(band, gutters, this.#body).entries()) {
      const cells = row.map((lines) => this.#joinedLines(lines, text));
      this.#elements.push({ type: "row", first: index === 0, cells });
    }
  }

  #joinedLines(lines: readonly TextItem[][], text: PageText): Piece[] {
    const pieces: Piece[] = [];
    for (const line of lines) this.#join(pieces, lineOf(line, text, this.#marks));
    return pieces;
  }

  #prose(rows: readonly Row[], text: PageText): void {
    const right = Math.max(...rows.map((row) => row.right));
    const left = Math.min(...rows.map((row) => row.left));
    const column = this.#column++;
    for (const [index, row] of rows.entries()) {
      const line = lineOf(
        row.segments.flatMap((segment) => segment.items),
        text,
        this.#marks,
      );
      const words = line
        .map((piece) => piece.text)
        .join("")
        .trimStart();
      const open = this.#open ?? (index === 0 ? this.#carried : null);
      if (open && this.#goesOn(open, row, words, column)) {
        if (open.element.type === "code")
          open.element.pieces.push(text.take("\n"), ...this.#indent(row, left, text), ...line);
        else this.#join(open.element.pieces, line);
        this.#open = { ...open, last: row, right: column === open.column ? open.right : right, left, column };
        continue;
      }
      this.#carried = null;
      const element = this.#begin(row, line, words, right - left, rows[index - 1] ?? null, left, text);
      this.#elements.push(element);
      this.#open = { element, last: row, right, left, column };
    }
  }

  #begin(
    row: Row,
    line: Piece[],
    words: string,
    width: number,
    above: Row | null,
    left: number,
    text: PageText,
  ): OpenParagraph["element"] {
    const level = this.#headingLevel(row, words, width, above);
    if (level > 0) return { type: "heading", level, pieces: line };
    if (fixed(row)) return { type: "code", pieces: [...this.#indent(row, left, text), ...line] };
    const mark = markOf(words);
    if (mark === null) return { type: "paragraph", pieces: line };
    this.#counted.set(mark.style, mark.counts);
    const counted = /^\d+[.)]/.exec(mark.text)?.[0].replace(")", ".") ?? null;
    return { type: "item", depth: 0, mark: counted, pieces: dropStart(line, mark.text.length) };
  }

  /**
   * Heading level of a line, or 0. A heading has larger letters. A short line in another face is a heading as well, if there is space
   * above it, it begins with a number or a capital, and it does not end like a sentence.
   */
  #headingLevel(row: Row, words: string, width: number, above: Row | null): number {
    const { size, font, headings, leading } = this.#body;
    if (fixed(row) || !/\p{L}/u.test(words) || words.length > 200) return 0;
    const larger = headings.indexOf(roughly(row.size));
    if (larger >= 0) return Math.min(larger + 1, 5);
    const items = row.segments.flatMap((segment) => segment.items);
    const otherFace = items.every((item) => item.font !== font && item.font === items[0]!.font);
    const alone = above === null || row.y - above.y > 1.3 * leading * size;
    if (!otherFace || !alone || row.size < size * 0.98 || row.right - row.left > 0.7 * width) return 0;
    return /^(?:\d|\p{Lu})/u.test(words) && !/[.,;:!?]$/.test(words.trimEnd()) ? Math.min(headings.length + 1, 6) : 0;
  }

  /** Whether a line continues the open paragraph, which is above the line or the last of the previous column or page. */
  #goesOn(open: OpenParagraph, row: Row, words: string, column: number): boolean {
    const { element, last } = open;
    const { size, leading } = this.#body;
    if (element.type === "code") return fixed(row) && column === open.column && row.y - last.y < 2.2 * leading * size;
    if (fixed(row) || Math.abs(row.size - last.size) > 0.08 * last.size) return false;
    const ended = /[.:!?…]["'”’)\]]*\s*$/.test(wordsOf(element.pieces));
    if (this.#beginsItem(open, ended, words) || this.#entries.has(last)) return false;
    if (element.type === "heading")
      return (
        column === open.column &&
        row.y - last.y < 1.6 * row.size &&
        row.segments[0]!.items[0]!.font === last.segments[0]!.items[0]!.font
      );
    if (column !== open.column) return !ended && /^[\p{Ll}\p{Lo}(“"'\d]/u.test(words);
    const step = row.y - last.y;
    if (step > 1.3 * leading * Math.max(size, last.size) || step < 0) return false;
    const short = last.right < open.right - 0.2 * (open.right - open.left);
    if (short && ended) return false;
    // An indented line begins a paragraph, except under an item, whose lines after the first are indented anyway.
    return !(element.type === "paragraph" && ended && row.left > last.left + 0.8 * size);
  }

  /**
   * Whether a line below an open paragraph begins an item. If the paragraph's sentence has not ended and fills its last line, the line's
   * number, letter or dash may also have been wrapped there.
   */
  #beginsItem({ element, last, left, right }: OpenParagraph, ended: boolean, words: string): boolean {
    const mark = markOf(words);
    if (mark === null) return false;
    const isShort = last.right < right - (right - left) / 3;
    if (element.type === "heading" || ended || isShort || mark.isBullet) return true;
    return element.type === "item" && goesOn(mark, this.#counted.get(mark.style));
  }

  #indent(row: Row, left: number, text: PageText): Piece[] {
    const spaces = Math.round((row.left - left) / letterWidth(row.segments[0]!.items[0]!));
    return spaces > 0 && spaces < 200 ? [text.take(" ".repeat(spaces))] : [];
  }

  /**
   * Appends a line. Rejoins a word broken at the line's end, and adds no space between letters of scripts without
   * spaces.
   */
  #join(pieces: Piece[], line: Piece[]): void {
    if (line.length === 0) return;
    const end = pieces.at(-1);
    if (end === undefined) {
      pieces.push(...line);
      return;
    }
    const first = line[0]!;
    const [before, after] = [wordsOf(pieces), wordsOf(line)];
    const hyphen = hyphenBetween(before, after, this.#words);
    const unspaced =
      /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\u3000-\u303f\uff00-\uffef]$/u.test(before) &&
      /^[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\u3000-\u303f\uff00-\uffef]/u.test(after);
    if (hyphen === "breaks") pieces[pieces.length - 1] = { ...end, text: end.text.slice(0, -1) };
    else if (hyphen !== "belongs" && !unspaced)
      pieces.push({ text: " ", page: first.page, start: Math.max(0, first.start - 1) });
    pieces.push(...line);
  }
}

const fixed = (row: Row): boolean => row.segments.every((segment) => segment.items.every((item) => item.fixedWidth));

/** Drops leading spaces and the first `count` characters after them. */
function dropStart(line: Piece[], count: number): Piece[] {
  let left = count + (/^\s*/.exec(line.map((piece) => piece.text).join(""))?.[0].length ?? 0);
  return line.flatMap((piece) => {
    const cut = Math.min(left, piece.text.length);
    left -= cut;
    return cut === piece.text.length ? [] : [{ ...piece, text: piece.text.slice(cut), start: piece.start + cut }];
  });
}
