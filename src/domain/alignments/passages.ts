// A document as passages that each say by themselves what they are about: a paragraph, a line or a row of a table, under its headings.
import type { SnapshotDocument } from "../../contract/run-folder.ts";
import { type Block, blocksOf } from "./examples/blocks.ts";

/** Up to 600 characters, and whole words: an encoder reads some hundred of them, and a shorter text says one thing. */
const pieces = /\S[\s\S]{0,599}(?=\s|$)|\S{600}/g;

/** In the document's order. */
export function passagesOf(document: SnapshotDocument): string[] {
  const blocks = blocksOf(document);
  return blocks.flatMap((block, at) =>
    textsOf(block, blocks[at + 1])
      .flatMap((text) => text.match(pieces) ?? [])
      .map((text) => [...block.path, text.trim()].join("\n")),
  );
}

/** `next`: the block after it. */
function textsOf(block: Block, next: Block | undefined): string[] {
  switch (block.type) {
    case "heading":
      // What stands under it has it in its path.
      return next && next.path.length > block.path.length ? [] : [block.piece.text];
    case "pair":
      return [`${block.key.text}: ${block.value.text}`];
    case "table":
      return block.rows
        .map((row) => rowText(block.header, row))
        .concat(block.rows.length === 0 ? rowText([], block.header) : []);
    default:
      return [block.piece.text];
  }
}

/** Cells that say something, each with what its column is called. */
const rowText = (header: readonly { text: string }[], row: readonly { text: string }[]): string =>
  row
    .map(({ text }, column) => [header[column]?.text ?? "", text])
    .filter(([, text]) => text !== "")
    .map(([title, text]) => (title === "" ? text : `${title}: ${text}`))
    .join("; ");
