// Distils from the base, which is the same model with the adapter off. At every position, the target is the base's distribution instead of
// the token in the row. The gradient is that of the forward KL divergence, KL(base‖adapter), over the base's likeliest tokens, with all
// other tokens taken as one more. The gradient vanishes where the adapter agrees with the base. Sampling a target from the other tokens
// would give the right mean, but the draws would be learned by heart: training on replayed rows alone, which have nothing to teach, left a
// drift of 0.2 nats.
import { restOfVocabulary, type TopTokens, type Trainer, type WeightedRows } from "../engine/train/trainer.ts";

/** The base's likeliest tokens, with their log-probs, at the trained positions of some rows. */
export interface SoftTargets {
  /** Entries of `top` per token. */
  topK: number;
  /** [tokens with a weight · topK], in the order of the tokens. */
  top: TopTokens;
}

export async function askTeacher(trainer: Trainer, rows: WeightedRows, topK: number): Promise<SoftTargets> {
  const { top } = await trainer.forward(null, rows, topK);
  const isTrained = (_: number, at: number): boolean => rows.weights[Math.floor(at / topK)] !== 0;
  return { topK, top: { tokens: top.tokens.filter(isTrained), logprobs: top.logprobs.filter(isTrained) } };
}

/** Joins the soft targets of consecutive rows. */
export function joinSoftTargets(topK: number, rows: readonly TopTokens[]): SoftTargets {
  const length = rows.reduce((sum, { tokens }) => sum + tokens.length, 0);
  const top: TopTokens = { tokens: new Int32Array(length), logprobs: new Float32Array(length) };
  let at = 0;
  for (const { tokens, logprobs } of rows) {
    top.tokens.set(tokens, at);
    top.logprobs.set(logprobs, at);
    at += tokens.length;
  }
  return { topK, top };
}

/**
 * Returns the rows with `topK` + 1 soft targets per token. `top` starts at token `first`. From there on, the soft targets, whose weights
 * are multiplied by `factor`, replace the rows' own tokens as targets.
 */
export function withSoftTargets(
  rows: WeightedRows,
  { topK, top }: SoftTargets,
  { first = 0, factor = 1 }: { first?: number; factor?: number } = {},
): WeightedRows {
  const places = topK + 1;
  const targets = new Int32Array(rows.tokens.length * places);
  const weights = new Float32Array(targets.length);
  let at = 0;
  for (const [t, weight] of rows.weights.entries()) {
    if (weight === 0 || t < first) continue;
    const taken = weight * factor;
    let rest = 1;
    for (const [k, token] of top.tokens.subarray(at, at + topK).entries()) {
      const probability = Math.exp(top.logprobs[at + k]!);
      targets[t * places + k] = token;
      weights[t * places + k] = taken * probability;
      rest -= probability;
    }
    targets[t * places + topK] = restOfVocabulary;
    weights[t * places + topK] = taken * Math.max(0, rest);
    at += topK;
  }
  return { ...rows, weights: rows.weights.slice().fill(0, first), soft: { targets, weights } };
}
