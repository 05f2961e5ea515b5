// Reinforcement over a small folder with the real trainer: what is paid becomes likelier, and nothing else moves the adapter.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { seeded } from "../../src/base/statistics/random.ts";
import { type AutoAlignRequest, autoAlignRequest } from "../../src/contract/auto-align.ts";
import type { RunEvent } from "../../src/contract/run-folder.ts";
import { declines } from "../../src/domain/evaluations/declines.ts";
import type { Trainer } from "../../src/engine/train/trainer.ts";
import { measured, trialsOf } from "../../src/run/auto/judge.ts";
import { checkpointNeeded, resolveReference } from "../../src/run/auto/reference.ts";
import { resolveReinforce } from "../../src/run/auto/reinforce.ts";
import { resolveSampling } from "../../src/run/auto/sampling.ts";
import { Unanswered } from "../../src/run/control.ts";
import { limitsOf } from "../../src/run/plan/limits.ts";
import { pinned } from "../../src/run/plan/pins.ts";
import type { Arm } from "../../src/run/plan/state.ts";
import { correctedShare, type Judge } from "../../src/run/rewards/judged.ts";
import type { Means } from "../../src/run/rewards/plan.ts";
import { runAlignment } from "../../src/run/run.ts";
import {
  brokenRules,
  claimAutoAlign,
  devItem,
  eventsOf,
  newRunFolder,
  overridden,
  partsOf,
  recipeOf,
} from "./run-harness.ts";

const means: Means = {
  declines: () => false,
  programs: null,
  judges: new Map(),
  rubrics: new Map(),
  preferenceModels: new Map(),
};

const options = {
  dev: Array.from({ length: 8 }, (_, at) => devItem(at + 1, `How heavy is lamp ${at}?`, `${at} kg`)),
};

/** Any answer with an e is right, so that dev has room for what the reward asks for. */
const grade = (answer: string) => ({ correct: answer.includes("e") });

async function autoFolder(config: AutoAlignRequest["config"]): Promise<string> {
  const folder = await newRunFolder(options);
  claimAutoAlign(folder, { request: { target_score: 99, sequencing: ["reinforce"], config } });
  return folder;
}

/** The clock stands still, so that no phase is over before its steps are done. */
const clock = { monotonicMs: () => 0, now: () => "2026-01-01T00:00:00.000Z" };

async function reinforced(config: AutoAlignRequest["config"], declines = means.declines) {
  const folder = await autoFolder(config);
  const result = await runAlignment(folder, partsOf({ over: { grade, clock, means: { ...means, declines } } }));
  assert.equal(result.error, null);
  return { folder, steps: eventsOf(folder).filter(({ kind }) => kind === "step") };
}

const metric = (event: RunEvent, name: string): number => event.metrics![name] as number;
const meanOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

const paysE = { type: "verifier", verifier_ref: "builtin:regex?pattern=e" };

test("what is paid becomes likelier, from one draw to the next", async () => {
  const { folder, steps } = await reinforced({
    reward: paysE,
    sampling: { prompt_groups_per_step: 4, group_size: 8, max_tokens: 4 },
    optimizer: { learning_rate: 0.1 },
    training: { steps: 24 },
  });
  const rewards = steps.map((step) => metric(step, "reward"));
  const [first, last] = [meanOf(rewards.slice(0, 4)), meanOf(rewards.slice(-4))];
  assert.ok(last > first + 0.2, `${first} → ${last}`);
  // What a pass says of answers is what the sampler said of them, but for its rounding.
  const learned = steps.filter((step) => step.metrics!.sampler_kl !== undefined);
  assert.ok(learned.length >= 5);
  for (const step of learned)
    assert.ok(Math.abs(metric(step, "sampler_kl")) < 1e-3, String(metric(step, "sampler_kl")));
  assert.deepEqual(brokenRules(folder), []);
});

test("tokens without a gradient do not count in the divergence from the sampler", async () => {
  const { steps } = await reinforced({
    reward: paysE,
    // A group whose answers earn alike stays, but its tokens have no advantage.
    advantage: { skip_zero_advantage_groups: false },
    sampling: { prompt_groups_per_step: 4, group_size: 2, max_tokens: 4 },
    training: { steps: 6 },
  });
  const told = steps.map(({ metrics }) => metrics!.sampler_kl as number | null);
  assert.ok(
    told.every((nats) => nats === null || (nats >= 0 && nats < 1e-3)),
    JSON.stringify(told),
  );
  assert.ok(told.some((nats) => nats !== null));
  const unpaid = await reinforced({
    reward: { type: "verifier", verifier_ref: "builtin:regex?pattern=never said" },
    advantage: { skip_zero_advantage_groups: false },
    sampling: { prompt_groups_per_step: 1, group_size: 2, max_tokens: 4 },
    training: { steps: 1 },
  });
  assert.deepEqual(
    unpaid.steps.map(({ metrics }) => metrics!.sampler_kl),
    [null],
  );
});

test("further steps over a draw have ratios of their own, and a penalty holds to the base", async () => {
  const { steps } = await reinforced({
    reward: paysE,
    loss: { type: "cispo", kl_coef: 0.1 },
    reference_policy: { source: "base", kl_target: 0.01 },
    sampling: { prompt_groups_per_step: 2, group_size: 8, max_tokens: 4 },
    optimizer: { learning_rate: 0.1 },
    training: { steps: 6, inner_optim_steps: 2 },
  });
  assert.equal(steps.length, 6);
  for (const [at, step] of steps.entries()) {
    if (at % 2 === 0) assert.ok(Math.abs(metric(step, "ratio_mean") - 1) < 1e-6, `step ${at}`);
    else assert.notEqual(metric(step, "ratio_mean"), 1);
  }
  assert.ok(Math.abs(metric(steps[0]!, "kl_reference")) < 1e-5);
  assert.ok(metric(steps.at(-1)!, "kl_reference") !== 0);
  const coefficients = steps.map((step) => metric(step, "kl_coef"));
  assert.ok(new Set(coefficients).size > 1);
});

test("a reference that no phase has made yet is waited for, or refused where the sequence does not make it", () => {
  const needed = (source: string, sequencing: Arm[] | null, arms: Arm[] = sequencing ?? ["supervised", "reinforce"]) =>
    checkpointNeeded(resolveReference({ source }, 0.1), { sequencing, arms });
  assert.equal(needed("checkpoint:phase-2", null), "phase-2");
  assert.equal(needed("checkpoint:phase-1", ["supervised", "reinforce"]), "phase-1");
  assert.equal(needed("checkpoint:base", ["reinforce"]), "base");
  for (const source of ["base", "initial", "ema"]) assert.equal(needed(source, ["reinforce"]), null);
  for (const [source, sequencing] of [
    ["checkpoint:phase-1", ["reinforce", "supervised"]],
    ["checkpoint:phase-2", ["supervised", "reinforce", "reinforce"]],
  ] as const)
    assert.throws(() => needed(source, [...sequencing]), {
      message: /^config\.reference_policy\.source: names phase-\d, but the sequence reinforces before/,
    });
  assert.throws(() => needed("checkpoint:phase-1", null, ["reinforce", "scale"]), {
    message: /^config\.reference_policy\.source: names phase-1, but no allowed arm can make/,
  });
});

test("the loss of a step has the entropy bonus in it, which only the training pass knows", async () => {
  const lossOf = async (entropy_coef: number): Promise<number> => {
    const { steps } = await reinforced({
      reward: paysE,
      loss: { entropy_coef },
      sampling: { prompt_groups_per_step: 4, group_size: 4, max_tokens: 4 },
      training: { steps: 1 },
    });
    return metric(steps[0]!, "loss");
  };
  const entropy = ((await lossOf(0)) - (await lossOf(0.1))) / 0.1;
  assert.ok(entropy > 0.1 && entropy < 20, String(entropy));
});

test("a policy that never declines is shown it where that is paid, and learns it", async () => {
  const pays = (declined: number): AutoAlignRequest["config"] => ({
    reward: { type: "verifier", verifier_ref: `builtin:exact?declined=${declined}` },
    sampling: { prompt_groups_per_step: 4, group_size: 4, max_tokens: 24 },
    optimizer: { learning_rate: 0.1 },
    training: { steps: 60 },
  });
  const { folder, steps } = await reinforced(pays(0.5), declines);
  const rewards = steps.map((step) => metric(step, "reward"));
  // One answer of four is paid a half as long as it is only shown.
  assert.equal(rewards[0], 0.125);
  assert.equal(metric(steps[0]!, "shown_declining"), 4);
  assert.ok(meanOf(rewards.slice(-4)) > 0.3, String(rewards));
  assert.deepEqual(brokenRules(folder), []);
  const unpaid = (await reinforced(pays(0), declines)).steps;
  assert.ok(unpaid.every((step) => metric(step, "reward") === 0 && step.metrics!.shown_declining === undefined));
});

const held = (reference_policy: Record<string, unknown>): AutoAlignRequest["config"] => ({
  reward: paysE,
  loss: { kl_coef: 0.1 },
  reference_policy,
  sampling: { prompt_groups_per_step: 4, group_size: 8, max_tokens: 4 },
  optimizer: { learning_rate: 0.02 },
  training: { steps: 8 },
});

test("a reference that averages the policy stays nearer to it than where the phase began", async () => {
  const kl = async (reference: Record<string, unknown>): Promise<number[]> =>
    (await reinforced(held(reference))).steps.map((step) => metric(step, "kl_reference")).filter(Number.isFinite);
  const [average, initial] = [await kl({ source: "ema", ema_decay: 0.5 }), await kl({ source: "initial" })];
  // One that keeps nothing of itself is the policy as it was before each step, which is what drew the answers.
  const copy = await kl({ source: "ema", ema_decay: 0 });
  assert.ok(Math.abs(average[0]!) < 1e-5);
  assert.ok(copy.every((nats) => Math.abs(nats) < 1e-5));
  const [near, far] = [average, initial].map((nats) => meanOf(nats.slice(-4)));
  assert.ok(near! > 1e-4 && near! < far! / 2, `${near} of ${far}`);
});

test("a run that is killed while a reference averages goes on to the bit", async () => {
  const config = held({ ema_decay: 0.9, kl_target: 0.01 });
  const madeIn = (folder: string) => ({
    adapter: readFileSync(join(folder, "plan", "phase-1", "adapter.gguf")).toString("base64"),
    // A step that was made again tells the same again.
    metrics: [
      ...new Map(eventsOf(folder).flatMap((event) => (event.kind === "step" ? [[event.step, event.metrics]] : []))),
    ],
  });
  const whole = madeIn((await reinforced(config)).folder);
  assert.equal(whole.metrics.length, 8);
  const folder = await autoFolder(config);
  let averaged = 0;
  const wrap = (trainer: Trainer): Trainer =>
    overridden(trainer, {
      averageAdapter: (...given) => {
        if (++averaged === 5) throw new Error("died");
        return trainer.averageAdapter(...given);
      },
    });
  const first = await runAlignment(folder, partsOf({ wrap, over: { grade, clock } }));
  assert.equal(first.outcome, "failed");
  claimAutoAlign(folder, {});
  assert.equal((await runAlignment(folder, partsOf({ over: { grade, clock } }))).error, null);
  const resumed = eventsOf(folder).find(({ kind }) => kind === "resumed");
  assert.equal(resumed?.from_step, 3);
  assert.deepEqual(madeIn(folder), whole);
});

test("draws whose answers are all paid alike are counted, not learned from, and end the phase", async () => {
  const { steps } = await reinforced({
    reward: { type: "verifier", verifier_ref: "builtin:regex?pattern=never said" },
    sampling: { prompt_groups_per_step: 2, group_size: 4, max_tokens: 4 },
    training: { steps: 20 },
  });
  assert.equal(steps.length, 5);
  for (const step of steps) assert.equal(metric(step, "zero_advantage"), 1);
});

test("the request that the API page shows can be followed, and has no doubtful setting", () => {
  for (const request of autoAlignRequest.examples as readonly unknown[] as AutoAlignRequest[]) {
    const { arms, ignored } = limitsOf(request);
    const { ignored: others } = pinned(request.config, recipeOf(undefined), {
      reinforces: arms.includes("reinforce"),
      context: 512,
    });
    const plan = resolveReinforce(request.config ?? null, means, 512);
    assert.deepEqual([ignored, others, plan.ignored, plan.warnings], [[], [], [], []]);
  }
});

test("every setting of a block is followed, or refused with its field", () => {
  const plan = (config: AutoAlignRequest["config"]) => resolveReinforce(config ?? null, means, 512);
  const usual = plan(null);
  assert.equal(usual.objective.type, "ppo");
  assert.equal(usual.reward.type, "verifier");
  assert.equal(usual.reference.source, null);
  assert.equal(plan({ loss: { type: "dro", dro: { beta: 0.1 } } }).objective.beta, 0.1);
  assert.deepEqual(plan({ reference_policy: { enabled: true, source: "checkpoint:phase-1" } }).reference.source, {
    checkpoint: "phase-1",
  });
  const averaged = (block: Record<string, unknown>) =>
    plan({ reference_policy: { enabled: true, ...block } }).reference.source;
  assert.deepEqual(averaged({ source: "ema", ema_decay: 0 }), { emaDecay: 0 });
  assert.deepEqual(averaged({ ema_decay: 0.9 }), { emaDecay: 0.9 });
  assert.deepEqual(averaged({ source: "ema" }), { emaDecay: 0.99 });
  const refused: [AutoAlignRequest["config"], RegExp][] = [
    [{ sampling: { group_size: 1 } }, /^config\.sampling\.group_size: /],
    [{ sampling: { max_tokens: 400, max_prompt_tokens: 400 } }, /^config\.sampling\.max_prompt_tokens: .*800/],
    [{ sampling: { temperature: 0 } }, /^config\.sampling\.temperature: must be a number above 0 and at most 2$/],
    [{ sampling: { top_p: 1.5 } }, /^config\.sampling\.top_p: must be a number above 0 and at most 1$/],
    [{ sampling: { min_p: 2 } }, /^config\.sampling\.min_p: must be a number from 0 to 1$/],
    [{ loss: { kl_coef: 0.1 }, reference_policy: { enabled: false } }, /^config\.reference_policy\.enabled: /],
    [{ reference_policy: { kl_target: 0.1 } }, /^config\.reference_policy\.kl_target: /],
    [{ reference_policy: { source: "emma" } }, /^config\.reference_policy\.source: must be .*ema/],
    ...["best", "phase-0", "phase-01", "phase-1x", ""].map((id): [AutoAlignRequest["config"], RegExp] => [
      { reference_policy: { source: `checkpoint:${id}` } },
      /^config\.reference_policy\.source: must be .*phase-1/,
    ]),
    [{ reference_policy: { ema_decay: 1 } }, /^config\.reference_policy\.ema_decay: must be at least 0 and below 1/],
    [{ reference_policy: { ema_decay: -0.1 } }, /^config\.reference_policy\.ema_decay: /],
    [{ reference_policy: { ema_decay: "slow" } }, /^config\.reference_policy\.ema_decay: /],
    [{ reference_policy: { source: "base", ema_decay: 0.9 } }, /^config\.reference_policy\.ema_decay: .*source to ema/],
    [{ training: { inner_optim_steps: 65 } }, /^config\.training\.inner_optim_steps: /],
    [{ training: { inner_optim_steps: 1.5 } }, /^config\.training\.inner_optim_steps: /],
    [{ reward: { type: "llm_judge", llm_judge: { judge_model: "x", criteria: ["y"] } } }, /^config\.reward\.llm_judge/],
    [{ advantage: { estimator: "gae" } }, /^config\.advantage\.estimator: /],
    ...["group", "batch", "running"].map((normalize): [AutoAlignRequest["config"], RegExp] => [
      { advantage: { estimator: "max_rl" }, reward: { verifier_ref: "builtin:exact", normalize } },
      /^config\.reward\.normalize: must be none with the estimator max_rl/,
    ]),
  ];
  for (const [config, message] of refused) assert.throws(() => plan(config), { message });
  const unused = plan({
    loss: { cispo: { eps_max: 5 } },
    advantage: { gamma: 0.9 },
    environment: { type: "multi_agent" },
    reference_policy: { source: "initial" },
  });
  assert.deepEqual(
    unused.ignored.map(({ field }) => field),
    ["loss.cispo", "advantage.gamma", "reference_policy.source", "environment.type"],
  );
});

test("a draw that leaves possible answers out is warned of", () => {
  const warned = (block: Record<string, unknown>) => resolveSampling(block, { context: 512, inner: 1 }).warnings.length;
  assert.deepEqual([{}, { top_p: 0.9 }, { top_k: 40 }, { min_p: 0.1 }, { top_k: -1 }].map(warned), [0, 1, 1, 1, 0]);
});

test("a judge's errors are measured on what dev says is right and wrong, and one that tells nothing is refused with its figures", async () => {
  // Says yes to three of four right answers and to one of four wrong ones.
  const golds = new Map(options.dev.map(({ instruction, response }) => [instruction, response]));
  const biased: Judge = async (criteria, prompt, answer) => {
    const [at, other] = [prompt, answer].map((text) => Number(/\d+/.exec(text)![0]));
    return criteria.map(() => (golds.get(prompt) === answer ? at! % 4 !== 0 : other! % 4 === 0));
  };
  const items = options.dev.map(({ instruction, response, cluster }) => ({ prompt: instruction, response, cluster }));
  const trials = trialsOf(items, () => ["It is right."]);
  const { signal } = new AbortController();
  const record = await measured(biased, trials, signal);
  assert.deepEqual(record, { right: 8, wrong: 8, sensitivity: 0.75, specificity: 0.75 });
  // Rogan and Gladen: (0.5 + 0.75 - 1) / (0.75 + 0.75 - 1).
  assert.equal(correctedShare(0.5, record), 0.5);
  assert.equal(correctedShare(0.625, record), 0.75);
  // What it says neither of counts on neither side.
  const mumbling: Judge = async (...asked) => (asked[1].includes("0") ? [null] : biased(...asked));
  assert.deepEqual(await measured(mumbling, trials, signal), {
    ...{ right: 7, wrong: 7, sensitivity: 6 / 7, specificity: 5 / 7 },
  });

  const reward = { type: "llm_judge", llm_judge: { judge_model: "base", criteria: ["The answer is right."] } };
  const folder = await autoFolder({ reward });
  const result = await runAlignment(folder, partsOf({ over: { grade } }));
  const said = eventsOf(folder).find(({ message }) => message?.startsWith("The judge finds"))!.message!;
  assert.match(said, /finds \d of 8 criteria of correct answers met and \d of 8 criteria of wrong answers unmet/);
  // A base whose weights are made up cannot tell.
  assert.match(result.error?.message ?? "", /judge_model: base cannot tell good answers from bad ones: sensitivity/);
});

test("a judge's errors are rates per criterion, and what wrong answers meet too says nothing of its specificity", async () => {
  const items = Array.from({ length: 100 }, (_, at) => ({ prompt: `Q ${at}`, response: `A ${at}`, cluster: `${at}` }));
  const isRight = (prompt: string, answer: string): boolean => answer === `A ${prompt.slice(2)}`;
  const criteria = [1, 2, 3, 4, 5].map((number) => `Criterion ${number}`);
  const { signal } = new AbortController();
  /** Wrong in one of ten verdicts, another one for each criterion. */
  const errs = (prompt: string, criterion: number): boolean =>
    (Math.floor(Number(prompt.slice(2)) / 2) + criterion) % 10 === 0;
  const judge: Judge = async (asked, prompt, answer) =>
    asked.map((_, at) => isRight(prompt, answer) !== errs(prompt, at));
  const record = await measured(
    judge,
    trialsOf(items, () => criteria),
    signal,
  );
  // One half of the verdicts on wrong answers chooses the criteria.
  assert.deepEqual(record, { right: 500, wrong: 250, sensitivity: 0.9, specificity: 0.9 });
  // Every answer meets the last criterion, as a wrong one may be short too.
  const style: Judge = async (asked, prompt, answer) =>
    asked.map((_, at) => (at === 4 || isRight(prompt, answer)) !== errs(prompt, at));
  assert.deepEqual(
    await measured(
      style,
      trialsOf(items, () => criteria),
      signal,
    ),
    {
      ...{ right: 500, wrong: 200, sensitivity: 0.9, specificity: 0.9 },
    },
  );
  // Criteria of a question of its own are measured together.
  const own = trialsOf(items, (at) => [`The answer is ${at}`]);
  assert.deepEqual(await measured(judge, own, signal), {
    ...{ right: 100, wrong: 100, sensitivity: 0.9, specificity: 0.9 },
  });
});

test("a judge that says yes as a coin falls is not flattered by the choice of criteria", async () => {
  const random = seeded(5);
  const coin: Judge = async (criteria) => criteria.map(() => random() < 0.5);
  const items = Array.from({ length: 50 }, (_, at) => ({ prompt: `Q ${at}`, response: `A ${at}`, cluster: `${at}` }));
  const { signal } = new AbortController();
  // Forty questions have a criterion of their own, and the others one in pairs.
  const trials = trialsOf(items, (at) => [at < 40 ? `The answer is ${at}` : `It names pump ${at >> 1}`]);
  const rates = await Promise.all(
    Array.from({ length: 100 }, async () => (await measured(coin, trials, signal)).specificity),
  );
  const mean = rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
  assert.ok(Math.abs(mean - 0.5) < 0.05, String(mean));
});

test("a judge that leaves some answers without a verdict is measured on the others, and one that leaves a fifth ends the run", async () => {
  const items = Array.from({ length: 20 }, (_, at) => ({ prompt: `Q ${at}`, response: `A ${at}`, cluster: `${at}` }));
  const trials = trialsOf(items, () => ["It is right."]);
  const { signal } = new AbortController();
  const silent = (often: number): Judge => {
    let asked = 0;
    return async (_, prompt, answer) => {
      if (asked++ % often === 0) throw new Unanswered("the model is busy");
      return [answer === `A ${prompt.slice(2)}`];
    };
  };
  const { right, wrong, sensitivity, specificity } = await measured(silent(40), trials, signal);
  assert.deepEqual([right + wrong, sensitivity, specificity], [39, 1, 1]);
  await assert.rejects(measured(silent(5), trials, signal), { code: "run_failed", message: /the model is busy/ });
});
