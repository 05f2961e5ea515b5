// Everything between prepared rows and a finished adapter: opening the trainer, going back to the last checkpoint, one
// optimizer step, one check, one checkpoint. The order in which they follow each other is the loop in run.ts.
import { join } from "node:path";
import { Failure } from "../../base/errors.ts";
import type { Recipe } from "../../contract/run-folder.ts";
import type { AdapterShape, AdapterTarget, OpenedModel, Trainer, TrainerHello } from "../../engine/trainer.ts";
import { type Checkpoints, type LoopState, openCheckpoints, type RunBuild } from "./checkpoints.ts";
import type { Run } from "./context.ts";
import { checkDev } from "./dev-check.ts";
import { hexOfDouble } from "./events.ts";
import { identityOf } from "./request.ts";
import { type Prepared, toTrainer, trainedTokens } from "./rows.ts";
import { batchOf, learningRateAt, microBatches, ruleLearningRate, totalSteps } from "./schedule.ts";

/** Prompts and answers of one call of a check: between two calls the run listens to stop and pause. */
const checkTokens = 8192;

/** Name of the adapter inside the trainer. */
export const adapterName = "main";

export interface Training {
  trainer: Trainer;
  hello: TrainerHello;
  model: OpenedModel;
  prepared: Prepared;
  checkpoints: Checkpoints;
  total: number;
  peakRate: number;
  state: LoopState;
}

const freshState: LoopState = {
  step: 0,
  best: null,
  checksWithoutGain: 0,
  checks: [],
  losses: [],
  trainedTokens: 0,
  processedTokens: 0,
  trainSeconds: 0,
  ended: null,
};

/** Opens the base in the trainer and puts adapter, moments and loop where the newest sound checkpoint has them. */
export async function openTraining(run: Run, prepared: Prepared, trainer: Trainer): Promise<Training> {
  const { recipe, base, budget, versions } = run.request;
  const hello = await trainer.hello();
  const model = await trainer.open({ path: base.path, threads: budget.threads, memoryBytes: budget.memory_bytes });
  await trainer.createAdapter(adapterName, shapeOf(recipe));

  const build: RunBuild = {
    plumbline: versions.plumbline,
    trainer: `${hello.version} ${hello.build}`,
    threads: budget.threads,
    memory_bytes: budget.memory_bytes,
  };
  const folder = join(run.folder, "checkpoints");
  const identity = { request_sha256: identityOf(run.request), rows_sha256: prepared.sha256 };
  const checkpoints = openCheckpoints(folder, identity, build);
  const state = await goBack(run, trainer, checkpoints, build);
  return {
    trainer,
    hello,
    model,
    prepared,
    checkpoints,
    total: totalSteps(prepared.rows.length, recipe.training),
    peakRate: recipe.optimizer.learning_rate ?? ruleLearningRate(model.architecture, model.embedding),
    state,
  };
}

/** Loads the newest checkpoint that verifies, and says in the log where the run goes on. */
async function goBack(run: Run, trainer: Trainer, checkpoints: Checkpoints, build: RunBuild): Promise<LoopState> {
  const { found, damaged } = await checkpoints.newest();
  if (damaged.length > 0)
    await run.events.append({
      kind: "warning",
      phase: "training",
      code: "checkpoint_damaged",
      message: `Checkpoints that do not verify or belong to another request were removed: ${damaged.join(", ")}`,
    });
  if (found === null && !run.resumed) return structuredClone(freshState);
  if (found !== null) await trainer.load(adapterName, found.trainerFolder);
  if (found !== null && JSON.stringify(found.build) !== JSON.stringify(build))
    await run.events.append({
      kind: "warning",
      phase: "training",
      code: "resume_not_bitwise",
      message:
        "The checkpoint was made by another build, thread count or budget: later losses may differ in the last bits",
    });
  await run.events.append({ kind: "resumed", phase: "training", from_step: found?.step ?? 0 });
  return found?.state ?? structuredClone(freshState);
}

const attention: AdapterTarget[] = ["attn_q", "attn_k", "attn_v", "attn_output"];
const feedForward: AdapterTarget[] = ["ffn_gate", "ffn_up", "ffn_down"];

/** What the trainer makes of a recipe's adapter block. Throws run_folder_invalid when nothing would be trained. */
export function shapeOf({ adapter, training }: Pick<Recipe, "adapter" | "training">): AdapterShape {
  const targets: AdapterTarget[] = [
    ...(adapter.train_attn ? attention : []),
    ...(adapter.train_mlp ? feedForward : []),
    ...(adapter.train_unembed ? (["output"] as const) : []),
  ];
  if (targets.length === 0) throw new Failure("run_folder_invalid", "request.json: recipe.adapter trains nothing");
  const { rank, alpha, dropout = 0, init_seed: seed = training.seed } = adapter;
  return { rank, alpha, seed, targets, dropout };
}

/** Trains one batch and moves the state on. Everything it does follows from the state, the rows and the recipe. */
export async function trainStep(run: Run, training: Training): Promise<void> {
  const { trainer, hello, prepared, state, total } = training;
  const { optimizer, loss: reduction, training: plan } = run.request.recipe;
  const step = state.step + 1;
  const batch = batchOf(step, prepared.rows.length, plan);
  const tokens = batch.reduce((sum, row) => sum + trainedTokens(prepared.rows[row]!), 0);
  const processed = batch.reduce((sum, row) => sum + prepared.rows[row]!.tokens.length, 0);
  const scale = reduction.token_reduction === "mean" ? 1 / tokens : 1;
  const rate = learningRateAt(step, total, training.peakRate, optimizer);
  const began = run.parts.clock.monotonicMs();

  // Sent back to back: the worker goes on to the step while the answers of the passes are still on their way.
  const passes = microBatches(batch, (row) => prepared.rows[row]!.tokens.length, hello.limits.maxBatchTokens).map(
    (call) =>
      trainer.forwardBackward(
        adapterName,
        toTrainer(
          call.map((row) => prepared.rows[row]!),
          scale,
        ),
      ),
  );
  const stepped = trainer.optimStep(adapterName, {
    learningRate: rate,
    beta1: optimizer.beta1,
    beta2: optimizer.beta2,
    eps: optimizer.eps,
    weightDecay: optimizer.weight_decay,
    gradClipNorm: optimizer.grad_clip_norm,
  });
  const [gradNorm, ...losses] = await Promise.all([
    stepped.then((answer) => answer.gradNorm),
    ...passes.map((pass) => pass.then((answer) => answer.loss)),
  ]);
  const loss = losses.reduce((sum, part) => sum + part, 0);
  if (!Number.isFinite(loss)) throw new Failure("run_failed", `The loss of step ${step} is not a finite number`);

  const seconds = (run.parts.clock.monotonicMs() - began) / 1000;
  state.step = step;
  state.losses.push(loss);
  state.trainedTokens += tokens;
  state.processedTokens += processed;
  state.trainSeconds += seconds;
  if (step === total) state.ended = "steps";
  const metrics = {
    loss,
    loss_hex: hexOfDouble(loss),
    learning_rate: rate,
    grad_norm: gradNorm,
    tokens: processed,
    tokens_per_second: processed / seconds,
  };
  const stepRate = state.step / state.trainSeconds;
  await run.events.append(
    { kind: "step", phase: "training", step, metrics },
    {
      kind: "progress",
      phase: "training",
      done: step,
      total,
      unit: "steps",
      rate: stepRate,
      seconds_left: (total - step) / stepRate,
    },
  );
}

/** Answers the dev questions with the adapter as it stands; true when it did better than ever before. */
export async function checkStep(run: Run, training: Training): Promise<boolean> {
  const { state } = training;
  await run.enter("checking");
  const score = await checkDev(
    {
      trainer: training.trainer,
      adapter: adapterName,
      tokenizer: run.tokenizer,
      prompts: training.prepared.dev,
      maxTokens: checkTokens,
      grade: run.parts.grade,
      interval: run.parts.interval,
      onProgress: async (done, total) => {
        await run.progress(done, total, "questions");
        await run.turn();
      },
    },
    state.step,
  );
  const { step, ...metrics } = score;
  await run.events.append({ kind: "check", phase: "checking", step, metrics });
  await run.enter("training");
  state.checks.push(score);
  // The base's own score is shown, never chosen: an alignment that ends below it is for the evaluation to judge.
  if (step === 0) return false;
  const gained = state.best === null || score.score > state.best.score;
  state.checksWithoutGain = gained ? 0 : state.checksWithoutGain + 1;
  // Of two equal scores the later one has learned longer, at a lower rate.
  const isBest = state.best === null || score.score >= state.best.score;
  if (isBest) state.best = score;
  const { enabled, patience } = run.request.recipe.training.early_stopping;
  if (enabled && state.checksWithoutGain >= patience) state.ended ??= "patience";
  return isBest;
}

/** Keeps the adapter, its moments and the loop's state, and drops what is not needed any more. */
export async function saveStep(run: Run, training: Training): Promise<void> {
  const { checkpoints, trainer, state } = training;
  await checkpoints.write(state, (folder) => trainer.save(adapterName, folder));
  await run.events.append({ kind: "checkpoint", phase: "training", step: state.step });
  await checkpoints.prune(run.request.recipe.checkpointing.keep_last_n, state.best?.step ?? null);
}
