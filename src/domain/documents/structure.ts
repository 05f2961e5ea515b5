// The structure of a clean text: the form in which it is stored, and the form that other modules get.
import type { Chunk, ReadDocument } from "../../contract/documents.ts";
import { type ChunkSpan, chunkSpans, type PlainBlock } from "./chunk.ts";
import { pageStarts, placeOf, type SourceMap } from "./source-map.ts";

const types = ["heading", "paragraph", "item", "row", "code"] as const;

/** The stored form, which is written as JSON. */
export interface Structure {
  /** Four numbers per block: type, level, start, end. */
  blocks: number[];
  map: SourceMap;
  /** Whether the original has numbered pages. */
  paged: boolean;
}

export const structureOf = (blocks: readonly PlainBlock[], map: SourceMap, paged: boolean): Structure => ({
  blocks: blocks.flatMap(({ type, level, start, end }) => [types.indexOf(type), level, start, end]),
  map,
  paged,
});

function plainBlocks({ blocks }: Structure): PlainBlock[] {
  const plain: PlainBlock[] = [];
  for (let i = 0; i < blocks.length; i += 4)
    plain.push({ type: types[blocks[i]!]!, level: blocks[i + 1]!, start: blocks[i + 2]!, end: blocks[i + 3]! });
  return plain;
}

export type Parts = Pick<ReadDocument, "pages" | "blocks" | "chunks">;

/** Returns the blocks and the chunks with their places in the original, and the page starts. */
export function readStructure(text: string, structure: Structure): Parts {
  const plain = plainBlocks(structure);
  const place = (start: number, end: number) => placeOf(structure.map, start, end, structure.paged);
  return {
    // The start of each page in the clean text, if the original has numbered pages.
    ...(structure.paged ? { pages: pageStarts(structure.map) } : {}),
    blocks: plain.map((block) => ({ ...block, place: place(block.start, block.end) })),
    chunks: chunkSpans(text, plain).map(
      (span: ChunkSpan): Chunk => ({
        ...span,
        text: text.slice(span.start, span.end),
        place: place(span.start, span.end),
      }),
    ),
  };
}
