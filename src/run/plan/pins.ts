// Applies the configuration of an auto-align. Every field that is set changes the recipe or the settings of reinforce
// phases, or is reported as ignored, with the reason. A value of the recipe that is out of range is refused here, with
// the field's name, before anything is trained.
import { invalid } from "../../base/errors.ts";
import type { AutoAlignRequest } from "../../contract/auto-align.ts";
import type { Recipe } from "../../contract/recipe.ts";
import { maxRowTokens } from "../../engine/train/trainer.ts";
import { metricOf } from "../rewards/metric.ts";
import type { PlanLimits } from "./state.ts";

type Config = NonNullable<AutoAlignRequest["config"]>;
type Path = [block: string, field: string];

/**
 * Reads the value of a field that changes what is trained. Returns the recipe with the value applied, or the reason why
 * this value changes nothing. Throws a validation failure where the value cannot be followed.
 */
type Pin = (recipe: Recipe, value: unknown, path: Path) => Recipe | string;
/** Why a field changes nothing. A function depends on the value, and throws where the value cannot be followed. */
type Reason = string | ((value: unknown, path: Path) => string);

const invalidAt = (path: Path, message: string) => invalid(["config", ...path], message);

const number =
  (least: number, most: number, { above = false } = {}) =>
  (value: unknown, path: Path): number => {
    if (typeof value === "number" && (above ? value > least : value >= least) && value <= most) return value;
    throw invalidAt(
      path,
      `must be a number ${above ? "above" : "from"} ${least}${above ? ", at most" : " to"} ${most}`,
    );
  };

const whole =
  (least: number, most: number) =>
  (value: unknown, path: Path): number => {
    if (Number.isInteger(value) && (value as number) >= least && (value as number) <= most) return value as number;
    throw invalidAt(path, `must be a whole number from ${least} to ${most}`);
  };

const oneOf =
  <T extends string>(...names: T[]) =>
  (value: unknown, path: Path): T => {
    if (names.includes(value as T)) return value as T;
    throw invalidAt(path, `must be one of ${names.join(", ")}`);
  };

function flag(value: unknown, path: Path): boolean {
  if (typeof value === "boolean") return value;
  throw invalidAt(path, "must be true or false");
}

function text(value: unknown, path: Path): string {
  if (typeof value === "string" && value.trim() !== "") return value;
  throw invalidAt(path, "must be a non-empty string");
}

/** Defaults for a configuration that names only one part of the data set's source. */
const defaultSource: NonNullable<Recipe["dataset"]["source"]> = {
  document: null,
  prompt_field: "prompt",
  answer_field: "answer",
};

/** Makes a pin that sets one part of the data set's source. The other parts keep their value or default. */
const dataSet =
  (part: "document" | "prompt_field" | "answer_field"): Pin =>
  (recipe, value, path) => {
    const source = { ...(recipe.dataset.source ?? defaultSource), [part]: text(value, path) };
    return { ...recipe, dataset: { ...recipe.dataset, source } };
  };

type Block = "loss" | "optimizer" | "training" | "adapter" | "checkpointing" | "rendering";

/** Makes a pin that sets the recipe's field of the same name. */
const same =
  <T>(block: Block, read: (value: unknown, path: Path) => T): Pin =>
  (recipe, value, path) => ({ ...recipe, [block]: { ...recipe[block], [path[1]]: read(value, path) } });

const most32 = 2 ** 31 - 1;

/** Fields that change the recipe of every phase, or the metric of the target. */
const pins: Record<string, Pin> = {
  "loss.token_reduction": same("loss", oneOf("mean", "sum")),
  "optimizer.type": (recipe, value, path) => {
    const type = oneOf("adamw", "adam")(value, path);
    return type === "adam" ? { ...recipe, optimizer: { ...recipe.optimizer, weight_decay: 0 } } : recipe;
  },
  "optimizer.learning_rate": same("optimizer", number(0, 0.1, { above: true })),
  "optimizer.lr_multiplier": same("optimizer", number(0, 100, { above: true })),
  "optimizer.beta1": same("optimizer", number(0, 0.9999)),
  "optimizer.beta2": same("optimizer", number(0, 0.99999)),
  "optimizer.eps": same("optimizer", number(0, 1, { above: true })),
  "optimizer.weight_decay": same("optimizer", number(0, 100)),
  "optimizer.grad_clip_norm": same("optimizer", number(0, 1e6)),
  "optimizer.lr_schedule": same("optimizer", oneOf("linear", "cosine", "constant")),
  "optimizer.warmup_ratio": same("optimizer", number(0, 0.99)),
  "optimizer.warmup_steps": same("optimizer", whole(0, most32)),
  "training.batch_size": same("training", whole(1, 4096)),
  "training.seed": same("training", whole(0, most32)),
  "adapter.rank": same("adapter", whole(1, 256)),
  "adapter.alpha": same("adapter", number(0, 1e6, { above: true })),
  "adapter.dropout": same("adapter", number(0, 0.999)),
  "adapter.init_seed": same("adapter", whole(0, most32)),
  "adapter.train_attn": same("adapter", flag),
  "adapter.train_mlp": same("adapter", flag),
  "adapter.train_unembed": same("adapter", flag),
  "checkpointing.save_every_steps": same("checkpointing", whole(1, most32)),
  "checkpointing.keep_last_n": same("checkpointing", whole(2, most32)),
  "rendering.max_seq_len": same("rendering", whole(16, 1 << 20)),
  "evaluation.metrics": (recipe, value) =>
    metricOf({ evaluation: { metrics: value } }) === "reward"
      ? recipe
      : "redundant: unless reward is named, the target counts correct answers, and the events report the other figures",
  "dataset.prompt_field": dataSet("prompt_field"),
  "dataset.answer_field": dataSet("answer_field"),
  "dataset.split": (recipe, value, path) =>
    typeof value === "number"
      ? "redundant: the benchmark's dev and sealed questions are held out"
      : dataSet("document")(recipe, value, path),
  "dataset.synthetic": (recipe, value, path) => {
    const enabled = flag((value as { enabled?: unknown } | null)?.enabled, [path[0], `${path[1]}.enabled`]);
    return { ...recipe, dataset: { ...recipe.dataset, synthetic: { enabled } } };
  },
};

const planned = "redundant: phases are planned in steps, and the planner ends them";
const checks = "redundant: checkpoints are checked between phases";
const asItIs = "redundant: this is how it works anyway";

const onlyOr =
  (usual: unknown, reason: string): Reason =>
  (value) =>
    value === usual ? asItIs : reason;

/** Fields that change nothing, and why. */
const without: Record<string, Reason> = {
  "loss.custom_loss_ref": "not supported: there are only the built-in losses",
  "loss.custom_weights_field": "not supported: the whole answers of a data set are trained on",
  "dataset.format": onlyOr("prompt_completion", "not supported: a row of a data set is a prompt and its answer"),
  "dataset.file_type": onlyOr("csv", "not supported: a data set must be a CSV document"),
  "dataset.shuffle": onlyOr(true, "not supported: rows come in a seeded order"),
  "dataset.streaming": onlyOr(false, "not supported: rows are made before training"),
  "training.epochs": planned,
  "training.early_stopping": planned,
  "training.gradient_accumulation": "redundant: passes are sized to fit the memory, and the step stays the same",
  "training.mode": onlyOr("sync", "not supported: phases alternate between sampling and training"),
  "training.rollout_training_overlap": "not supported: answers are sampled with the weights being trained",
  "adapter.mode": (value, path) => {
    if (value === "full") throw invalidAt(path, "full is not supported, because only adapters are served; use lora");
    oneOf("lora", "qlora")(value, path);
    return "redundant: an adapter is trained on the base as it is stored, quantised or not";
  },
  "adapter.quantization_bits": "redundant: the base stays as it is stored",
  "checkpointing.mode":
    "redundant: checkpoints within a phase contain weights and optimizer moments; checkpoints between phases are made for serving",
  "checkpointing.promote_final": "redundant: nothing is promoted automatically",
  "evaluation.eval_every_steps": checks,
  "evaluation.eval_batch_size": "redundant: batches are sized to fit the memory",
  "evaluation.eval_group_size": "not supported: where sampled answers count, eight are sampled",
  "evaluation.eval_temperature": onlyOr(
    0,
    "not supported: dev scores use greedy answers, so that they can be repeated",
  ),
  "rendering.packing": "redundant: rows share passes and do not see each other",
  "rendering.truncation": onlyOr("drop", "not supported: rows that are too long are dropped and counted"),
  "rendering.add_special_tokens": "redundant: the chat template determines them",
  "rendering.batch_unit": onlyOr("examples", "not supported: the batch size counts examples"),
  "logging.log_metrics": "redundant: the events report all figures",
};

/** Fields of reinforce phases that change nothing, and why. */
const withoutWhenReinforcing: Record<string, Reason> = {
  "environment.num_agents": onlyOr(1, "not supported: a single agent answers"),
  "environment.sandbox":
    "redundant: tools compute and search within the run, and verifiers always run in a separate process without network access",
  "environment.fail_fast":
    "redundant: an answer that cannot be judged is left out, and the run ends if a fifth of them cannot",
  "environment.retry_on_failure": "not supported: an answer that cannot be judged is left out",
  "sampling.enable_thinking": "not supported: prompts use the chat template's defaults",
  "sampling.thinking_effort": "not supported: prompts use the chat template's defaults",
  "sampling.prompt_caching": "redundant: shared parts of prompts are computed once",
  "sampling.session_affinity_key": "redundant: a single process samples",
  "sampling.seed": "redundant: sampling is seeded by training.seed and the phase",
  "sampling.stop": "not supported: an answer ends with the model's own end of turn",
  "advantage.gae_lambda": "redundant: only gae would use it, and no base here has a value model",
};

/**
 * Blocks for reinforce phases, with the fields of each block that are read. `reward` lists none, because its unused
 * fields are reported where it is read.
 */
const reinforcing: Record<string, string[]> = {
  reward: [],
  advantage: ["center", "estimator", "gamma", "normalize_std", "scope", "skip_zero_advantage_groups"],
  reference_policy: ["ema_decay", "enabled", "kl_target", "source"],
  environment: ["type", "max_turns", "tools"],
  sampling: [
    ...["group_size", "prompt_groups_per_step", "max_prompt_tokens", "max_seq_len", "max_tokens"],
    ...["min_p", "temperature", "top_k", "top_p"],
  ],
};
/** Fields that only reinforce phases use, in blocks that other phases use too. */
const reinforcingFields = new Set([
  "loss.ppo",
  "loss.cispo",
  "loss.dro",
  "loss.kl_coef",
  "loss.kl_estimator",
  "loss.entropy_coef",
  "loss.is_ratio_level",
  "loss.z_loss_coef",
  "training.inner_optim_steps",
]);

/** The settings of each objective. */
const objectiveFields: Record<string, string[]> = {
  "loss.ppo": ["clip_low", "clip_high", "clip_c"],
  "loss.cispo": ["eps_max"],
  "loss.dro": ["beta"],
};

/** Fields that are read elsewhere: by the appliance, and by `limitsOf`. */
const readElsewhere = new Set(["base_model", "loss.type", "training.steps", "training.max_steps"]);

const noSuchSetting = "unknown: there is no such setting";

export interface Pinned {
  /** The recipe with which phases train. */
  recipe: Recipe;
  ignored: PlanLimits["ignored"];
}

/**
 * Applies a configuration to a recipe. `reinforces`: whether a phase may reinforce; `context`: maximum number of tokens
 * that the base reads. Throws a validation failure that names the field.
 */
export function pinned(
  config: AutoAlignRequest["config"],
  recipe: Recipe,
  { reinforces, context }: { reinforces: boolean; context: number },
): Pinned {
  const found: Pinned = { recipe, ignored: [] };
  const isTarget = metricOf(config) === "reward";
  for (const [block, fields] of Object.entries((config ?? {}) as Config)) {
    if (fields === null || readElsewhere.has(block)) continue;
    if (typeof fields !== "object" || Array.isArray(fields)) {
      found.ignored.push({ field: block, reason: noSuchSetting });
      continue;
    }
    for (const [field, value] of Object.entries(fields))
      if (value != null) pin(found, [block, field], value, { reinforces, isTarget });
  }
  together(config ?? {}, found.recipe);
  return withinContext(found, config, context);
}

/** Limits rows to what the base can read and the trainer takes, because the trainer refuses longer ones. */
function withinContext({ recipe, ignored }: Pinned, config: AutoAlignRequest["config"], context: number): Pinned {
  const { rendering } = recipe;
  const most = Math.min(context, maxRowTokens);
  if (rendering.max_seq_len <= most) return { recipe, ignored };
  const reason = `not supported: ${most === context ? "the base reads" : "a row has"} at most ${most} tokens`;
  const told = { field: "rendering.max_seq_len", reason };
  return {
    recipe: { ...recipe, rendering: { ...rendering, max_seq_len: most } },
    ignored: config?.rendering?.max_seq_len == null ? ignored : [...ignored, told],
  };
}

/** Applies one field, or adds it to the ignored ones. `isTarget`: whether the target score is a reward. */
function pin(
  found: Pinned,
  path: Path,
  value: unknown,
  { reinforces, isTarget }: { reinforces: boolean; isTarget: boolean },
): void {
  const name = path.join(".");
  const ignore = (reason: string): void => void found.ignored.push({ field: name, reason });
  if (readElsewhere.has(name)) return;
  if (Object.hasOwn(pins, name)) {
    const made = pins[name]!(found.recipe, value, path);
    if (typeof made === "string") ignore(made);
    else found.recipe = made;
  } else if (Object.hasOwn(without, name)) {
    const reason = without[name]!;
    ignore(typeof reason === "string" ? reason : reason(value, path));
  } else if (Object.hasOwn(reinforcing, path[0]) || reinforcingFields.has(name)) {
    if (!reinforces && !(path[0] === "reward" && isTarget)) ignore("redundant: no phase uses reinforcement");
    else if (Object.hasOwn(withoutWhenReinforcing, name)) {
      const reason = withoutWhenReinforcing[name]!;
      ignore(typeof reason === "string" ? reason : reason(value, path));
    } else if (path[0] !== "reward" && reinforcing[path[0]]?.includes(path[1]) === false) ignore(noSuchSetting);
    else
      for (const [field, set] of Object.entries(Object.hasOwn(objectiveFields, name) ? (value as object) : {}))
        if (set != null && !objectiveFields[name]!.includes(field))
          found.ignored.push({ field: `${name}.${field}`, reason: noSuchSetting });
  } else if (path[0] === "logging") ignore("not supported: nothing is sent to a tracker");
  else ignore(noSuchSetting);
}

/** Refuses values that are valid one by one but not together. */
function together(config: Config, { adapter, training }: Recipe): void {
  const { warmup_steps, warmup_ratio } = config.optimizer ?? {};
  if (warmup_steps != null && warmup_ratio != null)
    throw invalidAt(["optimizer", "warmup_steps"], "sets the same thing as warmup_ratio: give only one of them");
  if (!adapter.train_attn && !adapter.train_mlp && !adapter.train_unembed)
    throw invalidAt(
      ["adapter", "train_attn"],
      "and the other train_ fields are all false, so nothing would be trained",
    );
  const parts = (config.training as { gradient_accumulation?: unknown } | null | undefined)?.gradient_accumulation;
  if (parts != null && !(Number.isInteger(parts) && training.batch_size % (parts as number) === 0))
    throw invalidAt(["training", "gradient_accumulation"], `must divide training.batch_size, ${training.batch_size}`);
}
