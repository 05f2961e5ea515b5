// Splits documents into passages. A passage is a run of neighbouring units under one heading, short enough to be read whole. A unit
// is a single statement: a sentence, a list item, a line of key and value, a table row or a block of code. Every unit keeps its
// place in the document.
import { eld } from "eld/small";
import { countWords, normalised } from "../base/text.ts";
import type { SnapshotBlock, SnapshotDocument } from "../contract/run-folder.ts";
import { cellsOf, columnsOf, delimiterOf, isRuleLine, plainText, unquoted, withoutAddresses } from "./inline.ts";
import { sentencesOf, type Usage, usageOf } from "./sentences.ts";
import { namesColumns, standsOut } from "./table-header.ts";
import { meantLines, pair, withTitles, wrapOf } from "./titles.ts";

export interface Place {
  /** Offsets in the document's text, in UTF-16 code units. */
  start: number;
  end: number;
}

export type Unit = Place & {
  /** The unit's text as it appears in the passage's text. */
  text: string;
  /** Offset of the unit in the passage's text. */
  at: number;
} & (
    | { type: "sentence" }
    /**
     * `lead`: the words that introduce the item's list, without which it may be unclear; empty if there are none or too
     * many.
     */
    | { type: "item"; lead: string }
    | { type: "code" }
    | { type: "pair"; key: string; value: string }
    /** `header`: the column names; empty if the table has none. */
    | { type: "row"; header: string[]; cells: string[] }
  );

export interface Passage extends Place {
  /** Unique among the passages of a study: the document's index, a dot, and the passage's index in it. */
  id: string;
  document: string;
  /** Title of the document: the heading above all of it, or else its file name. */
  title: string;
  /** Headings above the passage, outermost first, without the title. */
  path: string[];
  /** ISO 639-1 code; null if the language cannot be determined. */
  language: string | null;
  /** Whether an earlier passage is under the same heading. */
  goesOn: boolean;
  /**
   * What the document says shortly before the passage, under which headings; empty at its beginning. A passage that speaks of "she" or
   * of "the deposit" seldom says itself who or what that is.
   */
  before: string;
  text: string;
  units: Unit[];
}

/** Whether a passage is nothing but code. */
export const isCode = ({ units }: Pick<Passage, "units">): boolean => units.every(({ type }) => type === "code");

/**
 * Units are joined until a passage has `enough` words, but to at most `most` words. Writers are trained on passages of this size. A
 * unit is never split, and may be longer.
 */
const enough = 35;
const most = 70;
/** Maximum words of the text before a passage: the two passages before it, mostly. Whole units are taken. */
const mostBefore = 120;
/** Number of rows below a table's first row that are compared with the first row. */
const looked = 8;

/** A unit that is not yet placed in a passage. `apart`: it starts a new line. */
type Loose =
  | (Place & { text: string; apart: boolean } & (
        | { type: "sentence" }
        | { type: "item"; lead: string }
        | { type: "code" }
      ))
  | (Place & { text: string; apart: boolean; type: "pair"; key: string; value: string })
  | (Place & { text: string; apart: boolean; type: "row"; header: string[]; cells: string[] });

interface Section {
  path: string[];
  /** Whether an earlier section is under the same heading, as after a title within it. */
  goesOn: boolean;
  units: Loose[];
}

/**
 * Returns the passages of the documents, in order. `organisation`: the owner of the documents, if known. Its name is put before every
 * title that does not contain it.
 */
export function passagesOf(documents: readonly SnapshotDocument[], organisation: string | null = null): Passage[] {
  return documents.flatMap((document, index) => {
    const sections = sectionsOf(document);
    const own = titleOf(document, sections);
    const title = organisation === null || own.includes(organisation) ? own : `${organisation}, ${own}`;
    const said: Said[] = [];
    const passages = sections.flatMap(({ path, goesOn, units }) => {
      const heading = goesOn ? [] : path.slice(-1).filter((name) => name !== own);
      return windowsOf(units).map((window, at): Omit<Passage, "id" | "language"> => {
        const { text, units: placed } = laidOut(window);
        const before = lastOf(said);
        const prose = window.filter(({ type }) => type !== "row" && type !== "code");
        // A heading comes before the first prose under it, which a table may precede.
        if (prose.length > 0) said.push(...heading.splice(0).map((name) => ({ text: name, apart: true })), ...prose);
        return {
          document: document.id,
          title,
          path: path[0] === own ? path.slice(1) : path,
          goesOn: goesOn || at > 0,
          before,
          text,
          units: placed,
          start: Math.min(...window.map(({ start }) => start)),
          end: Math.max(...window.map(({ end }) => end)),
        };
      });
    });
    const languages = passages.map(({ text }) => languageOf(text));
    const usual = mostFrequent(languages.filter((one) => one !== null));
    return passages.map((passage, at) => ({ ...passage, id: `${index}.${at}`, language: languages[at] ?? usual }));
  });
}

/** Minimum characters for detecting a language. Detection is too unreliable for a shorter text. */
const tellable = 60;

function languageOf(text: string): string | null {
  if (text.length < tellable) return null;
  const found = eld.detect(text);
  return found.language !== "" && found.isReliable() ? found.language : null;
}

export function mostFrequent(values: readonly string[]): string | null {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0] ?? null;
}

function titleOf(document: SnapshotDocument, sections: readonly Section[]): string {
  const first = sections[0]?.path[0];
  const name = document.name.replace(/\.[\p{L}\d]{1,5}$/u, "").replace(/[_-]+/g, " ");
  // A heading that has text before it, or another heading beside it, names only a part of the document.
  const isOfAll = sections.every(({ path }) => path[0] === first);
  return first !== undefined && isOfAll ? first : name.charAt(0).toUpperCase() + name.slice(1);
}

// ---- Blocks to sections of units

function sectionsOf(document: SnapshotDocument): Section[] {
  const { text, media_type } = document;
  const isPlain = media_type === "text/plain";
  const wrap = isPlain ? wrapOf(text) : 0;
  const blocks = withTitles(document.blocks ?? paragraphsOf(text), text, media_type, wrap);
  const isCsv = media_type === "text/csv";
  const delimiter = isCsv ? delimiterOf(text) : "|";
  const usage = usageOf(text);
  const split = (raw: string): string[] => (isPlain ? columnsOf(raw) : cellsOf(raw, isCsv, delimiter));
  const open: { level: number; text: string; until: number | undefined }[] = [];
  const sections: { under: (typeof open)[number] | undefined; path: string[]; units: Loose[] }[] = [];
  const begin = (): void => {
    sections.push({ under: open.at(-1), path: open.map((one) => one.text), units: [] });
  };
  begin();
  /** Cells of some rows below the first row of a table. */
  const below = (first: number): string[][] => {
    const rows: string[][] = [];
    for (const { type, level, start, end } of blocks.slice(first + 1, first + 1 + looked)) {
      if (type !== "row" || level === 1) break;
      rows.push(split(text.slice(start, end)));
    }
    return rows;
  };
  /** Whether a table's first row names its columns. Plain text does not mark such rows, so there something must tell it. */
  const isHeader = (cells: readonly string[], index: number): boolean => {
    const [here, next] = [blocks[index]!, blocks[index + 1]];
    if (next?.type !== "row" || next.level === 1) return false;
    const rows = below(index);
    const isRuled = (): boolean => isRuleLine(text.slice(here.end, next.start).trim());
    return namesColumns(cells, rows) && (!isPlain || isRuled() || standsOut(cells, rows));
  };
  let header: string[] = [];
  let lead = "";
  for (const [index, block] of blocks.entries()) {
    if (block.start >= (open.at(-1)?.until ?? Number.POSITIVE_INFINITY)) {
      open.pop();
      if (block.type !== "heading") begin();
    }
    const written = text.slice(block.start, block.end);
    const raw = media_type === "text/markdown" && block.type !== "code" ? unquoted(written) : written;
    if (block.type === "heading") {
      while (open.length > 0 && open.at(-1)!.level >= block.level) open.pop();
      open.push({ level: block.level, text: plainText(raw, media_type), until: block.until });
      begin();
      lead = "";
      continue;
    }
    const { units } = sections.at(-1)!;
    if (block.type === "row") {
      const cells = split(raw);
      if (block.level === 1) header = isHeader(cells, index) ? cells : [];
      if (block.level > 1 || header.length === 0)
        units.push({ type: "row", header, cells, ...rowText(cells), ...placeOf(block) });
    } else if (block.type === "code") units.push({ type: "code", text: unfenced(raw), apart: true, ...placeOf(block) });
    else units.push(...proseUnits(raw, block, media_type, { lead, wrap, usage }));
    if (block.type !== "item") lead = leadOf(units.at(-1));
  }
  const headings = new Set(sections.flatMap(({ path }) => path.map(unnumbered)));
  const isListed = ({ type, text: line }: Loose): boolean =>
    (type === "sentence" || type === "item") && headings.has(unnumbered(line));
  const begun = new Set<(typeof sections)[number]["under"]>();
  return sections
    .map((section) => ({ ...section, units: section.units.filter((unit) => !isListed(unit)) }))
    .filter(({ units }) => units.length > 0)
    .map(({ under, path, units }) => {
      const goesOn = begun.has(under);
      begun.add(under);
      return { path, goesOn, units };
    });
}

/** Normalises a line and removes leading numbers. A line of a table of contents then equals a heading, and is dropped. */
const unnumbered = (line: string): string => normalised(line).replace(/^(?:\p{N}+\s)+/u, "");

/** Maximum words of a list's introduction. A longer text with a colon at its end counts as an ordinary paragraph. */
const longestLead = 60;

const leadOf = (unit: Loose | undefined): string =>
  unit?.type === "sentence" && /[:：]$/.test(unit.text) && countWords(unit.text) <= longestLead ? unit.text : "";

const placeOf = ({ start, end }: Place): Place => ({ start, end });
/** Code without the fence lines around it. */
const unfenced = (raw: string): string => /^\s*(`{3,}|~{3,})[^\n]*\n([\s\S]*?)\s*\1\s*$/.exec(raw)?.[2] ?? raw.trim();
/** Separator between the cells of a row in a passage's text. */
export const cellsJoin = " | ";
const rowText = (cells: readonly string[]) => ({ text: cells.join(cellsJoin), apart: true });

/** Makes blocks for a snapshot by an older version, which has none, by splitting the text at blank lines. */
const paragraphsOf = (text: string): SnapshotBlock[] =>
  [...text.matchAll(/\S[^\n]*(?:\n[^\n]*\S[^\n]*)*/g)].map(({ 0: { length }, index }) => ({
    type: "paragraph",
    level: 0,
    start: index,
    end: index + length,
  }));

const longestKey = 6;
const longestValue = 16;

function proseUnits(
  raw: string,
  block: SnapshotBlock,
  mediaType: SnapshotDocument["media_type"],
  { lead, wrap, usage }: { lead: string; wrap: number; usage: Usage },
): Loose[] {
  const lines = [...raw.matchAll(/[^\n]+/g)].map(({ 0: line, index }) => ({ line, start: block.start + index }));
  const pairs = lines.map(({ line }) => pairOf(plainText(line, mediaType)));
  const isList = pairs.every((one) => one !== null) || lines.length === 1;
  if (isList && pairs.every((one) => one !== null))
    return lines.map(({ line, start }, at) => ({
      type: "pair",
      ...pairs[at]!,
      text: plainText(line, mediaType),
      apart: true,
      start,
      end: start + line.length,
    }));
  const sentences = meantLines(raw, wrap).flatMap((part) =>
    sentencesOf(plainText(part, mediaType), usage).map((text, at) => ({ text, apart: at === 0 })),
  );
  const counted = mediaType === "text/markdown" && sentences.length > 1 ? withoutAddresses(raw) : raw;
  let from = block.start;
  return sentences.map(({ text, apart }, at) => {
    // The document's text still has its markup, so the end of the sentence is found by counting letters and digits.
    const start = from;
    const end = at === sentences.length - 1 ? block.end : endOf(counted, block.start, from, text);
    from = end;
    const unit = { text, apart, start, end };
    return block.type === "item"
      ? { type: "item", lead: at === 0 ? lead : "", ...unit }
      : { type: "sentence", ...unit };
  });
}

function pairOf(line: string): { key: string; value: string } | null {
  const found = pair.exec(line.trim());
  if (found === null) return null;
  const [, key, value] = found as unknown as [string, string, string];
  const isShort = key.split(/\s+/).length <= longestKey && value.split(/\s+/).length <= longestValue;
  return isShort ? { key, value: value.replace(/[.;,]$/, "") } : null;
}

/** Offset in the document where the sentence ends, found by counting the letters and digits that both texts share. */
function endOf(raw: string, offset: number, from: number, sentence: string): number {
  let left = sentence.replace(/[^\p{L}\p{N}]/gu, "").length;
  let at = from - offset;
  while (at < raw.length && left > 0) {
    const character = String.fromCodePoint(raw.codePointAt(at)!);
    at += character.length;
    if (/[\p{L}\p{N}]/u.test(character)) left -= character.length;
  }
  while (at < raw.length && !/\s/.test(raw[at]!)) at++;
  return offset + at;
}

// ---- Units to passages

/** Groups units into passages. Paragraphs, items and rows stay whole; only a paragraph that is too long is split. */
function windowsOf(units: readonly Loose[]): Loose[][] {
  const paragraphs: Loose[][] = [];
  for (const unit of units) {
    const last = paragraphs.at(-1);
    if (last === undefined || unit.apart || countOf(last) + countWords(unit.text) > most) paragraphs.push([unit]);
    else last.push(unit);
  }
  const windows: Loose[][] = [];
  for (const paragraph of paragraphs) {
    const last = windows.at(-1);
    const joins = last !== undefined && countOf(last) < enough && countOf(last) + countOf(paragraph) <= most;
    if (joins) last.push(...paragraph);
    else windows.push([...paragraph]);
  }
  return windows;
}

const countOf = (units: readonly Loose[]): number => units.reduce((sum, { text }) => sum + countWords(text), 0);

/** A heading or a unit of prose. */
type Said = Pick<Loose, "text" | "apart">;

const gap = (apart: boolean): string => (apart ? "\n" : " ");

/** The last of what was said, as one text of at most `mostBefore` words. */
function lastOf(said: readonly Said[]): string {
  let from = said.length;
  for (let words = 0; from > 0; from--) {
    words += countWords(said[from - 1]!.text);
    if (words > mostBefore) break;
  }
  return said
    .slice(from)
    .map(({ text, apart }, at) => (at === 0 ? text : gap(apart) + text))
    .join("");
}

/**
 * Joins the units into one text and records the offset of each. A table's column names come once, before its first row.
 */
function laidOut(window: readonly Loose[]): { text: string; units: Unit[] } {
  let text = "";
  let named = "";
  const units = window.map((loose, index): Unit => {
    const { apart, ...unit } = loose;
    if (index > 0) text += gap(apart);
    const header = unit.type === "row" ? unit.header.join(cellsJoin) : "";
    if (header !== "" && header !== named) text += `${header}\n`;
    named = header;
    const at = text.length;
    text += unit.text;
    return { ...unit, at };
  });
  return { text, units };
}

// ---- Statements that stand alone

/**
 * Matches pieces of up to 600 characters that end at a whole word where possible, because an encoder reads only a few hundred words.
 * A shorter text is a single piece.
 */
const pieces = /\S[\s\S]{0,599}(?=\s|$)|\S{600}/g;

/**
 * Returns every paragraph, line and table row under its headings, in the documents' order and in pieces of up to 600 characters. The
 * cells of rows come with their column names.
 */
export function statementsOf(documents: readonly SnapshotDocument[]): string[] {
  return documents.flatMap((document) =>
    sectionsOf(document).flatMap(({ path, units }) =>
      paragraphsIn(units)
        .flatMap((text) => text.match(pieces) ?? [])
        .map((text) => [...path, text.trim()].join("\n")),
    ),
  );
}

function paragraphsIn(units: readonly Loose[]): string[] {
  const texts: string[] = [];
  for (const unit of units) {
    const text = unit.type === "row" ? rowOf(unit.header, unit.cells) : unit.text;
    if (unit.apart || texts.length === 0) texts.push(text);
    else texts[texts.length - 1] += ` ${text}`;
  }
  return texts.filter((text) => text.trim() !== "");
}

/** The non-empty cells of a row, each after its column's name. */
const rowOf = (header: readonly string[], cells: readonly string[]): string =>
  cells
    .map((text, column) => ({ title: header[column] ?? "", text }))
    .filter(({ text }) => text !== "")
    .map(({ title, text }) => (title === "" ? text : `${title}: ${text}`))
    .join("; ");
