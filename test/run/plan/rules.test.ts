// Each rule of the planner, on states made by hand.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Decision, PlanState } from "../../../src/run/plan/state.ts";
import { surveyOf } from "../../../src/run/plan/survey.ts";
import { nextDecision } from "../../../src/run/plan.ts";
import { afterLook, afterPhase, phaseOf, planned, range, stateOf, usualKinds } from "./states.ts";

const endOf = ({ next, card }: Decision) => {
  if (next.kind !== "end") throw new Error(`${next.kind} is no end: ${card.because}`);
  return next;
};

test("missing facts call for supervised rows, answers that are sampled for reinforcement, form for an edit", () => {
  assert.equal(phaseOf(nextDecision(stateOf())).arm, "supervised");
  const sampled = stateOf({}, { kinds: { ...usualKinds, knowledge: 0, elicitation: 65 } });
  const bids = nextDecision(sampled).card.bids;
  assert.ok(bids.find(({ arm }) => arm === "reinforce")!.gain > bids.find(({ arm }) => arm === "supervised")!.gain);
  const format = { ...usualKinds, knowledge: 0, elicitation: 0, format: 65 };
  const request = { target_score: 30 };
  assert.equal(phaseOf(nextDecision(stateOf(request, { kinds: format, hasUsableDirection: true }))).arm, "represent");
});

test("reinforcement makes no bid where samples are hardly ever right, an edit none without a direction", () => {
  const { card } = nextDecision(stateOf({}, { kinds: { ...usualKinds, knowledge: 62, elicitation: 3 } }));
  const excluded = new Map(card.excluded.map(({ arm, reason }) => [arm, reason]));
  assert.match(excluded.get("reinforce")!, /less than 5 points/);
  assert.match(excluded.get("represent")!, /no usable direction/);
});

test("reinforcement waits for the checkpoint that it is held to", () => {
  const state = stateOf({}, { kinds: { ...usualKinds, knowledge: 0, elicitation: 65 } });
  const reasonOf = (reinforce_needs: string) =>
    nextDecision({ ...state, limits: { ...state.limits, reinforce_needs } }).card.excluded.find(
      ({ arm }) => arm === "reinforce",
    )?.reason;
  assert.equal(reasonOf("phase-1"), "its reference, the checkpoint phase-1, does not exist yet");
  assert.equal(reasonOf("base"), undefined);
});

test("reinforcement bids where declining is paid, though no sample is right", () => {
  const state = stateOf({}, { kinds: { ...usualKinds, knowledge: 62, elicitation: 3 } });
  const items = state.diagnosis.items.map((item) => ({ ...item, declining: 0.5 }));
  const { card } = nextDecision({ ...state, diagnosis: { ...state.diagnosis, items } });
  const reinforce = card.bids.find(({ arm }) => arm === "reinforce");
  assert.ok(reinforce!.gain > 5, JSON.stringify(card));
});

test("supervised rows promise more where a data set shows how such questions are answered", () => {
  const state = stateOf();
  const gainOf = (has_examples: boolean): number =>
    nextDecision({ ...state, diagnosis: { ...state.diagnosis, has_examples } }).card.bids.find(
      ({ arm }) => arm === "supervised",
    )!.gain;
  assert.ok(gainOf(true) > 1.5 * gainOf(false), `${gainOf(true)}, ${gainOf(false)}`);
});

test("the hours of an edit are kept for it, and it comes last", () => {
  const kinds = { ...usualKinds, knowledge: 20, format: 20 };
  const decision = nextDecision(stateOf({ max_compute_hours: 3 }, { kinds, hasUsableDirection: true }));
  const phase = phaseOf(decision);
  assert.notEqual(phase.arm, "represent");
  assert.match(decision.card.because, /Some hours are reserved for an edit/);
  const spent = stateOf({ max_compute_hours: 1.3 }, { kinds, hasUsableDirection: true });
  assert.equal(phaseOf(nextDecision(spent)).arm, "represent");
});

test("a card says what every arm offers, why one was taken, and what would have changed it", () => {
  const { card } = nextDecision(stateOf());
  assert.equal(card.step, 0);
  assert.match(card.because, /^supervised is expected to add [\d.]+ points in [\d.]+ hours/);
  assert.match(card.would_change, /supervised below [\d.]+ points/);
  assert.deepEqual([...card.bids.map(({ arm }) => arm), ...card.excluded.map(({ arm }) => arm)].sort(), [
    "distil",
    "reinforce",
    "represent",
    "supervised",
  ]);
  assert.equal(card.best.dev.score, 20);
  assert.deepEqual(card.hours, { spent: 1, left: 99 });
});

test("a phase is given no more hours than leave its check and a look", () => {
  const state = stateOf({ max_compute_hours: 1.75 });
  const { hours } = phaseOf(nextDecision(state));
  assert.ok(hours > 0 && state.hours + hours + state.check_hours + state.look_hours <= 1.75 + 1e-12);
});

test("a phase that is slower than forecast ends before it has used up the hours of others", () => {
  const { next, card } = nextDecision(stateOf());
  const { hours, arm } = phaseOf({ next, card });
  const expected = card.bids.find((bid) => bid.arm === arm)!.hours - stateOf().check_hours;
  assert.ok(hours > expected && hours < 1.5 * expected);
});

test("a check is drawn towards its forecast, and an accident believed as it was seen", () => {
  const state = stateOf();
  const phase = planned(state, { arm: "supervised", steps: 300, forecast: { gain: 10, sd: 3 } });
  const scoreAfter = (found: Parameters<typeof afterPhase>[2]): number =>
    surveyOf(afterPhase(state, phase, found)).standings[1]!.score - 20;
  const lucky = scoreAfter({ gained: range(20, 36) });
  assert.ok(lucky > 12 && lucky < 15, `${lucky}`);
  const collapsed = scoreAfter({ lost: range(0, 20) });
  assert.ok(collapsed < -15, `${collapsed}`);
});

test("hours that pay for no phase end the plan, and say what more would bring", () => {
  const end = endOf(nextDecision(stateOf({ max_compute_hours: 1.05 })));
  assert.equal(end.status, "BUDGET_SPENT");
  assert.equal(end.checkpoint, "base");
  assert.ok(end.help.some(({ kind, points }) => kind === "hours" && points > 5));
  assert.ok(end.help.some(({ kind, points }) => kind === "larger_base" && points === 10));
  assert.ok(end.help.some(({ kind, points }) => kind === "review_items" && points === 5));
});

test("the measured rate takes the forecast's place", () => {
  const state = stateOf();
  const first = phaseOf(nextDecision(state));
  const after = afterPhase(state, first, { gained: range(20, 30) });
  const slow: PlanState = {
    ...after,
    history: [{ ...after.history[0]!, hours_run: 10 * after.history[0]!.hours_run }],
  };
  const [usual, slower] = [after, slow].map(
    (one) => nextDecision(one).card.bids.find(({ arm }) => arm === "supervised")!,
  );
  assert.ok(slower!.hours / slower!.steps > 5 * (usual!.hours / usual!.steps));
});

test("what an arm did changes what it is expected to do", () => {
  const state = stateOf();
  const phase = planned(state, { arm: "supervised", steps: 300 });
  const gainAfter = (gained: number[]): number =>
    nextDecision(afterPhase(state, phase, { gained })).card.bids.find(({ arm }) => arm === "supervised")?.gain ?? 0;
  assert.ok(gainAfter([]) < gainAfter(range(20, 32)));
});

test("earlier alignments of the owner warm the bids", () => {
  const gainWith = (gain: number): number => {
    const past = Array.from({ length: 4 }, () => ({ arm: "supervised", headroom: 50, gain }) as const);
    return nextDecision({ ...stateOf(), past }).card.bids.find(({ arm }) => arm === "supervised")!.gain;
  };
  assert.ok(gainWith(0) < gainWith(15) && gainWith(15) < gainWith(30));
});

test("a target that the base meets ends after one look", () => {
  const state = stateOf({ target_score: 20 });
  const decision = nextDecision(state);
  assert.deepEqual(decision.next, { kind: "look", checkpoint: "base", third: 0 });
  const end = endOf(nextDecision(afterLook(state, decision, 11)));
  assert.equal(end.status, "REACHED");
  assert.equal(end.confirmed, false);
});

test("reached is the point estimate, confirmed the lower bound", () => {
  const state = stateOf({ target_score: 20 });
  const decision = nextDecision(state);
  assert.equal(endOf(nextDecision(afterLook(state, decision, 10))).confirmed, false);
  assert.equal(endOf(nextDecision(afterLook(state, decision, 25))).confirmed, true);
  const missed = nextDecision(afterLook(state, decision, 9));
  assert.notEqual(missed.next.kind, "end");
  assert.deepEqual(
    missed.card.looks.map(({ n, score, reached }) => [n, score, reached]),
    [[50, 18, false]],
  );
});

test("dev has to say with some certainty that a trained checkpoint meets the target", () => {
  const state = stateOf({ target_score: 50 });
  const phase = planned(state, { arm: "supervised", steps: 300, forecast: { gain: 30, sd: 10 } });
  assert.equal(nextDecision(afterPhase(state, phase, { gained: range(20, 51) })).next.kind, "phase");
  assert.equal(nextDecision(afterPhase(state, phase, { gained: range(20, 60) })).next.kind, "look");
});

test("after a miss a checkpoint has to be estimated above what missed before another third is opened", () => {
  const state = stateOf({ target_score: 50 });
  const phase = planned(state, { arm: "supervised", steps: 300, forecast: { gain: 45, sd: 10 } });
  const first = afterPhase(state, phase, { gained: range(20, 75) });
  const missed = afterLook(first, nextDecision(first), 20);
  const again = { ...phase, from: "c1", steps: 30, forecast: { gain: 2, sd: 2 } };
  assert.equal(nextDecision(afterPhase(missed, again, { gained: [75] })).next.kind, "phase");
  assert.equal(nextDecision(afterPhase(missed, again, { gained: range(75, 95) })).next.kind, "look");
});

test("a miss goes on; three looks are at three thirds and three checkpoints, and then nothing is claimed any more", () => {
  let state = stateOf({ target_score: 20 });
  const seen: string[] = [];
  for (let step = 0; step < 60; step++) {
    const decision = nextDecision(state);
    if (decision.next.kind === "end") {
      assert.equal(decision.next.status, "PAUSED");
      assert.match(decision.card.because, /3 looks at the sealed/);
      assert.ok(decision.next.help.some(({ kind }) => kind === "larger_benchmark"));
      assert.equal(seen.length, 3);
      assert.equal(new Set(seen.map((look) => look.split(" ")[0])).size, 3);
      assert.equal(new Set(seen.map((look) => look.split(" ")[1])).size, 3);
      return;
    }
    if (decision.next.kind === "look") {
      seen.push(`${decision.next.checkpoint} ${decision.next.third}`);
      state = afterLook(state, decision, 5);
    } else {
      const at = 20 + 6 * state.history.length;
      state = afterPhase(state, decision.next.phase, { gained: range(at, at + 6) });
    }
  }
  assert.fail("it does not end");
});

test("a sequence is followed to the letter, whatever the bids say", () => {
  const sequencing = ["scale", "represent", "reinforce", "supervised", "supervised", "distil"];
  let state = stateOf({ sequencing });
  const ran: string[] = [];
  for (;;) {
    const decision = nextDecision(state);
    if (decision.next.kind === "end") {
      assert.match(decision.card.because, /sequence/);
      assert.equal(decision.next.status, "PAUSED");
      break;
    }
    const phase = phaseOf(decision);
    ran.push(phase.arm);
    // A confirmed regression takes its checkpoint back, and adds no phase.
    state = afterPhase(state, phase, ran.length === 3 ? { lost: range(0, 18), suites: { general: 20 } } : {});
  }
  assert.deepEqual(ran, sequencing);
  assert.notEqual(state.history[3]!.from, state.history[2]!.checkpoint);
});

test("the hours of a sequence are shared out so that every phase can run", () => {
  const sequencing = ["supervised", "reinforce", "supervised"];
  let state = stateOf({ sequencing, max_compute_hours: 4 });
  for (const arm of sequencing) {
    const phase = phaseOf(nextDecision(state));
    assert.equal(phase.arm, arm);
    state = afterPhase(state, phase, {});
  }
  assert.ok(state.hours <= 4);
});

test("a sequence whose next phase cannot be paid is spent", () => {
  const end = endOf(nextDecision(stateOf({ sequencing: ["supervised"], max_compute_hours: 1.02 })));
  assert.equal(end.status, "BUDGET_SPENT");
});

test("pinned steps are those of every gradient phase; a most of them is kept to", () => {
  const pinned = { config: { training: { steps: 77 } } };
  assert.equal(phaseOf(nextDecision(stateOf(pinned))).steps, 77);
  assert.equal(endOf(nextDecision(stateOf({ ...pinned, max_compute_hours: 1.3 }))).status, "BUDGET_SPENT");
  assert.ok(phaseOf(nextDecision(stateOf({ config: { training: { max_steps: 40 } } }))).steps <= 40);
});

test("without a limit of hours the plan pauses once no arm is likely to add what dev could show", () => {
  let state = stateOf({ max_compute_hours: null });
  let decision = nextDecision(state);
  for (let step = 0; step < 40 && decision.next.kind === "phase"; step++) {
    state = afterPhase(state, decision.next.phase, {});
    decision = nextDecision(state);
  }
  const end = endOf(decision);
  assert.equal(end.status, "PAUSED");
  assert.ok(end.help.length > 0);
  // Every class that an arm could help with has been tried.
  const tried = new Set(state.history.map(({ arm }) => arm));
  assert.ok(tried.has("supervised") && tried.has("reinforce"));
  assert.ok(end.help[0]!.points >= end.help.at(-1)!.points);
});

test("a pause that is ended by hand is followed by another phase where one bids, and then judged again", () => {
  let state = stateOf({ max_compute_hours: null });
  let decision = nextDecision(state);
  for (; decision.next.kind === "phase"; decision = nextDecision(state))
    state = afterPhase(state, decision.next.phase, {});
  assert.equal(decision.next.kind, "end");
  const resumed: PlanState = { ...state, resumes: [{ phases: state.history.length, looks: 0 }] };
  const phase = phaseOf(nextDecision(resumed));
  assert.equal(endOf(nextDecision(afterPhase(resumed, phase, {}))).status, "PAUSED");
  const sequenced = stateOf({ sequencing: ["supervised"] });
  const ended = afterPhase(sequenced, phaseOf(nextDecision(sequenced)), {});
  assert.equal(nextDecision(ended).next.kind, "end");
  assert.equal(phaseOf(nextDecision({ ...ended, resumes: [{ phases: 1, looks: 0 }] })).arm, "supervised");
});

test("an arm whose two phases from a checkpoint brought no improvement waits until another one is best", () => {
  let state = stateOf();
  const vain = { lost: range(0, 3) };
  for (let phases = 0; phases < 2; phases++)
    state = afterPhase(state, planned(state, { arm: "supervised", from: "base", steps: 100 }), vain);
  const reasons = nextDecision(state).card.excluded;
  assert.match(reasons.find(({ arm }) => arm === "supervised")!.reason, /brought no improvement/);
  // A pause that was ended by hand gives it another chance.
  assert.ok(
    nextDecision({ ...state, resumes: [{ phases: 2, looks: 0 }] }).card.bids.some(({ arm }) => arm === "supervised"),
  );
  const better = planned(state, { arm: "reinforce", from: "base", steps: 100 });
  const { bids } = nextDecision(afterPhase(state, better, { gained: range(60, 75) })).card;
  assert.ok(bids.some(({ arm }) => arm === "supervised"));
});

test("reinforcement that finds no signal gains nothing, speaks against the arm, and is not tried without end", () => {
  const kinds = { ...usualKinds, knowledge: 20, elicitation: 45 };
  let state = stateOf({ method: "reinforce", max_compute_hours: null }, { kinds });
  const gainOf = ({ card }: Decision): number => card.bids.find(({ arm }) => arm === "reinforce")!.gain;
  const first = nextDecision(state);
  let decision = first;
  for (let phases = 0; decision.next.kind === "phase" && phases < 5; phases++) {
    state = afterPhase(state, phaseOf(decision), { steps: 0 });
    const { byId, base, best } = surveyOf(state);
    const { score, losses } = byId.get("c1")!;
    assert.deepEqual([score, losses, best], [base.score, base.losses, base]);
    decision = nextDecision(state);
    if (phases === 0) assert.ok(gainOf(decision) < gainOf(first));
  }
  assert.equal(endOf(decision).status, "PAUSED");
});

test("of a phase that was cut short, the forecast holds for the steps that ran", () => {
  const state = stateOf();
  const phase = planned(state, { arm: "supervised", from: "base", steps: 300, forecast: { gain: 10, sd: 3 } });
  const scoreAfter = (steps: number): number =>
    surveyOf(afterPhase(state, phase, { gained: range(20, 25), steps })).byId.get("c1")!.score;
  // Five points were seen, of ten in all steps.
  assert.ok(scoreAfter(300) > 25.5, `${scoreAfter(300)}`);
  assert.ok(Math.abs(scoreAfter(150) - 25) < 0.1, `${scoreAfter(150)}`);
});

test("an edit is looked for once from a checkpoint, and the card says what came of it", () => {
  const kinds = { ...usualKinds, knowledge: 0, elicitation: 0, format: 65 };
  const state = stateOf({}, { kinds, hasUsableDirection: true });
  const told = "no usable direction: none of 12 edits gains more on dev than it costs in divergence from the base";
  const after = afterPhase(state, planned(state, { arm: "represent", from: "base", steps: 12 }), {});
  const history = after.history.map((phase) => ({ ...phase, outcome: { is_kept: false, told } }));
  const { card } = nextDecision({ ...after, history });
  assert.match(card.because, /^represent ended: no usable direction: none of 12 edits gains more/);
  assert.match(card.excluded.find(({ arm }) => arm === "represent")!.reason, /brought no improvement/);
});

test("training after an edit is expected to take most of it away", () => {
  const kinds = { ...usualKinds, knowledge: 20, format: 20 };
  const state = stateOf({ config: { training: { steps: 100 } } }, { kinds, hasUsableDirection: true });
  const gainAfter = (arm: "represent" | "distil"): number => {
    const phase = planned(state, { arm, from: "base", steps: 30, forecast: { gain: 8, sd: 3 } });
    const after = afterPhase(state, phase, { gained: range(65, 75) });
    return nextDecision(after).card.bids.find((bid) => bid.arm === "supervised")!.gain;
  };
  assert.ok(gainAfter("represent") < gainAfter("distil") - 4);
});

test("the hours of an edit are left over by the phases before it", () => {
  const kinds = { ...usualKinds, knowledge: 20, format: 20 };
  const state = stateOf({ max_compute_hours: 1.6 }, { kinds, hasUsableDirection: true });
  const { next, card } = nextDecision(state);
  const { arm, hours } = phaseOf({ next, card });
  const edit = card.bids.find((bid) => bid.arm === "represent")!;
  assert.notEqual(arm, "represent");
  assert.ok(hours <= 1.6 - state.hours - state.check_hours - state.look_hours - edit.hours + 1e-12);
});

test("a divergence beyond its limit is worth repairing, hours without end or not", () => {
  const state = stateOf({ max_compute_hours: null, method: "supervised+distil" });
  const diverged = ({ checkpoints, ...rest }: PlanState): PlanState => ({
    ...rest,
    checkpoints: checkpoints.map((one, at) => ({ ...one, divergence_penalty: at === 0 ? 0 : 20 })),
  });
  const phase = planned(state, { arm: "supervised", from: "base", steps: 900, forecast: { gain: 40, sd: 5 } });
  const learned = diverged(afterPhase(state, phase, { gained: range(20, 60) }));
  const gain = nextDecision(learned).card.bids.find(({ arm }) => arm === "distil")!.gain;
  assert.ok(gain > 5, `${gain}`);
  // Every arm has been tried, and none could gain on dev what is visible; the divergence is still there.
  const distil = planned(learned, { arm: "distil", from: "c1", steps: 20, scale: null, forecast: { gain: 0, sd: 1 } });
  const next = phaseOf(nextDecision(diverged(afterPhase(learned, distil, {}))));
  assert.ok(next.arm === "distil" || next.arm === "scale");
});

test("hours without end are not spent once three looks have missed", () => {
  const state = stateOf({ max_compute_hours: null });
  const looks = [0, 1, 2].map((third) => ({ checkpoint: "base", third, scores: [0], clusters: ["s"] }));
  const decision = nextDecision({ ...state, looks });
  assert.equal(endOf(decision).status, "PAUSED");
  assert.match(decision.card.because, /3 looks at the sealed/);
});
