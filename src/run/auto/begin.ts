// The state that an auto-align's planner starts with: what the request allows, why the base is wrong, and what phases
// cost on this machine. Diagnosis and costs are determined once and kept; a process that starts after a kill reads them
// back.
import { join } from "node:path";
import type { Failure } from "../../base/errors.ts";
import { askBase, asking, type BaseSaid, suitesOfBase } from "../choose.ts";
import type { Run } from "../context.ts";
import { shapeOf } from "../folder/adapter-shape.ts";
import { resumesOf } from "../folder/request.ts";
import { type ProseSaid, proseSaid } from "../guards/measure.ts";
import { mustReinforce, type Unavailable } from "../plan/limits.ts";
import type { Arm, ArmCost, PlanLimits, PlanState } from "../plan/state.ts";
import { continued, isReplayed, openingsOf } from "../replay.ts";
import { unjudgedBy } from "../rewards/pay.ts";
import type { Means } from "../rewards/plan.ts";
import { lengthOf, type Prepared, toTrainer } from "../rows.ts";
import { microBatches } from "../schedule.ts";
import { json, stage } from "../stage.ts";
import { adapterName, type OpenedBase } from "../training.ts";
import { gatingSuites, hoursSince } from "./check.ts";
import { paysForDeclining } from "./declining.ts";
import { diagnose, sampledShares } from "./diagnose.ts";
import { drawn, groupsOf, type Prompt, promptsOf, withPassages } from "./prompts.ts";
import type { ReinforcePlan } from "./reinforce.ts";
import { drawMaterial } from "./represent/material.ts";
import { profileOf } from "./represent/profile.ts";
import { generalText, plannedTrials, reasonAgainst } from "./represent/represent.ts";
import { mostTrials } from "./represent/trials.ts";

export interface Beginning {
  state: PlanState;
  said: BaseSaid;
}

interface Order {
  limits: PlanLimits;
  reinforcePlan: ReinforcePlan | null;
  /** What answers are judged with. */
  means: Means;
  /** Returns what the base says of the guards' prose. */
  prose: () => Promise<ProseSaid>;
  /** Hours that opening the base took. */
  openHours: number;
  /** Returns the hours that this process spent before its first new work, and 0 when called again. */
  startUp: () => number;
}

export async function begin(
  run: Run,
  base: OpenedBase,
  prepared: Prepared,
  { identity, ...order }: Order & { identity: string },
): Promise<Beginning> {
  const auto = run.request.auto_align!;
  const said = await askBase(run, base.trainer, prepared.dev);
  const found = await stage(
    join(run.folder, "plan", "diagnosis"),
    identity,
    () => findOut(run, base, prepared, said, order),
    json(),
  );
  const sealed = Math.max(...auto.thirds);
  return {
    said,
    state: {
      seed: run.request.recipe.training.seed,
      limits: order.limits,
      diagnosis: found.diagnosis,
      checkpoints: [
        {
          id: "base",
          parent: null,
          dev: said.dev.map(run.points),
          sampled: null,
          guards: gatingSuites(run, suitesOfBase(run, said)),
          divergence_penalty: 0,
        },
      ],
      history: [],
      looks: [],
      hours: (said.seconds + prepared.report.seconds) / 3600 + found.hours,
      costs: found.costs,
      check_hours: said.seconds / 3600 + (found.check_hours ?? 0),
      // A look ends the process, and the next process opens the base again, so that time is included.
      look_hours: (said.devSeconds / 3600 / Math.max(1, prepared.dev.length)) * sealed + found.open_hours,
      past: auto.past.map((phase) => ({ ...phase, arm: phase.arm as Arm })),
      resumes: resumesOf(auto),
    },
  };
}

/** Arms that the run's preset does not support. */
export function unavailable({ request: { recipe } }: Run): Unavailable[] {
  return recipe.repair === undefined
    ? [{ arm: "distil", reason: "the preset has no repair settings for distillation" }]
    : [];
}

interface Found {
  diagnosis: PlanState["diagnosis"];
  costs: Record<Arm, ArmCost>;
  hours: number;
  open_hours: number;
  /** Hours of what a check does beyond the questions that the base was asked first. Absent in older folders. */
  check_hours?: number;
}

async function findOut(
  run: Run,
  base: OpenedBase,
  prepared: Prepared,
  said: BaseSaid,
  { limits, reinforcePlan, means, prose, openHours, startUp }: Order,
): Promise<Found> {
  // These hours are not charged here, because the rows and the base's answers came first and report their own hours.
  startUp();
  const began = run.parts.clock.monotonicMs();
  const prompts = reinforcePlan === null ? [] : promptsOf(run, prepared.rows, reinforcePlan.sampling);
  const unjudged = reinforcePlan === null ? null : await unjudgedPrompts(run, prompts, reinforcePlan, means);
  if (unjudged !== null && mustReinforce(limits)) throw unjudged;
  const { dev } = prepared;
  const since = run.parts.clock.monotonicMs();
  const sampled = await sampledShares(run, { trainer: base.trainer, adapter: null }, dev);
  const drawHours = hoursSince(run, since);
  if (run.request.recipe.guards !== undefined) await prose();
  const checkHours = hoursSince(run, since) - (reinforcePlan === null ? drawHours : 0);
  const { signal } = run.parts.control;
  const isPaid = reinforcePlan !== null && (await paysForDeclining({ plan: reinforcePlan, means, signal }));
  const { items } = await diagnose(run, base, { dev, base: said, sampled, paysForDeclining: isPaid });
  const isAllowed = limits.arms.includes("represent");
  // Edits correct only the form of answers. So the base is profiled only if a dev question is wrong in form alone, or
  // if a given sequence demands edits.
  const isOfUse = limits.sequencing !== null || items.some(({ format_only: isFormOnly }) => isFormOnly);
  const edits = !isAllowed
    ? noEdits(null)
    : isOfUse
      ? await forecastEdits(run, base, prepared, said)
      : noEdits("no dev question is wrong only in its form");
  const costs = await costsOf(run, base, prepared, reinforcePlan && { plan: reinforcePlan, prompts });
  return {
    diagnosis: {
      items,
      has_examples: run.snapshot.dataSet !== undefined,
      has_usable_direction: edits.isUsable,
      profile: edits.profile,
      ...(unjudged !== null && { unjudged: unjudged.message }),
    },
    costs: { ...costs, represent: edits.cost },
    hours: openHours + hoursSince(run, began),
    open_hours: openHours,
    check_hours: checkHours,
  };
}

/** Returns a validation failure if a built-in verifier of the reward can judge none of the prompts; otherwise null. */
async function unjudgedPrompts(
  run: Run,
  prompts: readonly Prompt[],
  { reward }: ReinforcePlan,
  means: Means,
): Promise<Failure | null> {
  const builtin = { ...reward, parts: reward.parts.filter(({ scorer }) => scorer.kind === "builtin") };
  const items = (await withPassages(run, builtin, prompts)).map(({ item }) => item);
  return unjudgedBy(builtin, items, means);
}

interface EditForecast {
  isUsable: boolean;
  profile: string | null;
  cost: ArmCost;
}

const noEdits = (profile: string | null): EditForecast => ({
  isUsable: false,
  profile,
  cost: { steps: 1, hours_per_step: 0, setup_hours: 0 },
});

/**
 * Profiles the base before any training. Returns whether there is a usable direction, how many edits would be tried,
 * and how many hours each would take.
 */
async function forecastEdits(run: Run, base: OpenedBase, { rows }: Prepared, said: BaseSaid): Promise<EditForecast> {
  const { seed } = run.request.recipe.training;
  const began = run.parts.clock.monotonicMs();
  const material = await drawMaterial(run, base, { adapter: null, rows, seed });
  const { profile } = await profileOf(run, base, null, material.contrasts);
  const setup = hoursSince(run, began);
  const since = run.parts.clock.monotonicMs();
  await proseSaid(asking(run, base.trainer), generalText(run, seed)[0]);
  // In a trial, half of dev is answered, and the divergence on other text is measured.
  const hours = said.devSeconds / 3600 / 2 + hoursSince(run, since);
  const trials = plannedTrials(run, base, profile, material).length;
  return {
    isUsable: trials > 0,
    profile: trials > 0 ? profile.because : reasonAgainst(profile),
    // A given sequence may still contain edits of a checkpoint other than the base.
    cost: { steps: trials > 0 ? trials : mostTrials, hours_per_step: hours, setup_hours: setup },
  };
}

/** An optimizer step that takes its usual time and changes almost nothing. */
const noStep = { learningRate: 1e-12, beta1: 0, beta2: 0, eps: 1, weightDecay: 0, gradClipNorm: 1 };

/** Number of timed passes, after one untimed pass that warms up. */
const timedPasses = 3;

/**
 * Measures the hours per step of every arm but represent, with a few steps of a throwaway adapter. These arms need no
 * set-up hours, because the rows exist by then.
 */
async function costsOf(
  run: Run,
  { trainer, hello, model }: OpenedBase,
  { rows }: Prepared,
  reinforcing: { plan: ReinforcePlan; prompts: readonly Prompt[] } | null,
): Promise<Omit<Record<Arm, ArmCost>, "represent">> {
  const { recipe } = run.request;
  const { batch_size: size } = recipe.training;
  await trainer.createAdapter(adapterName, shapeOf(recipe, model.layers));
  const pass = async (count: number, at: number): Promise<number> => {
    const some = Array.from({ length: count }, (_, index) => rows[(at * count + index) % rows.length]!);
    const since = run.parts.clock.monotonicMs();
    const calls = microBatches([...some.keys()], (index) => some[index]!.tokens.length, hello.limits.maxBatchTokens);
    for (const call of calls) {
      const own = call.map((index) => some[index]!);
      await trainer.forwardBackward(adapterName, toTrainer(own, 1 / lengthOf(own)));
    }
    await trainer.optimStep(adapterName, noStep);
    await run.turn();
    return hoursSince(run, since);
  };
  const meanPass = async (count: number): Promise<number> => {
    await pass(count, 0);
    let hours = 0;
    for (let at = 1; at <= timedPasses; at++) hours += await pass(count, at);
    return hours / timedPasses;
  };
  const supervised = await meanPass(size);
  const distil = recipe.repair === undefined ? 0 : await distilStep(run, trainer, recipe.repair, meanPass);
  const reinforce = reinforcing === null ? 0 : await reinforceStep(run, { trainer, hello }, reinforcing, meanPass);
  await trainer.dropAdapter(adapterName);
  const inRung = rows.filter((row) => row.rung === 0 && !isReplayed(row)).length;
  return {
    supervised: { steps: Math.max(1, Math.ceil(inRung / size)), hours_per_step: supervised, setup_hours: 0 },
    distil: { steps: recipe.repair?.steps ?? 1, hours_per_step: distil, setup_hours: 0 },
    reinforce: { steps: reinforceSteps, hours_per_step: reinforce, setup_hours: 0 },
    scale: { steps: 1, hours_per_step: 0, setup_hours: 0 },
  };
}

async function distilStep(
  run: Run,
  trainer: OpenedBase["trainer"],
  { prompts, tokens, rows }: NonNullable<Run["request"]["recipe"]["repair"]>,
  meanPass: (count: number) => Promise<number>,
): Promise<number> {
  const since = run.parts.clock.monotonicMs();
  await continued(run, trainer, adapterName, openingsOf(run, prompts, 0, 1), { maxTokens: tokens, seed: 0 });
  return hoursSince(run, since) + (await meanPass(prompts + rows));
}

/** Steps of a usual reinforce phase. */
const reinforceSteps = 60;

async function reinforceStep(
  run: Run,
  opened: Pick<OpenedBase, "trainer" | "hello">,
  { plan, prompts }: { plan: ReinforcePlan; prompts: readonly Prompt[] },
  meanPass: (count: number) => Promise<number>,
): Promise<number> {
  const { sampling, innerSteps, environment } = plan;
  const { groups, groupSize } = sampling;
  const asked = groupsOf(prompts.slice(0, groups), groupSize);
  const since = run.parts.clock.monotonicMs();
  if (asked.length > 0) await drawn(run, opened, asked, { sampling }, 0);
  // A draw may take all its turns, so all of them are charged.
  return (environment.maxTurns * hoursSince(run, since) + (await meanPass(groups * groupSize))) / innerSteps;
}
