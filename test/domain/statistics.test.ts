// Published values, exhaustive small cases against other ways of computing, and coverage by simulation.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { mcnemar, minimumDetectableEffect, wilson } from "../../src/domain/evaluations/statistics.ts";
import { auroc } from "../../src/engine/confidence.ts";

const near = (actual: number, expected: number, within: number): void =>
  assert.ok(Math.abs(actual - expected) <= within, `${actual} is not ${expected} ± ${within}`);

test("Wilson's interval has its published values", () => {
  const published: [correct: number, n: number, low: number, high: number][] = [
    [10, 10, 72.25, 100],
    [50, 50, 92.87, 100],
    [0, 10, 0, 27.75],
    // Newcombe 1998, method 3
    [81, 263, 25.53, 36.62],
    [15, 148, 6.24, 16.05],
    [0, 20, 0, 16.11],
    [1, 29, 0.61, 17.18],
  ];
  for (const [correct, n, low, high] of published) {
    const found = wilson(correct, n);
    near(found.score, (100 * correct) / n, 1e-12);
    near(found.low, low, 0.006);
    near(found.high, high, 0.006);
    assert.equal(found.n, n);
  }
  assert.deepEqual(wilson(0, 0), { score: 0, low: 0, high: 100, n: 0 });
});

test("Wilson's interval holds the score, stays within 0 and 100, mirrors, and narrows with n", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5000 }), fc.double({ min: 0, max: 1, noNaN: true }), (n, share) => {
      const correct = Math.round(share * n);
      const { score, low, high } = wilson(correct, n);
      assert.ok(0 <= low && low <= score && score <= high && high <= 100);
      const mirrored = wilson(n - correct, n);
      near(mirrored.low, 100 - high, 1e-9);
      near(mirrored.high, 100 - low, 1e-9);
      const more = wilson(4 * correct, 4 * n);
      assert.ok(more.high - more.low < high - low);
    }),
  );
});

test("Wilson's interval covers the truth about as often as it says", () => {
  // mulberry32, so that the test is the same every time
  let state = 20190312;
  const random = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let word = Math.imul(state ^ (state >>> 15), 1 | state);
    word = (word + Math.imul(word ^ (word >>> 7), 61 | word)) ^ word;
    return ((word ^ (word >>> 14)) >>> 0) / 0x1_0000_0000;
  };
  const coverages: number[] = [];
  for (const truth of [0.1, 0.3, 0.5, 0.7, 0.9])
    for (const n of [20, 50, 200]) {
      let covered = 0;
      const trials = 4000;
      for (let trial = 0; trial < trials; trial++) {
        let correct = 0;
        for (let index = 0; index < n; index++) if (random() < truth) correct++;
        const { low, high } = wilson(correct, n);
        if (low <= 100 * truth && 100 * truth <= high) covered++;
      }
      coverages.push(covered / trials);
      assert.ok(covered / trials > 0.925, `p ${truth}, n ${n}: ${covered / trials}`);
    }
  near(coverages.reduce((sum, value) => sum + value, 0) / coverages.length, 0.95, 0.01);
});

test("McNemar's exact test is the two-sided binomial test of a half", () => {
  const known: [gained: number, lost: number, p: number][] = [
    [0, 0, 1],
    [5, 0, 0.0625],
    [6, 0, 0.03125],
    [8, 2, 0.109375],
    [10, 1, 0.01171875],
    [5, 5, 1],
  ];
  for (const [gained, lost, p] of known) {
    near(mcnemar(gained, lost), p, 1e-12);
    near(mcnemar(lost, gained), p, 1e-12);
  }
  // Against whole-number arithmetic.
  for (let n = 1; n <= 60; n++)
    for (let fewer = 0; fewer <= n / 2; fewer++) {
      let term = 1n;
      let sum = 1n;
      for (let k = 1; k <= fewer; k++) {
        term = (term * BigInt(n - k + 1)) / BigInt(k);
        sum += term;
      }
      near(mcnemar(fewer, n - fewer), Math.min(1, (2 * Number(sum)) / 2 ** n), 1e-9);
    }
  const far = mcnemar(4000, 6000);
  assert.ok(far > 0 && far < 1e-80, String(far));
});

test("the minimum detectable effect is that of the notes", () => {
  near(minimumDetectableEffect(50, 0.1), 12.5, 0.05);
  near(minimumDetectableEffect(400, 0.2), 6.3, 0.05);
  near(minimumDetectableEffect(1000, 0.3), 4.85, 0.05);
  assert.equal(minimumDetectableEffect(0, 0.2), 100);
  assert.equal(minimumDetectableEffect(1, 1), 100);
});

test("the AUROC is the share of pairs in order, ties counted half", () => {
  assert.equal(auroc([2, 3], [0, 1]), 1);
  assert.equal(auroc([0, 1], [2, 3]), 0);
  assert.equal(auroc([1, 1], [1, 1, 1]), 0.5);
  assert.equal(auroc([], [1]), null);
  assert.equal(auroc([1], []), null);
  const values = fc.array(fc.integer({ min: 0, max: 6 }), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(values, values, (positives, negatives) => {
      let pairs = 0;
      for (const positive of positives)
        for (const negative of negatives) pairs += positive > negative ? 1 : positive === negative ? 0.5 : 0;
      near(auroc(positives, negatives)!, pairs / (positives.length * negatives.length), 1e-12);
    }),
  );
});
