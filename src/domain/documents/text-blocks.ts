// Finds the blocks of a text that is Markdown, CSV or plain text.
import { CsvError, type Options as CsvOptions, parse as parseCsv } from "csv-parse/sync";
import { Failure } from "../../base/errors.ts";
import { delimiterOf } from "../../study/inline.ts";
import type { PlainBlock } from "./chunk.ts";
import { mostColumns } from "./limits.ts";
import { markdownBlocks } from "./markdown.ts";
import { tooWide } from "./refusal.ts";
import type { MediaType } from "./store.ts";
import { stretchesWithTables } from "./text-table.ts";

/** Returns the blocks in order. `name` is the file's name, for error messages. Throws document_limit, document_invalid. */
export function blocksOfText(text: string, mediaType: MediaType, name: string): PlainBlock[] {
  if (mediaType === "text/markdown") return markdownBlocks(text, name);
  if (mediaType === "text/csv") return csvBlocks(text, name);
  return paragraphs(text);
}

/** The records of a CSV text with their positions. */
function csvBlocks(text: string, name: string): PlainBlock[] {
  const options: CsvOptions = {
    raw: true,
    relax_column_count: true,
    skip_empty_lines: true,
    max_record_size: 1 << 20,
    delimiter: delimiterOf(text),
  };
  const blocks: PlainBlock[] = [];
  let at = 0;
  const place = ({ raw, record }: { raw: string; record: string[] }): null => {
    if (record.length > mostColumns) throw tooWide(name);
    // Spaces and tabs at the ends are empty cells where they are the delimiter.
    const line = raw.replace(/^\n+|(?<!\n)\n+$/g, "");
    if (line.trim() === "") return null;
    const start = text.indexOf(line, at);
    at = start + line.length;
    blocks.push({ type: "row", level: blocks.length === 0 ? 1 : 2, start, end: at });
    return null;
  };
  try {
    parseCsv(text, {
      ...options,
      on_record: (record) => place(record as unknown as { raw: string; record: string[] }),
    });
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    throw new Failure("document_invalid", `${name} cannot be read as CSV: ${error.message}`, { cause: error });
  }
  return blocks;
}

const underline = /\n(=+|-{3,}|\*{3,}|~{3,})[ \t]*$/;
const listMark = /^[ \t]*(?:[-*•–]|(\d{1,3})[.)])[ \t]+(?=\S)/;

/**
 * Splits plain text at blank lines and around tables. A heading is a line that is underlined with signs or stands between them,
 * or the first line of a paragraph if that line is in capitals. A line that starts with a list mark begins an item.
 */
function paragraphs(text: string): PlainBlock[] {
  const blocks: PlainBlock[] = [];
  for (const { raw, index, level: rowLevel } of partsOf(text)) {
    if (rowLevel > 0) {
      blocks.push({ type: "row", level: rowLevel, start: index, end: index + raw.length });
      continue;
    }
    const lead = raw.length - raw.trimStart().length;
    const body = raw.trim();
    const start = index + lead;
    const under = underline.exec(body);
    const title = body.slice(0, under?.index ?? 0);
    if (under && !title.includes("\n")) {
      blocks.push({
        type: "heading",
        level: headingLevels.indexOf(under[1]![0]!) + 1,
        start,
        end: start + title.length,
      });
      continue;
    }
    const framed = body.length <= longestFramed ? /^([=*#~-])\1+[ \t]+(\S[^\n]*?)[ \t]+\1{2,}$/.exec(body) : null;
    if (framed) {
      const from = start + body.indexOf(framed[2]!, framed[1]!.length);
      blocks.push({ type: "heading", level: 2, start: from, end: from + framed[2]!.length });
      continue;
    }
    const first = raw.slice(0, raw.indexOf("\n") + 1) || raw;
    if (!isInCapitals(first)) {
      for (const item of itemsOf(raw, index)) blocks.push(item);
      continue;
    }
    const from = index + (listMark.exec(first)?.[0].length ?? first.length - first.trimStart().length);
    const level = blocks.length === 0 ? 1 : 2;
    blocks.push({ type: "heading", level, start: from, end: index + first.trimEnd().length });
    for (const item of itemsOf(raw.slice(first.length), index + first.length)) blocks.push(item);
  }
  return blocks;
}

/** Maximum characters of a heading between signs, with the signs. */
const longestFramed = 200;
/** Maximum number of words of a heading in capitals, and minimum number of capital letters, so that "GB 12" or "IV." is not one. */
const mostWords = 12;
const fewestCapitals = 4;

/** Whether a line is a heading in capitals, such as "3. OPENING HOURS". A line in a script without case never is. */
function isInCapitals(line: string): boolean {
  const capitals = line.match(/\p{Lu}/gu)?.length ?? 0;
  return (
    capitals >= fewestCapitals &&
    !/\p{Ll}|[.!?;,]\s*$/u.test(line) &&
    capitals > (line.match(/\p{N}/gu)?.length ?? 0) &&
    line.trim().split(/\s+/).length <= mostWords
  );
}

/**
 * Yields the runs of lines without a blank line between them, each with its offset. A regular expression would take quadratic time on
 * a long blank line.
 */
function* stretchesOf(text: string): Generator<{ raw: string; index: number }> {
  let from: number | null = null;
  for (let at = 0; at < text.length; ) {
    const feed = text.indexOf("\n", at);
    const end = feed < 0 ? text.length : feed + 1;
    const isBlank = text.slice(at, end).trim() === "";
    if (isBlank && from !== null) yield { raw: text.slice(from, at), index: from };
    from = isBlank ? null : (from ?? at);
    at = end;
  }
  if (from !== null) yield { raw: text.slice(from), index: from };
}

/** Yields the rows of tables, with level 1 for the first of each, and what stands between tables, with level 0. */
function* partsOf(text: string): Generator<{ raw: string; index: number; level: number }> {
  for (const { raw, index } of stretchesOf(text)) {
    const lines = [...raw.matchAll(/[^\n]+\n?|\n/g)].map(({ 0: line, index: at }) => ({
      text: line.trimEnd(),
      start: index + at,
      end: index + at + line.length,
    }));
    for (const { level, lines: part } of stretchesWithTables(lines)) {
      const [from, to] = [part[0]!.start, part.at(-1)!.end];
      yield { raw: level === 0 ? text.slice(from, to) : text.slice(from, to).trimEnd(), index: from, level };
    }
  }
}

/** The signs with which most text converters underline a title, a chapter, a section and a sub-section. */
const headingLevels = ["*", "=", "-", "~"];

/**
 * Splits a paragraph where an item begins. A numbered line in the midst of a paragraph begins an item if its number is 1 or follows the
 * item before, because the number may also have been wrapped there: "under section" and "7. This requirement …".
 */
function itemsOf(raw: string, index: number): PlainBlock[] {
  const blocks: PlainBlock[] = [];
  let counted = 0;
  for (const { 0: line, index: at } of raw.matchAll(/[^\n]*\n?/g)) {
    if (line.trim() === "") continue;
    const found = listMark.exec(line);
    const number = found?.[1] === undefined ? null : Number(found[1]);
    const begins = blocks.length === 0 || number === null || number === 1 || number === counted + 1;
    const mark = found !== null && begins ? found[0].length : 0;
    if (mark > 0 && number !== null) counted = number;
    const start = index + at + (mark || line.length - line.trimStart().length);
    const end = index + at + line.trimEnd().length;
    const last = blocks.at(-1);
    if (mark > 0 || last === undefined) blocks.push({ type: mark > 0 ? "item" : "paragraph", level: 0, start, end });
    else last.end = end;
  }
  return blocks;
}
