// The promises' alarms and table, and that nothing is measured twice. What is measured here is made up.
import assert from "node:assert/strict";
import { test } from "node:test";
import { temporaryFolder } from "./cli/plumbline.ts";
import { isAlarm, isWorse, type Last, type Line, type Promised, tableOf, updated } from "./e2e/promises/judge.ts";
import { take } from "./e2e/promises/take.ts";

const score: Promised = { name: "score", says: "Score", unit: "points", better: "higher", digits: 1 };
const seconds: Promised = { name: "seconds", says: "Seconds", unit: "s", better: "lower", digits: 2, rounds: 3 };
const dropped: Promised = { name: "dropped", says: "Dropped", unit: "%", better: "lower", digits: 2, most: 1 };

const last = (figure: number): Last => ({ figure, date: "2026-11-01", commit: "0123456789abcdef-dirty" });
const line = (promised: Promised, figures: number[], was: Last | null): Line => ({
  promised,
  last: was,
  outcome: { taken: { figures, details: "", date: "2026-11-24" } },
});

test("a figure below 0.85 of the last is an alarm, whichever direction is better", () => {
  assert.equal(isWorse(score, 85, last(100)), false);
  assert.equal(isWorse(score, 84.9, last(100)), true);
  assert.equal(isWorse(score, 200, last(100)), false);
  assert.equal(isWorse(score, 0, last(0)), false);
  assert.equal(isWorse(seconds, 1, last(0.85)), false);
  assert.equal(isWorse(seconds, 1, last(0.84)), true);
  assert.equal(isWorse(seconds, 0.1, last(1)), false);
  assert.equal(isWorse(seconds, 100, null), false);
  assert.equal(isWorse(dropped, 1, last(0.01)), false);
  assert.equal(isWorse(dropped, 1.1, null), true);
});

test("the table tells figure, last, change and alarm, and why there is no figure", () => {
  const lines: Line[] = [
    line(score, [42], last(50)),
    line(seconds, [1.5, 0.9, 1], last(1.1)),
    line(dropped, [0.5], last(0.7)),
    { promised: score, last: null, outcome: { missing: "give --peers" } },
    { promised: score, last: null, outcome: { failed: "a | b" } },
  ];
  assert.deepEqual(tableOf(lines).split("\n").slice(2), [
    "| Score | 42.0 points | 50.0 points, 2026-11-01, 0123456-dirty | -16.0 %, worse | alarm |",
    "| Seconds | 1.00 s (median of 1.50, 0.90, 1.00) | 1.10 s, 2026-11-01, 0123456-dirty | -9.1 %, better |  |",
    "| Dropped | 0.50 % | 0.70 %, 2026-11-01, 0123456-dirty | -0.20, at most 1 % |  |",
    "| Score | not measured: give --peers | none |  |  |",
    "| Score | failed: a \\| b | none |  | alarm |",
  ]);
});

test("what was not measured, and other processors, keep their last figures", () => {
  const known = { here: { score: last(50), dropped: last(0.7) }, there: { score: last(60) } };
  const lines: Line[] = [line(score, [51.23456], null), { promised: dropped, last: null, outcome: { missing: "" } }];
  assert.deepEqual(updated(known, "here", "abc", lines), {
    here: { score: { figure: 51.23, date: "2026-11-24", commit: "abc" }, dropped: last(0.7) },
    there: { score: last(60) },
  });
});

test("a figure that is not better than the last one does not replace it", () => {
  const known = { here: { score: last(50), seconds: last(1) } };
  const after = (points: number, time: number) =>
    updated(known, "here", "abc", [line(score, [points], last(50)), line(seconds, [time], last(1))]).here!;
  assert.deepEqual(after(49, 1.1), known.here);
  assert.deepEqual(after(50, 1), known.here);
  const better = after(51, 0.9);
  assert.deepEqual([better.score!.figure, better.seconds!.figure], [51, 0.9]);
});

test("an alarm of a time counts when the median of three rounds is one; a second start measures nothing", async (context) => {
  const folder = temporaryFolder(context);
  const rounds = [2, 0.9, 1];
  const measurement = {
    name: "made up",
    promises: [seconds, score],
    missing: null,
    measure: async () => ({
      seconds: { figure: rounds.shift()!, details: "" },
      score: { figure: 50, details: "of a model" },
    }),
  };
  const where = { folder, last: { seconds: last(1) }, say: () => {} };
  const [time, points] = await take(measurement, where);
  assert.deepEqual(time!.outcome, { taken: { ...takenOf(time!), figures: [2, 0.9, 1] } });
  assert.deepEqual(takenOf(points!).figures, [50]);
  assert.equal(isAlarm(time!), false);
  assert.deepEqual(rounds, []);
  assert.deepEqual(await take(measurement, where), [time, points]);
});

test("three rounds are finished after an interruption", async (context) => {
  const folder = temporaryFolder(context);
  const rounds = [2, 0.5];
  const measure = async () => {
    const figure = rounds.shift();
    if (figure === undefined) throw new Error("interrupted\nby somebody");
    return { seconds: { figure, details: "" } };
  };
  const measurement = { name: "made up", promises: [seconds], missing: null, measure };
  const where = { folder, last: { seconds: last(1) }, say: () => {} };
  const [failed] = await take(measurement, where);
  assert.deepEqual(failed!.outcome, { failed: "interrupted" });
  assert.equal(isAlarm(failed!), true);
  rounds.push(3);
  const [time] = await take(measurement, where);
  assert.deepEqual(takenOf(time!).figures, [2, 0.5, 3]);
  assert.equal(isAlarm(time!), true);
});

test("a measurement that gives no number has failed, and is taken again", async (context) => {
  const figures = [Number.NaN, 50];
  const measure = async () => ({ score: { figure: figures.shift()!, details: "" } });
  const measurement = { name: "made up", promises: [score], missing: null, measure };
  const where = { folder: temporaryFolder(context), last: { score: last(50) }, say: () => {} };
  const [failed] = await take(measurement, where);
  assert.deepEqual(failed!.outcome, { failed: "score: gave no number" });
  assert.equal(isAlarm(failed!), true);
  assert.deepEqual(takenOf((await take(measurement, where))[0]!).figures, [50]);
});

test("what lacks a peer is not measured, and is no alarm", async (context) => {
  const measurement = { name: "made up", promises: [seconds], missing: "give --peers", measure: assert.fail };
  const [told] = await take(measurement, { folder: temporaryFolder(context), last: {}, say: () => {} });
  assert.deepEqual(told!.outcome, { missing: "give --peers" });
  assert.equal(isAlarm(told!), false);
});

function takenOf({ outcome }: Line) {
  assert.ok("taken" in outcome);
  return outcome.taken;
}
