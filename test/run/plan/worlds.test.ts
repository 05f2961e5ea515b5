// That the worlds are what they say: the same again from the same seed, true scores that checks and looks scatter around, and arms with
// diminishing returns.
import assert from "node:assert/strict";
import { test } from "node:test";
import { baseOf, check, diagnose, look, makeWorld, runPhase, trueScore } from "./worlds.ts";

const worlds = Array.from({ length: 60 }, (_, index) => makeWorld(index));
const share = (right: readonly boolean[]): number => (100 * right.filter(Boolean).length) / right.length;
const phase = { arm: "supervised", steps: 200, hours: 1e6 } as const;

test("a world, a phase and what is seen of it are the same again", () => {
  for (const index of [0, 1, 2]) {
    const [one, other] = [makeWorld(index), makeWorld(index)];
    assert.deepEqual(one, other);
    const [first, second] = [one, other].map((world) => runPhase(world, baseOf(world), phase));
    assert.deepEqual(first, second);
    assert.deepEqual(check(one, first!.checkpoint), check(other, second!.checkpoint));
    assert.deepEqual(diagnose(one), diagnose(other));
  }
});

test("a third has wrong priors, and benchmarks have 40 to 400 dev questions", () => {
  assert.equal(worlds.filter((world) => world.hasWrongPriors).length, worlds.length / 3);
  for (const { dev } of worlds) assert.ok(dev.class.length >= 40 && dev.class.length <= 400);
});

test("checks and looks scatter around the true score without bias", () => {
  for (const seen of ["dev", "sealed"] as const) {
    const off = worlds.map((world) => {
      const { checkpoint } = runPhase(world, baseOf(world), phase);
      const right = seen === "dev" ? check(world, checkpoint).correct : look(world, checkpoint, 1).correct;
      const error = Math.sqrt((trueScore(world, checkpoint) * (100 - trueScore(world, checkpoint))) / right.length);
      return (share(right) - trueScore(world, checkpoint)) / error;
    });
    const mean = off.reduce((sum, value) => sum + value, 0) / off.length;
    const square = off.reduce((sum, value) => sum + value ** 2, 0) / off.length;
    assert.ok(Math.abs(mean) < 3 / Math.sqrt(off.length), `${seen}: ${mean} standard errors`);
    // Items of a cluster fall together, so that it is somewhat above 1.
    assert.ok(square > 0.6 && square < 2.2, `${seen}: variance ${square}`);
  }
});

test("two checkpoints of one path agree on more items than chance would have it", () => {
  const agreements = worlds.map((world) => {
    const { checkpoint } = runPhase(world, baseOf(world), { arm: "distil", steps: 60, hours: 1e6 });
    const [one, other] = [check(world, baseOf(world)).correct, check(world, checkpoint).correct];
    return one.filter((right, at) => right === other[at]).length / one.length;
  });
  const mean = agreements.reduce((sum, value) => sum + value, 0) / agreements.length;
  assert.ok(mean > 0.9 && mean < 0.999, `${mean}`);
});

test("the second unit of effort gains less than the first, accidents aside", () => {
  const gains = worlds.map((made) => {
    const world = { ...made, truth: { ...made.truth, supervised: { ...made.truth.supervised, accidents: 0 } } };
    const base = baseOf(world);
    const first = runPhase(world, base, phase).checkpoint;
    const second = runPhase(world, first, phase).checkpoint;
    return [trueScore(world, first) - trueScore(world, base), trueScore(world, second) - trueScore(world, first)];
  });
  assert.ok(gains.every(([one, two]) => two! <= Math.max(one!, 0) + 1e-9));
});

test("a phase ends with the step in which its hours are used up", () => {
  for (const world of worlds) {
    const hours = world.truth.supervised.setupHours + 0.1;
    const ran = runPhase(world, baseOf(world), { arm: "supervised", steps: 1e6, hours });
    assert.ok(ran.hours >= hours && ran.hours - hours <= ran.longestStepHours);
  }
});
