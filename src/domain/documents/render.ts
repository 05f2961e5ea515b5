// Renders elements to clean text in Markdown, with the place of each block and the map back to the original.

import type { PlainBlock } from "./chunk.ts";
import type { Element, Piece } from "./elements.ts";
import { normalise } from "./normalise.ts";
import { CleanText, type SourceMap } from "./source-map.ts";

export interface Rendered {
  text: string;
  blocks: PlainBlock[];
  map: SourceMap;
}

export function render(elements: readonly Element[]): Rendered {
  const out = new CleanText();
  const blocks: PlainBlock[] = [];
  const add = (type: PlainBlock["type"], level: number, before: string, write: () => void, after: string): void => {
    out.mark(before);
    const start = out.length;
    write();
    if (out.length > start) blocks.push({ type, level, start, end: out.length });
    out.mark(after);
  };
  let last: Element | null = null;
  for (const element of elements) {
    if (last !== null) out.mark(last.type === element.type && joined(element) ? "\n" : "\n\n");
    switch (element.type) {
      case "heading": {
        const level = Math.min(Math.max(element.level, 1), 6);
        add("heading", level, `${"#".repeat(level)} `, () => writeWords(out, element.pieces, false), "");
        break;
      }
      case "paragraph":
        add("paragraph", 0, "", () => writeWords(out, element.pieces, true), "");
        break;
      case "item": {
        const mark = `${"  ".repeat(Math.min(element.depth, 8))}${element.mark ?? "-"} `;
        add("item", 0, mark, () => writeWords(out, element.pieces, true), "");
        break;
      }
      case "row":
        add("row", element.first ? 1 : 2, "", () => writeCells(out, element.cells), "");
        if (element.first) out.mark(`\n|${" --- |".repeat(element.cells.length)}`);
        break;
      case "code": {
        const fence = fenceFor(element.pieces);
        add("code", 0, `${fence}\n`, () => writeLines(out, element.pieces), `\n${fence}`);
        break;
      }
    }
    last = element;
  }
  if (last !== null) out.mark("\n");
  return { text: out.toString(), blocks, map: out.map };
}

/** Whether no blank line separates an element from one of its own type above: a row within a table, or an item. */
const joined = (element: Element): boolean => (element.type === "row" ? !element.first : element.type === "item");

function writeCells(out: CleanText, cells: readonly Piece[][]): void {
  out.mark("|");
  for (const cell of cells) {
    out.mark(" ");
    writeWords(out, cell, false, true);
    out.mark(" |");
  }
}

const space = /\s/;
/** Soft hyphens, zero-width spaces, and what normalise() drops. */
const dropped = /^(?:[\u00ad\u200b\u2060\ufeff]|(?!\s)\p{Cc})$/u;
const ligatures: Record<string, string> = { ﬀ: "ff", ﬁ: "fi", ﬂ: "fl", ﬃ: "ffi", ﬄ: "ffl", ﬅ: "ft", ﬆ: "st" };
const letters = /[\s\S](?:[\p{M}\u1160-\u11ff]+)?/gu;
const usual = /^[\x21-\x7e]+$/;

/**
 * Writes words with one space between them, and a backslash before each character that Markdown would read as markup. If `atLine`,
 * the words begin a line, so a mark that would begin a block there is escaped too.
 */
function writeWords(out: CleanText, pieces: readonly Piece[], atLine: boolean, inCell = false): void {
  const marked = markup(pieces, inCell);
  let gap: Piece | null = null;
  let begun = false;
  for (const piece of pieces)
    for (const { 0: run, index } of piece.text.matchAll(/\s+|\S+/g)) {
      const start = piece.start + index;
      if (space.test(run[0]!)) {
        gap = { text: run, page: piece.page, start };
        continue;
      }
      if (gap !== null && begun) out.add(" ", gap.page, gap.start, gap.text.length);
      gap = null;
      if (!begun && atLine && startsBlock.test(run)) out.mark("\\");
      begun = true;
      writeRun(out, run, piece.page, start, marked);
    }
}

function writeRun(out: CleanText, run: string, page: number, start: number, marked: RegExp | null): void {
  if (usual.test(run) && !marked?.test(run)) {
    out.add(run, page, start);
    return;
  }
  for (const { 0: letter, index } of run.matchAll(letters)) {
    if (dropped.test(letter)) continue;
    if (marked?.test(letter)) out.mark("\\");
    out.add(normalise(ligatures[letter] ?? letter), page, start + index, letter.length);
  }
}

/** Matches a first word that would begin a heading, an item, a quotation, a rule, a fence or a definition. */
const startsBlock = /^(?:#{1,6}$|[-+*]$|>|[-*_]{3,}$|~{3}|\[[^\]]+\]:)/;

/**
 * Returns a pattern of the characters in these pieces that could be read as markup. Emphasis and code need a pair of marks, and links
 * and entities a fixed form. Null if there are none.
 */
function markup(pieces: readonly Piece[], inCell: boolean): RegExp | null {
  const text = pieces.map((piece) => piece.text).join("");
  let signs = inCell ? "|" : "";
  if (/\\[!-/:-@[-`{-~]/.test(text)) signs += "\\\\";
  if (/`[^`]*`/.test(text)) signs += "`";
  if (/\*\S[\s\S]*\*/.test(text)) signs += "*";
  // Find the first underscore that may open emphasis, then one after it that may close it. A single pattern would search the
  // rest of the text again from each underscore.
  const opening = text.search(/(?<![\p{L}\p{N}_])_/u);
  if (opening >= 0 && /_(?![\p{L}\p{N}_])/u.test(text.slice(opening + 1))) signs += "_";
  if (/<[A-Za-z/!?]/.test(text)) signs += "<";
  if (/&(?:[A-Za-z][A-Za-z0-9]*|#\d+|#[xX][0-9a-fA-F]+);/.test(text)) signs += "&";
  if (/\]\(|\]\[/.test(text)) signs += "\\[";
  return signs === "" ? null : new RegExp(`[${signs}]`);
}

function writeLines(out: CleanText, pieces: readonly Piece[]): void {
  for (const { text, page, start } of pieces) {
    const clean = normalise(text);
    if (clean === text) out.add(text, page, start);
    else
      for (const { 0: letter, index } of text.matchAll(/\r\n|[\s\S]/gu))
        out.add(normalise(letter), page, start + index, letter.length);
  }
}

/** A fence that is longer than any run of backquotes in the code. */
function fenceFor(pieces: readonly Piece[]): string {
  const runs =
    pieces
      .map((piece) => piece.text)
      .join("")
      .match(/`+/g) ?? [];
  return "`".repeat(runs.reduce((most, run) => Math.max(most, run.length + 1), 3));
}
