// Cross-encoders that were taught to tell the second text of a pair from the first, by an embedding of its segment. llama.cpp reads
// every pair as one segment, so such a model would score otherwise than it was trained to: it is refused instead.
import { closeSync, openSync, readSync } from "node:fs";
import { Failure } from "../base/errors.ts";
import type { GgufHeader } from "./gguf-header.ts";
import { poolingOf } from "./pooling.ts";

export const segmentsRefusal = "a cross-encoder with segment embeddings scores wrongly in llama.cpp";

/** Of a sound file. Throws model_invalid. */
export function refuseSegments(path: string, header: GgufHeader): void {
  // Tokenizers of other kinds mark no segments: what the table holds beyond its first row is never used.
  if (poolingOf(header).kind !== "rerank" || header.values.get("tokenizer.ggml.model") !== "bert") return;
  const table = header.tensors.find(({ name }) => name === "token_types.weight");
  const rows = table?.shape[1] ?? 1;
  if (table === undefined || rows < 2) return;
  const bytes = table.bytes / rows;
  const file = openSync(path, "r");
  try {
    const row = (index: number): Buffer => {
      const read = Buffer.alloc(bytes);
      readSync(file, read, 0, bytes, table.offset + index * bytes);
      return read;
    };
    if (!row(1).equals(row(0))) throw new Failure("model_invalid", `The model cannot be served: ${segmentsRefusal}`);
  } finally {
    closeSync(file);
  }
}
