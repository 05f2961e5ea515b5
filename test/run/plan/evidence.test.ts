// What the planner takes for evidence: against published tests, and by how often it errs.
import assert from "node:assert/strict";
import { test } from "node:test";
import { compareScores } from "../../../src/base/statistics/paired.ts";
import { seeded } from "../../../src/base/statistics/random.ts";
import { headroomClasses, headroomOf } from "../../../src/run/plan/deficits.ts";
import {
  chanceOfExcess,
  chanceOfLoss,
  errorOf,
  pairedDifference,
  smallestVisible,
  spentAt,
} from "../../../src/run/plan/evidence.ts";
import { judgeLook } from "../../../src/run/plan/looks.ts";
import { range, stateOf } from "./states.ts";

const near = (actual: number, expected: number, within: number): void =>
  assert.ok(Math.abs(actual - expected) <= within, `${actual} is not ${expected} ± ${within}`);

const alone = (n: number): string[] => range(0, n).map(String);

test("what all checks spend is the 5 % of one test, however many there are", () => {
  const spent = range(1, 100_000).reduce((sum, check) => sum + 5 * spentAt(check, 5), 0);
  assert.ok(spent < 0.05);
  near(spent, 0.05, 1e-4);
});

test("a loss on dev is tested as McNemar does, and by clusters where items share one", () => {
  const first = [1, 1, 1, 1, 1, 1, 1, 1, 1, 0];
  const second = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1];
  assert.equal(chanceOfLoss(second, first, alone(10)), compareScores(second, first, alone(10)).p_worse);
  assert.equal(chanceOfLoss(first, second, alone(10)), 1);
  const pairs = first.map((_, at) => `${Math.floor(at / 2)}`);
  assert.equal(chanceOfLoss(second, first, pairs), compareScores(second, first, pairs).p_worse);
});

test("a difference has the error of its clusters, and never none", () => {
  const [ones, zeros] = [Array.from({ length: 50 }, () => 1), Array.from({ length: 50 }, () => 0)];
  assert.deepEqual(pairedDifference(ones, zeros, alone(50)), { difference: 100, error: 2 });
  const mixed = ones.map((_, at) => Number(at % 5 !== 0));
  near(pairedDifference(mixed, zeros, alone(50)).error, 100 * Math.sqrt((0.8 * 0.2) / 50), 1e-9);
  const clusters = mixed.map((_, at) => `${at % 5}`);
  assert.ok(pairedDifference(mixed, zeros, clusters).error > pairedDifference(mixed, zeros, alone(50)).error);
});

test("a suite that lost exactly what it may is seldom said to have lost more", () => {
  const random = seeded(5);
  const level = 0.01;
  let alarms = 0;
  for (let run = 0; run < 4000; run++) {
    const base = Array.from({ length: 150 }, () => random() < 0.8);
    // Two points of all items are lost, and as many others change either way.
    const now = base.map((right) => (right ? random() >= 0.025 + 0.05 : random() < 0.2));
    if (chanceOfExcess(base, now, 2) <= level) alarms++;
  }
  assert.ok(alarms <= 4000 * level * 1.3, `${alarms}`);
  assert.ok(
    chanceOfExcess(
      range(0, 100).map(() => true),
      range(0, 100).map((at) => at > 20),
      2,
    ) < 1e-4,
  );
});

test("the error of a score counts clustered items for less, and a perfect score is not certain", () => {
  const scores = range(0, 100).map((at) => Number(at % 2));
  near(errorOf(50, scores, alone(100)), 5, 0.1);
  const together = scores.map((score) => `${score}`);
  assert.ok(errorOf(50, scores, together) > 20);
  assert.ok(
    errorOf(
      100,
      scores.map(() => 1),
      alone(100),
    ) > 0.5,
  );
});

test("what dev could show shrinks with its questions", () => {
  const state = stateOf();
  const { checkpoints } = state;
  const dev = [...checkpoints[0]!.dev, ...checkpoints[0]!.dev, ...checkpoints[0]!.dev, ...checkpoints[0]!.dev];
  const few = smallestVisible(checkpoints[0]!, undefined, alone(100));
  const many = smallestVisible({ ...checkpoints[0]!, dev }, undefined, alone(400));
  near(few, 13, 1.5);
  near(many, 6.5, 1);
});

test("every point that dev misses has one class", () => {
  const { diagnosis, checkpoints } = stateOf();
  const headroom = headroomOf(diagnosis, checkpoints[0]!);
  assert.deepEqual(headroom, {
    disputed: 5,
    format: 0,
    forgotten: 0,
    elicitation: 25,
    knowledge: 40,
    reading: 10,
    abstention: 0,
  });
  const later = { ...checkpoints[0]!, dev: diagnosis.items.map((_, at) => (at < 10 ? 0 : at < 60 ? 1 : 0.5)) };
  const left = headroomOf(diagnosis, later);
  near(
    headroomClasses.reduce((sum, one) => sum + left[one], 0),
    10 + 20,
    1e-9,
  );
  assert.equal(left.forgotten, 10);
  // Facts that are sampled by now are no longer missing.
  const sampled = { ...checkpoints[0]!, sampled: diagnosis.items.map(() => 0.25) };
  assert.equal(headroomOf(diagnosis, sampled).elicitation, 75);
  // Half of an item's points may be what declining is paid: nothing that was known, and forgotten.
  const [item] = diagnosis.items.filter(({ closed_book }) => closed_book === 1);
  const declined = { ...diagnosis, items: [{ ...item!, closed_book: 0.5, open_book: 0.5, sampled: 0 }] };
  assert.equal(headroomOf(declined, { ...checkpoints[0]!, dev: [0.5] }).reading, 50);
  // Where reinforcement pays for declining, that part of the points is of a class of its own.
  const paid = { ...diagnosis, items: diagnosis.items.map((item) => ({ ...item, declining: 0.5 })) };
  const { abstention, ...others } = headroomOf(paid, checkpoints[0]!);
  assert.deepEqual([abstention, others.knowledge, others.elicitation], [40, 20, 12.5]);
  // Declining is nothing that was known, however much it is paid; only where no answer earns more is it right.
  const cautious = (declining: number): typeof diagnosis => ({
    ...diagnosis,
    items: [{ ...item!, closed_book: declining, open_book: declining, sampled: 0, declining }],
  });
  near(headroomOf(cautious(0.8), { ...checkpoints[0]!, dev: [0.8] }).reading, 20, 1e-9);
  assert.equal(headroomOf(cautious(1), { ...checkpoints[0]!, dev: [0] }).abstention, 100);
  // What no passage answers is learned from examples.
  const shown = headroomOf({ ...diagnosis, has_examples: true }, checkpoints[0]!);
  assert.deepEqual([shown.knowledge, shown.reading], [50, 0]);
});

test("a look's lower bound holds at a third of the error, and clusters lower it", () => {
  const scores = range(0, 60).map((at) => Number(at < 48));
  const look = { checkpoint: "c", third: 0, scores, clusters: alone(60) };
  const verdict = judgeLook(look, 70);
  assert.equal(verdict.score, 80);
  assert.ok(verdict.reached && !verdict.confirmed);
  // Clopper and Pearson's one-sided bound at 1/60 for 48 of 60.
  near(verdict.low, 66.6, 0.6);
  assert.ok(judgeLook({ ...look, clusters: scores.map((score, at) => `${score} ${at % 3}`) }, 70).low < verdict.low);
  near(verdict.smallest_visible, 280 * Math.sqrt((0.7 * 0.3) / 60), 1);
});
