// Rows of a rung, chosen by what the rung before showed.
import { deepEqual, equal, ok } from "node:assert/strict";
import { test } from "node:test";
import { focused, likelihoodOf } from "../../src/run/focus.ts";
import type { TrainingRow } from "../../src/run/rows.ts";

const row = (answer: string, rung: number, kind = "writer", target?: string): TrainingRow => ({
  kind,
  ...(target !== undefined && { target }),
  messages: [
    { role: "user", content: "?" },
    { role: "assistant", content: answer },
  ],
  rung,
  tokens: Int32Array.of(1, 2, 3),
  weights: Float32Array.of(0, 1, 1),
});
/** Four rows of each of two answers in each of two rungs, a replayed row and a sentence to complete. */
const rows = [0, 1].flatMap((rung) => [
  ...["a", "a", "a", "a", "b", "b", "b", "b"].map((answer) => row(answer, rung)),
  row("replayed", rung, "replay"),
  row("b", rung, "fragment"),
]);
const planned = [...rows.keys()].filter((index) => rows[index]!.rung === 1);
const answers = (indices: readonly number[]) => indices.map((index) => rows[index]!.messages.at(-1)!.content);
const count = (indices: readonly number[], answer: string) => answers(indices).filter((one) => one === answer).length;

test("the likelihood of an answer is the geometric mean of its tokens' probabilities", () => {
  const logprobs = Float32Array.of(-9, Math.log(0.9), Math.log(0.4));
  ok(Math.abs(likelihoodOf(row("a", 0), logprobs) - 0.6) < 1e-6);
});

test("rows of an answer that is found give way to rows of one that is not, whose wordings come from other rungs", () => {
  const { rows: chosen, exchanged } = focused(rows, planned, [
    [0, 0.9],
    [1, 0.8],
    [4, 0.9],
    [5, 0.1],
  ]);
  equal(exchanged, 2);
  equal(chosen.length, planned.length);
  equal(new Set(chosen).size, planned.length);
  deepEqual([count(chosen, "a"), count(chosen, "b"), count(chosen, "replayed")], [2, 7, 1]);
  const further = chosen.filter((index) => rows[index]!.rung === 0);
  ok(further.every((index) => rows[index]!.kind === "writer"));
});

test("nothing is exchanged while no answer is found, or every answer is", () => {
  for (const likelihood of [0.1, 0.9]) {
    const said = rows.flatMap((_, index): [number, number][] => (rows[index]!.rung === 0 ? [[index, likelihood]] : []));
    deepEqual(focused(rows, planned, said), { rows: planned, exchanged: 0 });
  }
});

test("an answer that was never trained counts as not found", () => {
  const { rows: chosen } = focused(rows, planned, [[0, 1]]);
  deepEqual([count(chosen, "a"), count(chosen, "b")], [2, 7]);
});

test("facts with the same answer are told apart by their targets", () => {
  const both = [0, 1].flatMap((rung) => ["x", "x", "y", "y"].map((target) => row("yes", rung, "writer", target)));
  const { rows: chosen, exchanged } = focused(
    both,
    [4, 5, 6, 7],
    [
      [0, 0.99],
      [1, 0.99],
      [2, 0.5],
      [3, 0.5],
    ],
  );
  equal(exchanged, 1);
  deepEqual(chosen, [4, 6, 7, 3]);
});
