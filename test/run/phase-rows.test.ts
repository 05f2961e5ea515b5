// Which rows the supervised phases of an auto-align train, one phase after another.
import assert from "node:assert/strict";
import { test } from "node:test";
import { rowsOf } from "../../src/run/auto/phase.ts";
import type { TrainingRow } from "../../src/run/rows.ts";

const rows = Array.from(
  { length: 40 },
  (_, at): TrainingRow => ({
    kind: "read",
    rung: at % 2,
    messages: [
      { role: "user", content: `What is item ${at}?` },
      { role: "assistant", content: at < 8 ? `word${at} lost` : `word${at}` },
    ],
    tokens: new Int32Array(),
    weights: new Float32Array(),
  }),
);

const phaseFrom = (from: number, lostGolds: readonly string[]) =>
  rowsOf(rows, { from, count: 20, seeds: { order: 7, phase: from }, lostGolds });

const inTurn = (phase: ReturnType<typeof phaseFrom>): TrainingRow[] =>
  phase.filter(({ isInTurn }) => isInTurn).map(({ row }) => row);

test("a phase that repeats lost answers moves on only by the other rows, so that the next one skips none", () => {
  const focused = phaseFrom(0, ["lost"]);
  assert.equal(focused.length, 20);
  const first = inTurn(focused);
  assert.equal(first.length, 12);
  const second = inTurn(phaseFrom(first.length, []));
  const third = inTurn(phaseFrom(first.length + second.length, []));
  assert.equal(new Set([...first, ...second]).size, 32);
  assert.equal(new Set([...first, ...second, ...third]).size, rows.length);
});
