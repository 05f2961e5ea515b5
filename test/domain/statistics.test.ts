// The AUROC against counting the pairs.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { auroc } from "../../src/base/statistics/ranking.ts";

const near = (actual: number, expected: number, within: number): void =>
  assert.ok(Math.abs(actual - expected) <= within, `${actual} is not ${expected} ± ${within}`);

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
