// A reinforce phase. Answers are drawn from the adapter itself, one group per prompt, and each answer gets a reward. A
// step then makes those answers likelier that earned more than their group. What a step does depends only on its
// number, the weights and the loop's state.
import { invalid } from "../../base/errors.ts";
import type { AutoAlignRequest } from "../../contract/auto-align.ts";
import type { Rows, WeightedRows } from "../../engine/train/trainer.ts";
import { type AdvantagePlan, advantagesOf, resolveAdvantage } from "../advantages.ts";
import type { Run } from "../context.ts";
import type { Environment, Episode } from "../environment/episodes.ts";
import { type EnvironmentPlan, resolveEnvironment } from "../environment/plan.ts";
import { openToolbox } from "../environment/tools.ts";
import {
  type Evaluated,
  evaluate,
  type LossBlock,
  metricsOf,
  type Objective,
  passLoss,
  resolveLoss,
  scaleOf,
  type Trajectory,
} from "../objectives.ts";
import type { PlanLimits } from "../plan/state.ts";
import { nothingYet } from "../rewards/normalise.ts";
import { type Paid, rewardsOf } from "../rewards/pay.ts";
import { type Means, type RewardBlock, type RewardPlan, resolveReward, usualReward } from "../rewards/plan.ts";
import { packed } from "../rows.ts";
import { learningRateAt, microBatches } from "../schedule.ts";
import { adapterName, optimStep, saveStep, type Training } from "../training.ts";
import { withDeclining } from "./declining.ts";
import { drawn, groupsOf, type Prompt, promptAt, promptsOf, withPassages } from "./prompts.ts";
import { followPolicy, followTarget, type Reference, type ReferencePlan, resolveReference } from "./reference.ts";
import { resolveSampling, type SamplingPlan } from "./sampling.ts";

/** Settings of a reinforce phase, with every default filled in. */
export interface ReinforcePlan {
  objective: Objective;
  reward: RewardPlan;
  advantage: AdvantagePlan;
  reference: ReferencePlan;
  sampling: SamplingPlan;
  environment: EnvironmentPlan;
  /** Number of optimizer steps over which the answers of one draw are split. */
  innerSteps: number;
  /** Warnings about settings that look like a mistake. */
  warnings: string[];
  /** Settings that change nothing. */
  ignored: PlanLimits["ignored"];
}

/**
 * Share of the learning rate of supervised phases. Published runs use a tenth for reinforcement (losses-and-config,
 * §13).
 */
const rateShare = 0.1;

type Config = NonNullable<AutoAlignRequest["config"]>;

/**
 * Reads the blocks of a configuration that reinforce phases use. `context`: maximum number of tokens of a row in the
 * recipe. Throws a validation failure that names the field.
 */
export function resolveReinforce(config: Config | null, means: Means, context: number): ReinforcePlan {
  const reward = (config?.reward ?? usualReward) as RewardBlock;
  const advantage = resolveAdvantage(defined((config?.advantage ?? {}) as Record<string, unknown>));
  const inner = (config?.training as { inner_optim_steps?: number } | null | undefined)?.inner_optim_steps ?? 1;
  const objective = resolveLoss(defined((config?.loss ?? {}) as Record<string, unknown>) as LossBlock);
  const paid = resolveReward(reward, means);
  if (advantage.estimator === "max_rl" && paid.normalize !== "none")
    throw invalid(
      ["config", "reward", "normalize"],
      "must be none with the estimator max_rl, which divides by a group's mean reward",
    );
  const reference = resolveReference(
    defined((config?.reference_policy ?? {}) as Record<string, unknown>),
    objective.klCoef,
  );
  const environment = resolveEnvironment(defined((config?.environment ?? {}) as Record<string, unknown>));
  const sampling = resolveSampling(defined((config?.sampling ?? {}) as Record<string, unknown>), { context, inner });
  return {
    objective,
    reward: paid,
    advantage,
    reference,
    sampling,
    environment,
    innerSteps: inner,
    warnings: [...objective.warnings, ...paid.warnings, ...sampling.warnings, ...environment.warnings],
    ignored: [...objective.ignored, ...advantage.ignored, ...reference.ignored, ...environment.ignored],
  };
}

/** Drops null fields, because null means the same as absent. */
const defined = (block: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(block).filter(([, value]) => value != null));

/** After this many draws in a row that leave no answer to learn from, the phase ends. */
const mostWithoutSignal = 5;

export interface ReinforceOrder {
  run: Run;
  training: Training;
  plan: ReinforcePlan;
  means: Means;
  reference: Reference | null;
  steps: number;
  stepsBefore: number;
  rateFactor: number;
  seed: number;
  isOver: () => boolean;
}

/**
 * Trains until `steps` optimizer steps are done, `isOver` returns true, or draws no longer give a learning signal.
 * Throws a validation failure when no prompt is short enough.
 */
export async function reinforce(order: ReinforceOrder): Promise<void> {
  const { run, training, plan, steps, stepsBefore, isOver } = order;
  const { state } = training;
  const { save_every_steps: saveEvery } = run.request.recipe.checkpointing;
  const environment = await environmentOf(run, plan.environment);
  const rubrics = order.means.itemRubrics;
  const found = promptsOf(run, training.prepared.rows, plan.sampling, { tools: environment.tools, rubrics });
  const prompts = await withPassages(run, plan.reward, found);
  if (prompts.length === 0)
    throw invalid(
      ["config", "sampling", "max_prompt_tokens"],
      `no prompt fits in ${plan.sampling.maxPromptTokens} tokens, tools included`,
    );
  state.reinforce ??= { draws: 0, withoutSignal: 0, klCoef: plan.objective.klCoef, running: nothingYet };
  while (state.step < stepsBefore + steps && !isOver() && state.reinforce.withoutSignal < mostWithoutSignal) {
    await run.turn();
    const before = state.step;
    await draw(order, prompts, environment);
    if (Math.floor(state.step / saveEvery) > Math.floor(before / saveEvery)) await saveStep(run, training);
  }
}

const environmentOf = async (run: Run, { maxTurns, tools }: EnvironmentPlan): Promise<Environment> => ({
  maxTurns,
  tools,
  toolbox: tools.length === 0 ? null : await openToolbox(run, tools),
});

/** An answer with its advantage per token. */
interface Answer {
  prompt: Prompt;
  said: Episode;
  advantage: Float64Array;
}

/** Draws one set of groups, and makes the optimizer steps on their answers. */
async function draw(order: ReinforceOrder, prompts: readonly Prompt[], environment: Environment): Promise<void> {
  const { run, training, plan, means, stepsBefore, steps } = order;
  const { trainer, state } = training;
  const loop = state.reinforce!;
  const began = run.parts.clock.monotonicMs();
  const { groups, groupSize } = plan.sampling;
  const chosen = Array.from({ length: groups }, (_, at) => promptAt(prompts, order.seed, loop.draws * groups + at));
  const asked = groupsOf(chosen, groupSize);
  const { sampling } = plan;
  const { signal } = run.parts.control;
  const { said, shown } = await withDeclining(
    run,
    trainer,
    { plan, means, signal },
    { asked, said: await drawn(run, training, asked, { sampling, environment }, order.seed + loop.draws) },
  );
  const paid = await rewardsOf(
    plan.reward,
    asked.map(({ item }, at) => ({
      group: Math.floor(at / groupSize),
      item,
      answer: said[at]!.answer,
    })),
    { means, signal, running: loop.running },
  );
  const answers = answersOf(plan, asked, said, paid);
  loop.draws++;
  loop.running = paid.running;
  loop.withoutSignal = answers.length === 0 ? loop.withoutSignal + 1 : 0;
  if (answers.length === 0) {
    state.trainSeconds += (run.parts.clock.monotonicMs() - began) / 1000;
    await tellDraw(order, paid);
    return;
  }
  const equal = 1 - answers.length / asked.length;
  let since = began;
  for (const [index, part] of split(answers, plan.innerSteps).entries()) {
    if (state.step >= stepsBefore + steps || (index > 0 && order.isOver())) break;
    const stepped = await step(order, part, index > 0);
    const now = run.parts.clock.monotonicMs();
    state.trainSeconds += (now - since) / 1000;
    since = now;
    const turns = said.reduce((sum, episode) => sum + episode.turns, 0) / said.length;
    await tellStep(order, { paid, equal, turns, shown, ...stepped });
  }
}

/**
 * Returns the answers to learn from, with their advantages. Leaves out answers with an unknown reward or without tokens
 * and, if `skipsEqualGroups`, groups in which every advantage is 0.
 */
function answersOf(plan: ReinforcePlan, asked: readonly Prompt[], said: readonly Episode[], paid: Paid): Answer[] {
  const { groupSize } = plan.sampling;
  const rewarded = said.map((episode, at) => ({ reward: paid.rewards[at]!, length: placesOf(episode).length }));
  const groups = Array.from({ length: rewarded.length / groupSize }, (_, group) =>
    rewarded.slice(group * groupSize, (group + 1) * groupSize),
  );
  return advantagesOf(plan.advantage, groups).flatMap((group, at) => {
    const isEqual = group.every((advantage) => advantage === null || advantage.every((value) => value === 0));
    if (isEqual && plan.advantage.skipsEqualGroups) return [];
    return group.flatMap((advantage, index) => {
      const place = at * groupSize + index;
      return advantage === null || advantage.length === 0
        ? []
        : [{ prompt: asked[place]!, said: said[place]!, advantage }];
    });
  });
}

function split<T>(all: readonly T[], parts: number): T[][] {
  const size = Math.ceil(all.length / parts);
  return Array.from({ length: Math.ceil(all.length / size) }, (_, at) => all.slice(at * size, (at + 1) * size));
}

/** Prompts followed by their answers, in the form that the trainer takes. */
const rowsOf = (answers: readonly Answer[]): Rows =>
  packed(answers.map(({ prompt, said }) => [...prompt.tokens, ...said.tokens]));

interface Stepped {
  evaluated: Evaluated[];
  loss: number;
  gradNorm: number;
  tokens: number;
  /**
   * Divergence of the training pass from the sampler in nats per token, null if no token had a gradient. It comes from
   * rounding and, in later steps of a draw, also from what was learned.
   */
  samplerKl: number | null;
}

/**
 * Returns the sum, over the policy's own tokens, of the k3 estimate of KL(sampler‖pass), and how many tokens it covers.
 * The estimate is never below 0, and its variance is small where the two are close. A token whose coefficients are all
 * 0 is left out, because the trainer computes no log-prob for it.
 */
function apartFrom(
  call: readonly Answer[],
  { weights, entropyWeights, zWeights }: Coefficients,
  logprobs: Float32Array,
): { sum: number; compared: number } {
  let [sum, compared, at] = [0, 0, 0];
  for (const { prompt, said } of call) {
    at += prompt.tokens.length;
    for (const place of placesOf(said)) {
      const t = at + place;
      if (weights[t] === 0 && entropyWeights[t] === 0 && zWeights[t] === 0) continue;
      const difference = logprobs[t]! - said.logprobs[place]!;
      sum += Math.exp(difference) - 1 - difference;
      compared++;
    }
    at += said.tokens.length;
  }
  return { sum, compared };
}

/**
 * Makes one optimizer step on these answers. `hasMoved`: whether the weights have changed since the answers were drawn.
 */
async function step(order: ReinforceOrder, answers: readonly Answer[], hasMoved: boolean): Promise<Stepped> {
  const { run, training, plan, reference, stepsBefore, steps, rateFactor } = order;
  const { trainer, hello, state, peakRate } = training;
  const objective = { ...plan.objective, klCoef: state.reinforce!.klCoef };
  const lengthOf = ({ prompt, said }: Answer): number => prompt.tokens.length + said.tokens.length;
  const calls = microBatches([...answers.keys()], (at) => lengthOf(answers[at]!), hello.limits.maxBatchTokens).map(
    (call) => call.map((at) => answers[at]!),
  );
  const scale = scaleOf(objective, answers.map(masked));
  const evaluated: Evaluated[] = [];
  const passes: Promise<ReturnType<typeof apartFrom> & { loss: number }>[] = [];
  let tokens = 0;
  for (const call of calls) {
    const rows = rowsOf(call);
    const from = Int32Array.from(call, ({ prompt }) => prompt.tokens.length);
    const now = hasMoved ? await trainer.score(adapterName, rows, from) : null;
    const theirs = reference && (await trainer.score(reference.adapter, rows, from));
    const own = call.map((_, at) => evaluate(objective, trajectoryOf(call, at, { now, theirs }), scale));
    evaluated.push(...own);
    const coefficients = coefficientsOf(own);
    const pass = trainer.forwardBackward(adapterName, { ...rows, ...coefficients }).then((said) => ({
      ...apartFrom(call, coefficients, said.logprobs),
      loss: passLoss(coefficients, said),
    }));
    // It is awaited below. Until then, its failure must not end the process as an unhandled rejection.
    pass.catch(() => {});
    passes.push(pass);
    tokens += rows.tokens.length;
  }
  const done = state.step - stepsBefore;
  const rate = learningRateAt(done + 1, steps, rateShare * peakRate * rateFactor, run.request.recipe.optimizer);
  const [{ gradNorm }, passed] = await Promise.all([optimStep(run, training, rate), Promise.all(passes)]);
  if (reference !== null) await followPolicy(trainer, reference);
  state.step++;
  state.processedTokens += tokens;
  const trained = evaluated.reduce((sum, one) => sum + one.tokens, 0);
  state.trainedTokens += trained;
  const loss = [...evaluated, ...passed].reduce((sum, one) => sum + one.loss, 0);
  state.losses.push(loss);
  const compared = passed.reduce((total, one) => total + one.compared, 0);
  const samplerKl = compared === 0 ? null : passed.reduce((total, { sum }) => total + sum, 0) / compared;
  return { evaluated, loss, gradNorm, tokens, samplerKl };
}

/** Positions of the policy's own tokens, counted from the end of the prompt. */
const placesOf = ({ isOwn }: Episode): number[] => isOwn.flatMap((own, place) => (own ? [place] : []));

/**
 * Mask and advantages of an answer, per token of its row. The mask covers only the policy's own tokens, because what a
 * tool returned is not to be learned.
 */
export function masked({ prompt, said, advantage }: Answer): Pick<Trajectory, "mask" | "advantages"> {
  const length = prompt.tokens.length + said.tokens.length;
  const [mask, advantages] = [new Float64Array(length), new Float64Array(length)];
  for (const [index, place] of placesOf(said).entries()) {
    mask[prompt.tokens.length + place] = 1;
    advantages[prompt.tokens.length + place] = advantage[index]!;
  }
  return { mask, advantages };
}

/**
 * The trajectory of answer `at` of a call. `now`: log-probs under the current weights; null if those from the draw are
 * still current. `theirs`: log-probs under the reference.
 */
function trajectoryOf(
  call: readonly Answer[],
  at: number,
  { now, theirs }: { now: Float32Array | null; theirs: Float32Array | null },
): Trajectory {
  const answer = call[at]!;
  const start = call.slice(0, at).reduce((sum, one) => sum + one.prompt.tokens.length + one.said.tokens.length, 0);
  const length = answer.prompt.tokens.length + answer.said.tokens.length;
  const sampled = new Float64Array(length);
  sampled.set(answer.said.logprobs, answer.prompt.tokens.length);
  return {
    ...masked(answer),
    sampled,
    logprobs: now === null ? sampled : now.subarray(start, start + length),
    ...(theirs && { reference: theirs.subarray(start, start + length) }),
  };
}

/** Coefficients of the rows of a call, in the precision in which the trainer gets them. */
type Coefficients = Required<Pick<WeightedRows, "weights" | "entropyWeights" | "zWeights">>;

function coefficientsOf(evaluated: readonly Evaluated[]): Coefficients {
  const joined = (of: (one: Evaluated) => Float64Array): Float32Array =>
    Float32Array.from(evaluated.flatMap((one) => [...of(one)]));
  return {
    weights: joined((one) => one.weights),
    entropyWeights: joined((one) => one.entropyWeights),
    zWeights: joined((one) => one.zWeights),
  };
}

interface ToldStep extends Stepped {
  paid: Paid;
  /** Share of the drawn answers that gave no learning signal. */
  equal: number;
  /** Mean turns per episode. */
  turns: number;
  /** Groups that were shown declining. */
  shown: number;
}

async function tellStep(order: ReinforceOrder, told: ToldStep): Promise<void> {
  const { run, training, plan, stepsBefore, steps, reference } = order;
  const { state } = training;
  const measured = metricsOf(told.evaluated, reference !== null);
  followTarget(plan.reference, state, measured.kl_reference, told.evaluated.length);
  const metrics = {
    loss: told.loss,
    reward: told.paid.mean,
    unknown_rewards: told.paid.unknown,
    zero_advantage: told.equal,
    ...(plan.environment.maxTurns > 1 && { turns: told.turns }),
    ...(told.shown > 0 && { shown_declining: told.shown }),
    kl_coef: state.reinforce!.klCoef,
    grad_norm: told.gradNorm,
    ...measured,
    sampler_kl: told.samplerKl,
    tokens: told.tokens,
  };
  const rate = state.trainSeconds === 0 ? null : (state.step - stepsBefore) / state.trainSeconds;
  await run.events.append(
    { kind: "step", phase: run.phase, step: state.step, metrics },
    {
      kind: "progress",
      phase: run.phase,
      done: state.step,
      total: stepsBefore + steps,
      unit: "steps",
      rate,
      seconds_left: rate === null ? null : (stepsBefore + steps - state.step) / rate,
    },
  );
}

/** Logs a draw that gave no learning signal. */
const tellDraw = ({ run, training }: ReinforceOrder, paid: Paid): Promise<void> =>
  run.events.append({
    kind: "step",
    phase: run.phase,
    step: training.state.step,
    metrics: { reward: paid.mean, unknown_rewards: paid.unknown, zero_advantage: 1, loss: null },
  });
