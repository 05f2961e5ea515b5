// A tenth of the worlds that `npm run prove:plan` runs: what must never happen, and the planner beside every fixed order.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { PlanState, Resume } from "../../../src/run/plan/state.ts";
import { type Outcome, simulate, startState } from "./simulation.ts";
import { broken, play } from "./tournament.ts";
import { makeWorld } from "./worlds.ts";

const worlds = (count: number) => Array.from({ length: count }, (_, index) => makeWorld(index));
const phasesOf = ({ decisions }: Outcome) =>
  decisions.flatMap(({ next }) => (next.kind === "phase" ? [next.phase] : []));

test("hours, claims and alarms hold in every tenth world, and no fixed order does better", () => {
  // Every tenth but one, so that the same share of them has wrong priors as of all.
  const indexes = Array.from({ length: 200 }, (_, at) => 10 * at + (at % 3));
  assert.deepEqual(broken(play(indexes)), []);
});

test("a run that is killed before any decision decides the same again from its state on disk", () => {
  for (const world of worlds(30)) {
    const whole = simulate(world);
    const resumed = simulate(world, startState(world), (state) => JSON.parse(JSON.stringify(state)) as PlanState);
    assert.deepEqual(resumed.decisions, whole.decisions);
  }
});

test("a pause that is ended by hand changes nothing that was decided before it, however many follow", () => {
  let resumed = 0;
  for (const request of [{}, { sequencing: ["supervised", "reinforce"] }])
    for (const world of worlds(40).map((one) => ({ ...one, budgetHours: null }))) {
      const start = startState(world, request);
      let kept = simulate(world, start);
      for (const resumes: Resume[] = []; kept.status === "PAUSED" && resumes.length < 3; resumed++) {
        const { history, looks } = kept.state;
        resumes.push({ phases: history.length, looks: looks.length });
        const again = simulate(world, { ...start, resumes });
        const decided = kept.decisions.slice(0, -1);
        assert.deepEqual(again.decisions.slice(0, decided.length), decided, `${world.index}, resume ${resumes.length}`);
        kept = again;
      }
    }
  assert.ok(resumed > 50, `${resumed}`);
});

test("without a limit of hours every run ends", () => {
  for (const world of worlds(40)) simulate({ ...world, budgetHours: null });
});

test("a sequence is followed to the letter as far as the hours and the target let it", () => {
  const sequencing = ["supervised", "represent", "distil", "reinforce", "supervised", "scale"];
  for (const world of worlds(30)) {
    const outcome = simulate(world, startState(world, { sequencing }));
    const ran = phasesOf(outcome).map(({ arm }) => arm);
    assert.deepEqual(ran, sequencing.slice(0, ran.length));
    if (outcome.status === "PAUSED" && outcome.state.looks.length < 3) assert.equal(ran.length, sequencing.length);
    if (world.budgetHours !== null) assert.ok(outcome.state.hours <= world.budgetHours + outcome.stepHours + 1e-9);
  }
});

test("no phase is of an arm that the request excludes, and pinned steps are kept", () => {
  for (const world of worlds(30)) {
    const request = {
      method: "supervised+represent",
      representations: "none",
      config: { training: { max_steps: 60 } },
    };
    for (const { arm, steps } of phasesOf(simulate(world, startState(world, request)))) {
      assert.ok(arm === "supervised" || arm === "scale");
      assert.ok(steps <= 60);
    }
  }
});

test("the sealed thirds that are opened are disjoint and three at most, each for another checkpoint", () => {
  for (const world of worlds(60)) {
    const { looks } = simulate(world).state;
    assert.deepEqual(
      looks.map(({ third }) => third),
      [0, 1, 2].slice(0, looks.length),
    );
    assert.equal(new Set(looks.map(({ checkpoint }) => checkpoint)).size, looks.length);
  }
});
