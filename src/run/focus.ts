// Chooses the rows of a rung by what the rung before showed. The log-probabilities of every row are computed before it is trained on, and
// most rows have a new wording, so the likelihood of an answer tells how well questions in other words find it. Rows of answers that are
// found give way to rows of answers that are not: the number of steps stays the same, and it is spent where it teaches.
import type { Likelihoods } from "./checkpoints.ts";
import { isReplayed } from "./replay.ts";
import type { TrainingRow } from "./rows.ts";

/** Minimum mean likelihood of an answer that counts as found. */
const found = 0.7;
/** Kinds whose answers are the document's own sentences. Few questions need them word for word, so they get no further rows. */
const sentences: ReadonlySet<string> = new Set(["fragment", "in_place", "gap", "recall"]);

/** Rows of a fact have the same target and the same answer. Several facts may have the same answer, such as "yes" or a price. */
const factOf = ({ target = "", messages }: Pick<TrainingRow, "target" | "messages">): string =>
  `${target}\n${messages.at(-1)!.content}`;

/** Returns the likelihood of a row's answer. `logprobs` are those of the row's tokens, in nats. */
export function likelihoodOf(row: TrainingRow, logprobs: Float32Array): number {
  const trained = [...row.weights.keys()].filter((token) => row.weights[token]! > 0);
  return Math.exp(trained.reduce((sum, token) => sum + logprobs[token]!, 0) / trained.length);
}

/**
 * Returns the indices of a rung's rows: as many as `planned`, of which rows of facts whose answer is found are replaced by rows that are
 * planned for other rungs. At least half of the rows of each fact stay, and no fact gets more than twice as many rows as were planned.
 * `likelihoods`: those of the rung before.
 */
export function focused(
  rows: readonly TrainingRow[],
  planned: readonly number[],
  likelihoods: Likelihoods,
): { rows: number[]; exchanged: number } {
  const isPlanned = new Set(planned);
  const own = planned.filter((index) => !isReplayed(rows[index]!));
  const byFact = Map.groupBy(own, (index) => factOf(rows[index]!));
  const means = meansOf(rows, likelihoods);
  const meanOf = (fact: string): number => means.get(fact) ?? 0;
  const given = [...byFact].flatMap(([fact, some]) =>
    meanOf(fact) < found ? [] : some.filter((_, at) => at % 2 === 1),
  );
  const others = Map.groupBy(
    [...rows.keys()].filter((index) => !isPlanned.has(index) && !isReplayed(rows[index]!)),
    (index) => factOf(rows[index]!),
  );
  const missing = [...byFact.keys()]
    .filter((fact) => meanOf(fact) < found)
    .map((fact) => ({
      fact,
      further: (others.get(fact) ?? []).filter((index) => !sentences.has(rows[index]!.kind)).reverse(),
      most: byFact.get(fact)!.length,
    }))
    .sort((a, b) => meanOf(a.fact) - meanOf(b.fact));
  const turns = missing.reduce((all, { further, most }) => Math.max(all, Math.min(further.length, most)), 0);
  // In turn, so that no fact waits until another has all its further rows.
  const further = Array.from({ length: turns }, (_, turn) =>
    missing.flatMap(({ further, most }) => (turn < most ? further.slice(turn, turn + 1) : [])),
  ).flat();
  const exchanged = Math.min(given.length, further.length);
  const left = new Set(given.slice(0, exchanged));
  return { rows: [...planned.filter((index) => !left.has(index)), ...further.slice(0, exchanged)], exchanged };
}

/** Returns the mean likelihood of each fact's answer. */
function meansOf(rows: readonly TrainingRow[], likelihoods: Likelihoods): Map<string, number> {
  const byFact = Map.groupBy(likelihoods, ([row]) => factOf(rows[row]!));
  return new Map(
    [...byFact].map(([fact, some]) => [fact, some.reduce((sum, [, likelihood]) => sum + likelihood, 0) / some.length]),
  );
}
