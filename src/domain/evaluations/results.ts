// From graded answers to what may be claimed: scores by split, and the paired comparison with the base. Pure.
import { type Score, wilson } from "../../base/statistics/intervals.ts";
import { mcnemar, minimumDetectableEffect } from "../../base/statistics/paired.ts";
import type { Reply } from "../../contract/endpoint.ts";
import type { evaluations } from "../../contract/evaluations.ts";
import type { AnswerRow, Split } from "./store.ts";

type Results = Reply<(typeof evaluations)["evaluations.results"]>;
export type Paired = NonNullable<Results["paired"]>;

/** As it is kept in result_json. */
export interface Summary extends Score {
  splits: Partial<Record<Split, Score>>;
  paired: Paired | null;
}

/** `score` is of the sealed split: the others were seen while the model was made. */
export function summarise(answers: readonly AnswerRow[], paired: Paired | null): Summary {
  const of = (split: Split): Score => {
    const asked = answers.filter((answer) => answer.split === split);
    return wilson(asked.filter((answer) => answer.correct === 1).length, asked.length);
  };
  const splits: Summary["splits"] = {};
  for (const split of ["dev", "sealed", "retention"] as const) {
    const score = of(split);
    if (score.n > 0) splits[split] = score;
  }
  return { ...of("sealed"), splits, paired };
}

/**
 * Item by item over the sealed split; null when the two were not asked the very same prompts, which a changed template or
 * benchmark would mean.
 */
export function pair(
  answers: readonly AnswerRow[],
  other: { modelId: string; evaluationId: string; answers: readonly AnswerRow[] },
): Paired | null {
  const sealed = answers.filter((answer) => answer.split === "sealed");
  const theirs = new Map(other.answers.map((answer) => [answer.sample_num, answer]));
  const isSame = sealed.every((answer) => theirs.get(answer.sample_num)?.prompt_sha256 === answer.prompt_sha256);
  if (!isSame || sealed.length === 0) return null;
  const won = (answer: AnswerRow): number => answer.correct - theirs.get(answer.sample_num)!.correct;
  const gained = sealed.filter((answer) => won(answer) > 0).length;
  const lost = sealed.filter((answer) => won(answer) < 0).length;
  const n = sealed.length;
  return {
    compared_with: other.modelId,
    evaluation_id: other.evaluationId,
    difference: (100 * (gained - lost)) / n,
    gained,
    lost,
    p_value: mcnemar(gained, lost),
    // Two models that never differed do not show that no difference could have hidden: one item is the least that counts.
    minimum_detectable: minimumDetectableEffect(n, Math.max(1, gained + lost) / n),
  };
}
