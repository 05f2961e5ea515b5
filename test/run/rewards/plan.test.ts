// The reward block: what it becomes with its defaults, and each refusal by its field.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Failure } from "../../../src/base/errors.ts";
import { type Means, type RewardBlock, resolveReward } from "../../../src/run/rewards/plan.ts";

const judge = async (criteria: readonly string[]) => criteria.map(() => true);
const means: Means = {
  declines: () => false,
  programs: { folder: "/verifiers", names: ["units.py"], refusal: null },
  judges: new Map([["judge-7b", { judge, sensitivity: 0.9, specificity: 0.8 }]]),
  rubrics: new Map([["support", [{ text: "is polite", level: "optional" }]]]),
  preferenceModels: new Map([["ranker", async () => []]]),
};

const exact = { kind: "builtin", verifier: "exact", options: { declined: "0" } };
const judged = { kind: "llm_judge", judge: "judge-7b", criteria: ["Is it right?"], sensitivity: 0.9, specificity: 0.8 };

test("every default is filled in", () => {
  assert.deepEqual(resolveReward({ type: "verifier", verifier_ref: "builtin:exact" }, means), {
    type: "verifier",
    parts: [{ name: "verifier", weight: 1, scorer: exact }],
    clip: null,
    normalize: "none",
    warnings: [],
  });
});

test("each type has its scorer; the only judge there is needs no name", () => {
  const scorerOf = (block: RewardBlock) => resolveReward(block, means).parts.map(({ scorer }) => scorer);
  assert.deepEqual(scorerOf({ type: "llm_judge", llm_judge: { criteria: "Is it right?" } }), [judged]);
  const error = { sensitivity: 0.9, specificity: 0.8 };
  assert.deepEqual(scorerOf({ type: "rubric" }), [{ kind: "rubric", judge: "judge-7b", rubric: null, ...error }]);
  assert.deepEqual(scorerOf({ type: "rubric", rubric_ref: "support", llm_judge: { judge_model: "judge-7b" } }), [
    { kind: "rubric", judge: "judge-7b", rubric: "support", ...error },
  ]);
  assert.deepEqual(scorerOf({ type: "preference_model", preference_model_ref: "ranker" }), [
    { kind: "preference_model", model: "ranker" },
  ]);
  assert.deepEqual(scorerOf({ type: "verifier", verifier_ref: "program:units.py" }), [
    { kind: "program", program: "units.py" },
  ]);
});

test("without a type it is the one that a setting is given for", () => {
  assert.equal(resolveReward({ verifier_ref: "builtin:exact", type: null }, means).type, "verifier");
  assert.equal(resolveReward({ verifier_ref: "builtin:exact", composite: { verifier: 1 } }, means).type, "composite");
});

test("a composite's weights add up to 1, and its parts are the block's or verifiers by reference", () => {
  const plan = resolveReward(
    {
      type: "composite",
      verifier_ref: "builtin:exact",
      llm_judge: { criteria: ["Is it right?"] },
      composite: { verifier: 3, llm_judge: 0.5, "builtin:regex?pattern=^a": 0.5 },
      clip: [0.1, 0.9],
      normalize: "running",
    },
    means,
  );
  assert.deepEqual(plan.parts, [
    { name: "verifier", weight: 0.75, scorer: exact },
    { name: "llm_judge", weight: 0.125, scorer: judged },
    {
      name: "builtin:regex?pattern=^a",
      weight: 0.125,
      scorer: { kind: "builtin", verifier: "regex", options: { pattern: "^a" } },
    },
  ]);
  assert.deepEqual([plan.clip, plan.normalize, plan.warnings], [{ low: 0.1, high: 0.9 }, "running", []]);
  const weight = fc.double({ min: 0, minExcluded: true, max: 1e6, noNaN: true });
  fc.assert(
    fc.property(weight, weight, (a, b) => {
      const composite = { "builtin:exact": a, "builtin:choice": b };
      const sum = resolveReward({ composite }, means).parts.reduce((total, part) => total + part.weight, 0);
      assert.ok(Math.abs(sum - 1) < 1e-9);
    }),
  );
});

test("what is given and plays no part is said", () => {
  const block = {
    type: "verifier",
    verifier_ref: "builtin:exact",
    rubric_ref: "support",
    llm_judge: { criteria: "x", scale: 10 },
    extra: 1,
    composite: null,
  };
  assert.deepEqual(resolveReward(block, means).warnings, [
    "reward.llm_judge is not used by the type verifier",
    "reward.rubric_ref is not used by the type verifier",
    "reward.extra is not a known setting and has no effect",
    "reward.llm_judge.scale is not a known setting and has no effect",
  ]);
});

const none: Means = { ...means, programs: null, judges: new Map(), preferenceModels: new Map() };
const coin: Means = { ...means, judges: new Map([["coin", { judge, sensitivity: 0.6, specificity: 0.4 }]]) };
const two: Means = { ...means, judges: new Map([...means.judges, ...coin.judges]) };
const noNamespace: Means = { ...means, programs: { ...means.programs!, refusal: "no namespace here" } };
const verifier = (reference: string): RewardBlock => ({ type: "verifier", verifier_ref: reference });
const withClip = (...clip: number[]): RewardBlock => ({ ...verifier("builtin:exact"), clip });
const asked = { type: "llm_judge", llm_judge: { criteria: "x" } };

const refusals: [string, RewardBlock, string, RegExp, Means?][] = [
  ["no type", {}, "type", /verifier, llm_judge, rubric, preference_model, composite/],
  ["two settings and no type", { verifier_ref: "builtin:exact", rubric_ref: "support" }, "type", /one of/],
  ["an unknown type", { type: "vibes" }, "type", /one of/],
  ["no verifier", { type: "verifier" }, "verifier_ref", /builtin:exact/],
  ["an unknown verifier", verifier("builtin:fuzzy"), "verifier_ref", /built-in ones are exact/],
  ["a pattern RE2 has not", verifier("builtin:regex?pattern=(?=a)"), "verifier_ref", /RE2/],
  ["an unknown program", verifier("program:other"), "verifier_ref", /it has units\.py/],
  ["a path", verifier("program:../units.py"), "verifier_ref", /no executable file/],
  ["no folder", verifier("program:units.py"), "verifier_ref", /PLUMBLINE_VERIFIERS/, none],
  ["no namespace", verifier("program:units.py"), "verifier_ref", /no namespace here/, noNamespace],
  ["no judge", asked, "llm_judge.judge_model", /no judge is installed/, none],
  ["one of two judges", asked, "llm_judge.judge_model", /must name one of judge-7b, coin/, two],
  ["a coin for a judge", asked, "llm_judge.judge_model", /more than 1/, coin],
  ["a coin for a rubric", { type: "rubric" }, "llm_judge.judge_model", /more than 1/, coin],
  [
    "an unknown judge",
    { type: "llm_judge", llm_judge: { judge_model: "x" } },
    "llm_judge.judge_model",
    /known are judge-7b/,
  ],
  [
    "a judge that is no name",
    { type: "llm_judge", llm_judge: { judge_model: 1 } },
    "llm_judge.judge_model",
    /model's name/,
  ],
  ["no criteria", { type: "llm_judge" }, "llm_judge.criteria", /yes-or-no/],
  ["an empty criterion", { type: "llm_judge", llm_judge: { criteria: ["a", " "] } }, "llm_judge.criteria", /yes-or-no/],
  ["an unknown rubric", { type: "rubric", rubric_ref: "x" }, "rubric_ref", /known are support/],
  ["no preference model", { type: "preference_model" }, "preference_model_ref", /name the installed/],
  ["one not installed", { preference_model_ref: "x" }, "preference_model_ref", /none is installed/, none],
  ["an empty composite", { type: "composite", composite: {} }, "composite", /a weight for each part/],
  ["a weight of 0", { composite: { "builtin:exact": 0 } }, "composite", /above 0/],
  ["a weight without end", { composite: { "builtin:exact": Number.POSITIVE_INFINITY } }, "composite", /at most/],
  ["a weight below 0", { composite: { "builtin:exact": -1 } }, "composite", /above 0/],
  ["a part without a verifier", { composite: { length: 1 } }, "composite", /length is not a known part/],
  ["a part that is not set up", { composite: { verifier: 1 } }, "verifier_ref", /name the verifier/],
  [
    "a wrong verifier in a composite",
    { composite: { "builtin:x": 1 } },
    "composite",
    /^.*builtin:x: x is not a built-in verifier/,
  ],
  ["one bound", withClip(1), "clip", /two numbers/],
  ["bounds the wrong way", withClip(1, 0), "clip", /lower one first/],
  ["no number", withClip(Number.NaN, 1), "clip", /lower one first/],
  ["bounds above all rewards", withClip(1, 5), "clip", /no difference/],
  [
    "an unknown normalisation",
    { ...verifier("builtin:exact"), normalize: "zscore" },
    "normalize",
    /none, group, batch/,
  ],
];
for (const [what, block, field, message, at = means] of refusals)
  test(`refused: ${what}`, () =>
    assert.throws(
      () => resolveReward(block, at),
      (error: Failure) => {
        assert.deepEqual(error.details?.[0]?.loc, ["config", "reward", ...field.split(".")]);
        assert.match(error.message, message);
        return error instanceof Failure && error.code === "validation";
      },
    ));
