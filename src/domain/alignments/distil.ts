// The base as teacher: its likeliest tokens at every place become the targets there, in place of the token that stands there. The
// gradient is that of KL(base‖adapter) over those tokens (forward KL), the base being the same file with the adapter off.
import type { Trainer, WeightedRows } from "../../engine/trainer.ts";

/** The same rows with `topK` soft targets a token, whose weights add up to the token's own. */
export async function taught(trainer: Trainer, rows: WeightedRows, topK: number): Promise<WeightedRows> {
  const { top } = await trainer.forward(null, rows, topK);
  const targets = new Int32Array(top.tokens.length);
  const weights = new Float32Array(top.tokens.length);
  for (let t = 0; t < rows.weights.length; t++) {
    if (rows.weights[t] === 0) continue;
    let sum = 0;
    for (let k = t * topK; k < (t + 1) * topK; k++) sum += Math.exp(top.logprobs[k]!);
    for (let k = t * topK; k < (t + 1) * topK; k++) {
      targets[k] = top.tokens[k]!;
      weights[k] = (rows.weights[t]! * Math.exp(top.logprobs[k]!)) / sum;
    }
  }
  const { tokens, rowLengths } = rows;
  return { tokens, rowLengths, weights: new Float32Array(tokens.length), soft: { targets, weights } };
}
