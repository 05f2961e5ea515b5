// Carries out one phase of an auto-align, which turns the adapter of one checkpoint into that of a new one. The result
// is kept as a stage, so that a run killed after the phase does not train it again. A run killed during the phase
// continues from the phase's last save.
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { writeJsonDurably } from "../../base/files.ts";
import { containsWords } from "../../base/text.ts";
import type { Recipe } from "../../contract/recipe.ts";
import type { AdapterShape } from "../../engine/train/trainer.ts";
import type { Run } from "../context.ts";
import type { PhasePlan, PhaseRecord } from "../plan/state.ts";
import { repair } from "../repair.ts";
import type { Means } from "../rewards/plan.ts";
import type { Prepared, TrainingRow } from "../rows.ts";
import { loadScaled, removeScaled } from "../scale.ts";
import { learningRateAt, permutation, warmUpSteps } from "../schedule.ts";
import { keptAt, stage } from "../stage.ts";
import { adapterName, type OpenedBase, openTraining, saveStep, step, type Training } from "../training.ts";
import { loadWarmStart } from "../warm-start/start.ts";
import { closeReference, openAverage, openReference, type Reference } from "./reference.ts";
import { type ReinforcePlan, reinforce } from "./reinforce.ts";
import { editedName, type Represented, represent } from "./represent/represent.ts";

/** The adapter of a checkpoint: none for `base`, otherwise the one that a phase made. */
export interface Adapter {
  id: string;
  /** GGUF file; null for the base. */
  path: string | null;
  /** The adapter is scaled by alpha / rank. An edit makes the rank larger than the recipe's. */
  shape: AdapterShape;
  /** Rows that the supervised phases of this checkpoint and its parents took in turn, where the next phase goes on. */
  rowsSeen: number;
  /** Hash of the warm start that its first supervised phase started from; null if there was none. Absent in older folders. */
  warmStart?: string | null;
}

/** Result of a phase. */
export interface PhaseMade {
  record: PhaseRecord;
  adapter: Omit<Adapter, "path">;
  losses: number[];
  trainedTokens: number;
  processedTokens: number;
  trainSeconds: number;
}

export interface PhaseOrder {
  run: Run;
  base: OpenedBase;
  prepared: Prepared;
  /** Returns the hours that this process spent before its first new work if this phase is that work, otherwise 0. */
  startUp: () => number;
  /** Which phase of the auto-align this is, from 1. */
  number: number;
  plan: PhasePlan;
  from: Adapter;
  /** Number of steps of all earlier phases. Step numbers in events continue from there. */
  stepsBefore: number;
  /** Identity of the request and of everything else that the phase depends on. */
  identity: string;
  /** Reference answers of the dev items that a regression lost. */
  lostGolds: readonly string[];
  /** null where no phase may reinforce. */
  reinforcePlan: ReinforcePlan | null;
  means: Means;
  /** Returns the adapter of a checkpoint that exists: reinforcement waits for the one that its reference names. */
  adapterOf: (checkpoint: string) => Adapter;
  /** Score of every dev item at the checkpoint that the phase starts from. */
  before: readonly number[];
}

const idOfPhase = (number: number): string => `phase-${number}`;
const placeOfPhase = (run: Run, number: number): string => join(run.folder, "plan", idOfPhase(number));
export const adapterOfPhase = (run: Run, number: number): string => join(placeOfPhase(run, number), adapterFile);

/** Folder of a phase's training checkpoints, kept until the phase has ended. */
const checkpointsOfPhase = (run: Run, number: number): string => join(run.folder, "checkpoints", idOfPhase(number));

const adapterFile = "adapter.gguf";
const recordFile = "phase.json";

export const isCarriedOut = async (run: Run, number: number, identity: string): Promise<boolean> =>
  (await keptAt(placeOfPhase(run, number), identity)) !== null;

/** Runs the phase, or reads the result that an earlier process left. `begin` is called only if the phase is run. */
export async function carryOut(order: PhaseOrder, begin: () => Promise<void>): Promise<PhaseMade> {
  const { run, base, number } = order;
  const checkpoints = checkpointsOfPhase(run, number);
  const make = async (): Promise<Trained> => {
    await begin();
    return train(order, checkpoints);
  };
  const made = await stage(placeOfPhase(run, number), order.identity, make, {
    async write(folder, { made, training, inTrainer }) {
      const provenance = {
        "plumbline.alignment_id": run.request.alignment_id,
        "plumbline.base_sha256": run.request.base.sha256,
        "plumbline.phase": String(number),
      };
      await base.trainer.exportGguf(inTrainer, join(folder, adapterFile), provenance);
      await writeJsonDurably(join(folder, recordFile), made);
      await removeScaled(training);
      if (inTrainer === editedName) await base.trainer.dropAdapter(editedName);
      await base.trainer.dropAdapter(adapterName);
    },
    read: async ({ folder }) => JSON.parse(await readFile(join(folder, recordFile), "utf8")) as PhaseMade,
  });
  await rm(checkpoints, { recursive: true, force: true });
  return made;
}

interface Trained {
  made: PhaseMade;
  training: Training;
  /** Name in the trainer of the adapter that the phase made. */
  inTrainer: string;
}

async function train(order: PhaseOrder, checkpoints: string): Promise<Trained> {
  const { run, base, plan, prepared, from, number, stepsBefore } = order;
  const { clock } = run.parts;
  const startUp = order.startUp();
  const began = clock.monotonicMs();
  await run.enter(plan.arm === "distil" ? "repairing" : "training");
  const training = await openTraining(run, base, prepared, {
    folder: checkpoints,
    identity: { request_sha256: order.identity, rows_sha256: prepared.sha256 },
    shape: from.shape,
    load: async () => {
      const { path, shape, warmStart = null } = from;
      // The benefit of a warm start was measured for supervised training only.
      if (path === null)
        return plan.arm === "supervised"
          ? loadWarmStart(run, base.trainer, { adapter: adapterName, shape, prepared })
          : null;
      await base.trainer.load(adapterName, path);
      return warmStart;
    },
    step: stepsBefore,
  });
  const opened = clock.monotonicMs();
  // Seconds of the steps that an earlier process made; the loop's state includes them.
  let before = training.state.trainSeconds;
  const charge = (seconds: number): void => {
    before += seconds;
  };
  const hours = (): number => (before + (clock.monotonicMs() - opened) / 1000) / 3600;
  const { state } = training;
  // At least one step or draw is made, because a phase without any would cost its check and tell the planner nothing.
  const hasBegun = (): boolean => state.step > stepsBefore || (state.reinforce?.draws ?? 0) > 0;
  const isOver = (): boolean => hasBegun() && hours() > plan.hours;
  const { inTrainer, shape, outcome, rowsTaken = 0 } = await arms[plan.arm](order, training, isOver, charge);
  const steps = plan.arm === "scale" ? 0 : state.step - stepsBefore;
  const made: PhaseMade = {
    record: {
      ...plan,
      checkpoint: idOfPhase(number),
      steps_run: steps,
      hours_run: hours(),
      setup_hours: startUp + (opened - began) / 3_600_000,
      ...(outcome !== undefined && { outcome }),
    },
    adapter: { id: idOfPhase(number), shape, rowsSeen: from.rowsSeen + rowsTaken, warmStart: state.warmStart ?? null },
    losses: state.losses,
    trainedTokens: state.trainedTokens,
    processedTokens: state.processedTokens,
    trainSeconds: state.trainSeconds,
  };
  return { made, training, inTrainer };
}

/**
 * Result of an arm: the name of its adapter in the trainer, the adapter's shape, for edits the outcome, and for
 * supervised training the number of rows that were taken in turn.
 */
type Worked = Omit<Represented, "outcome"> & Partial<Represented> & { rowsTaken?: number };

/**
 * Carries out an arm, at most until its steps are done or `isOver` returns true. `charge` adds seconds that an earlier
 * process spent and that the loop's state does not include.
 */
type Work = (
  order: PhaseOrder,
  training: Training,
  isOver: () => boolean,
  charge: (seconds: number) => void,
) => Promise<Worked>;

const trained = ({ shape }: Training): Worked => ({ inTrainer: adapterName, shape });

const arms: Record<PhasePlan["arm"], Work> = {
  supervised,
  distil,
  reinforce: reinforced,
  represent: edited,
  async scale({ run, plan }, training) {
    const { shape } = training;
    const scale = plan.scale!;
    return { inTrainer: await loadScaled(run, training, scale), shape: { ...shape, alpha: shape.alpha * scale } };
  },
};

async function edited(...[order, training, isOver, charge]: Parameters<Work>): Promise<Worked> {
  const { run, number, plan, identity, before } = order;
  const made = await represent({
    ...{ run, training, identity, before, isOver, charge },
    folder: checkpointsOfPhase(run, number),
    isBase: order.from.path === null,
    most: plan.steps,
    seed: plan.seed,
  });
  await run.events.append({ kind: "decision", phase: run.phase, message: `Representations: ${made.outcome.told}` });
  return made;
}

async function supervised(
  { run, plan, prepared, from, stepsBefore, lostGolds }: PhaseOrder,
  training: Training,
  isOver: () => boolean,
): Promise<Worked> {
  const { state, peakRate } = training;
  const { training: recipe, optimizer: pinned, checkpointing } = run.request.recipe;
  const end = stepsBefore + plan.steps;
  // An adapter that was trained before comes without Adam's moments. So does the warm start, but what it knows need not be preserved, so it
  // is trained at the full rate with the short warm-up. It then learned twice as much as a new adapter (test/e2e/RESULTS.md).
  const optimizer = from.path === null ? pinned : { ...pinned, warmup_steps: warmUpAgain(plan.steps, pinned) };
  const share = from.path === null ? 1 : rateAgain;
  const rows = rowsOf(prepared.rows, {
    from: from.rowsSeen,
    count: plan.steps * recipe.batch_size,
    seeds: { order: recipe.seed, phase: plan.seed },
    lostGolds,
  });
  while (state.step < end && !isOver()) {
    await run.turn();
    const done = state.step - stepsBefore;
    const batch = rows.slice(done * recipe.batch_size, (done + 1) * recipe.batch_size).map(({ row }) => row);
    const rate = learningRateAt(done + 1, plan.steps, peakRate * plan.rate_factor * share, optimizer);
    await step(run, training, batch, { rate, end, began: run.parts.clock.monotonicMs() });
    if (state.step % checkpointing.save_every_steps === 0) await saveStep(run, training);
  }
  const seen = rows.slice(0, (state.step - stepsBefore) * recipe.batch_size);
  return { ...trained(training), rowsTaken: seen.filter(({ isInTurn }) => isInTurn).length };
}

/**
 * For an adapter that was trained before: the share of the peak rate, and the share of the steps over which the rate
 * warms up. With fresh moments, Adam's first steps have full size in every coordinate. Measured on sums, of which an
 * adapter had 90 % right: after 42 steps at the full rate, 70 % were still right with a warm-up of 3 steps, and 73 %
 * with a warm-up over half of the steps. At a third of the rate, 83 % and 92 % were.
 */
const rateAgain = 1 / 3;
const warmedAgain = 0.5;

const warmUpAgain = (steps: number, optimizer: Recipe["optimizer"]): number =>
  Math.max(warmUpSteps(steps, optimizer), Math.ceil(warmedAgain * steps));

/**
 * Maximum share of a phase's rows that contain an answer lost in a regression. The other rows preserve what is known.
 */
const focusShare = 0.5;

/** A row of a phase, and whether it was its turn. It was not if the row is there for a lost answer. */
interface PhaseRow {
  row: TrainingRow;
  isInTurn: boolean;
}

/**
 * Returns `count` rows for a phase, shuffled by the phase's seed. They are taken rung by rung, each rung in a seeded
 * order, beginning at position `from` and starting over after the last row. If a regression lost answers, up to half of
 * the rows are instead rows that contain one of `lostGolds`.
 */
export function rowsOf(
  rows: readonly TrainingRow[],
  {
    from,
    count,
    seeds,
    lostGolds,
  }: { from: number; count: number; seeds: { order: number; phase: number }; lostGolds: readonly string[] },
): PhaseRow[] {
  const rungs = Map.groupBy(rows, (row) => row.rung);
  const ordered = [...rungs.keys()]
    .sort((a, b) => a - b)
    .flatMap((rung) => {
      const own = rungs.get(rung)!;
      return [...permutation(seeds.order, rung, own.length)].map((at) => own[at]!);
    });
  const says = (row: TrainingRow): boolean =>
    lostGolds.some((gold) => containsWords(row.messages.at(-1)!.content, gold));
  const lost = lostGolds.length === 0 ? [] : ordered.filter(says).slice(0, Math.floor(focusShare * count));
  const next = Array.from({ length: count - lost.length }, (_, at) => ordered[(from + at) % ordered.length]!);
  const all = [...lost.map((row) => ({ row, isInTurn: false })), ...next.map((row) => ({ row, isInTurn: true }))];
  return [...permutation(seeds.phase, 0, all.length)].map((at) => all[at]!);
}

async function reinforced(order: PhaseOrder, training: Training, isOver: () => boolean): Promise<Worked> {
  const { run, plan, stepsBefore, reinforcePlan } = order;
  const reference = await referenceOf(order, training);
  try {
    await reinforce({
      ...{ run, training, reference, stepsBefore, isOver },
      plan: reinforcePlan!,
      means: order.means,
      steps: plan.steps,
      rateFactor: plan.rate_factor,
      seed: plan.seed,
    });
  } finally {
    if (reference !== null) await closeReference(training, reference);
  }
  return trained(training);
}

async function referenceOf(
  { from, reinforcePlan, adapterOf }: PhaseOrder,
  training: Training,
): Promise<Reference | null> {
  const { source } = reinforcePlan!.reference;
  if (source === null) return null;
  if (source === "base" || source === "initial")
    return openReference(training.trainer, source === "base" ? adapterOf("base") : from);
  if ("emaDecay" in source) return openAverage(training, from, source.emaDecay);
  return openReference(training.trainer, adapterOf(source.checkpoint));
}

async function distil(
  { run, plan, stepsBefore }: PhaseOrder,
  training: Training,
  isOver: () => boolean,
): Promise<Worked> {
  const usual = run.request.recipe.repair!;
  training.state.repair ??= { start: stepsBefore, from: stepsBefore };
  const repairing = { ...usual, steps: plan.steps, lr_factor: usual.lr_factor * plan.rate_factor };
  // The planner decides how many steps are enough.
  await repair(run, training, repairing, { isEnough: async () => false, isOver });
  return trained(training);
}
