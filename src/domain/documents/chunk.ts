// Groups blocks into chunks. Neighbouring blocks under one heading go together. Long blocks are split between sentences, and
// tables between rows.
import { sha256 } from "../../base/files.ts";
import type { Block, Chunk } from "../../contract/documents.ts";

export interface PlainBlock {
  type: Block["type"];
  level: number;
  start: number;
  end: number;
}

export type ChunkSpan = Omit<Chunk, "text" | "place">;

/**
 * Target and maximum size of a chunk in characters. They are about 300 and 600 tokens of English, which is enough to ask a question
 * about and little enough to answer it from.
 */
const enough = 1200;
const most = 2400;
/** A heading does not close a chunk of at most this size, so a chapter's title stays with its first section. */
const little = 300;

interface Part {
  start: number;
  end: number;
  block: PlainBlock;
}

export function chunkSpans(text: string, blocks: readonly PlainBlock[]): ChunkSpan[] {
  const chunks: ChunkSpan[] = [];
  const headings: { level: number; text: string }[] = [];
  let table: PlainBlock | null = null;
  let open: { start: number; end: number; path: string[]; header: string | null } | null = null;

  const close = (): void => {
    if (open !== null) {
      const { start, end, path, header } = open;
      const id = sha256(`${path.join("\n")}\n\n${text.slice(start, end)}`).slice(0, 16);
      chunks.push({ id, start, end, path, header });
    }
    open = null;
  };

  for (const { start, end, block } of blocks.flatMap((block) => partsOf(text, block))) {
    if (block.type === "row" && block.level === 1) table = block;
    if (open !== null) {
      const length = end - open.start;
      const size = open.end - open.start;
      const heading = block.type === "heading";
      if (length > most || (heading ? size > little : size >= enough && !(block.type === "row" && block.level > 1)))
        close();
    }
    if (block.type === "heading") {
      while (headings.length > 0 && headings.at(-1)!.level >= block.level) headings.pop();
      headings.push({ level: block.level, text: text.slice(start, end) });
    }
    if (open === null) {
      // A heading that opens a chunk is part of the chunk's text. The path has only the headings above it.
      const above = block.type === "heading" ? headings.slice(0, -1) : headings;
      const header =
        block.type === "row" && table !== null && table !== block ? text.slice(table.start, table.end) : null;
      open = { start, end, path: above.map((heading) => heading.text), header };
    } else open.end = end;
  }
  close();
  return chunks;
}

/** Splits a block that is longer than a chunk may be. */
function partsOf(text: string, block: PlainBlock): Part[] {
  if (block.end - block.start <= most) return [{ start: block.start, end: block.end, block }];
  const parts: Part[] = [];
  let start = block.start;
  while (start < block.end) {
    const end = block.end - start <= most ? block.end : start + breakIn(text.slice(start, start + most), block.type);
    parts.push({ start, end, block });
    start = end;
    while (start < block.end && /\s/.test(text[start]!)) start++;
  }
  return parts;
}

const sentences = new Intl.Segmenter(undefined, { granularity: "sentence" });

/**
 * Returns how many characters of a window to take: in code up to the end of a line, else up to the end of a sentence, else of a word,
 * else the whole window. A cut in the first third does not count, and no cut splits a surrogate pair.
 */
function breakIn(window: string, type: PlainBlock["type"]): number {
  const least = window.length / 3;
  const line = window.lastIndexOf("\n");
  if (type === "code" && line > least) return line;
  let sentence = 0;
  for (const { index } of sentences.segment(window)) sentence = index;
  if (sentence > least) return window.slice(0, sentence).trimEnd().length;
  const space = window.search(/\s\S*$/);
  if (space > least) return window.slice(0, space).trimEnd().length;
  const last = window.charCodeAt(window.length - 1);
  return last >= 0xd800 && last < 0xdc00 ? window.length - 1 : window.length;
}
