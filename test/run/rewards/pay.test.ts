// A step's rewards: parts, weighted sums, clip and normalisation, held against sums done by hand and published formulas.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import type { Failure } from "../../../src/base/errors.ts";
import { Unanswered } from "../../../src/run/control.ts";
import type { RewardItem } from "../../../src/run/rewards/item.ts";
import { correctedShare, isTelling, judgedReward, rubricReward, sigmoid } from "../../../src/run/rewards/judged.ts";
import { type Normalisation, normalise, nothingYet } from "../../../src/run/rewards/normalise.ts";
import { rewardsOf, type Sampled } from "../../../src/run/rewards/pay.ts";
import { type Means, type RewardBlock, resolveReward } from "../../../src/run/rewards/plan.ts";
import { openPrograms } from "../../../src/run/rewards/programs.ts";
import { itemOf } from "./items.ts";

const near = (actual: number | null | undefined, expected: number, within = 1e-12): void =>
  assert.ok(typeof actual === "number" && Math.abs(actual - expected) <= within, `${actual} is not ${expected}`);

const signal = new AbortController().signal;
const means: Means = {
  declines: () => false,
  programs: null,
  // Meets a criterion that it repeats; cannot read "?".
  judges: new Map([
    [
      "judge",
      {
        judge: async (criteria, _, answer) => criteria.map((one) => (answer === "?" ? null : answer.includes(one))),
        sensitivity: 0.9,
        specificity: 0.8,
      },
    ],
  ]),
  rubrics: new Map(),
  preferenceModels: new Map([["length", async (pairs) => pairs.map(({ answer }) => Number(answer))]]),
};

const sampled = (answers: readonly string[], more: Partial<RewardItem> = {}, group = 0): Sampled[] =>
  answers.map((answer) => ({ group, item: itemOf(more), answer }));
const pay = (block: RewardBlock, answers: readonly Sampled[], at = means) =>
  rewardsOf(resolveReward(block, at), answers, { means: at, signal });

test("Rogan and Gladen's estimate, with the published example of epiR's epi.prev", () => {
  // 23 of 150 cows, sensitivity 96 %, specificity 89 %: "The estimated true prevalence" is 5.1 per 100.
  near(correctedShare(23 / 150, { sensitivity: 0.96, specificity: 0.89 }), 0.051, 5e-4);
  near(correctedShare(0.5, { sensitivity: 0.9, specificity: 0.8 }), 3 / 7);
  assert.equal(correctedShare(0.1, { sensitivity: 0.9, specificity: 0.8 }), 0);
  assert.equal(correctedShare(0.95, { sensitivity: 0.9, specificity: 0.8 }), 1);
  assert.equal(isTelling({ sensitivity: 0.5, specificity: 0.5 }), false);
  assert.equal(isTelling({ sensitivity: Number.NaN, specificity: 0.9 }), false);
  assert.equal(isTelling({ sensitivity: 0.6, specificity: 0.5 }), true);
});

test("the correction takes back what errors do to a share", () => {
  const share = fc.double({ min: 0, max: 1, noNaN: true });
  const rate = fc.double({ min: 0.55, max: 1, noNaN: true });
  fc.assert(
    fc.property(share, rate, rate, (truth, sensitivity, specificity) => {
      const observed = truth * sensitivity + (1 - truth) * (1 - specificity);
      near(correctedShare(observed, { sensitivity, specificity }), truth, 1e-9);
    }),
  );
});

test("a rubric pays the share of its weight that is met, corrected for the judge's error", () => {
  const rubric = (["essential", "important", "optional"] as const).map((level) => ({ text: level, level }));
  const never = { sensitivity: 1, specificity: 1 };
  near(rubricReward(rubric, [true, true, false], never), 1.7 / 2);
  near(rubricReward(rubric, [false, false, true], never), 0.3 / 2);
  near(rubricReward(rubric, [true, true, false], { sensitivity: 0.9, specificity: 0.8 }), (0.85 - 0.2) / 0.7);
  assert.equal(rubricReward(rubric, [true, null, true], never), null);
  assert.equal(rubricReward(rubric, [true, true], never), null);
  assert.equal(rubricReward([], [], never), null);
  assert.equal(judgedReward([], { sensitivity: 1, specificity: 1 }), null);
});

test("a preference is squashed by the logistic function", () => {
  assert.equal(sigmoid(0), 0.5);
  near(sigmoid(Math.log(3)), 0.75);
  assert.deepEqual([sigmoid(1000), sigmoid(-1000), sigmoid(Number.NaN)], [1, 0, null]);
});

test("judges, rubrics and preference models pay what they say", async () => {
  const criteria = ["a", "b"];
  const judged = await pay({ type: "llm_judge", llm_judge: { criteria } }, sampled(["ab", "a", "c"]));
  // Shares 1, 1/2 and 0, corrected by (share − 0.2) / 0.7.
  near(judged.rewards[0], 1);
  near(judged.rewards[1], 3 / 7);
  near(judged.rewards[2], 0);
  const rubric = [
    { text: "a", level: "essential" },
    { text: "b", level: "optional" },
  ] as const;
  const by = await pay({ type: "rubric" }, sampled(["a", "b"], { rubric }));
  near(by.rewards[0], (1 / 1.3 - 0.2) / 0.7);
  near(by.rewards[1], (0.3 / 1.3 - 0.2) / 0.7);
  const preferred = await pay({ preference_model_ref: "length" }, sampled(["0", "1000"]));
  assert.deepEqual(preferred.rewards, [0.5, 1]);
});

test("a preference model that scores no answers to one prompt of eight leaves those unknown, and a fifth ends the run", async () => {
  const answers = Array.from({ length: 8 }, (_, group) =>
    sampled(["0", "1000"], { prompt: `P ${group}` }, group),
  ).flat();
  const scoring = (silent: number): Means => ({
    ...means,
    preferenceModels: new Map([
      [
        "length",
        async (pairs) => {
          if (pairs.some(({ prompt }) => Number(prompt.slice(2)) < silent)) throw new Unanswered("the model is busy");
          return pairs.map(({ answer }) => Number(answer));
        },
      ],
    ]),
  });
  const paid = await pay({ preference_model_ref: "length" }, answers, scoring(1));
  assert.deepEqual(paid.rewards.slice(0, 4), [null, null, 0.5, 1]);
  assert.equal(paid.unknown, 2);
  await assert.rejects(pay({ preference_model_ref: "length" }, answers, scoring(2)), /4 of 16 rewards; .*is busy/);
});

test("a composite is the weighted sum of its parts, clipped, and unknown where a part is", async () => {
  const block = {
    composite: { "builtin:exact": 3, "builtin:regex?pattern=^a": 1, "builtin:citation": 1 },
    clip: [0.3, 0.7],
  };
  const item = { reference: "ab", passage: "" };
  const answers = [...sampled(["ab", "ac", "x"], item), ...sampled(["ab"], { ...item, passage: null })];
  const paid = await pay(block, answers);
  assert.deepEqual(paid.rewards, [0.7, 0.3, 0.3, null]);
  // 0.8, 0.2 and 0 before they are clipped.
  near(paid.mean, 1 / 3);
  assert.equal(paid.unknown, 1);
});

test("a plan that was written down and read again pays the same, step after step", async () => {
  const composite = { "builtin:numeric?tolerance=1": 1, "builtin:json_schema?schema={}": 1 };
  const plan = resolveReward({ composite, normalize: "running" }, means);
  const kept = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;
  const step = sampled(["3", "5", "{"], { reference: "4" });
  const first = await rewardsOf(plan, step, { means, signal });
  const again = await rewardsOf(kept(plan), step, { means, signal });
  assert.deepEqual(again, first);
  const next = await rewardsOf(plan, step, { means, signal, running: first.running });
  assert.deepEqual(await rewardsOf(kept(plan), step, { means, signal, running: kept(first.running) }), next);
  assert.equal(next.running.count, 6);
});

test("a composite lies within the worst and the best of its parts", async () => {
  const weight = fc.double({ min: 1e-6, max: 1e6, noNaN: true });
  await fc.assert(
    fc.asyncProperty(weight, weight, fc.constantFrom("a", "b", "ab"), async (a, b, answer) => {
      const composite = { "builtin:exact": a, "builtin:regex?pattern=b": b };
      const payOf = async (block: RewardBlock) =>
        (await pay(block, sampled([answer], { reference: "ab" }))).rewards[0]!;
      const reward = await payOf({ composite });
      const parts = [
        await payOf({ verifier_ref: "builtin:exact" }),
        await payOf({ verifier_ref: "builtin:regex?pattern=b" }),
      ];
      assert.ok(reward >= Math.min(...parts) - 1e-12 && reward <= Math.max(...parts));
    }),
  );
});

test("no answers, and answers of which none is known", async () => {
  const block = { verifier_ref: "builtin:exact" };
  const nothing = await pay(block, []);
  assert.deepEqual([nothing.rewards, nothing.mean, nothing.unknown], [[], null, 0]);
  const unknown = await pay(block, sampled(["a", "b"]));
  assert.deepEqual([unknown.rewards, unknown.mean, unknown.unknown], [[null, null], null, 2]);
});

test("a fifth of unread verdicts ends the run, less does not", async () => {
  const block = { type: "llm_judge", llm_judge: { criteria: "a" } };
  const { rewards } = await pay(block, sampled(["a", "a", "a", "a", "a", "?"]));
  assert.deepEqual(rewards, [1, 1, 1, 1, 1, null]);
  await assert.rejects(
    pay(block, sampled(["a", "a", "a", "a", "?"])),
    (error: Failure) => error.code === "run_failed" && /llm_judge could not give 1 of 5 rewards/.test(error.message),
  );
});

test("a judge that does not answer leaves the reward unknown, and says why where that is too often", async () => {
  const silent = new Map([["judge", { ...means.judges.get("judge")! }]]);
  silent.get("judge")!.judge = async (criteria, _, answer) => {
    if (answer === "?") throw new Unanswered("the model is not deployed");
    return criteria.map(() => true);
  };
  const at = { ...means, judges: silent };
  const block = { type: "llm_judge", llm_judge: { criteria: "a" } };
  const paid = await pay(block, sampled(["a", "a", "a", "a", "a", "?"]), at);
  assert.deepEqual([paid.rewards.at(-1), paid.unknown], [null, 1]);
  await assert.rejects(pay(block, sampled(["a", "?"]), at), /could not give 1 of 2 rewards.*the model is not deployed/);
});

test("a program's failures are counted, and named with its first words where they are too many", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "verifiers-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const script =
    '#!/bin/sh\nread line\ncase "$line" in *bad*) echo "no table" >&2; exit 1;; esac\necho "{\\"reward\\": 0.5}"\n';
  writeFileSync(join(folder, "units"), script, { mode: 0o755 });
  const programs = await openPrograms(folder);
  if (programs.refusal !== null) return t.skip(programs.refusal);
  const at = { ...means, programs };
  const block = { verifier_ref: "program:units" };
  const paid = await pay(block, sampled(["1", "2", "3", "4", "5", "bad"]), at);
  assert.deepEqual([paid.rewards, paid.unknown], [[0.5, 0.5, 0.5, 0.5, 0.5, null], 1]);
  await assert.rejects(
    pay(block, sampled(["1", "2", "3", "4", "bad"]), at),
    /program:units could not give 1 of 5.*no table/,
  );
});

test("after a failure nobody is asked any more, and an abort is the signal's reason", async () => {
  let calls = 0;
  const failing = {
    judge: async () => {
      calls++;
      throw new Error("gone");
    },
    sensitivity: 1,
    specificity: 1,
  };
  const at = { ...means, judges: new Map([["judge", failing]]) };
  const block = { type: "llm_judge", llm_judge: { criteria: "a" } };
  await assert.rejects(pay(block, sampled(Array.from({ length: 200 }, () => "a")), at), /gone/);
  assert.ok(calls <= 16, `${calls}`);
  const plan = resolveReward({ verifier_ref: "builtin:exact" }, means);
  const aborted = AbortSignal.abort(new Error("stopped"));
  await assert.rejects(rewardsOf(plan, sampled(["a"]), { means, signal: aborted }), /stopped/);
});

test("normalisation by group, by step and over the run, by hand", () => {
  // Group 7: 2, 4 (mean 3, deviation √2); group 9: 0, 6, unknown (mean 3, deviation √18).
  const rewards = [2, 4, 0, 6, null];
  const groups = [7, 7, 9, 9, 9];
  const by = (how: Normalisation, before = nothingYet) => normalise(how, rewards, groups, before).rewards;
  assert.deepEqual(by("none"), rewards);
  const group = by("group");
  for (const [at, expected] of [-1, 1, -3, 3].entries()) near(group[at], expected / Math.sqrt(at < 2 ? 2 : 18));
  assert.equal(group[4], null);
  // All four: mean 3, squares 1 + 1 + 9 + 9, deviation √(20 / 3).
  near(by("batch")[0], -1 / Math.sqrt(20 / 3));
  // With 1 and 5 before them: mean 3, squares 20 + 8, deviation √(28 / 5).
  near(by("running", { count: 2, mean: 3, squares: 8 })[3], 3 / Math.sqrt(28 / 5));
});

test("equals and single answers say nothing once they are normalised", () => {
  assert.deepEqual(normalise("group", [0.3, 0.3, 1], [0, 0, 1], nothingYet).rewards, [0, 0, 0]);
  assert.deepEqual(normalise("batch", [0.1 + 0.2, 0.3], [0, 0], nothingYet).rewards, [0, 0]);
  assert.deepEqual(normalise("running", [null], [0], nothingYet), { rewards: [null], running: nothingYet });
});

test("over a run the steps add up to what one step of them all would be", () => {
  const rewards = fc.array(fc.option(fc.double({ min: 0, max: 1, noNaN: true })), { maxLength: 50 });
  fc.assert(
    fc.property(rewards, fc.nat({ max: 50 }), (all, cut) => {
      const zeros = all.map(() => 0);
      const first = normalise("running", all.slice(0, cut), zeros, nothingYet);
      const second = normalise("running", all.slice(cut), zeros, first.running);
      const whole = normalise("running", all, zeros, nothingYet);
      assert.equal(second.running.count, whole.running.count);
      near(second.running.mean, whole.running.mean, 1e-12);
      near(second.running.squares, whole.running.squares, 1e-9);
      if (cut === 0) assert.deepEqual(second.rewards, whole.rewards);
    }),
  );
});

test("a normalised step has mean 0 and deviation 1", () => {
  const rewards = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 2, maxLength: 50 });
  fc.assert(
    fc.property(rewards, (all) => {
      const values = normalise(
        "batch",
        all,
        all.map(() => 0),
        nothingYet,
      ).rewards.map(Number);
      const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
      near(mean, 0, 1e-9);
      const squares = values.reduce((sum, value) => sum + value ** 2, 0);
      assert.ok(squares === 0 || Math.abs(squares / (values.length - 1) - 1) < 1e-9);
    }),
  );
});
