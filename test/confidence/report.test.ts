// Tables and thresholds from counts written out by hand, bounds against published ones, and what a threshold promises by drawing.
import assert from "node:assert/strict";
import { test } from "node:test";
import { lowerBound, upperBound } from "../../src/base/statistics/clopper-pearson.ts";
import { seeded } from "../../src/base/statistics/random.ts";
import { reliabilityTable, riskCoverage, suggestThreshold } from "../../src/confidence/report.ts";

const countsOf = (entries: [score: number, n: number, right: number][]) => {
  const counts = { n: new Array<number>(101).fill(0), right: new Array<number>(101).fill(0) };
  for (const [score, n, right] of entries) {
    counts.n[score] = n;
    counts.right[score] = right;
  }
  return counts;
};
const close = (found: number, expected: number, within: number): void =>
  assert.ok(Math.abs(found - expected) < within, `${found} is not ${expected}`);

test("Clopper and Pearson's bounds are R's (binom.test) and the rule of three", () => {
  close(upperBound(3, 10, 0.025), 0.6524529, 1e-6);
  close(lowerBound(3, 10, 0.025), 0.06673951, 1e-6);
  close(upperBound(0, 59, 0.05), 1 - 0.05 ** (1 / 59), 1e-8);
  assert.ok(upperBound(0, 59, 0.05) < 0.05 && upperBound(0, 58, 0.05) > 0.05);
  assert.deepEqual([upperBound(5, 5, 0.05), lowerBound(0, 5, 0.05)], [1, 0]);
});

test("risk against coverage, from the strictest threshold to none", () => {
  const points = riskCoverage(
    countsOf([
      [20, 50, 10],
      [60, 30, 20],
      [95, 20, 19],
    ]),
  );
  assert.deepEqual(points, [
    { threshold: 95, coverage: 20, n: 20, error: 5 },
    { threshold: 60, coverage: 50, n: 50, error: 22 },
    { threshold: 20, coverage: 100, n: 100, error: 51 },
  ]);
});

test("reliability rows hold every answer once, whole scores undivided", () => {
  const counts = countsOf([
    [0, 400, 20],
    [50, 1, 1],
    [70, 99, 70],
    [99, 500, 480],
  ]);
  const rows = reliabilityTable(counts);
  assert.deepEqual(
    rows.map(({ low, high, n }) => [low, high, n]),
    [
      [0, 0, 400],
      [50, 70, 100],
      [99, 99, 500],
    ],
  );
  assert.deepEqual(
    rows.map(({ accuracy }) => accuracy),
    [5, 71, 96],
  );
  assert.ok(rows.every((row) => row.accuracy_low < row.accuracy && row.accuracy < row.accuracy_high));
  assert.deepEqual(reliabilityTable(countsOf([])), []);
});

test("a threshold is the lowest that can be vouched for, and none where nothing can", () => {
  const counts = countsOf([
    [10, 300, 30],
    [80, 200, 170],
    [97, 500, 495],
  ]);
  const found = suggestThreshold(counts, 0.05)!;
  assert.deepEqual([found.threshold, found.n, found.error], [97, 500, 1]);
  assert.ok(found.error_bound > 1 && found.error_bound <= 5);
  assert.equal(suggestThreshold(counts, 0.2)!.threshold, 80);
  assert.equal(suggestThreshold(countsOf([[90, 58, 58]]), 0.05), null);
  assert.equal(suggestThreshold(countsOf([[90, 500, 400]]), 0.05), null);
  assert.equal(suggestThreshold(countsOf([]), 0.05), null);
});

test("the bound is kept in at least 95 of 100 benchmarks, choice among thresholds included", () => {
  const random = seeded(9);
  // Wrong with the chance (1 − score)², so that the true error of every threshold is known.
  const wrongAt = (score: number): number => (1 - score / 100) ** 2;
  let [broken, given] = [0, 0];
  for (let draw = 0; draw < 300; draw++) {
    const counts = countsOf([]);
    for (let answer = 0; answer < 2500; answer++) {
      const score = Math.floor(101 * random());
      counts.n[score]!++;
      if (random() >= wrongAt(score)) counts.right[score]!++;
    }
    const found = suggestThreshold(counts, 0.05);
    if (found === null) continue;
    given++;
    const scores = Array.from({ length: 101 - found.threshold }, (_, at) => found.threshold + at);
    const error = scores.reduce((sum, score) => sum + wrongAt(score), 0) / scores.length;
    if (100 * error > found.error_bound) broken++;
  }
  assert.ok(given > 250 && broken <= 0.05 * given, `${broken} of ${given} are broken`);
});
