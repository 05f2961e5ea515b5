// Refuses cross-encoders that were trained to tell the second text of a pair from the first by segment embeddings. llama.cpp
// reads every pair as one segment, so such a model would not score as it was trained to.
import { closeSync, openSync, readSync } from "node:fs";
import { Failure } from "../../base/errors.ts";
import type { GgufHeader } from "./header.ts";
import { poolingOf } from "./pooling.ts";

/** Throws model_invalid for such a cross-encoder. Expects the header of a sound file. */
export function refuseSegments(path: string, header: GgufHeader): void {
  // Other tokenizers do not mark segments, so the rows of the table beyond the first are never used.
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
    const first = row(0);
    for (let index = 1; index < rows; index++)
      if (!row(index).equals(first))
        throw new Failure(
          "model_invalid",
          "The model cannot be served: llama.cpp computes wrong scores for a cross-encoder with segment embeddings",
        );
  } finally {
    closeSync(file);
  }
}
