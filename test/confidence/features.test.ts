// Confidence features against values worked out by hand.
import assert from "node:assert/strict";
import { test } from "node:test";
import { answerFeatures, createFeatures, featureNames } from "../../src/confidence/features.ts";
import type { TopLogits } from "../../src/engine/generator.ts";

const top = (...logits: number[]): TopLogits => ({
  tokens: Int32Array.from(logits.keys()),
  logits: Float32Array.from(logits),
});
const named = (values: number[]): Record<string, number> =>
  Object.fromEntries(featureNames.map((name, index) => [name, values[index]!]));
const close = (actual: number | undefined, expected: number): void =>
  assert.ok(Math.abs(actual! - expected) < 1e-6, `${actual} is not ${expected}`);

test("a short answer", () => {
  // Two equal logits have the entropy ln 2; one alone has none; 3:1 odds have ln 4 − (3/4) ln 3.
  const steps = [
    { logprob: -0.5, top: top(2, 2) },
    { logprob: -1, top: top(5) },
    { logprob: -2.25, top: top(Math.log(3), 0) },
    { logprob: -0.25, top: top(1, 1) },
  ];
  const features = named(answerFeatures(steps, "stop"));
  const oddsEntropy = Math.log(4) - 0.75 * Math.log(3);
  close(features.logprob_sum, -4);
  close(features.logprob_mean, -1);
  close(features.logprob_min, -2.25);
  close(features.logprob_lowest_tenth, -2.25);
  close(features.logprob_tail, (-2.25 - 0.25) / 2);
  close(features.logprob_first, -0.5);
  close(features.margin_first, 0);
  close(features.entropy_mean, (2 * Math.log(2) + oddsEntropy) / 4);
  close(features.entropy_max, Math.log(2));
  close(features.logprob_lowest_group, -1);
  close(features.length_ln, Math.log(4));
  assert.equal(features.stopped, 1);
});

test("a longer answer: the lowest tenth, the lowest group of 16, and an end by length", () => {
  const logprobs: number[] = Array.from({ length: 40 }, (_, index) => (index >= 20 && index < 36 ? -2 : -0.5));
  logprobs[3] = -4;
  const features = named(
    answerFeatures(
      logprobs.map((logprob) => ({ logprob, top: top(3, 1, Number.NEGATIVE_INFINITY) })),
      "length",
    ),
  );
  close(features.logprob_lowest_tenth, (-4 - 3 * 2) / 4);
  close(features.logprob_lowest_group, -2);
  close(features.logprob_tail, (10 * -2 + 4 * -0.5) / 14);
  close(features.margin_first, 2);
  // Odds of e²:1, the masked third weighing nothing.
  const p = Math.E ** 2 / (1 + Math.E ** 2);
  close(features.entropy_max, -p * Math.log(p) - (1 - p) * Math.log(1 - p));
  assert.equal(features.stopped, 0);
});

test("one token, and none", () => {
  const one = named(answerFeatures([{ logprob: -0.125, top: top(1, 0) }], "stop"));
  for (const name of ["sum", "mean", "min", "lowest_tenth", "tail", "first", "lowest_group"])
    close(one[`logprob_${name}`], -0.125);
  close(one.length_ln, 0);
  assert.throws(() => createFeatures().values("stop"), RangeError);
});

test("step by step gives what the whole gives, each name once", () => {
  const steps = Array.from({ length: 50 }, (_, index) => ({ logprob: -index / 7, top: top(index, 0, -1) }));
  const features = createFeatures();
  for (const step of steps) features.add(step);
  assert.deepEqual(features.values("length"), answerFeatures(steps, "length"));
  assert.equal(new Set(featureNames).size, featureNames.length);
  assert.equal(features.values("length").length, featureNames.length);
});
