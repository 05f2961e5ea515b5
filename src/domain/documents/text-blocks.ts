// The blocks of a text as it is written: Markdown, CSV, or plain text.
import { CsvError, type Options as CsvOptions, parse as parseCsv } from "csv-parse/sync";
import type { Nodes, Parents } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmTableFromMarkdown } from "mdast-util-gfm-table";
import { gfmTable } from "micromark-extension-gfm-table";
import { Failure } from "../../base/errors.ts";
import { delimiterOf } from "../../study/inline.ts";
import type { MediaType } from "./store.ts";
import type { PlainBlock } from "./structure.ts";

/** `name`: of the file, for what may be wrong with it. */
export function blocksOfText(text: string, mediaType: MediaType, name: string): PlainBlock[] {
  if (mediaType === "text/markdown") return markdownBlocks(text);
  if (mediaType === "text/csv") return csvBlocks(text, name);
  return paragraphs(text);
}

function markdownBlocks(text: string): PlainBlock[] {
  const blocks: PlainBlock[] = [];
  const add = (type: PlainBlock["type"], level: number, node: Nodes): void => {
    const [start, end] = [node.position?.start.offset ?? 0, node.position?.end.offset ?? 0];
    if (text.slice(start, end).trim() !== "") blocks.push({ type, level, start, end });
  };
  const walk = (node: Nodes, inItem: boolean): void => {
    if (node.type === "heading") blocks.push(...inside(text, node, "heading", node.depth));
    else if (node.type === "table")
      for (const [index, row] of node.children.entries()) add("row", index === 0 ? 1 : 2, row);
    else if (node.type === "paragraph") add(inItem ? "item" : "paragraph", 0, node);
    else if (node.type === "code" || node.type === "html") add("code", 0, node);
    else if ("children" in node) for (const child of node.children) walk(child, inItem || node.type === "listItem");
  };
  walk(fromMarkdown(text, { extensions: [gfmTable()], mdastExtensions: [gfmTableFromMarkdown()] }), false);
  return blocks;
}

/** The words of a node without the marks around them. */
function inside(text: string, node: Parents, type: PlainBlock["type"], level: number): PlainBlock[] {
  const start = node.children[0]?.position?.start.offset;
  const end = node.children.at(-1)?.position?.end.offset;
  if (start === undefined || end === undefined || text.slice(start, end).trim() === "") return [];
  return [{ type, level, start, end }];
}

/** Records of a CSV text with where each stands. */
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
  const place = ({ raw }: { raw: string }): null => {
    const line = raw.trim();
    if (line === "") return null;
    const start = text.indexOf(line, at);
    at = start + line.length;
    blocks.push({ type: "row", level: blocks.length === 0 ? 1 : 2, start, end: at });
    return null;
  };
  try {
    parseCsv(text, { ...options, on_record: (record) => place(record as unknown as { raw: string }) });
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    throw new Failure("document_invalid", `${name} is not readable as CSV: ${error.message}`, { cause: error });
  }
  return blocks;
}

const underline = /\n(=+|-{3,}|\*{3,}|~{3,})[ \t]*$/;
const listMark = /^[ \t]*(?:[-*•–]|\d{1,3}[.)])[ \t]+(?=\S)/;

/** Blank lines part paragraphs. A line with a line of signs under it is a heading; a line that starts with a mark is an item. */
function paragraphs(text: string): PlainBlock[] {
  const blocks: PlainBlock[] = [];
  for (const { 0: raw, index } of text.matchAll(/(?:[^\n]*\S[^\n]*(?:\n|$))+/g)) {
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
    blocks.push(...itemsOf(raw, index));
  }
  return blocks;
}

/** Title, chapter, section, sub-section, as most text converters underline them. */
const headingLevels = ["*", "=", "-", "~"];

/** A paragraph, cut where an item begins. */
function itemsOf(raw: string, index: number): PlainBlock[] {
  const blocks: PlainBlock[] = [];
  for (const { 0: line, index: at } of raw.matchAll(/[^\n]*\n?/g)) {
    if (line.trim() === "") continue;
    const mark = listMark.exec(line)?.[0].length ?? 0;
    const start = index + at + (mark || line.length - line.trimStart().length);
    const end = index + at + line.trimEnd().length;
    const last = blocks.at(-1);
    if (mark > 0 || last === undefined) blocks.push({ type: mark > 0 ? "item" : "paragraph", level: 0, start, end });
    else last.end = end;
  }
  return blocks;
}
