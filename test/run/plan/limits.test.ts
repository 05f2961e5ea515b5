// What a request allows, and what it cannot ask for.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AutoAlignRequest } from "../../../src/contract/auto-align.ts";
import { mayReinforce } from "../../../src/run/folder/reward-models.ts";
import { limitsOf } from "../../../src/run/plan/limits.ts";

const request = (change: Partial<AutoAlignRequest>): AutoAlignRequest => ({ target_score: 80, ...change });

test("auto allows every arm; a method names those that may be used, and scaling undoes harm under any", () => {
  assert.deepEqual(limitsOf(request({})).arms, ["supervised", "distil", "reinforce", "represent", "scale"]);
  assert.deepEqual(limitsOf(request({ method: "supervised + distil" })).arms, ["supervised", "distil", "scale"]);
  assert.deepEqual(limitsOf(request({ method: "reinforce" })).arms, ["reinforce", "scale"]);
});

test("a sequence leaves only the arms that it names", () => {
  assert.deepEqual(limitsOf(request({ sequencing: ["distil", "supervised", "distil"] })).arms, [
    "supervised",
    "distil",
  ]);
});

test("representations none leaves the edits out", () => {
  assert.ok(!limitsOf(request({ representations: "none" })).arms.includes("represent"));
  assert.ok(limitsOf(request({ representations: "ablation" })).arms.includes("represent"));
});

test("a pinned supervised objective leaves reinforcement nothing to train with", () => {
  assert.ok(!limitsOf(request({ config: { loss: { type: "cross_entropy" } } })).arms.includes("reinforce"));
  assert.ok(limitsOf(request({ config: { loss: { type: "cispo" } } })).arms.includes("reinforce"));
});

test("null is the same as nothing", () => {
  const all = { method: null, representations: null, sequencing: null, max_compute_hours: null, config: null };
  assert.deepEqual(limitsOf(request(all)), limitsOf(request({})));
  assert.deepEqual(
    limitsOf(request({ config: { loss: null, optimizer: null, training: null } })),
    limitsOf(request({})),
  );
});

test("pins are read: steps, their most, the learning rate", () => {
  const limits = limitsOf(
    request({ config: { training: { steps: 50, max_steps: 40 }, optimizer: { learning_rate: 1e-4 } } }),
  );
  assert.equal(limits.steps, 40);
  assert.equal(limits.max_steps, 40);
  assert.equal(limits.has_pinned_rate, true);
  assert.deepEqual(
    limits.ignored.map(({ field }) => field),
    ["training.steps"],
  );
});

test("what changes nothing is told", () => {
  const limits = limitsOf(
    request({
      method: "represent",
      sequencing: ["represent"],
      config: { training: { max_steps: 9 }, loss: { type: "ppo" } },
    }),
  );
  assert.deepEqual(limits.ignored.map(({ field }) => field).sort(), ["loss.type", "method", "training.max_steps"]);
});

test("a value that cannot be followed fails with its field's name", () => {
  const cases: [Partial<AutoAlignRequest>, RegExp][] = [
    [{ method: "magic" }, /^method: "magic" is not one of/],
    [{ method: "scale", sequencing: ["supervised"] }, /^sequencing: supervised is excluded by method/],
    [{ sequencing: ["supervised", "sft"] }, /^sequencing: "sft" is not one of/],
    [{ representations: "none", sequencing: ["represent"] }, /^sequencing: represent is excluded/],
    [{ representations: "some" }, /^representations: must be one of/],
    [{ method: "represent", representations: "none" }, /^method: and representations leave no arm that can change/],
    [
      { config: { loss: { type: "cross_entropy" } }, sequencing: ["reinforce"] },
      /^sequencing: reinforce is .*loss\.type/,
    ],
    [{ config: { training: { steps: 0 } } }, /^config\.training\.steps: must be/],
    [{ config: { training: { max_steps: "9" } } }, /^config\.training\.max_steps: must be/],
    [{ config: { optimizer: { learning_rate: 0.2 } } }, /^config\.optimizer\.learning_rate: must be/],
  ];
  for (const [change, message] of cases) assert.throws(() => limitsOf(request(change)), { message });
});

test("an arm that is not there is left out, and a sequence that names it is told why", () => {
  const missing = [{ arm: "reinforce", reason: "no verifier grades these items" }] as const;
  assert.ok(!limitsOf(request({}), missing).arms.includes("reinforce"));
  assert.throws(() => limitsOf(request({ sequencing: ["reinforce"] }), missing), { message: /no verifier grades/ });
  assert.throws(() => limitsOf(request({ method: "reinforce" }), missing), {
    message: /^method: .*no verifier grades/,
  });
});

test("the appliance looks models of a reward up for exactly the requests whose phases may reinforce", () => {
  const methods = [null, "auto", "supervised", "reinforce", "supervised + reinforce", "supervised+distil"];
  const sequences = [null, [], ["supervised"], ["supervised", "reinforce"]];
  const cases = methods.flatMap((method) => sequences.map((sequencing) => ({ method, sequencing })));
  for (const { method, sequencing } of cases)
    for (const type of [null, "ppo", "cross_entropy"]) {
      const request = { target_score: 80, method, sequencing, config: { loss: { type } } };
      const arms = (): readonly string[] | null => {
        try {
          return limitsOf(request).arms;
        } catch {
          return null;
        }
      };
      const found = arms();
      // Without a sequence, what is refused has nothing left that could train. A sequence may name what the method excludes.
      if (found === null && sequencing !== null) continue;
      assert.equal(mayReinforce(request), found?.includes("reinforce") ?? false, JSON.stringify(request));
    }
});
