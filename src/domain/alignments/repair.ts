// Repair by on-policy distillation: the adapter goes on with generic openings by itself, and learns at every place of what it said
// what the base would have said there. What it learned of the documents stays, because each step also goes over rows of theirs.
import type { Recipe } from "../../contract/run-folder.ts";
import type { Run } from "./context.ts";
import { continued, isReplayed, openingsOf, rowOf } from "./replay.ts";
import { learningRateAt, permutation } from "./schedule.ts";
import { adapterName, saveStep, step, type Training } from "./training.ts";

type Plan = NonNullable<Recipe["repair"]>;

/** From where the trainer stands to the last of the repair's steps; resumable at every checkpoint. */
export async function repair(run: Run, training: Training, plan: Plan): Promise<void> {
  const { state } = training;
  const { checkpointing } = run.request.recipe;
  const end = state.repair!.from + plan.steps;
  while (state.step < end) {
    await run.turn();
    await repairStep(run, training, plan, state.step + 1 - state.repair!.from);
    if (state.step === end || state.step % checkpointing.save_every_steps === 0) await saveStep(run, training);
  }
}

/** Step 1…plan.steps. Everything follows from its number and the weights. */
async function repairStep(run: Run, training: Training, plan: Plan, number: number): Promise<void> {
  const { trainer, state, peakRate } = training;
  const { optimizer, training: recipe } = run.request.recipe;
  const began = run.parts.clock.monotonicMs();
  // A seed that no replay in training has: another order of prompts, other draws.
  const seed = recipe.seed + 1_000_003 * number;
  const openings = openingsOf(run, plan.prompts, seed);
  const said = await continued(run, trainer, adapterName, openings, { maxTokens: plan.tokens, seed });
  const own = openings.map((opening, index) => rowOf(run, opening, said[index]!.tokens, said[index]!.logprobs));
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

/** Rows of the documents, all of them before one comes a second time. */
function kept({ prepared }: Training, count: number, number: number, seed: number) {
  const rows = prepared.rows.filter((row) => !isReplayed(row));
  const first = (number - 1) * count;
  return Array.from({ length: Math.min(count, rows.length) }, (_, at) => {
    const round = Math.floor((first + at) / rows.length);
    return rows[permutation(seed, round, rows.length)[(first + at) % rows.length]!]!;
  });
}
