// The base as teacher, being the same file with the adapter off: at every place what it would say becomes the target there, in place
// of the token that stands there. The gradient is an unbiased estimate of that of KL(base‖adapter) (forward KL): its likeliest
// tokens count by their probabilities, and all the others by the tokens that were drawn. Without these the likeliest alone would
// share the whole, and the adapter learn that nothing else is ever said (measured: perplexity of prose +47 %).
import type { TopTokens, Trainer, WeightedRows } from "../../engine/trainer.ts";

/** Most that a token counts for that the base says far more often than whoever drew it: a rare event would rule the step. */
const mostWeight = 4;

/** What the base says at every place of some rows. */
export interface Lesson {
  /** Places of `top` a token. */
  topK: number;
  top: TopTokens;
  /** [T] of the tokens that stand there, where the adapter drew them: what the base says of each less what the adapter did, in nats. */
  ratios: Float32Array | null;
}

/** `drawn`: [T] log-probs in nats with which the adapter drew the tokens; null where the base did. */
export async function askTeacher(
  trainer: Trainer,
  rows: WeightedRows,
  topK: number,
  drawn: Float32Array | null,
): Promise<Lesson> {
  const { top, logprobs } = await trainer.forward(null, rows, topK);
  return { topK, top, ratios: drawn && logprobs.map((logprob, t) => logprob - drawn[t]!) };
}

/** Of rows one behind the other. */
export function joinLessons(topK: number, lessons: readonly TopTokens[]): Lesson {
  const length = lessons.reduce((sum, { tokens }) => sum + tokens.length, 0);
  const top: TopTokens = { tokens: new Int32Array(length), logprobs: new Float32Array(length) };
  let at = 0;
  for (const { tokens, logprobs } of lessons) {
    top.tokens.set(tokens, at);
    top.logprobs.set(logprobs, at);
    at += tokens.length;
  }
  return { topK, top, ratios: null };
}

/** The same rows with `topK` + 1 soft targets a token, which from token `first` on, the lesson's first, take the place of the weights. */
export function taught(rows: WeightedRows, { topK, top, ratios }: Lesson, first = 0): WeightedRows {
  const places = topK + 1;
  const targets = new Int32Array(rows.tokens.length * places);
  const weights = new Float32Array(targets.length);
  for (const [t, weight] of rows.weights.entries()) {
    if (weight === 0 || t < first) continue;
    const at = (t - first) * topK;
    for (const [k, token] of top.tokens.subarray(at, at + topK).entries()) {
      targets[t * places + k] = token;
      weights[t * places + k] = weight * Math.exp(top.logprobs[at + k]!);
    }
    const likeliest = targets.subarray(t * places, t * places + topK);
    if (likeliest.includes(rows.tokens[t]!)) continue;
    // p(token) / q(token): over draws from q, the mean of these weights is what the base says of each token.
    const ratio = ratios === null ? 1 : Math.min(mostWeight, Math.exp(ratios[t - first]!));
    targets[t * places + topK] = rows.tokens[t]!;
    weights[t * places + topK] = weight * ratio;
  }
  return { ...rows, weights: rows.weights.slice().fill(0, first), soft: { targets, weights } };
}
