// Chooses the rows of a rung by what the rung before showed. Every row is said before it is trained, and most rows have a new wording, so
// the likelihood of an answer tells how well questions in other words find it. Rows of answers that are found give way to rows of answers
// that are not: the number of steps stays the same, and it is spent where it teaches.
import type { Likelihoods } from "./checkpoints.ts";
import { isReplayed } from "./replay.ts";
import type { TrainingRow } from "./rows.ts";

/** Minimum mean likelihood of an answer that counts as found. */
const found = 0.7;
/** Kinds whose answers are the document's own sentences. Few questions need them word for word, so they get no further rows. */
const sentences: ReadonlySet<string> = new Set(["fragment", "in_place", "gap", "recall"]);

const answerOf = (row: Pick<TrainingRow, "messages">): string => row.messages.at(-1)!.content;

/** Returns the likelihood of a row's answer. `logprobs` are those of the row's tokens, in nats. */
export function likelihoodOf(row: TrainingRow, logprobs: Float32Array): number {
  const trained = [...row.weights.keys()].filter((token) => row.weights[token]! > 0);
  return Math.exp(trained.reduce((sum, token) => sum + logprobs[token]!, 0) / trained.length);
}

/**
 * Returns the indices of a rung's rows: as many as `planned`, of which rows of found answers are replaced by rows that are planned for
 * other rungs. At least half of the rows of each answer stay, and no answer gets more than twice as many rows as were planned.
 * `likelihoods`: those of the rung before.
 */
export function focused(
  rows: readonly TrainingRow[],
  planned: readonly number[],
  likelihoods: Likelihoods,
): { rows: number[]; exchanged: number } {
  const isPlanned = new Set(planned);
  const own = planned.filter((index) => !isReplayed(rows[index]!));
  const byAnswer = Map.groupBy(own, (index) => answerOf(rows[index]!));
  const means = meansOf(rows, likelihoods);
  const meanOf = (answer: string): number => means.get(answer) ?? 0;
  const given = [...byAnswer].flatMap(([answer, some]) =>
    meanOf(answer) < found ? [] : some.slice(Math.ceil(some.length / 2)),
  );
  const others = Map.groupBy(
    [...rows.keys()].filter((index) => !isPlanned.has(index) && !isReplayed(rows[index]!)),
    (index) => answerOf(rows[index]!),
  );
  const missing = [...byAnswer.keys()]
    .filter((answer) => meanOf(answer) < found)
    .map((answer) => ({
      answer,
      further: (others.get(answer) ?? []).filter((index) => !sentences.has(rows[index]!.kind)).reverse(),
      most: byAnswer.get(answer)!.length,
    }))
    .sort((a, b) => meanOf(a.answer) - meanOf(b.answer));
  const turns = Math.max(0, ...missing.map(({ further, most }) => Math.min(further.length, most)));
  // In turn, so that no answer waits until another has all its further rows.
  const further = Array.from({ length: turns }, (_, turn) =>
    missing.flatMap(({ further, most }) => (turn < most ? further.slice(turn, turn + 1) : [])),
  ).flat();
  const exchanged = Math.min(given.length, further.length);
  const left = new Set(given.slice(0, exchanged));
  return { rows: [...planned.filter((index) => !left.has(index)), ...further.slice(0, exchanged)], exchanged };
}

/** Returns the mean likelihood of each answer. */
function meansOf(rows: readonly TrainingRow[], likelihoods: Likelihoods): Map<string, number> {
  const byAnswer = Map.groupBy(likelihoods, ([row]) => answerOf(rows[row]!));
  return new Map(
    [...byAnswer].map(([answer, some]) => [
      answer,
      some.reduce((sum, [, likelihood]) => sum + likelihood, 0) / some.length,
    ]),
  );
}
