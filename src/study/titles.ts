// Finds titles that a document does not mark as headings: short lines, bold words, titles of numbered sections. Finds the intended line
// breaks of plain text.
import { countWords } from "../base/text.ts";
import type { SnapshotBlock, SnapshotDocument } from "../contract/run-folder.ts";
import { columnsOf } from "./inline.ts";

/** A block, or a title as a heading. `until`: offset of the end of what it is the title of, if not the next title. */
export type Seen = SnapshotBlock & { until?: number };

/** "Key: value" on a line of its own. */
export const pair = /^([\p{L}\p{N}][^:.!?]{1,48}):\s+(\S.*)$/u;

/** Level of titles that are not marked as headings and stand below those that are. */
const belowMarked = 7;
const longestHeading = 10;
const longestBold = 20;
const longestBoldStatement = 6;
/** Minimum number of run-in titles in a document for each of them to reach to the next one. */
const fewestRunIn = 3;

/**
 * Returns the blocks with the titles among them as headings. Blocks that begin with a title are split. `wrap`: what wrapOf says of a
 * plain text.
 */
export function withTitles(
  given: readonly SnapshotBlock[],
  text: string,
  mediaType: SnapshotDocument["media_type"],
  wrap: number,
): Seen[] {
  const marksHeadings = given.some(({ type }) => type === "heading");
  const isPlain = mediaType === "text/plain";
  const bold = mediaType === "text/markdown" ? given.map((block, at) => boldTitleOf(text, block, given[at + 1])) : [];
  const reach = bold.filter((found) => found?.isRunIn).length >= fewestRunIn;
  const seen = given.map((block, at): Seen[] => {
    const found = bold[at];
    if (found) return withBoldTitle(text, block, found, reach);
    const lined = isPlain ? withTitleLine(text, block, wrap) : null;
    if (lined !== null) return lined;
    // A line before the first marked heading, such as a banner, is not the title of everything below it.
    if (at === 0 && marksHeadings) return [block];
    const level = marksHeadings && !isPlain ? belowMarked : at === 0 ? 1 : 2;
    return [asHeading(text, block, [given[at - 1], given[at + 1]], level)];
  });
  // Short lines in a row look like headings too. One that has nothing below it is what the text says.
  return seen.flatMap((blocks, at) => {
    const [block, next] = [blocks[0]!, seen[at + 1]?.[0]];
    const isBare =
      given[at]!.type !== "heading" &&
      blocks.length === 1 &&
      block.type === "heading" &&
      next?.type === "heading" &&
      next.level <= block.level;
    return isBare ? [given[at]!] : blocks;
  });
}

/**
 * Turns a block that looks like a heading into one; returns other blocks unchanged. Plain text does not mark its headings, so a short
 * line without closing punctuation counts as a heading if text follows it.
 */
function asHeading(
  text: string,
  block: SnapshotBlock,
  [before, next]: readonly [SnapshotBlock | undefined, SnapshotBlock | undefined],
  level: number,
): Seen {
  if ((block.type !== "paragraph" && block.type !== "item") || next === undefined || next.type === "heading")
    return block;
  // A numbered title is parsed as an item. An item beside another item belongs to a list.
  if (block.type === "item" && (next.type === "item" || before?.type === "item")) return block;
  const line = text.slice(block.start, block.end);
  return !line.includes("\n") && isTitle(line) ? { ...block, type: "heading", level } : block;
}

const isTitle = (line: string): boolean =>
  countWords(line) <= longestHeading && /[\p{L}\p{N})?]$/u.test(line) && !pair.test(line) && /\p{L}/u.test(line);

interface BoldTitle {
  /** Length of the title with its marks and the space after it. */
  length: number;
  /** Whether the paragraph is the title and nothing else. */
  isWhole: boolean;
  /** Whether other words follow on the title's line. */
  isRunIn: boolean;
  /** Offsets of its words in the paragraph, without marks and a closing full stop. */
  words: [number, number];
}

/** Matches bold words that begin a paragraph of Markdown, up to the end of the line or before other words. */
const boldStart = /^(\*\*|__)(?=\S)((?:(?!\1)[^\n])+?)\1([:：]?)(?:[ \t]*(?:\n[ \t]*|$)|[ \t]+)/;

/**
 * The title in bold with which a paragraph of Markdown begins; null if there is none. Bold words before others on their line are a title
 * if they end like a sentence.
 */
function boldTitleOf(text: string, block: SnapshotBlock, next: SnapshotBlock | undefined): BoldTitle | null {
  if (block.type !== "paragraph") return null;
  const raw = text.slice(block.start, block.end);
  const found = boldStart.exec(raw);
  if (found === null) return null;
  const [start, mark, words, colon] = found as unknown as [string, string, string, string];
  const isWhole = start.length === raw.length;
  const isRunIn = !isWhole && !start.includes("\n");
  const count = words.split(/\s+/).length;
  const isFit = isRunIn
    ? /[.?!]$/.test(words) && colon === ""
    : /[^.!,;]$/.test(words) || (/\.$/.test(words) && count <= longestBoldStatement);
  const hasText = !isWhole || (next !== undefined && next.type !== "heading");
  if (!isFit || !hasText || count > longestBold) return null;
  return {
    length: start.length,
    isWhole,
    isRunIn,
    words: [mark.length, mark.length + words.replace(/[.:：]$/, "").length],
  };
}

/**
 * Splits off a paragraph's title in bold. A title on a line of its own reaches to the next blank line, or to the next title if a blank line
 * follows it at once. A title before other words is that of its paragraph; if `reach`, it reaches to the next title.
 */
function withBoldTitle(text: string, block: SnapshotBlock, found: BoldTitle, reach: boolean): Seen[] {
  const blankLine = /[ \t]*\n[ \t]*\n/g;
  blankLine.lastIndex = block.end;
  const endOfLines = blankLine.exec(text)?.index ?? text.length;
  const isBeforeBlank = found.isWhole && endOfLines === block.end;
  const isOpen = found.isRunIn ? reach : isBeforeBlank;
  const title: Seen = {
    type: "heading",
    level: belowMarked,
    start: block.start + found.words[0],
    end: block.start + found.words[1],
    ...(isOpen ? {} : { until: found.isRunIn ? block.end : endOfLines }),
  };
  return found.isWhole ? [title] : [title, { ...block, start: block.start + found.length }];
}

/**
 * Splits off the title of a numbered section of plain text from an item that begins with it on a line of its own. Returns null if the
 * item has none.
 */
function withTitleLine(text: string, block: SnapshotBlock, wrap: number): Seen[] | null {
  if (block.type !== "item") return null;
  const raw = text.slice(block.start, block.end);
  const [title = "", ...rest] = meantLines(raw, wrap);
  if (rest.length === 0 || title.includes("\n") || !isTitle(title.trim())) return null;
  const isNumbered = /\d[.)][ \t]+$/.test(text.slice(Math.max(0, block.start - 8), block.start));
  const end = block.start + title.trimEnd().length;
  const level = belowMarked;
  return [
    { type: "heading", level, start: block.start, end, ...(isNumbered ? {} : { until: block.end }) },
    { ...block, type: "paragraph", start: block.start + title.length + 1 },
  ];
}

/** A plain text of longer lines does not wrap its lines. */
const unwrapped = 120;

/** Share of the lines, of those followed by another line, that are at most as long as the width. Most of the longer ones are wrapped. */
const share = 0.75;

/**
 * The width by which `meantLines` decides: a line break is intended if the next word would still have fitted on the line. If at least a
 * quarter of the lines are wrapped, it is at most the width at which the text is wrapped.
 */
export function wrapOf(text: string): number {
  const lengths: number[] = [];
  for (const [line] of text.matchAll(/[^\n]+(?=\n[^\n]*\S)/g))
    if (columnsOf(line).length === 1) lengths.push(line.trimEnd().length);
  if (lengths.some((length) => length > unwrapped)) return Number.POSITIVE_INFINITY;
  return lengths.sort((a, b) => a - b)[Math.floor(lengths.length * share)] ?? 0;
}

/** Splits the lines of a paragraph of plain text where a break is meant. A line that begins with a small letter goes on with the last. */
export function meantLines(raw: string, wrap: number): string[] {
  const parts: string[] = [];
  let before = "";
  for (const line of raw.split("\n")) {
    const next = line.trim();
    const isMeant = before.length + 1 + next.split(/\s/, 1)[0]!.length <= wrap && /^[^\p{Ll}]/u.test(next);
    if (parts.length > 0 && !(isMeant && !/[,;(–-]$/.test(before))) parts[parts.length - 1] += `\n${line}`;
    else parts.push(line);
    before = line.trimEnd();
  }
  return parts;
}
