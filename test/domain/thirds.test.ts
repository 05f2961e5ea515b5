// The thirds of the sealed questions: disjoint, whole, by fact, balanced, and the same whatever order the questions come in.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type SealedItem, thirdsCount, thirdsOf } from "../../src/domain/alignments/auto/thirds.ts";

const itemsOf = (sizes: readonly number[]): SealedItem[] =>
  sizes
    .flatMap((size, at) => Array.from({ length: size }, () => `c${at}`))
    .map((cluster, at) => ({ sample_num: at + 1, cluster }));

const sizes = fc.array(fc.integer({ min: 1, max: 6 }), { minLength: thirdsCount, maxLength: 40 });

test("every question lies in one third, with all others about its fact, and no third is empty", () => {
  fc.assert(
    fc.property(sizes, (given) => {
      const items = itemsOf(given);
      const thirds = thirdsOf(items)!;
      assert.equal(thirds.length, thirdsCount);
      assert.deepEqual(
        thirds.flat().sort((a, b) => a.sample_num - b.sample_num),
        items,
      );
      const places = new Map<string, number>();
      for (const [at, third] of thirds.entries())
        for (const { cluster } of third) {
          assert.equal(places.get(cluster) ?? at, at);
          places.set(cluster, at);
        }
      // One fact may be as large as all others together; beyond that thirds differ by no more than the largest.
      const lengths = thirds.map((third) => third.length);
      assert.ok(Math.min(...lengths) > 0);
      assert.ok(Math.max(...lengths) - Math.min(...lengths) <= Math.max(...given));
    }),
  );
});

test("the order of the questions changes nothing", () => {
  fc.assert(
    fc.property(
      sizes.chain((given) => fc.shuffledSubarray(itemsOf(given), { minLength: itemsOf(given).length })),
      (shuffled) => {
        const inOrder = shuffled.toSorted((a, b) => a.sample_num - b.sample_num);
        assert.deepEqual(thirdsOf(shuffled), thirdsOf(inOrder));
      },
    ),
  );
});

test("fewer facts than thirds make none", () => {
  assert.equal(thirdsOf([]), null);
  assert.equal(thirdsOf(itemsOf([5, 5])), null);
  assert.deepEqual(
    thirdsOf(itemsOf([1, 1, 1]))!.map((third) => third.length),
    [1, 1, 1],
  );
});
