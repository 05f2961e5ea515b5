// POST embeddings: a vector of unit length per text.
import { endianness } from "node:os";
import { invalid } from "../../base/errors.ts";
import type { Handler } from "../../contract/endpoint.ts";
import type { vectors } from "../../contract/vectors.ts";
import { withModel } from "./held.ts";
import { refuseHuge } from "./prompts.ts";
import { type SessionParts, tellTruncation } from "./session.ts";

type Endpoint = (typeof vectors)["inference.embeddings"];

export const createEmbeddings =
  (parts: SessionParts): Handler<Endpoint> =>
  async ({ body, ...input }, caller) =>
    withModel(parts, input, caller, body.model, ["embedding", "text"], async ({ model, count }) => {
      const texts = inputsOf(body.input);
      for (const text of texts) if (typeof text === "string") refuseHuge(text.length, parts.generator.slotContext);
      const embedded = await parts.generator.embed(model.ref, texts, {
        truncate: body.truncate ?? false,
        signal: input.signal,
      });
      const tokens = embedded.reduce((sum, one) => sum + one.tokens, 0);
      const truncated = embedded.reduce((sum, one) => sum + one.truncated, 0);
      count(tokens);
      tellTruncation(parts, input, truncated);
      return {
        object: "list",
        data: embedded.map(({ vector }, index) => ({
          object: "embedding",
          index,
          embedding: encoded(shortened(vector, body.dimensions ?? vector.length), body.encoding_format === "base64"),
        })),
        model: model.modelId,
        usage: { prompt_tokens: tokens, total_tokens: tokens, truncated_tokens: truncated },
      };
    });

function inputsOf(input: string | string[] | number[] | number[][]): (string | number[])[] {
  if (typeof input === "string") return [input];
  return typeof input[0] === "number" ? [input as number[]] : (input as (string | number[])[]);
}

/**
 * Returns the first values of the vector, scaled to unit length. Models trained for this (Matryoshka embeddings) lose
 * little accuracy; other models lose more. Throws validation.
 */
function shortened(vector: Float32Array, dimensions: number): Float32Array {
  if (dimensions > vector.length)
    throw invalid(["body", "dimensions"], `the model's vectors have only ${vector.length} values`);
  if (dimensions === vector.length) return vector;
  const head = vector.subarray(0, dimensions);
  const length = Math.hypot(...head);
  if (length === 0)
    throw invalid(["body", "dimensions"], "the first values of a vector are all 0; ask for more values");
  return head.map((value) => value / length);
}

function encoded(vector: Float32Array, inBase64: boolean): number[] | string {
  if (!inBase64) return [...vector];
  const bytes = Buffer.from(vector.slice().buffer);
  return (endianness() === "BE" ? bytes.swap32() : bytes).toString("base64");
}
