// Draws a token from the kept logits of a step, with bias, penalties, temperature, top-k, top-p, min-p and seed. Pure.
import type { Sampling, TopLogits } from "../generator.ts";

export interface Draw {
  /**
   * Returns the index into `top` of the token to take. `step` counts from 0 and determines the random number. Tokens that `allowed`
   * refuses are ignored; −1 if it refuses all.
   */
  pick(top: TopLogits, step: number, allowed?: (token: number) => boolean): number;
  /** Records a taken token for the penalties. */
  accept(token: number): void;
}

/** `banned`: tokens that are never taken, such as the end tokens under ignoreEos. */
export function createDraw(sampling: Sampling, prompt: readonly number[], banned: ReadonlySet<number>): Draw {
  const seen = new Set(sampling.repetitionPenalty === 1 ? [] : prompt);
  const counts = new Map<number, number>();
  const plain =
    banned.size === 0 &&
    sampling.repetitionPenalty === 1 &&
    sampling.frequencyPenalty === 0 &&
    sampling.presencePenalty === 0 &&
    sampling.logitBias.size === 0;

  const adjusted = (token: number, raw: number): number => {
    if (banned.has(token)) return Number.NEGATIVE_INFINITY;
    let logit = raw + (sampling.logitBias.get(token) ?? 0);
    if (seen.has(token)) logit = logit > 0 ? logit / sampling.repetitionPenalty : logit * sampling.repetitionPenalty;
    const count = counts.get(token) ?? 0;
    return logit - count * sampling.frequencyPenalty - (count > 0 ? sampling.presencePenalty : 0);
  };

  /**
   * Index of the highest allowed logit, the first of equals; −1 if none is allowed. Grammars are slow, so only a token that is about
   * to be taken is checked.
   */
  const best = ({ tokens, logits }: TopLogits, allowed?: (token: number) => boolean): number => {
    const refused = new Set<number>();
    for (;;) {
      let at = -1;
      let highest = Number.NEGATIVE_INFINITY;
      for (let index = 0; index < tokens.length; index++) {
        const logit = adjusted(tokens[index]!, logits[index]!);
        if ((at < 0 || logit > highest) && !refused.has(index)) [at, highest] = [index, logit];
      }
      if (at < 0 || allowed === undefined || allowed(tokens[at]!)) return at;
      refused.add(at);
    }
  };

  return {
    pick: (top, step, allowed) => {
      if (sampling.temperature === 0) return plain && allowed === undefined ? 0 : best(top, allowed);
      const candidates = Array.from(top.logits, (raw, index) => ({
        index,
        logit: plain ? raw : adjusted(top.tokens[index]!, raw),
      }));
      if (!plain) candidates.sort((a, b) => b.logit - a.logit || a.index - b.index);
      const legal = allowed === undefined ? candidates : candidates.filter(({ index }) => allowed(top.tokens[index]!));
      return legal.length === 0 ? -1 : pickWarm(legal, sampling, step);
    },
    accept: (token) => {
      if (plain) return;
      if (sampling.repetitionPenalty !== 1) seen.add(token);
      counts.set(token, (counts.get(token) ?? 0) + 1);
    },
  };
}

/**
 * Draws one of the candidates, which come in order of falling logit, and returns its index. Temperature is applied before top-p and
 * min-p, as in vLLM.
 */
function pickWarm(candidates: { index: number; logit: number }[], sampling: Sampling, step: number): number {
  const kept = sampling.topK > 0 ? candidates.slice(0, sampling.topK) : candidates;
  const highest = kept[0]!.logit;
  const weights = kept.map(({ logit }) => Math.exp((logit - highest) / sampling.temperature));
  const all = weights.reduce((sum, weight) => sum + weight, 0);
  let sum = 0;
  let size = 0;
  while (size < weights.length) {
    const weight = weights[size]!;
    if (size > 0 && (sum >= sampling.topP * all || weight < sampling.minP || weight === 0)) break;
    sum += weight;
    size++;
  }
  let left = uniform(sampling.seed, step) * sum;
  for (let at = 0; at < size; at++) {
    left -= weights[at]!;
    if (left < 0) return kept[at]!.index;
  }
  return kept[size - 1]!.index;
}

const mask = (1n << 64n) - 1n;

/** The finaliser of SplitMix64. */
function mix(value: bigint): bigint {
  let z = (value + 0x9e3779b97f4a7c15n) & mask;
  z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & mask;
  z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & mask;
  return z ^ (z >> 31n);
}

/** Returns a number in [0, 1) that depends on (seed, step) alone, so that a draw needs no state and can be repeated. */
export function uniform(seed: number, step: number): number {
  return Number(mix(mix(BigInt(seed)) ^ BigInt(step)) >> 11n) / 2 ** 53;
}

/** ln of the sum of e^logit. */
export function logSumExp(logits: Float32Array): number {
  let highest = Number.NEGATIVE_INFINITY;
  for (const logit of logits) if (logit > highest) highest = logit;
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - highest);
  return highest + Math.log(sum);
}
