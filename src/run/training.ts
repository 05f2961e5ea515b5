// The operations between prepared rows and a finished adapter: open the trainer, go back to the last checkpoint, do one optimizer step, one
// check or one checkpoint. The loop in run.ts decides their order.
import { join } from "node:path";
import { Failure } from "../base/errors.ts";
import type { Recipe } from "../contract/recipe.ts";
import type { AdapterShape, OpenedModel, Trainer, TrainerHello, WeightedRows } from "../engine/train/trainer.ts";
import { type Checkpoints, type LoopState, openCheckpoints, type RunBuild, type RunIdentity } from "./checkpoints.ts";
import type { Run } from "./context.ts";
import { checkDev, type DevAnswer, scoreOf } from "./dev-check.ts";
import { askTeacher, joinSoftTargets, type SoftTargets, withSoftTargets } from "./distil.ts";
import { hexOfDouble } from "./events.ts";
import { focused, likelihoodOf } from "./focus.ts";
import { shapeOf } from "./folder/adapter-shape.ts";
import { identityOf } from "./folder/request.ts";
import { isReplayed } from "./replay.ts";
import { countedAs, lengthOf, type Prepared, type TrainingRow, toTrainer, trainedTokens } from "./rows.ts";
import { batchOf, learningRateAt, microBatches, ruleLearningRate, totalSteps } from "./schedule.ts";
import { loadWarmStart } from "./warm-start/start.ts";

/** Maximum number of tokens, prompts and answers, in one call of a check. Between two calls, the run handles stop and pause. */
export const checkTokens = 8192;

/** Name of the adapter inside the trainer. */
export const adapterName = "main";

export interface Training extends OpenedBase {
  prepared: Prepared;
  checkpoints: Checkpoints;
  shape: AdapterShape;
  /** Indices of the rows of each rung that has rows. */
  rungs: number[][];
  /** Mean number of trained tokens of a row of the documents. */
  rowTokens: number;
  /** Whether the trainer also holds the adapter at a reduced scale. */
  scaled: boolean;
  /** Name in the trainer of the adapter's moving average, which is saved with the adapter; null if there is none. */
  average: string | null;
  peakRate: number;
  state: LoopState;
}

const stateAt = (step: number): LoopState => ({
  step,
  best: null,
  checksWithoutGain: 0,
  rung: { index: 0, from: step, before: 0 },
  checks: [],
  losses: [],
  trainedTokens: 0,
  processedTokens: 0,
  trainSeconds: 0,
  ended: null,
  repair: null,
});

/** The trainer, which has opened the base. */
export interface OpenedBase {
  trainer: Trainer;
  hello: TrainerHello;
  model: OpenedModel;
}

export async function openBase(run: Run, trainer: Trainer): Promise<OpenedBase> {
  const hello = await trainer.hello();
  const model = await trainer.open(opening(run));
  await saySmallPasses(run);
  return { trainer, hello, model };
}

/** Where a stretch of training begins, and where its checkpoints are kept. */
export interface Start {
  /** Folder of its checkpoints, and the identity that they must match. */
  folder: string;
  identity: RunIdentity;
  shape: AdapterShape;
  /**
   * Loads the weights to start from, if these are not a new adapter's. Returns the hash of the warm start that they come from; null if they
   * come from none.
   */
  load(): Promise<string | null>;
  /** Step from which the count continues. */
  step: number;
}

/**
 * Restores adapter, moments and loop state from the newest checkpoint that verifies. If there is none, starts where the stretch
 * begins.
 */
export async function openTraining(
  run: Run,
  base: OpenedBase,
  prepared: Prepared,
  start: Start = wholeRun(run, base, prepared),
): Promise<Training> {
  const { trainer, hello, model } = base;
  const { recipe, budget, versions } = run.request;
  await trainer.createAdapter(adapterName, start.shape);
  const build: RunBuild = {
    plumbline: versions.plumbline,
    trainer: `${hello.version} ${hello.build}`,
    device: `${hello.devices.find(({ kind }) => kind === model.device)!.name}, ${model.precision}`,
    threads: budget.threads,
    memory_bytes: model.device === "cuda" ? (budget.gpu_memory_bytes ?? 0) : budget.memory_bytes,
  };
  const checkpoints = openCheckpoints(start.folder, start.identity, build);
  const state = await goBack(run, trainer, checkpoints, build, start);
  return {
    ...base,
    prepared,
    shape: start.shape,
    checkpoints,
    rungs: rungsOf(prepared.rows),
    rowTokens: rowTokensOf(prepared.rows.filter((row) => !isReplayed(row))),
    scaled: false,
    average: null,
    peakRate: peakOf(recipe, model),
    state,
  };
}

function wholeRun(run: Run, { trainer, model }: OpenedBase, prepared: Prepared): Start {
  const shape = shapeOf(run.request.recipe, model.layers);
  return {
    folder: join(run.folder, "checkpoints"),
    identity: { request_sha256: identityOf(run.request), rows_sha256: prepared.sha256 },
    shape,
    load: () => loadWarmStart(run, trainer, { adapter: adapterName, shape, prepared }),
    step: 0,
  };
}

function peakOf({ optimizer }: Recipe, { architecture, embedding }: OpenedModel): number {
  const { learning_rate: given, lr_multiplier: factor = 1 } = optimizer;
  return factor * (given ?? ruleLearningRate(architecture, embedding));
}

/** Returns the options with which a run's trainer opens the base, within the run's budget. */
export const opening = ({ request: { base, budget } }: Run) => ({
  path: base.path,
  threads: budget.threads,
  memoryBytes: budget.memory_bytes,
  gpuMemoryBytes: budget.gpu_memory_bytes ?? 0,
});

async function saySmallPasses({ request: { budget }, resumed, events }: Run): Promise<void> {
  const { pass_tokens: size = 0, full_pass_tokens: full = 0 } = budget;
  if (resumed || size >= full) return;
  const message = `Memory was short when the run began, so its passes have ${size} tokens instead of ${full}. The result is the same, but it takes longer.`;
  await events.append({
    kind: "warning",
    phase: "training",
    code: "small_passes",
    message,
    parameters: { size, full },
  });
}

/** Returns the mean number of trained tokens of a row. */
export const rowTokensOf = (rows: readonly TrainingRow[]): number =>
  rows.reduce((sum, row) => sum + trainedTokens(row), 0) / Math.max(1, rows.length);

/**
 * Returns the indices of the rows by rung. Rungs after the last one with a row of the documents are left out, and so are rungs without
 * rows, which a short document leaves between others.
 */
export function rungsOf(rows: readonly Pick<TrainingRow, "kind" | "rung">[]): number[][] {
  const last = rows.reduce((most, row) => (isReplayed(row) ? most : Math.max(most, row.rung)), 0);
  const rungs = Array.from({ length: last + 1 }, (_, rung) => [...rows.keys()].filter((at) => rows[at]!.rung === rung));
  return rungs.filter((own) => own.length > 0);
}

/**
 * Loads the newest checkpoint that verifies, otherwise the weights to start from. If the run was resumed, writes to the event log from which
 * step.
 */
async function goBack(
  run: Run,
  trainer: Trainer,
  checkpoints: Checkpoints,
  build: RunBuild,
  { load, step }: Start,
): Promise<LoopState> {
  const { found, damaged } = await checkpoints.newest();
  if (damaged.length > 0)
    await run.events.append({
      kind: "warning",
      phase: "training",
      code: "checkpoint_damaged",
      message: `Removed checkpoints that are damaged or belong to another request: ${damaged.join(", ")}`,
      parameters: { names: damaged.join(", ") },
    });
  const state = found?.state ?? stateAt(step);
  if (found !== null) await trainer.load(adapterName, found.trainerFolder);
  else {
    const warmStart = await load();
    if (warmStart !== null) state.warmStart = warmStart;
  }
  if (found === null && !run.resumed) return state;
  if (found !== null && JSON.stringify(found.build) !== JSON.stringify(build))
    await run.events.append({
      kind: "warning",
      phase: "training",
      code: "resume_not_bitwise",
      message:
        "The checkpoint was made with another build, device, thread count or memory budget, so later losses may differ in the last bits",
    });
  await run.events.append({ kind: "resumed", phase: "training", from_step: found?.step ?? step });
  return state;
}

/** Returns the last step of the current rung. */
export const rungEnd = (run: Run, training: Training): number => endOf(run, training, 1);

/** Returns the last step of the last rung, if every rung is trained to its end. */
const lastEnd = (run: Run, training: Training): number => endOf(run, training, training.rungs.length);

/** Returns the last step of `count` rungs, beginning with the current one. */
function endOf(run: Run, { rungs, state }: Training, count: number): number {
  const { training } = run.request.recipe;
  const end = rungs
    .slice(state.rung.index, state.rung.index + count)
    .reduce((step, rows) => step + totalSteps(rows.length, { ...training, max_steps: null }), state.rung.from);
  return training.max_steps === null ? end : Math.min(end, training.max_steps);
}

/** Trains one batch and advances the state. The result depends only on the weights, the state, the rows and the recipe. */
export async function trainStep(run: Run, training: Training): Promise<void> {
  const { prepared, state, rungs } = training;
  const { optimizer, training: plan } = run.request.recipe;
  const rows = state.focused ?? rungs[state.rung.index]!;
  const end = lastEnd(run, training);
  const batch = batchOf(state.step + 1 - state.rung.from, rows.length, plan).map((at) => rows[at]!);
  // There is one learning-rate curve over all rungs. A decay to zero in each rung would teach little in the first, and begin the next with
  // too high a rate.
  const rate = learningRateAt(state.step + 1, end, training.peakRate, optimizer);
  const trained = batch.map((index) => prepared.rows[index]!);
  const said = await step(run, training, trained, { rate, end, began: run.parts.clock.monotonicMs() });
  // They choose the rows of the next rung.
  if (state.rung.index + 1 === rungs.length) return;
  state.likelihoods ??= [];
  for (const index of batch) {
    const row = prepared.rows[index]!;
    if (!isReplayed(row)) state.likelihoods.push([index, likelihoodOf(row, said.get(row)!)]);
  }
}

/**
 * Does one optimizer step over rows. Rows of the documents are trained on their own tokens. If there are soft targets (`topK`, by default
 * the recipe's), replayed rows are trained on the base's distribution at each position, weighted by `replay_weight`. All other trained
 * tokens have the same weight. With `sequence_mean`, it is instead the rows of the documents that have the same weight, because a mean
 * over tokens gives little weight to short answers, which natural questions ask for (test/e2e/RESULTS.md). Returns the
 * log-probabilities of each row's tokens before the step, in nats.
 */
export async function step(
  run: Run,
  training: Training,
  rows: readonly TrainingRow[],
  { rate, end, began, topK }: { rate: number; end: number; began: number; topK?: number },
): Promise<Map<TrainingRow, Float32Array>> {
  const { trainer, hello, state } = training;
  const { loss: reduction, dataset } = run.request.recipe;
  const { replay_top_k: replayTopK = 0, replay_weight: replayWeight = 1 } = dataset;
  const soft = topK ?? replayTopK;
  const number = state.step + 1;
  const tokens = rows.reduce((sum, row) => sum + trainedTokens(row), 0);
  const processed = lengthOf(rows);
  const scale = reduction.token_reduction === "sum" ? 1 : 1 / tokens;
  const counted = (row: TrainingRow): TrainingRow =>
    reduction.token_reduction === "sequence_mean" && !isReplayed(row) ? countedAs(row, training.rowTokens) : row;
  const isDistilled = (row: TrainingRow): boolean => soft > 0 && isReplayed(row);
  // Rows with and without soft targets share a call, because separate calls would each read all the base's weights.
  const calls: { call: WeightedRows; rows: TrainingRow[] }[] = [];
  for (const at of microBatches([...rows.keys()], (index) => rows[index]!.tokens.length, hello.limits.maxBatchTokens)) {
    const some = at.map((index) => rows[index]!);
    const distilled = some.filter(isDistilled);
    const ordered = [...some.filter((row) => !isDistilled(row)), ...distilled];
    const call = toTrainer(ordered.map(counted), scale);
    const first = call.tokens.length - lengthOf(distilled);
    calls.push({
      rows: ordered,
      call:
        distilled.length === 0
          ? call
          : withSoftTargets(call, await softTargetsOf(trainer, distilled, soft), { first, factor: replayWeight }),
    });
  }
  // All calls are sent without waiting for answers, so that the worker goes straight on to the optimizer step after the passes.
  const passes = calls.map(({ call }) => trainer.forwardBackward(adapterName, call));
  const stepped = optimStep(run, training, rate);
  const [{ gradNorm }, passed] = await Promise.all([stepped, Promise.all(passes)]);
  const loss = passed.reduce((sum, answer) => sum + answer.loss, 0);
  if (!Number.isFinite(loss)) throw new Failure("run_failed", `The loss of step ${number} is not a finite number`);

  const seconds = (run.parts.clock.monotonicMs() - began) / 1000;
  state.step = number;
  state.losses.push(loss);
  state.trainedTokens += tokens;
  state.processedTokens += processed;
  state.trainSeconds += seconds;
  const metrics = {
    loss,
    loss_hex: hexOfDouble(loss),
    learning_rate: rate,
    grad_norm: gradNorm,
    tokens: processed,
    tokens_per_second: processed / seconds,
  };
  // `step` also counts the earlier phases of an auto-align, but `losses` and `trainSeconds` are of this phase alone.
  const stepRate = state.losses.length / state.trainSeconds;
  const { phase } = run;
  await run.events.append(
    { kind: "step", phase, step: number, metrics },
    {
      kind: "progress",
      phase,
      done: number,
      total: end,
      unit: "steps",
      rate: stepRate,
      seconds_left: (end - number) / stepRate,
    },
  );
  return new Map(passed.flatMap(({ logprobs }, index) => parted(logprobs, calls[index]!.rows)));
}

/** Returns what belongs to each row of values that stand for all tokens of the rows in sequence. */
function parted(values: Float32Array, rows: readonly TrainingRow[]): [TrainingRow, Float32Array][] {
  let end = 0;
  return rows.map((row) => {
    end += row.tokens.length;
    return [row, values.subarray(end - row.tokens.length, end)];
  });
}

/** Does one step of the recipe's optimizer with the gradients that the passes have accumulated. */
export function optimStep(run: Run, { trainer }: Training, learningRate: number): ReturnType<Trainer["optimStep"]> {
  const { optimizer } = run.request.recipe;
  return trainer.optimStep(adapterName, {
    learningRate,
    beta1: optimizer.beta1,
    beta2: optimizer.beta2,
    eps: optimizer.eps,
    weightDecay: optimizer.weight_decay,
    gradClipNorm: optimizer.grad_clip_norm,
  });
}

/**
 * Returns the base's likeliest tokens at the trained positions of the rows. Asks the base now, unless all rows already have soft targets.
 */
function softTargetsOf(
  trainer: Trainer,
  rows: readonly TrainingRow[],
  topK: number,
): SoftTargets | Promise<SoftTargets> {
  const known = rows.flatMap((row) => row.softTargets ?? []);
  if (known.length === rows.length) return joinSoftTargets(topK, known);
  return askTeacher(trainer, toTrainer(rows, 1), topK);
}

/**
 * Goes on to the next rung, or ends training after the last one, at `max_steps` or at a dev score of 100. A rung without a gain does not end
 * it: with forty questions, one more or one fewer right answer is chance, and most of the gain comes at the end, when the learning rate falls.
 */
export async function climb(run: Run, training: Training, why: "steps" | "patience"): Promise<void> {
  const { state, rungs } = training;
  const { max_steps } = run.request.recipe.training;
  const { index, before } = state.rung;
  const isLast = index + 1 === rungs.length || (max_steps !== null && state.step >= max_steps);
  const best = state.best?.score ?? null;
  let exchanged = 0;
  if (isLast) state.ended = why;
  else if (best === 100) state.ended = "solved";
  else {
    state.rung = { index: index + 1, from: state.step, before: best ?? before };
    state.checksWithoutGain = 0;
    const chosen = focused(training.prepared.rows, rungs[index + 1]!, state.likelihoods ?? []);
    exchanged = chosen.exchanged;
    state.focused = chosen.rows;
    state.likelihoods = [];
  }
  if (rungs.length === 1) return;
  const scores = best === null ? "" : `: the dev score went from ${before.toFixed(1)} to ${best.toFixed(1)}`;
  const spent =
    exchanged === 0 ? "" : `; ${exchanged} of its rows are about facts that are not known yet, in place of known ones`;
  const next =
    state.ended === null ? `new wordings follow, stage ${index + 2} of ${rungs.length}${spent}` : "training ends";
  await run.events.append({
    kind: "decision",
    phase: "training",
    step: state.step,
    message: `Stage ${index + 1} is done${scores}; ${next}`,
  });
}

/** Records the check before the first step, from answers that the base has already given. It never counts as the best check. */
export async function checkBase(run: Run, { state }: Training, answers: readonly DevAnswer[]): Promise<void> {
  const score = scoreOf(answers, run.parts, 0);
  const { step, ...metrics } = score;
  await run.events.append({ kind: "check", phase: "training", step, metrics });
  state.checks.push(score);
  state.rung.before = score.score;
}

/**
 * Checks the current adapter on the dev questions. `isBest` says whether it scored at least as well as in every earlier check, not counting
 * the base's. `isStale` says whether, with early stopping, as many checks as the recipe's patience have brought no gain.
 */
export async function checkStep(run: Run, training: Training): Promise<{ isBest: boolean; isStale: boolean }> {
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
  // The score need not exceed the base's. If the alignment ends below the base, the evaluation shows it.
  const gained = state.best === null || score.score > state.best.score;
  state.checksWithoutGain = gained ? 0 : state.checksWithoutGain + 1;
  // Of two equal scores, the later one is preferred, because its adapter has trained longer and at a lower rate.
  const isBest = state.best === null || score.score >= state.best.score;
  if (isBest) state.best = score;
  const { enabled, patience } = run.request.recipe.training.early_stopping;
  return { isBest, isStale: enabled && state.checksWithoutGain >= patience };
}

/** Writes a checkpoint of the adapter, its moments and the loop's state, and removes checkpoints that are no longer needed. */
export async function saveStep(run: Run, training: Training): Promise<void> {
  const { checkpoints, trainer, state, average } = training;
  await checkpoints.write(state, {
    trained: (folder) => trainer.save(adapterName, folder),
    ...(average !== null && { average: (folder: string) => trainer.save(average, folder) }),
  });
  await run.events.append({ kind: "checkpoint", phase: run.phase, step: state.step });
  // The checkpoint that a repair started from is kept, because a resumed run examines it again.
  const kept = state.repair?.start ?? state.best?.step ?? null;
  await checkpoints.prune(run.request.recipe.checkpointing.keep_last_n, kept);
}
