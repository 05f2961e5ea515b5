// Regressions that are planted: found, attributed to their phase, repaired in the order of the ladder, told on the cards.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AutoAlignRequest } from "../../../src/contract/auto-align.ts";
import type { PlanState } from "../../../src/run/plan/state.ts";
import { nextDecision } from "../../../src/run/plan.ts";
import { afterPhase, phaseOf, planned, range, stateOf } from "./states.ts";

/** After a supervised phase that learned items, its checkpoint c1. */
function learned(request: Partial<AutoAlignRequest> = {}, gained = range(20, 50)): PlanState {
  const state = stateOf(request);
  const phase = planned(state, { arm: "supervised", steps: 300, rate_factor: 1, forecast: { gain: 20, sd: 10 } });
  return afterPhase(state, phase, { gained });
}

/** Another phase from there. */
const then = (state: PlanState, arm: "supervised" | "reinforce", found: Parameters<typeof afterPhase>[2]): PlanState =>
  afterPhase(
    state,
    planned(state, { arm, steps: 100, from: "c1", rate_factor: 1, repairs: null, forecast: { gain: 10, sd: 5 } }),
    found,
  );

test("a suite that lost more than it may is repaired from that checkpoint: scaled, then distilled", () => {
  let state = then(learned({}, range(20, 30)), "reinforce", { gained: range(60, 78), suites: { general: 16 } });
  const first = nextDecision(state);
  assert.deepEqual(first.card.regressions, [{ checkpoint: "c2", suite: "general", points: 16, cause: "c2" }]);
  const scaled = phaseOf(first);
  assert.equal(scaled.arm, "scale");
  assert.equal(scaled.from, "c2");
  assert.deepEqual(scaled.repairs, { checkpoint: "c2", remedy: "scale" });
  assert.match(first.card.because, /reinforce .*general by 16\.0 points/);
  state = afterPhase(state, scaled, { lost: range(60, 66), suites: { general: 14 } });
  const distilled = phaseOf(nextDecision(state));
  assert.equal(distilled.arm, "distil");
  assert.equal(distilled.from, "c2");
  // The suite is back: phases go on from the repaired checkpoint.
  state = afterPhase(state, distilled, { suites: { general: 1 } });
  const next = phaseOf(nextDecision(state));
  assert.equal(next.repairs, null);
  assert.equal(next.from, "c4");
});

test("a rung that would cost more than it wins back is left out", () => {
  // A smaller scale would give up more of 45 points learned than it wins back of 12.
  const state = then(learned(), "reinforce", { gained: range(60, 75), suites: { general: 12 } });
  assert.equal(phaseOf(nextDecision(state)).repairs?.remedy, "distil");
});

test("what a repair could not make better than the checkpoint before is rolled back", () => {
  const state = then(learned(), "reinforce", { gained: [60], suites: { general: 40 } });
  const phase = phaseOf(nextDecision(state));
  assert.equal(phase.repairs, null);
  assert.equal(phase.from, "c1");
});

test("the arm of a regression goes on at half the rate, and others at theirs", () => {
  const only = (arm: "supervised" | "reinforce") => {
    const state = then(learned(), "reinforce", { lost: range(20, 45) });
    return phaseOf(nextDecision({ ...state, limits: { ...state.limits, arms: [arm] } }));
  };
  assert.equal(only("reinforce").rate_factor, 0.5);
  assert.equal(only("supervised").rate_factor, 1);
});

test("dev that falls is rolled back without a repair", () => {
  const state = then(learned(), "supervised", { lost: range(20, 45) });
  const decision = nextDecision(state);
  assert.deepEqual(decision.card.regressions, [{ checkpoint: "c2", suite: "dev", points: 25, cause: "c2" }]);
  const phase = phaseOf(decision);
  assert.equal(phase.from, "c1");
  assert.equal(phase.repairs, null);
  assert.match(decision.card.because, /returns to c1/);
});

test("a pinned learning rate is not halved", () => {
  const request = { method: "supervised", config: { optimizer: { learning_rate: 1e-3 } } };
  const state = then(learned(request), "supervised", { lost: range(20, 45) });
  const phase = phaseOf(nextDecision(state));
  assert.equal(phase.arm, "supervised");
  assert.equal(phase.rate_factor, 1);
});

test("an arm that regresses again has the earlier phase revisited, on what was lost, and is abandoned", () => {
  let state = then(learned(), "reinforce", { lost: range(20, 45) });
  state = then(state, "reinforce", { lost: range(20, 48) });
  const revisit = phaseOf(nextDecision(state));
  assert.equal(revisit.arm, "supervised");
  assert.deepEqual(revisit.repairs, { checkpoint: "c3", remedy: "revisit" });
  assert.deepEqual(revisit.focus, range(20, 48));
  state = afterPhase(state, revisit, { gained: range(50, 55) });
  const { next, card } = nextDecision(state);
  assert.ok(card.excluded.some(({ arm, reason }) => arm === "reinforce" && /abandoned/.test(reason)));
  assert.ok(next.kind !== "phase" || next.phase.repairs === null);
});

test("a loss that an earlier phase did is attributed to it, though only a later check confirms it", () => {
  // Five points, which c1's check could not confirm, and three that reinforcement adds.
  const state = stateOf();
  const phase = planned(state, { arm: "supervised", steps: 300, rate_factor: 1, forecast: { gain: 20, sd: 10 } });
  const first = afterPhase(state, phase, { gained: range(20, 50), suites: { general: 5 } });
  assert.deepEqual(nextDecision(first).card.regressions, []);
  const { regressions } = nextDecision(
    then(first, "reinforce", { gained: range(60, 75), suites: { general: 8 } }),
  ).card;
  assert.deepEqual(regressions, [{ checkpoint: "c2", suite: "general", points: 8, cause: "c1" }]);
});

test("a fall that chance explains is no regression", () => {
  const state = then(learned(), "reinforce", { lost: range(20, 23), suites: { general: 3 } });
  assert.deepEqual(nextDecision(state).card.regressions, []);
});

test("a regression is its phase's own: what the parent had lost is not told again", () => {
  let state = then(learned(), "reinforce", { gained: range(60, 75), suites: { general: 12 } });
  const repair = phaseOf(nextDecision(state));
  state = afterPhase(state, repair, { suites: { general: 12 } });
  assert.deepEqual(nextDecision(state).card.regressions, []);
});

test("without the arms of the ladder a regression is rolled back or kept, and nothing else is run for it", () => {
  const state = then(learned({ method: "supervised" }), "supervised", {
    gained: range(60, 62),
    suites: { general: 30 },
  });
  const phase = phaseOf(nextDecision({ ...state, limits: { ...state.limits, arms: ["supervised"] } }));
  assert.equal(phase.repairs, null);
  assert.equal(phase.from, "c1");
});
