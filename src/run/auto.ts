// An auto-align, start to end, in one run folder: rows → diagnosis → decision → phase → check → decision …, until the planner ends it.
//
//   preparing ──► [ decision ──► phase ──► check ] … ──► packaging ──► result.json: completed
//                     ├── look: result.json says which adapter and which third, and the process ends. The appliance scores the look and
//                     │   starts a new process, which reads the scores and continues with the decisions
//                     ├── pause: result.json says what would help
//                     └── stopping: no further phase begins, and the best checkpoint so far is packaged
//
// Invariants:
//   1. Decisions depend only on what is kept in the folder and on the resumes before them, so a run killed at any point makes the same
//      decisions again.
//   2. Decisions are based on dev. They see none of the sealed questions and use only two facts about the looks at them: how many
//      there were, and which checkpoints met or missed the target.
//   3. Hours are device hours of everything up to the last decision; packaging is not charged. Once a phase has used up its own
//      hours, it begins no further step, draw or edit after its first.
import { join } from "node:path";
import { sha256 } from "../base/files.ts";
import type { AutoAlignRequest } from "../contract/auto-align.ts";
import type { RunResult } from "../contract/run-folder.ts";
import type { AdapterShape, Trainer } from "../engine/train/trainer.ts";
import { begin, unavailable } from "./auto/begin.ts";
import { type Checked, checkpointOf, createChecker, guardsOf, hoursSince } from "./auto/check.ts";
import { type Judging, noJudging, openJudging, withoutRubric } from "./auto/judging.ts";
import { type Adapter, adapterOfPhase, carryOut, isCarriedOut, type PhaseMade } from "./auto/phase.ts";
import { checkpointNeeded } from "./auto/reference.ts";
import { type ReinforcePlan, resolveReinforce } from "./auto/reinforce.ts";
import { autoAlignReport } from "./auto/report.ts";
import { type BaseSaid, type Candidate, type Chosen, penaltyOf, proseOfBase } from "./choose.ts";
import { type Run, withField, withRecipe } from "./context.ts";
import { withDataSet } from "./data-set.ts";
import { shapeOf } from "./folder/adapter-shape.ts";
import { readScores } from "./folder/looks.ts";
import { identityOf } from "./folder/request.ts";
import { exportAdapter, finishPackage } from "./package.ts";
import { limitsOf } from "./plan/limits.ts";
import { pinned } from "./plan/pins.ts";
import type { Decision, PhasePlan, PlanLimits, PlanState } from "./plan/state.ts";
import { meanOf, surveyOf } from "./plan/survey.ts";
import { nextDecision } from "./plan.ts";
import { prepare } from "./prepare.ts";
import { withoutArtefact } from "./result.ts";
import { checkMetric, type Metric, metricOf, rewardScore } from "./rewards/metric.ts";
import type { Means, RewardBlock } from "./rewards/plan.ts";
import type { Prepared } from "./rows.ts";
import { json, stage } from "./stage.ts";
import { adapterName, type OpenedBase, openBase, openTraining, type Training } from "./training.ts";

type Told = NonNullable<RunResult["auto_align"]>;

export async function autoAlign(ordered: Run): Promise<RunResult> {
  const request = ordered.request.auto_align!.request as AutoAlignRequest;
  const limits = limitsOf(request, unavailable(ordered));
  const reinforces = limits.arms.includes("reinforce");
  const context = ordered.tokenizer.trainContext;
  const { recipe, ignored } = pinned(request.config, ordered.request.recipe, { reinforces, context });
  const settled = withMetric(withDataSet(withRecipe(ordered, recipe)), request.config);
  const opened: { trainer: Trainer | null } = { trainer: null };
  const reward = (request.config?.reward ?? null) as RewardBlock | null;
  const judging = reinforces
    ? await openJudging(settled, reward, () => opened.trainer!)
    : noJudging(withoutRubric(settled, reward));
  try {
    const reinforcePlan = reinforces
      ? resolveReinforce(request.config ?? null, judging.means, recipe.rendering.max_seq_len)
      : null;
    const needed = reinforcePlan && checkpointNeeded(reinforcePlan.reference, limits);
    const all = {
      ...limits,
      ...(needed !== null && { reinforce_needs: needed }),
      ignored: [...limits.ignored, ...ignored, ...(reinforcePlan?.ignored ?? [])],
    };
    return await carriedOut(judging, { limits: all, reinforcePlan, opened });
  } finally {
    await judging.close();
  }
}

/** Sets `opened.trainer`, because the judge may use the trainer. */
async function carriedOut(
  { run, means, hours: judgeHours }: Judging,
  {
    limits,
    reinforcePlan,
    opened,
  }: { limits: PlanLimits; reinforcePlan: ReinforcePlan | null; opened: { trainer: Trainer | null } },
): Promise<RunResult> {
  await tellSettings(run, limits.ignored, reinforcePlan?.warnings ?? []);
  const prepared = await prepare(run);
  await run.turn();
  const trainer = run.parts.startTrainer();
  opened.trainer = trainer;
  let packaged: { training: Training; exported: Awaited<ReturnType<typeof exportAdapter>> };
  let told: Told;
  try {
    const began = run.parts.clock.monotonicMs();
    const base = await openBase(run, trainer);
    const plan = await openPlan(run, base, prepared, {
      limits,
      reinforcePlan,
      means,
      judgeHours,
      openHours: hoursSince(run, began),
    });
    told = await followed(plan);
    if (told.status === "PAUSED") return withoutArtefact(run.request, "paused", told);
    if (told.look !== null) return withoutArtefact(run.request, "look", told);
    if (told.checkpoint === "base") return withoutArtefact(run.request, "completed", told);
    await run.enter("packaging");
    packaged = await exportBest(plan, told);
  } finally {
    await trainer.close();
  }
  const result = await finishPackage(run, packaged.training, packaged.exported);
  return { ...result, auto_align: told };
}

/**
 * Part of the identity of the stages that the plan keeps. Since format 3, the diagnosis includes the time to open the
 * base.
 */
const format = 3;

/**
 * Returns a function whose first call returns the hours since this process took over the folder. Later calls return 0,
 * so that these hours are charged only to the first new piece of work.
 */
function startUpOf(run: Run): () => number {
  let isTold = false;
  return () => {
    const hours = isTold ? 0 : hoursSince(run, run.beganMs);
    isTold = true;
    return hours;
  };
}

/** State of the loop. */
interface Plan {
  run: Run;
  base: OpenedBase;
  prepared: Prepared;
  said: BaseSaid;
  state: PlanState;
  identity: string;
  reinforcePlan: ReinforcePlan | null;
  means: Means;
  check: ReturnType<typeof createChecker>["check"];
  startUp: () => number;
  /** By checkpoint id: the base, and the adapter that each phase made. */
  adapters: Map<string, Adapter>;
  phases: PhaseMade[];
  checks: Map<string, Checked>;
  /** Hours spent by the time each checkpoint was checked, the base first. */
  hours: number[];
  /** Reason for the last decision. */
  why: string;
  metric: Metric;
}

/** Returns the run with dev scored by the target's metric. Throws a validation failure that names the field. */
function withMetric(run: Run, config: AutoAlignRequest["config"]): Run {
  const { declines } = run.parts.means;
  checkMetric(config, run.snapshot.dev, declines);
  const reward = rewardScore(config, declines);
  return reward === null ? run : withField(run, "points", ({ answer, item }) => reward(answer, item));
}

/**
 * Logs warnings about settings that change nothing and settings that look like a mistake. What was logged is kept,
 * because an earlier process may have been killed before it got here.
 */
async function tellSettings(run: Run, ignored: PlanLimits["ignored"], doubts: readonly string[]): Promise<void> {
  const reasons = ignored.map(({ field, reason }) => `${field} (${reason})`);
  const warn = (code: string, message: string): Promise<void> =>
    run.events.append({ kind: "warning", phase: "preparing", code, message });
  const told = { ignored: reasons, doubts };
  const make = async () => {
    if (reasons.length > 0) await warn("settings_ignored", `Settings that have no effect: ${reasons.join("; ")}`);
    if (doubts.length > 0) await warn("settings_doubtful", doubts.join(" "));
    return told;
  };
  await stage(join(run.folder, "plan", "settings"), sha256(JSON.stringify(told)), make, json());
}

async function openPlan(
  run: Run,
  base: OpenedBase,
  prepared: Prepared,
  {
    limits,
    reinforcePlan,
    means,
    judgeHours,
    openHours,
  }: {
    limits: PlanLimits;
    reinforcePlan: ReinforcePlan | null;
    means: Means;
    judgeHours: number;
    openHours: number;
  },
): Promise<Plan> {
  const auto = run.request.auto_align!;
  const identity = sha256(JSON.stringify([format, identityOf(run.request), auto.request, auto.past, prepared.sha256]));
  const startUp = startUpOf(run);
  const prose = proseOfBase(run, base.trainer);
  const { state, said } = await begin(run, base, prepared, {
    identity,
    limits,
    reinforcePlan,
    means,
    prose,
    openHours,
    startUp,
  });
  state.hours += judgeHours;
  return {
    ...{ run, base, prepared, said, state, identity, reinforcePlan, means, startUp },
    check: createChecker(run, base, { dev: prepared.dev, base: said, prose, draws: reinforcePlan !== null }).check,
    adapters: new Map([
      ["base", { id: "base", path: null, shape: shapeOf(run.request.recipe, base.model.layers), rowsSeen: 0 }],
    ]),
    phases: [],
    checks: new Map(),
    hours: [state.hours],
    why: "",
    metric: metricOf((auto.request as AutoAlignRequest).config),
  };
}

/** Makes decisions and carries them out until one ends the run, a stop ends it, or a look has no scores yet. */
async function followed(plan: Plan): Promise<Told> {
  const { run, state } = plan;
  const { stopping } = run.request.auto_align!;
  const startUp = async () => ({ hours: plan.startUp() });
  for (;;) {
    const decision = nextDecision(state);
    const { next } = decision;
    plan.why = decision.card.because;
    if (next.kind === "phase") {
      const number = plan.phases.length + 1;
      if (stopping && !(await isCarriedOut(run, number, identityOfPhase(plan, next.phase)))) return stopped(plan);
      await phase(plan, decision, next.phase);
    } else if (next.kind === "look") {
      const number = state.looks.length;
      const found = await readScores(run.folder, number);
      if (found === null && stopping) return stopped(plan);
      if (found === null) {
        await tell(run, decision);
        return { ...toldOf(plan, next.checkpoint), status: "RUNNING", look: next.third };
      }
      const { hours, scores, clusters } = found;
      // The earlier process ended for the look, and this one has opened everything again, so its start-up hours count
      // here.
      const restart = await stage(join(run.folder, "plan", `after-look-${number}`), plan.identity, startUp, json());
      state.looks.push({ checkpoint: next.checkpoint, third: next.third, scores, clusters });
      state.hours += hours + restart.hours;
    } else {
      await tell(run, decision);
      const { status, confirmed, checkpoint, help } = next;
      if (stopping && status === "PAUSED") return stopped(plan);
      return { ...toldOf(plan, checkpoint), status, confirmed, help: help.map(({ text }) => text) };
    }
  }
}

const stopped = (plan: Plan): Told => ({
  ...toldOf(plan, surveyOf(plan.state).best.checkpoint.id),
  status: "STOPPED",
});

const toldOf = ({ state }: Plan, checkpoint: string): Omit<Told, "status"> => ({
  confirmed: null,
  checkpoint,
  phases: state.history.length,
  hours: state.hours,
  look: null,
  help: [],
});

/**
 * Writes a decision's card to the log. A card that was written before the run was killed is written again, with the
 * same step number.
 */
function tell(run: Run, { next, card }: Decision): Promise<void> {
  return run.events.append({ kind: "decision", phase: run.phase, message: card.because, card: { ...card, next } });
}

/** The identity of a phase, which is unique because the seed differs from phase to phase. */
const identityOfPhase = ({ identity }: Plan, phase: PhasePlan): string => sha256(JSON.stringify([identity, phase]));

async function phase(plan: Plan, decision: Decision, next: PhasePlan): Promise<void> {
  const { run, base, prepared, state, adapters, phases } = plan;
  const number = phases.length + 1;
  const identity = identityOfPhase(plan, next);
  const order = {
    ...{ run, base, prepared, number, identity, plan: next, reinforcePlan: plan.reinforcePlan, means: plan.means },
    startUp: plan.startUp,
    adapterOf: (checkpoint: string): Adapter => adapters.get(checkpoint)!,
    from: adapters.get(next.from)!,
    before: state.checkpoints.find(({ id }) => id === next.from)!.dev,
    stepsBefore: state.history.reduce((sum, one) => sum + one.steps_run, 0),
    lostGolds: next.focus.map((at) => prepared.dev[at]!.item.response),
  };
  const made = await carryOut(order, () => tell(run, decision));
  const adapter: Adapter = { ...made.adapter, path: adapterOfPhase(run, number) };
  const place = join(run.folder, "plan", `check-${number}`);
  const checked = await stage(place, identity, () => checkedAdapter(plan, adapter), json());
  adapters.set(adapter.id, adapter);
  phases.push(made);
  plan.checks.set(adapter.id, checked);
  state.history.push(made.record);
  state.checkpoints.push(checkpointOf(run, adapter.id, next.from, checked));
  state.hours += made.record.setup_hours + made.record.hours_run + checked.hours;
  // A check of an adapter may take longer than what the base took for the same questions.
  state.check_hours = Math.max(state.check_hours, checked.check_hours ?? 0);
  plan.hours.push(state.hours);
}

/** Checks the adapter as it was exported, because looks and models use it in that form. */
async function checkedAdapter({ base: { trainer }, check, startUp }: Plan, { path, shape }: Adapter): Promise<Checked> {
  const started = startUp();
  await trainer.createAdapter(adapterName, shape);
  await trainer.load(adapterName, path!);
  const checked = await check(adapterName);
  await trainer.dropAdapter(adapterName);
  return { ...checked, hours: checked.hours + started, check_hours: checked.hours };
}

/**
 * Exports the best checkpoint in the form of a plain run's chosen adapter, so that packaging, report and calibration
 * need no other code.
 */
async function exportBest(plan: Plan, told: Told) {
  const { run, base, prepared, state, phases, checks, adapters, said } = plan;
  const id = told.checkpoint;
  const adapter = adapters.get(id)!;
  const training = await openTraining(run, base, prepared, {
    folder: join(run.folder, "checkpoints", "best"),
    identity: { request_sha256: plan.identity, rows_sha256: prepared.sha256 },
    shape: adapter.shape,
    load: async () => {
      if (adapter.path !== null) await base.trainer.load(adapterName, adapter.path);
      return adapter.warmStart ?? null;
    },
    step: 0,
  });
  const sum = (value: (phase: PhaseMade) => number): number => phases.reduce((total, one) => total + value(one), 0);
  Object.assign(training.state, {
    step: sum(({ record }) => record.steps_run),
    losses: phases.flatMap(({ losses }) => losses),
    trainedTokens: sum((phase) => phase.trainedTokens),
    processedTokens: sum((phase) => phase.processedTokens),
    trainSeconds: sum((phase) => phase.trainSeconds),
    ended: "steps",
  } satisfies Partial<Training["state"]>);
  const candidates = state.history.map((_, at) => candidateOf(plan, at));
  const chosen: Chosen = {
    ...candidates[state.history.findIndex(({ checkpoint }) => checkpoint === id)]!,
    adapter: adapterName,
    candidates,
    base: said.dev,
    answers: checks.get(id)!.answers,
  };
  return { training, exported: await exportAdapter(run, training, chosen, autoAlignReport(state, told, plan)) };
}

const scaleOf = ({ alpha, rank }: Pick<AdapterShape, "alpha" | "rank">): number => alpha / rank;

/**
 * The candidate that phase `at`, counted from 0, made. Its `step` is the number of steps of all phases up to and
 * including that phase.
 */
function candidateOf({ run, state, adapters, checks }: Plan, at: number): Candidate {
  const { checkpoint: id, arm } = state.history[at]!;
  const checked = checks.get(id)!;
  const guards = guardsOf(checked);
  return {
    step: state.history.slice(0, at + 1).reduce((total, one) => total + one.steps_run, 0),
    repaired: arm === "distil",
    scale: scaleOf(adapters.get(id)!.shape) / scaleOf(run.request.recipe.adapter),
    dev: meanOf(state.checkpoints[at + 1]!.dev),
    guards,
    penalty: guards === null ? 0 : penaltyOf(guards, run.request.recipe.guards!),
  };
}
