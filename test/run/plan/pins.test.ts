// Every field that the contract's configuration has: it changes the recipe, is left to reinforcement, or is told with its reason.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { AutoAlignRequest } from "../../../src/contract/auto-align.ts";
import type { Recipe } from "../../../src/contract/recipe.ts";
import { pinned } from "../../../src/run/plan/pins.ts";

const standard = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../../config/recipes/standard.json"), "utf8"),
) as Recipe;

type Config = AutoAlignRequest["config"];
const pin = (config: unknown, reinforces = false, context = 1 << 15) =>
  pinned(config as Config, standard, { reinforces, context });

/** Names of the contract's §2.5, with a value that is sound and not the preset's, and where it takes effect. */
const changing: [string, unknown, (recipe: Recipe) => unknown][] = [
  ["loss.token_reduction", "sum", ({ loss }) => loss.token_reduction],
  ["optimizer.learning_rate", 1e-4, ({ optimizer }) => optimizer.learning_rate],
  ["optimizer.beta1", 0.8, ({ optimizer }) => optimizer.beta1],
  ["optimizer.beta2", 0.99, ({ optimizer }) => optimizer.beta2],
  ["optimizer.eps", 1e-12, ({ optimizer }) => optimizer.eps],
  ["optimizer.weight_decay", 0.01, ({ optimizer }) => optimizer.weight_decay],
  ["optimizer.grad_clip_norm", 0.3, ({ optimizer }) => optimizer.grad_clip_norm],
  ["optimizer.lr_schedule", "cosine", ({ optimizer }) => optimizer.lr_schedule],
  ["optimizer.warmup_steps", 7, ({ optimizer }) => optimizer.warmup_steps],
  ["optimizer.warmup_ratio", 0.2, ({ optimizer }) => optimizer.warmup_ratio],
  ["optimizer.lr_multiplier", 2, ({ optimizer }) => optimizer.lr_multiplier],
  ["training.batch_size", 64, ({ training }) => training.batch_size],
  ["training.seed", 3, ({ training }) => training.seed],
  ["adapter.rank", 16, ({ adapter }) => adapter.rank],
  ["adapter.alpha", 16, ({ adapter }) => adapter.alpha],
  ["adapter.dropout", 0.1, ({ adapter }) => adapter.dropout],
  ["adapter.init_seed", 5, ({ adapter }) => adapter.init_seed],
  ["adapter.train_attn", false, ({ adapter }) => adapter.train_attn],
  ["adapter.train_mlp", false, ({ adapter }) => adapter.train_mlp],
  ["adapter.train_unembed", true, ({ adapter }) => adapter.train_unembed],
  ["checkpointing.save_every_steps", 33, ({ checkpointing }) => checkpointing.save_every_steps],
  ["checkpointing.keep_last_n", 5, ({ checkpointing }) => checkpointing.keep_last_n],
  ["rendering.max_seq_len", 256, ({ rendering }) => rendering.max_seq_len],
  ["dataset.prompt_field", "asked", ({ dataset }) => dataset.source?.prompt_field],
  ["dataset.answer_field", "said", ({ dataset }) => dataset.source?.answer_field],
  ["dataset.split", "sums.csv", ({ dataset }) => dataset.source?.document],
];

const withoutEffect: [string, unknown][] = [
  ["loss.custom_loss_ref", "mine"],
  ["loss.custom_weights_field", "weights"],
  ["training.epochs", 3],
  ["training.early_stopping", { enabled: true }],
  ["training.gradient_accumulation", 2],
  ["training.mode", "async"],
  ["training.rollout_training_overlap", 2],
  ["adapter.mode", "qlora"],
  ["adapter.quantization_bits", 4],
  ["checkpointing.mode", "both"],
  ["checkpointing.promote_final", true],
  ["evaluation.eval_batch_size", 4],
  ["evaluation.eval_every_steps", 20],
  ["evaluation.eval_group_size", 4],
  ["evaluation.eval_temperature", 1],
  ["evaluation.metrics", ["score"]],
  ["rendering.add_special_tokens", true],
  ["rendering.batch_unit", "tokens"],
  ["rendering.packing", false],
  ["rendering.truncation", "left"],
  ["logging.log_metrics", ["loss"]],
  ["logging.project_name", "ours"],
  ["dataset.file_type", "csv"],
  ["dataset.format", "messages"],
  ["dataset.split", 0.05],
  ["dataset.shuffle", true],
  ["dataset.streaming", true],
];

const reinforcing: [string, unknown][] = [
  ["loss.ppo", { clip_low: 0.2 }],
  ["loss.cispo", { eps_max: 4 }],
  ["loss.dro", { beta: 0.05 }],
  ["loss.kl_coef", 0.1],
  ["loss.kl_estimator", "k3"],
  ["loss.entropy_coef", 0.01],
  ["loss.is_ratio_level", "token"],
  ["loss.z_loss_coef", 1e-4],
  ["training.inner_optim_steps", 2],
  ...Object.entries({
    reward: "type verifier_ref llm_judge rubric_ref preference_model_ref clip composite normalize",
    advantage: "center estimator gae_lambda gamma normalize_std scope skip_zero_advantage_groups",
    reference_policy: "ema_decay enabled kl_target source",
    environment: "fail_fast max_turns num_agents retry_on_failure sandbox tools type",
    sampling:
      "enable_thinking group_size max_prompt_tokens max_seq_len max_tokens min_p prompt_caching prompt_groups_per_step seed session_affinity_key stop temperature thinking_effort top_k top_p",
  }).flatMap(([block, fields]) => fields.split(" ").map((field): [string, unknown] => [`${block}.${field}`, 1])),
];

const configOf = (name: string, value: unknown): unknown => {
  const [block, field] = name.split(".");
  return { [block!]: { [field!]: value } };
};

test("a field that is pinned is what phases train by, and is not told as ignored", () => {
  for (const [name, value, read] of changing) {
    const { recipe, ignored } = pin(configOf(name, value));
    assert.notDeepEqual(read(standard), value, name);
    assert.deepEqual(read(recipe), value, name);
    assert.deepEqual(ignored, [], name);
  }
  assert.deepEqual(pin({ dataset: { synthetic: { enabled: false } } }).recipe.dataset.synthetic, { enabled: false });
  assert.deepEqual(pin({ dataset: { split: "sums", answer_field: "said" } }).recipe.dataset.source, {
    document: "sums",
    prompt_field: "prompt",
    answer_field: "said",
  });
  assert.equal(pin({ optimizer: { type: "adam" } }).recipe.optimizer.weight_decay, 0);
});

test("a field that changes nothing is told with its reason", () => {
  for (const [name, value] of withoutEffect) {
    const { recipe, ignored } = pin(configOf(name, value), true);
    assert.deepEqual(recipe, standard, name);
    assert.equal(ignored.length, 1, name);
    assert.equal(ignored[0]!.field, name);
    assert.match(ignored[0]!.reason, /^(redundant|not supported): ./, name);
  }
});

/** Of these none is read by reinforcement either (test/run/reinforce.test.ts has those that are). */
const unread = new Set([
  ...["num_agents", "sandbox", "fail_fast", "retry_on_failure"].map((name) => `environment.${name}`),
  ...["enable_thinking", "thinking_effort", "prompt_caching", "session_affinity_key", "seed", "stop"].map(
    (name) => `sampling.${name}`,
  ),
  "advantage.gae_lambda",
]);

test("fields of reinforcement are redundant where no phase reinforces, and told where reinforcement does not read them", () => {
  for (const [name, value] of reinforcing) {
    assert.deepEqual(
      pin(configOf(name, value)).ignored,
      [{ field: name, reason: "redundant: no phase uses reinforcement" }],
      name,
    );
    const told = pin(configOf(name, value), true).ignored;
    assert.deepEqual(
      told.map(({ field }) => field),
      unread.has(name) ? [name] : [],
      name,
    );
    for (const { reason } of told) assert.match(reason, /^(redundant|not supported): ./, name);
  }
});

test("a target that is of the reward is pinned, and so is the reward, also where no phase reinforces", () => {
  const config = { evaluation: { metrics: ["reward", "loss"] }, reward: { verifier_ref: "builtin:exact" } };
  for (const reinforces of [false, true])
    assert.deepEqual(pin(config, reinforces), { recipe: standard, ignored: [] }, String(reinforces));
  assert.deepEqual(
    pin({ ...config, evaluation: { metrics: ["loss"] } }).ignored.map(({ field }) => field),
    ["evaluation.metrics", "reward.verifier_ref"],
  );
});

test("rows are no longer than the base can read, and a longer limit is told", () => {
  const { recipe, ignored } = pin({ rendering: { max_seq_len: 8192 } }, false, 2048);
  assert.equal(recipe.rendering.max_seq_len, 2048);
  assert.deepEqual(
    ignored.map(({ field }) => field),
    ["rendering.max_seq_len"],
  );
  assert.match(ignored[0]!.reason, /^not supported: .* 2048 tokens/);
  const long = pin({ rendering: { max_seq_len: 65_536 } }, false, 131_072);
  assert.equal(long.recipe.rendering.max_seq_len, 32_768);
  assert.match(long.ignored[0]!.reason, /^not supported: a row has at most 32768 tokens/);
  const short = pin(null, false, 128);
  assert.deepEqual([short.recipe.rendering.max_seq_len, short.ignored], [128, []]);
});

test("null is the same as nothing, and a setting that nobody knows is told", () => {
  assert.deepEqual(pin(null), { recipe: standard, ignored: [] });
  assert.deepEqual(pin({ loss: null, optimizer: { learning_rate: null }, base_model: "x" }), {
    recipe: standard,
    ignored: [],
  });
  assert.deepEqual(
    pin({ magic: 1, loss: { magic: 2 } }).ignored.map(({ field }) => field),
    ["magic", "loss.magic"],
  );
  assert.deepEqual(
    pin({ loss: { type: "ppo", ppo: { clip_low: 0.2, clip_hihg: 0.3 } } }, true).ignored.map(({ field }) => field),
    ["loss.ppo.clip_hihg"],
  );
  const blocks = ["advantage", "reference_policy", "environment", "sampling"];
  assert.deepEqual(
    pin(Object.fromEntries(blocks.map((block) => [block, { magic: 1 }])), true).ignored.map(({ field }) => field),
    blocks.map((block) => `${block}.magic`),
  );
});

test("a value that cannot be followed fails with its field's name", () => {
  const cases: [unknown, RegExp][] = [
    [
      { optimizer: { learning_rate: 0.2 } },
      /^config\.optimizer\.learning_rate: must be a number above 0, at most 0\.1$/,
    ],
    [{ optimizer: { learning_rate: "fast" } }, /^config\.optimizer\.learning_rate: /],
    [{ optimizer: { type: "muon" } }, /^config\.optimizer\.type: must be one of adamw, adam$/],
    [{ optimizer: { warmup_steps: 3, warmup_ratio: 0.1 } }, /^config\.optimizer\.warmup_steps: /],
    [{ adapter: { rank: 0 } }, /^config\.adapter\.rank: must be a whole number from 1 to 256$/],
    [{ adapter: { mode: "full" } }, /^config\.adapter\.mode: full is not supported/],
    [{ adapter: { train_attn: false, train_mlp: false } }, /^config\.adapter\.train_attn: .*nothing would be trained/],
    [
      { training: { batch_size: 8, gradient_accumulation: 3 } },
      /^config\.training\.gradient_accumulation: must divide/,
    ],
    [{ checkpointing: { save_every_steps: 0 } }, /^config\.checkpointing\.save_every_steps: /],
    [{ evaluation: { metrics: "reward" } }, /^config\.evaluation\.metrics: must be a list of names$/],
    [{ evaluation: { metrics: ["score", "reward"] } }, /^config\.evaluation\.metrics: .*one of them$/],
    [{ dataset: { split: ["train"] } }, /^config\.dataset\.split: must be a non-empty string$/],
    [{ dataset: { prompt_field: " " } }, /^config\.dataset\.prompt_field: /],
    [{ dataset: { synthetic: { enabled: "yes" } } }, /^config\.dataset\.synthetic\.enabled: /],
  ];
  for (const [config, message] of cases) assert.throws(() => pin(config), { message });
});
