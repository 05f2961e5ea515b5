// Repair by on-policy distillation. The adapter continues generic openings and, at every position of its continuation, learns what the base
// would have said there. It keeps what it has learned from the documents, because each step also trains on some of their rows.
import type { Recipe } from "../contract/recipe.ts";
import type { Run } from "./context.ts";
import { continued, isReplayed, naturalShareOf, openingsOf, rowOf } from "./replay.ts";
import type { TrainingRow } from "./rows.ts";
import { learningRateAt, permutation } from "./schedule.ts";
import { adapterName, saveStep, step, type Training } from "./training.ts";

type Plan = NonNullable<Recipe["repair"]>;

/**
 * Number of steps whose openings are continued together. Decoding a few rows costs nearly as much as decoding many, and five steps change
 * the weights little.
 */
const stepsOfDraw = 5;

/** Conditions that end a repair before its last step. */
export interface Ends {
  /** Called at every check. The answer must depend on the weights alone, so that a run resumed at a check gets the same one. */
  isEnough(): Promise<boolean>;
  /** Called before every step. Returns whether the repair's time is used up. */
  isOver(): boolean;
}

/**
 * Trains from the trainer's current state until the last repair step, or until `isEnough` or `isOver` ends the repair. It can be resumed at
 * every checkpoint.
 */
export async function repair(run: Run, training: Training, plan: Plan, { isEnough, isOver }: Ends): Promise<void> {
  const { state } = training;
  const { save_every_steps: saveEvery } = run.request.recipe.checkpointing;
  const { check_every_steps: checkEvery } = plan;
  const { from } = state.repair!;
  const end = from + plan.steps;
  let drawn: TrainingRow[][] = [];
  while (state.step < end && !isOver()) {
    await run.turn();
    const done = state.step - from;
    if (done > 0 && done % checkEvery === 0 && (await isEnough())) break;
    const began = run.parts.clock.monotonicMs();
    // No draw reaches beyond a checkpoint or a check, so that a resumed run draws with the same weights.
    if (drawn.length === 0) {
      const untilSave = saveEvery - (state.step % saveEvery);
      const untilCheck = checkEvery - (done % checkEvery);
      drawn = await draw(run, training, plan, Math.min(stepsOfDraw, untilSave, untilCheck, end - state.step));
    }
    await repairStep(run, training, plan, drawn.shift()!, began);
    const isCheck = (state.step - from) % checkEvery === 0;
    if (state.step === end || isCheck || state.step % saveEvery === 0) await saveStep(run, training);
  }
}

/** Draws the adapter's continuations for the next steps. They depend on the step's number and the weights. */
async function draw(run: Run, training: Training, plan: Plan, steps: number): Promise<TrainingRow[][]> {
  const { trainer, state } = training;
  // No replay in training has this seed, so the order of the prompts and the draws are different.
  const seed = run.request.recipe.training.seed + 1_000_003 * (state.step + 1 - state.repair!.from);
  const natural = naturalShareOf(training.prepared.rows.filter((row) => !isReplayed(row)));
  const openings = openingsOf(run, steps * plan.prompts, seed, natural);
  const said = await continued(run, trainer, adapterName, openings, { maxTokens: plan.tokens, seed });
  const rows = openings.map((opening, index) => rowOf(run, opening, said[index]!.tokens));
  return Array.from({ length: steps }, (_, at) => rows.slice(at * plan.prompts, (at + 1) * plan.prompts));
}

async function repairStep(
  run: Run,
  training: Training,
  plan: Plan,
  own: readonly TrainingRow[],
  began: number,
): Promise<void> {
  const { state, peakRate } = training;
  const { optimizer, training: recipe } = run.request.recipe;
  const number = state.step + 1 - state.repair!.from;
  const rows = [...own, ...kept(training, plan.rows, number, recipe.seed)].filter((row) =>
    row.weights.some((weight) => weight > 0),
  );
  await step(run, training, rows, {
    rate: learningRateAt(number, plan.steps, peakRate * plan.lr_factor, optimizer),
    end: state.repair!.from + plan.steps,
    began,
    topK: plan.top_k,
  });
}

/** Returns `count` rows of the documents for a repair step. Every row comes once before any comes again. */
function kept({ prepared }: Training, count: number, number: number, seed: number) {
  const rows = prepared.rows.filter((row) => !isReplayed(row));
  const first = (number - 1) * count;
  return Array.from({ length: Math.min(count, rows.length) }, (_, at) => {
    const round = Math.floor((first + at) / rows.length);
    return rows[permutation(seed, round, rows.length)[(first + at) % rows.length]!]!;
  });
}
