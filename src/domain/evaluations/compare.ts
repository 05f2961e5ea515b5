// Compares two models side by side: on request, and when one is to be promoted in place of the other.
import { Failure } from "../../base/errors.ts";
import type { Clock } from "../../base/time.ts";
import type { Reply } from "../../contract/endpoint.ts";
import type { evaluations } from "../../contract/evaluations.ts";
import type { Store } from "../../store/open.ts";
import { fromGuardRow } from "./guards.ts";
import { sideOf } from "./job.ts";
import { comparePairs, type ItemPair, pairItems, type Side, splitNames, summarise } from "./results.ts";
import type { EvaluationsSql, ItemRow, Purpose } from "./store.ts";
import { type Compared, compareGuard, compareSplit, judgeTogether, type Limit, limitsOf } from "./verdict.ts";

type ComparisonRecord = Reply<(typeof evaluations)["evaluations.compare"]>;

export interface Verdict {
  /** Id of the model that would be replaced. */
  compared_with: string;
  comparisons: Compared[];
  limits: Limit[];
  /** If no sealed split could be compared, why nothing is proven; else null. */
  unproven: string | null;
}

export interface ComparingParts {
  store: Store;
  sql: EvaluationsSql;
  clock: Clock;
}

export interface Comparing {
  /**
   * Compares the latest finished evaluations of two models on a benchmark. Throws conflict if one of the models has none, or if the two
   * were not asked the same prompts.
   */
  compare(ownerId: string, modelId: string, otherId: string, benchmarkId: string): ComparisonRecord;
  judgePromotion(ownerId: string, modelId: string, inPlaceOf: string): Verdict;
}

export function createComparing({ store, sql, clock }: ComparingParts): Comparing {
  const touch = (benchmarkId: string, sides: readonly Side[], purpose: Purpose): void =>
    store.transaction(() => {
      for (const { evaluationId, modelId } of sides)
        sql.touch.run({ benchmarkId, evaluation_id: evaluationId, model_id: modelId, purpose, at: clock.now() });
    });

  const latest = (ownerId: string, modelId: string, benchmarkId: string): Side | null => {
    const row = sql.latestReady.get({ ownerId, modelId, benchmarkId });
    return row === undefined ? null : sideOf(sql, row);
  };

  /** The splits on which both models were asked the same prompts, with the paired answers. */
  const splitsOf = (first: Side, second: Side) =>
    splitNames.flatMap((split) => {
      const pairs = pairItems(first, second, split);
      return pairs === null || pairs.length === 0 ? [] : [{ split, pairs }];
    });

  function compare(ownerId: string, modelId: string, otherId: string, benchmarkId: string): ComparisonRecord {
    const [first, second] = [modelId, otherId].map((id) => {
      const side = latest(ownerId, id, benchmarkId);
      if (side === null) throw new Failure("conflict", `${id} has no finished evaluation on ${benchmarkId}: start one`);
      return side;
    }) as [Side, Side];
    const shared = splitsOf(first, second);
    if (shared.length === 0)
      throw new Failure("conflict", "The two evaluations did not use the same prompts: evaluate both again");
    if (shared.some(({ split }) => split === "sealed")) touch(benchmarkId, [first, second], "comparison");
    return {
      benchmark_id: benchmarkId,
      model_id: first.modelId,
      evaluation_id: first.evaluationId,
      compared_with: second.modelId,
      compared_evaluation_id: second.evaluationId,
      scores: summarise(first.answers, null, null).splits,
      compared_scores: summarise(second.answers, null, null).splits,
      splits: Object.fromEntries(shared.map(({ split, pairs }) => [split, comparePairs(pairs)])),
      items: shared.flatMap(({ pairs }) => pairs.map(sideBySide)),
    };
  }

  function judgePromotion(ownerId: string, modelId: string, inPlaceOf: string): Verdict {
    const benchmarks = sql.benchmarksOf.all({ ownerId, modelId }).map(({ benchmark_id }) => benchmark_id);
    const ofBenchmarks = benchmarks.flatMap((name) => {
      const [first, second] = [latest(ownerId, modelId, name)!, latest(ownerId, inPlaceOf, name)];
      if (second === null) return [];
      const shared = splitsOf(first, second);
      if (shared.some(({ split }) => split === "sealed")) touch(name, [first, second], "promotion");
      return shared.flatMap(({ split, pairs }) =>
        split === "dev" ? [] : [compareSplit(pairs, { about: split, name, compared_with: inPlaceOf })],
      );
    });
    const guards = sql.guards.all(modelId).map(fromGuardRow);
    const theirs = new Map(sql.guards.all(inPlaceOf).map((row) => [row.name, fromGuardRow(row)]));
    const ofGuards = guards.flatMap((guard) => {
      const former = theirs.get(guard.name);
      return [compareGuard(guard, "base"), former ? compareGuard(guard, inPlaceOf, former) : null].filter(
        (compared) => compared !== null,
      );
    });
    return {
      compared_with: inPlaceOf,
      comparisons: judgeTogether([...ofBenchmarks, ...ofGuards]),
      limits: limitsOf(guards),
      unproven: ofBenchmarks.some(({ about }) => about === "sealed") ? null : reasonUnproven(benchmarks, inPlaceOf),
    };
  }

  return { compare, judgePromotion };
}

const reasonUnproven = ([benchmark]: readonly string[], inPlaceOf: string): string =>
  benchmark === undefined
    ? "The model has no finished evaluation on the sealed split of a benchmark"
    : `${inPlaceOf} was not evaluated with the same prompts on the sealed items of ${benchmark}`;

const sideBySide = ({ first, second }: ItemPair): ComparisonRecord["items"][number] => ({
  sample_num: first.sample_num,
  split: first.split,
  type: first.type,
  instruction: first.instruction,
  response: first.response,
  outcome: first.score > second.score ? "gained" : first.score < second.score ? "lost" : "same",
  model: said(first),
  compared: said(second),
});

const said = ({ answer, score, correct, confidence }: ItemRow): ComparisonRecord["items"][number]["model"] => ({
  answer,
  score,
  correct: correct === 1,
  confidence_score: confidence,
});
