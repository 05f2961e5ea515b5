// Chooses the adapter that becomes the artefact. The last checkpoint, or one that did better beyond a standard error, is measured on the
// guards. If a guard fails, the checkpoint is repaired. If the better of the two still fails a guard, it is also tried at the recipe's smaller
// scales. An adapter within every guard limit is preferred, unless it loses significantly on the dev questions. Otherwise the dev score less
// the guards' penalty decides. The sealed questions are not used.
import { join } from "node:path";
import { Failure } from "../base/errors.ts";
import { spread } from "../base/spread.ts";
import { compareScores, significance } from "../base/statistics/paired.ts";
import type { Recipe } from "../contract/recipe.ts";
import type { Divergence, GuardResults, SuiteResult } from "../contract/run-folder.ts";
import type { Trainer } from "../engine/train/trainer.ts";
import type { LoopState } from "./checkpoints.ts";
import type { Run } from "./context.ts";
import { answerDev, type DevAnswer, type Draw } from "./dev-check.ts";
import { identityOf } from "./folder/request.ts";
import type { Choice } from "./guards/material.ts";
import { type Asked, choose, divergence, follow, type ProseSaid, proseSaid } from "./guards/measure.ts";
import { repair } from "./repair.ts";
import type { DevPrompt } from "./rows.ts";
import { loadScaled, removeScaled } from "./scale.ts";
import { json, stage } from "./stage.ts";
import { adapterName, checkTokens, type Training } from "./training.ts";

/** The base's answers. They are kept, so the base is asked once per run. */
export interface BaseSaid {
  identity: string;
  /** Ids of the retention items that the base got right in both wordings. Only these can be lost. */
  retained: string[];
  general: boolean[];
  format: boolean[];
  refusals: boolean[];
  dev: DevAnswer[];
  /** Seconds that all the questions took; `devSeconds` is for the dev questions alone. */
  seconds: number;
  devSeconds: number;
}

/** An adapter that can be chosen. */
export interface Candidate {
  step: number;
  repaired: boolean;
  scale: number;
  /** Score over all dev questions; null without a benchmark. */
  dev: number | null;
  guards: GuardResults | null;
  /** Points for what was lost on the guards beyond their limits (`penaltyOf`). */
  penalty: number;
}

export interface Chosen extends Candidate {
  /** Name in the trainer of the adapter that will be exported. */
  adapter: string;
  candidates: Candidate[];
  base: DevAnswer[];
  answers: DevAnswer[];
}

/** What the examinations of all candidates share. */
interface Comparison {
  run: Run;
  training: Training;
  base: BaseSaid;
  /** Returns the divergence from the base of the named adapter, which the trainer holds. Measured once per step and scale. */
  divergenceAt(adapter: string, what: Pick<Candidate, "step" | "scale">): Promise<Divergence>;
}

export async function chooseAdapter(run: Run, training: Training, base: BaseSaid): Promise<Chosen> {
  const { state } = training;
  const { guards: limits, repair: plan, adapter } = run.request.recipe;
  await run.enter("checking");
  const comparison: Comparison = { run, training, base, divergenceAt: divergenceFrom(run, training) };
  // After a resumption, the repair's steps count as steps of the state, but the repair must be compared with the step from which it started.
  const step = state.repair?.start ?? stepToTake(state);
  await load(training, step);
  const trained = await examined(comparison, adapterName, { step, repaired: false, scale: 1 });
  const candidates = [trained.candidate];
  let best = trained;
  if (plan !== undefined && trained.candidate.penalty > 0) {
    state.repair ??= { start: step, from: state.step };
    if (state.step > state.repair.from) await load(training, state.step);
    await tell(run, `${describe(trained.candidate)}; repair starts, with ${plan.steps} steps towards the base`);
    await run.enter("repairing");
    await repair(run, training, plan, {
      isEnough: () => isSettled(comparison, plan, trained.candidate),
      isOver: () => false,
    });
    await run.enter("checking");
    const repaired = await examined(comparison, adapterName, { step: state.step, repaired: true, scale: 1 });
    candidates.push(repaired.candidate);
    if (isPreferred(repaired, trained)) best = repaired;
  }
  await load(training, best.candidate.step);
  let inTrainer = adapterName;
  // Smaller scales are tried only if a guard limit is exceeded, because all that they can do is win back what was lost on the guards.
  if (limits !== undefined && best.candidate.penalty > 0)
    for (const scale of (adapter.scales ?? [1]).filter((one) => one < 1)) {
      const name = await loadScaled(run, training, scale);
      const { step: from, repaired } = best.candidate;
      const scaled = await examined(comparison, name, { step: from, repaired, scale });
      candidates.push(scaled.candidate);
      if (isPreferred(scaled, best)) best = scaled;
      if (scaled.candidate.penalty === 0) break;
    }
  const { scale } = best.candidate;
  if (scale < 1) inTrainer = await loadScaled(run, training, scale);
  else await removeScaled(training);
  await tell(run, `Chosen: ${describe(best.candidate)}`);
  return { ...best.candidate, adapter: inTrainer, candidates, base: base.dev, answers: best.answers };
}

/**
 * Returns the step whose adapter is examined: that of the last check if its score lies within a standard error of the best one, otherwise that
 * of the best. The best of many checks is partly so by chance, and at the last one the learning rate has fallen, so its adapter has drifted
 * less (the one-standard-error rule: Breiman et al., «Classification and Regression Trees», 1984, section 3.4.3).
 */
export function stepToTake({ best, checks, step }: Pick<LoopState, "best" | "checks" | "step">): number {
  const last = checks.at(-1);
  if (best === null || last === undefined) return step;
  const share = best.score / 100;
  const error = 100 * Math.sqrt((share * (1 - share)) / best.n);
  return last.score >= best.score - error ? last.step : best.step;
}

/** Returns a function that returns what the base says of the guards' prose. The base is asked at the first call. */
export function proseOfBase(run: Run, trainer: Trainer): () => Promise<ProseSaid> {
  let said: Promise<ProseSaid> | null = null;
  return () => {
    const { prose } = run.parts.guards;
    const { prose_paragraphs: count = prose.length } = run.request.recipe.guards!;
    said ??= proseSaid(asking(run, trainer), spread(prose, count));
    return said;
  };
}

/** Returns `divergenceAt`. */
function divergenceFrom(run: Run, { trainer }: Training): Comparison["divergenceAt"] {
  const prose = proseOfBase(run, trainer);
  const known = new Map<string, Divergence>();
  return async (adapter, { step, scale }) => {
    const key = `${step} ${scale}`;
    const found = known.get(key) ?? (await divergence({ ...asking(run, trainer), adapter }, await prose()));
    known.set(key, found);
    return found;
  };
}

/**
 * A repair ends when the divergence is within this share of its limits. The share is below 1, because the divergence on other text differs
 * a little.
 */
const settledShare = 0.95;

/**
 * Whether the repair can end. It can if the divergence is back within its limits, unless a suite had also lost beyond its limit before the
 * repair. It can also end if, at the pace so far, the divergence would still exceed its limits after the last step.
 */
async function isSettled(
  { run, training, divergenceAt }: Comparison,
  plan: NonNullable<Recipe["repair"]>,
  { guards }: Candidate,
): Promise<boolean> {
  const limits = run.request.recipe.guards!;
  const { drift: before, suites } = guards!;
  const now = await divergenceAt(adapterName, { step: training.state.step, scale: 1 });
  const steps = training.state.step - training.state.repair!.from;
  /** The divergence after the last step, if every remaining step reduces it by the average of the steps so far. */
  const atLast = (of: "kl" | "perplexity_rise"): number =>
    now[of] - ((before[of] - now[of]) / steps) * (plan.steps - steps);
  const isWithin = (of: (name: "kl" | "perplexity_rise") => number): boolean =>
    of("kl") <= settledShare * limits.max_kl && of("perplexity_rise") <= settledShare * limits.max_perplexity_rise;
  const isBack = isWithin((name) => now[name]) && lostBeyond(suites, limits) === 0;
  const isHopeless = !isWithin(atLast);
  const verdict = isBack
    ? "enough"
    : isHopeless
      ? "more steps would not bring it back within its limits"
      : "more steps follow";
  await tell(run, `After ${steps} steps of repair: ${describeDivergence(now)}; ${verdict}`);
  return isBack || isHopeless;
}

/** Dev score less the guards' penalty, in points. */
const worth = ({ dev, penalty }: Candidate): number => (dev ?? 0) - penalty;

/** Whether `one` is right on significantly fewer of the same dev questions than `other`. Questions about one fact form a cluster. */
function isWorseBeyondChance(one: Examined, other: Examined): boolean {
  const [rights, others] = [one, other].map(({ answers }) => answers.map(({ correct }) => Number(correct)));
  if (rights!.length === 0) return false;
  const clusters = one.answers.map(({ item }) => item.cluster);
  const { gained, lost, p_value: p } = compareScores(rights!, others!, clusters);
  return gained < lost && p < significance;
}

/**
 * Whether `one` is to be chosen over `other`. A candidate within every guard limit is preferred to one that exceeds a limit, unless its dev
 * answers are significantly worse. If both or neither are within every limit, the dev score less the penalty decides.
 */
export function isPreferred(one: Examined, other: Examined): boolean {
  const [keeps, otherKeeps] = [one, other].map(({ candidate }) => candidate.penalty === 0);
  if (keeps === otherKeeps) return worth(one.candidate) > worth(other.candidate);
  return keeps ? !isWorseBeyondChance(one, other) : isWorseBeyondChance(other, one);
}

/**
 * Weight of divergence relative to points on the dev questions. Divergence on generic text counts for less than a lost ability, because no
 * user asks for such text. A weight of 1 would give up most of what was learned for the last percent of perplexity.
 */
const divergenceWeight = 0.25;
/** Points that one nat of KL divergence costs. */
export const pointsPerNat = 100 * divergenceWeight;

type Limits = NonNullable<Recipe["guards"]>;

const beyond = (value: number, limit: number): number => Math.max(0, value - limit);

/** Sum of the points that each gating suite lost beyond `max_loss`. */
const lostBeyond = (suites: readonly SuiteResult[], { max_loss }: Limits): number =>
  suites.reduce((sum, { base, aligned, gates }) => sum + (gates ? beyond(base - aligned, max_loss) : 0), 0);

/**
 * Returns the penalty in points: what each gating suite lost beyond `max_loss`, plus `divergenceWeight` for each 0.01 nats of KL beyond
 * `max_kl` and for each percent of perplexity beyond `max_perplexity_rise`.
 */
export function penaltyOf({ suites, drift }: GuardResults, limits: Limits): number {
  return (
    lostBeyond(suites, limits) +
    pointsPerNat * beyond(drift.kl, limits.max_kl) +
    divergenceWeight * beyond(drift.perplexity_rise, limits.max_perplexity_rise)
  );
}

function describe({ step, repaired, scale, dev, guards, penalty }: Candidate): string {
  const lost = (guards?.suites ?? []).map(({ name, base, aligned }) => `${name} ${signed(aligned - base)}`);
  const name = `step ${step}${repaired ? ", repaired" : ""}${scale < 1 ? `, scale ${scale}` : ""}`;
  return [
    name,
    dev === null ? "" : `dev ${dev.toFixed(1)}`,
    ...lost,
    guards ? describeDivergence(guards.drift) : "",
    guards ? `penalty ${penalty.toFixed(1)}` : "",
  ]
    .filter((part) => part !== "")
    .join("; ");
}

const describeDivergence = ({ kl, perplexity_rise }: Divergence): string =>
  `KL ${kl.toFixed(3)}; perplexity ${signed(perplexity_rise)} %`;

const signed = (value: number): string => `${value > 0 ? "+" : ""}${value.toFixed(1)}`;

const tell = (run: Run, message: string): Promise<void> =>
  run.events.append({ kind: "decision", phase: run.phase, message });

async function load({ trainer, checkpoints }: Training, step: number): Promise<void> {
  const found = await checkpoints.at(step);
  if (found === null) throw new Failure("run_failed", `The checkpoint of step ${step} is missing or damaged`);
  await trainer.load(adapterName, found.trainerFolder);
}

/** Returns the trainer and tokenizer to measure with, and a `turn` that reports progress and handles stop and pause. */
export const asking = (run: Run, trainer: Trainer): Omit<Asked, "adapter"> => ({
  trainer,
  tokenizer: run.tokenizer,
  turn: async (done, total, unit) => {
    await run.progress(done, total, unit);
    await run.turn();
  },
});

/** Asks the base before anything is trained, to know what can be lost on the guards and which dev score to improve on. */
export function askBase(run: Run, trainer: Trainer, dev: readonly DevPrompt[]): Promise<BaseSaid> {
  const identity = `${identityOf(run.request)} ${run.parts.guards.sha256}`;
  return stage(join(run.folder, "guards", "base"), identity, () => saidByBase(run, trainer, dev, identity), json());
}

async function saidByBase(
  run: Run,
  trainer: Trainer,
  prompts: readonly DevPrompt[],
  identity: string,
): Promise<BaseSaid> {
  await run.enter("checking");
  const { guards, clock } = run.parts;
  const began = clock.monotonicMs();
  const asked: Asked = { ...asking(run, trainer), adapter: null };
  const limits = run.request.recipe.guards;
  const dev = await devAnswers(run, { trainer, prompts, adapter: null });
  const devSeconds = (clock.monotonicMs() - began) / 1000;
  const said = {
    identity,
    retained: limits === undefined ? [] : await rightTwice(run, asked, limits.retained_items),
    general: limits === undefined ? [] : await choose(asked, guards.general),
    format: limits === undefined ? [] : await follow(asked, guards.format),
    refusals: limits === undefined ? [] : await choose(asked, guards.refusals),
    dev,
    devSeconds,
  };
  await run.enter("training");
  return { ...said, seconds: (clock.monotonicMs() - began) / 1000 };
}

/** Retention items per batch. The base is asked batch by batch until enough items that it knows are found. */
const retentionBatch = 100;

async function rightTwice(run: Run, asked: Asked, wanted: number): Promise<string[]> {
  const { retention } = run.parts.guards;
  const found: string[] = [];
  for (let from = 0; from < retention.length && found.length < wanted; from += retentionBatch) {
    const some = retention.slice(from, from + retentionBatch);
    const right = await choose(
      asked,
      some.flatMap((item) => item.wordings),
    );
    found.push(...some.filter((_, index) => right[2 * index] && right[2 * index + 1]).map((item) => item.id));
    await run.progress(Math.min(found.length, wanted), wanted, "items to retain");
  }
  return found.slice(0, wanted);
}

/** Asks an adapter, or the base (`adapter` null), all dev questions, and grades the answers. */
export function devAnswers(
  run: Run,
  { trainer, prompts, adapter }: { trainer: Trainer; prompts: readonly DevPrompt[]; adapter: string | null },
  { unit = "questions", draw }: { unit?: string; draw?: Draw } = {},
): Promise<DevAnswer[]> {
  const { turn, tokenizer } = asking(run, trainer);
  return answerDev(
    {
      ...{ trainer, tokenizer, adapter, prompts },
      maxTokens: checkTokens,
      grade: run.parts.grade,
      onProgress: (done, total) => turn(done, total, unit),
    },
    draw,
  );
}

export interface Examined {
  candidate: Candidate;
  answers: DevAnswer[];
}

/**
 * Asks an adapter everything that the base was asked, and measures its divergence. The result is kept on disk, so that a run killed later
 * need not ask again.
 */
function examined(
  comparison: Comparison,
  adapter: string,
  what: Pick<Candidate, "step" | "repaired" | "scale">,
): Promise<Examined> {
  const { run, training, base } = comparison;
  const place = join(run.folder, "guards", `step-${what.step}-scale-${what.scale}`);
  return stage(place, `${base.identity} ${training.prepared.sha256}`, () => examine(comparison, adapter, what), json());
}

async function examine(
  comparison: Comparison,
  adapter: string,
  what: Pick<Candidate, "step" | "repaired" | "scale">,
): Promise<Examined> {
  const { run, training } = comparison;
  const limits = run.request.recipe.guards;
  const answers = await devAnswers(run, { trainer: training.trainer, prompts: training.prepared.dev, adapter });
  const right = answers.filter((one) => one.correct).length;
  const dev = answers.length === 0 ? null : run.parts.interval(right, answers.length).score;
  const guards = limits === undefined ? null : await askGuards(comparison, adapter, what);
  const penalty = guards === null ? 0 : penaltyOf(guards, limits!);
  return { candidate: { ...what, dev, guards, penalty }, answers };
}

async function askGuards(
  { run, training, base, divergenceAt }: Comparison,
  adapter: string,
  what: Pick<Candidate, "step" | "scale">,
): Promise<GuardResults> {
  const suites = await askSuites(run, { ...asking(run, training.trainer), adapter }, base);
  return { suites: suites.map(suiteOf), drift: await divergenceAt(adapter, what) };
}

/** One suite, with whether the base and the adapter answered each question right. */
export interface AskedSuite extends Pick<SuiteResult, "name" | "gates"> {
  questions: string[];
  base: boolean[];
  aligned: boolean[];
}

/** Whether each question of every suite was answered right. `retained` has two wordings of each item that the base got right. */
type SuiteAnswers = Pick<BaseSaid, "general" | "format" | "refusals"> & { retained: boolean[] };

/** Asks the adapter the questions of every suite. */
export async function askSuites(run: Run, asked: Asked, base: BaseSaid): Promise<AskedSuite[]> {
  const { guards } = run.parts;
  const wordings = retainedItems(run, base).flatMap((item) => item.wordings);
  return suitesOf(run, base, {
    retained: await choose(asked, wordings),
    general: await choose(asked, guards.general),
    format: await follow(asked, guards.format),
    refusals: await choose(asked, guards.refusals),
  });
}

/** Returns the suites with the base's answers in place of an adapter's. */
export const suitesOfBase = (run: Run, base: BaseSaid): AskedSuite[] =>
  suitesOf(run, base, {
    ...base,
    retained: retainedItems(run, base).flatMap((item) => item.wordings.map(() => true)),
  });

function retainedItems(run: Run, base: BaseSaid) {
  const ids = new Set(base.retained);
  return run.parts.guards.retention.filter((item) => ids.has(item.id));
}

function suitesOf(run: Run, base: BaseSaid, aligned: SuiteAnswers): AskedSuite[] {
  const { guards } = run.parts;
  const items = retainedItems(run, base);
  const named = (choices: readonly { ask: string }[]): string[] => choices.map((item) => item.ask);
  const aboveChance = (suite: readonly boolean[], chance: number): boolean =>
    run.parts.interval(suite.filter(Boolean).length, suite.length).low > chance;
  return [
    {
      name: "retention",
      gates: true,
      questions: items.flatMap((item) => item.wordings.map(({ ask, choices }) => `${ask} (${choices[0]})`)),
      base: aligned.retained.map(() => true),
      aligned: aligned.retained,
    },
    {
      name: "general",
      gates: aboveChance(base.general, chanceOf(guards.general)),
      questions: named(guards.general),
      base: base.general,
      aligned: aligned.general,
    },
    {
      name: "format",
      gates: aboveChance(base.format, 0),
      questions: named(guards.format),
      base: base.format,
      aligned: aligned.format,
    },
    {
      name: "refusals",
      gates: aboveChance(base.refusals, chanceOf(guards.refusals)),
      questions: named(guards.refusals),
      base: base.refusals,
      aligned: aligned.refusals,
    },
  ];
}

/** Expected points if each item's answer is chosen at random. */
const chanceOf = (items: readonly Choice[]): number =>
  (100 / items.length) * items.reduce((sum, { choices }) => sum + 1 / choices.length, 0);

export function suiteOf({ name, gates, questions, base, aligned }: AskedSuite): SuiteResult {
  const points = (right: readonly boolean[]): number =>
    right.length === 0 ? 0 : (100 * right.filter(Boolean).length) / right.length;
  return {
    name,
    n: questions.length,
    base: points(base),
    aligned: points(aligned),
    gates,
    lost: questions.filter((_, index) => base[index] && !aligned[index]),
    gained: questions.filter((_, index) => !base[index] && aligned[index]),
  };
}
