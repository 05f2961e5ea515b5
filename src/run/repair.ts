// Repair by on-policy distillation: the adapter continues generic openings, and learns, at every position of its
// continuation, what the base would have said there. It keeps what it learned of the documents, because each step also
// trains on rows of theirs.
import type { Recipe } from "../contract/recipe.ts";
import type { Run } from "./context.ts";
import { continued, isReplayed, naturalShareOf, openingsOf, rowOf } from "./replay.ts";
import type { TrainingRow } from "./rows.ts";
import { learningRateAt, permutation } from "./schedule.ts";
import { adapterName, saveStep, step, type Training } from "./training.ts";

type Plan = NonNullable<Recipe["repair"]>;

/**
 * Steps whose openings are answered together: decoding a few rows costs nearly what many cost, and five steps change
 * little.
 */
const stepsOfDraw = 5;

/** What ends a repair before its last step. */
export interface Ends {
  /** Asked at every check. Depends on the weights alone, so that a run resumed at a check can ask again. */
  isEnough(): Promise<boolean>;
  /** Asked before every step: whether its time is used up. */
  isOver(): boolean;
}

/**
 * Trains from the trainer's current state to the last repair step, or to what ends it before; resumable at every
 * checkpoint.
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
    // No draw reaches beyond a checkpoint or a check, so that a resumed run draws from the same weights.
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

/** The adapter's continuations for the next steps. They depend on the step's number and the weights. */
async function draw(run: Run, training: Training, plan: Plan, steps: number): Promise<TrainingRow[][]> {
  const { trainer, state } = training;
  // A seed that no replay in training has, for another order of prompts and other draws.
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

/** Rows of the documents; all of them come once before one comes a second time. */
function kept({ prepared }: Training, count: number, number: number, seed: number) {
  const rows = prepared.rows.filter((row) => !isReplayed(row));
  const first = (number - 1) * count;
  return Array.from({ length: Math.min(count, rows.length) }, (_, at) => {
    const round = Math.floor((first + at) / rows.length);
    return rows[permutation(seed, round, rows.length)[(first + at) % rows.length]!]!;
  });
}
