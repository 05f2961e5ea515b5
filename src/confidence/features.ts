// Features for the confidence score, from the 64 kept logits of each step of an answer (source A). ℓ is the log-prob of the
// token taken, H the entropy of the step, both in nats over the kept logits.
import type { FinishReason, TopLogits } from "../engine/generator.ts";

/** Order of the feature vector. With few labels only the first six are used. */
export const featureNames = [
  "logprob_sum",
  "logprob_mean",
  "logprob_min",
  /** Mean of the lowest tenth, at least one token. */
  "logprob_lowest_tenth",
  /** Mean of the last third, at least one token. */
  "logprob_tail",
  "logprob_first",
  /** Best logit minus the second best, at the first token; 0 if there is no second. */
  "margin_first",
  "entropy_mean",
  "entropy_max",
  /** Lowest mean ℓ of any 16 consecutive tokens; the mean of all if there are fewer. */
  "logprob_lowest_group",
  "length_ln",
  /** 1 if the model or a stop string ended the answer, 0 if the length limit did. */
  "stopped",
] as const;

export interface AnswerStep {
  logprob: number;
  top: TopLogits;
}

export interface FeatureAccumulator {
  add(step: AnswerStep): void;
  /** In the order of `featureNames`. Throws RangeError before the first token. */
  values(finishReason: FinishReason): number[];
}

const groupSize = 16;

/** Accumulates the features step by step; each step costs one pass over its logits. */
export function createFeatures(): FeatureAccumulator {
  const logprobs: number[] = [];
  let margin = 0;
  let entropySum = 0;
  let entropyMax = 0;
  return {
    add: ({ logprob, top }) => {
      if (logprobs.length === 0) margin = top.logits.length > 1 ? top.logits[0]! - top.logits[1]! : 0;
      logprobs.push(logprob);
      const h = entropy(top.logits);
      entropySum += h;
      entropyMax = Math.max(entropyMax, h);
    },
    values: (finishReason) => {
      const n = logprobs.length;
      if (n === 0) throw new RangeError("An answer without tokens has no features");
      const sorted = logprobs.toSorted((a, b) => a - b);
      return [
        sum(logprobs),
        mean(logprobs),
        sorted[0]!,
        mean(sorted.slice(0, Math.ceil(n / 10))),
        mean(logprobs.slice(n - Math.ceil(n / 3))),
        logprobs[0]!,
        margin,
        entropySum / n,
        entropyMax,
        lowestGroup(logprobs),
        Math.log(n),
        finishReason === "stop" ? 1 : 0,
      ];
    },
  };
}

/** The features of a whole answer. */
export function answerFeatures(steps: readonly AnswerStep[], finishReason: FinishReason): number[] {
  const features = createFeatures();
  for (const step of steps) features.add(step);
  return features.values(finishReason);
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
const mean = (values: readonly number[]): number => sum(values) / values.length;

/** The entropy H = ln Z − Σ p·x, with x relative to the highest logit so that nothing overflows. `logits` are in descending order. */
function entropy(logits: Float32Array): number {
  const highest = logits[0]!;
  let total = 0;
  let weighted = 0;
  for (const logit of logits) {
    const x = logit - highest;
    const weight = Math.exp(x);
    total += weight;
    // A masked logit is −∞ and has weight 0. It is skipped, because 0 · −∞ would be NaN.
    if (weight > 0) weighted += weight * x;
  }
  return Math.log(total) - weighted / total;
}

function lowestGroup(logprobs: readonly number[]): number {
  let group = sum(logprobs.slice(0, groupSize));
  let lowest = group;
  for (let end = groupSize; end < logprobs.length; end++) {
    group += logprobs[end]! - logprobs[end - groupSize]!;
    lowest = Math.min(lowest, group);
  }
  return lowest / Math.min(groupSize, logprobs.length);
}
