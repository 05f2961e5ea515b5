// What a target score is of: who names the reward gets its points for answers, and what cannot be scored is refused by its field.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AutoAlignRequest } from "../../../src/contract/auto-align.ts";
import { declines } from "../../../src/domain/evaluations/declines.ts";
import { checkMetric, metricOf, rewardScore } from "../../../src/run/rewards/metric.ts";

type Config = NonNullable<AutoAlignRequest["config"]>;

const question = (sample_num: number, response: string, aliases: string[] = []) => ({
  ...{ sample_num, instruction: "How many?", response, aliases },
});

const ofReward = (reward?: Config["reward"]): Config => ({
  evaluation: { metrics: ["reward"] },
  ...(reward && { reward }),
});

test("without a name for it the target is of right answers", () => {
  for (const config of [
    null,
    {},
    { evaluation: null },
    { evaluation: { metrics: null } },
    { evaluation: { metrics: ["loss"] } },
  ]) {
    assert.equal(metricOf(config), "score");
    assert.equal(rewardScore(config, declines), null);
  }
});

test("a right answer is paid one, declining what the reward says, a wrong answer nothing", () => {
  const score = rewardScore(ofReward({ type: "verifier", verifier_ref: "builtin:exact?declined=0.5" }), declines)!;
  const asked = question(1, "42", ["forty-two"]);
  assert.deepEqual(
    ["42", " 42.\n", "forty-two", "I do not know.", "41", "It is 42, or 43", ""].map((answer) => score(answer, asked)),
    [1, 1, 1, 0.5, 0, 0, 0],
  );
});

test("parts are weighed, and neither clip nor normalisation counts", () => {
  const composite = { "builtin:exact": 3, "builtin:regex?pattern=^%5Cd+$": 1 };
  const score = rewardScore(
    ofReward({ type: "composite", composite, clip: [0.5, 0.6], normalize: "batch" }),
    declines,
  )!;
  assert.deepEqual(
    ["42", "7", "many"].map((answer) => score(answer, question(1, "42"))),
    [1, 0.25, 0],
  );
});

test("a choice is scored by the options that the question lists", () => {
  const asked = { ...question(1, "teal"), instruction: "Which colour?\nA) red\nB) teal" };
  const config = ofReward({ verifier_ref: "builtin:choice" });
  checkMetric(config, [asked], declines);
  const score = rewardScore(config, declines)!;
  assert.deepEqual(
    ["B", "teal", "A", "red or teal"].map((answer) => score(answer, asked)),
    [1, 1, 0, 0],
  );
});

test("without a reward block an answer must be the reference", () => {
  assert.equal(rewardScore(ofReward(), declines)!("red", question(1, "red")), 1);
});

test("what cannot be scored the same at every look, or at all, is refused with the field", () => {
  const refused: [Config, RegExp][] = [
    [ofReward({ type: "llm_judge", llm_judge: { criteria: ["It is right."] } }), /built-in/],
    [ofReward({ llm_judge: { criteria: ["It is right."] } }), /built-in/],
    [ofReward({ type: "verifier", verifier_ref: "program:units" }), /built-in/],
    [ofReward({ composite: { "builtin:exact": 1, rubric: 1 } }), /built-in/],
  ];
  for (const [config, words] of refused)
    assert.throws(
      () => rewardScore(config, declines),
      (error: Error) => error.message.startsWith("config.evaluation.metrics: ") && words.test(error.message),
    );
  assert.throws(() => rewardScore(ofReward({ verifier_ref: "builtin:none" }), declines), /^.*reward\.verifier_ref: /);
  const numeric = ofReward({ verifier_ref: "builtin:numeric" });
  checkMetric(numeric, [question(1, "42"), question(2, "about 7 kg")], declines);
  assert.throws(
    () => checkMetric(numeric, [question(1, "42"), question(9, "a secret")], declines),
    (error: Error) => {
      assert.match(error.message, /^config\.evaluation\.metrics: .*question 9 /);
      return !error.message.includes("secret");
    },
  );
  const citation = ofReward({ verifier_ref: "builtin:citation" });
  assert.throws(
    () => checkMetric(citation, [question(1, "42")], declines),
    /citation looks for quotations from a passage/,
  );
  checkMetric({ reward: { verifier_ref: "builtin:numeric" } }, [question(9, "a secret")], declines);
});
