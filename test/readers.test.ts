// How two readers' verdicts are counted.
import assert from "node:assert/strict";
import { test } from "node:test";
import { agreement, type Judged, kappaOf } from "./e2e/readers/agreement.ts";

test("κ of a published table: 20 and 15 agreed of 50, 5 and 10 not, is 0.4", () => {
  // The example of Cohen's kappa in most textbooks: observed 0.7, by chance 0.5.
  const pairs = [
    ...Array<[boolean, boolean]>(20).fill([true, true]),
    ...Array<[boolean, boolean]>(5).fill([true, false]),
    ...Array<[boolean, boolean]>(10).fill([false, true]),
    ...Array<[boolean, boolean]>(15).fill([false, false]),
  ];
  assert.ok(Math.abs(kappaOf(pairs) - 0.4) < 1e-12);
  assert.equal(kappaOf([[false, false]]), 1);
});

test("planted rows are counted as caught, and not among the rows", () => {
  const judged: Judged[] = [
    { kind: "cell", isPlanted: false, said: ["correct", "awkward"] },
    { kind: "cell", isPlanted: false, said: ["wrong", "wrong"] },
    { kind: "writer", isPlanted: false, said: ["correct", "wrong"] },
    { kind: "cell", isPlanted: true, said: ["wrong", "correct"] },
  ];
  const found = agreement(judged);
  assert.deepEqual([found.rows, found.first, found.second, found.wrong_by_both], [3, [2, 0, 1], [0, 1, 2], 1]);
  assert.deepEqual(found.by_kind, { cell: { rows: 2, wrong: [1, 1] }, writer: { rows: 1, wrong: [0, 1] } });
  assert.deepEqual(found.planted, { rows: 1, caught: [1, 0] });
});
