// The rungs of a training, new wordings of the same facts each: whether there is another one, and what of it is still to be learned.
// Whoever says a row's answer before it was trained on knows the fact, and the steps are better spent on others.
import type { Run } from "./context.ts";
import { packed } from "./guards/measure.ts";
import { isReplayed } from "./replay.ts";
import type { TrainingRow } from "./rows.ts";
import { microBatches } from "./schedule.ts";
import { adapterName, checkTokens, type Training } from "./training.ts";

/** Probability of the whole answer from which on a row is known. */
const knownFrom = 0.9;
/** Of known rows one in so many is gone over all the same: what is left out for a whole rung is forgotten while others are learned. */
const keptEvery = 3;

/** At the end of a rung: on to the next one while the dev score rises, or the end of training. */
export async function climb(run: Run, training: Training, why: "steps" | "patience"): Promise<void> {
  const { state, rungs } = training;
  const { max_steps } = run.request.recipe.training;
  const { index, before } = state.rung;
  const isLast = index + 1 === rungs.length || (max_steps !== null && state.step >= max_steps);
  const best = state.best?.score ?? null;
  if (isLast) state.ended = why;
  // Without dev questions nothing says that a rung was of no use.
  else if (best !== null && (best <= before || best === 100)) state.ended = "plateau";
  else {
    const rows = await outstanding(run, training, rungs[index + 1]!);
    state.rung = { index: index + 1, from: state.step, before: best ?? before, rows };
    state.checksWithoutGain = 0;
  }
  if (rungs.length === 1) return;
  const scores = best === null ? "" : `: the dev score went from ${before.toFixed(1)} to ${best.toFixed(1)}`;
  const next =
    state.ended === null
      ? `rung ${index + 2} of ${rungs.length} follows with ${state.rung.rows!.length} of its ${rungs[index + 1]!.length} rows, the others are known`
      : "training ends";
  await run.events.append({
    kind: "decision",
    phase: "training",
    step: state.step,
    message: `Rung ${index + 1} is done${scores}; ${next}`,
  });
}

/** Of the rung's rows those that are trained. */
async function outstanding(run: Run, training: Training, rung: readonly number[]): Promise<number[]> {
  const { rows } = training.prepared;
  const own = rung.filter((at) => !isReplayed(rows[at]!));
  const said = await answered(
    run,
    training,
    own.map((at) => rows[at]!),
  );
  const replayed = rung.filter((at) => isReplayed(rows[at]!));
  return withoutKnown(own, said, replayed);
}

/**
 * Those of `own` rows, whose answers have the given probabilities, that are still to be learned, some of the known ones, and of
 * `replayed` rows as large a share as of these.
 */
export function withoutKnown(
  own: readonly number[],
  probabilities: readonly number[],
  replayed: readonly number[],
): number[] {
  let known = 0;
  const kept = own.filter((_, index) => probabilities[index]! < knownFrom || known++ % keptEvery === 0);
  return [...kept, ...replayed.slice(0, Math.ceil((replayed.length * kept.length) / own.length))];
}

/** The probability of each row's answer by the adapter as it stands. */
async function answered(run: Run, { trainer }: Training, rows: readonly TrainingRow[]): Promise<number[]> {
  const probabilities: number[] = [];
  for (const call of microBatches([...rows.keys()], (at) => rows[at]!.tokens.length, checkTokens)) {
    const some = call.map((at) => rows[at]!);
    // Answers stand at the end of a row: what is not trained goes before them.
    const prompts = Int32Array.from(some, ({ weights }) => weights.findIndex((weight) => weight > 0));
    const logprobs = await trainer.score(adapterName, packed(some.map(({ tokens }) => [...tokens])), prompts);
    let from = 0;
    for (const { tokens, weights } of some) {
      probabilities.push(
        Math.exp(weights.reduce((sum, weight, t) => (weight > 0 ? sum + logprobs[from + t]! : sum), 0)),
      );
      from += tokens.length;
    }
    await run.progress(probabilities.length, rows.length, "rows");
    await run.turn();
  }
  return probabilities;
}
