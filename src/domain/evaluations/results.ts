// Computes from graded answers what may be claimed: scores by split and by type, and the paired comparison of two
// models. Pure.

import { binomialTail } from "../../base/statistics/distributions.ts";
import { type ClusteredScore, type Score, scoreOf } from "../../base/statistics/intervals.ts";
import { type Comparison, compareScores, minimumDetectableEffect, significance } from "../../base/statistics/paired.ts";
import type { ItemType, Split } from "../../catalog/store.ts";
import type { Reply } from "../../contract/endpoint.ts";
import type { evaluations } from "../../contract/evaluations.ts";
import type { Guard } from "./guards.ts";
import type { ItemRow } from "./store.ts";

type Results = Reply<(typeof evaluations)["evaluations.results"]>;
export type Paired = NonNullable<Results["paired"]>;
export type JudgeRecord = NonNullable<Results["judge"]>;

/** The summary of an evaluation, as stored in result_json. */
export interface Summary extends ClusteredScore {
  splits: Partial<Record<Split, ClusteredScore>>;
  /** Scores by type on the sealed split. */
  types: TypeScore[];
  clustered_by: ClusteredBy;
  minimum_detectable: number;
  paired: Paired | null;
  judge: JudgeRecord | null;
}

export type TypeScore = Score & { type: ItemType; chance: number | null };
export type ClusteredBy = "document" | "fact";

/** One sentence on the model compared with its base. Null if they were not compared. */
export function headlineOf(paired: Paired | null, guards: readonly Guard[]): string | null {
  if (paired === null) return null;
  const { difference, p_value, minimum_detectable } = paired;
  const gain =
    difference <= 0
      ? "No gain: do not deploy"
      : p_value > significance
        ? `No gain beyond chance: do not deploy. A true gain of ${points(minimum_detectable)} points would probably have been detected`
        : `A gain of ${points(difference)} points over the base, more than chance explains`;
  const fell = fallenIn(guards);
  return fell.length === 0 ? gain : `${gain}; the model got worse at what the base could do: ${fell.join(", ")}`;
}

/** Names of the regression suites in which the model got worse than its base beyond chance, or exceeds the suite's limit. */
export const fallenIn = (guards: readonly Guard[]): string[] => guards.filter(hasFallen).map(({ name }) => name);

const points = (value: number): string => value.toFixed(1);

function hasFallen({ most, aligned, items }: Guard): boolean {
  if (most != null) return aligned > most;
  const lost = items.filter((item) => item.aligned < item.base).length;
  const gained = items.filter((item) => item.aligned > item.base).length;
  return lost > gained && binomialTail(lost, lost + gained, 0.5) <= significance;
}

export const splitNames = ["dev", "sealed", "retention"] as const;
const typeNames = ["short", "numeric", "choice", "long", "refusal"] as const;

/**
 * Minimum number of documents for clustering by document. With fewer clusters, an interval would be almost meaningless.
 */
const fewestDocuments = 10;

/**
 * The cluster of each item, which is the first document that the item cites. If there are too few documents, or an item cites none, the
 * cluster of each item is its fact.
 */
export function clustersOf(items: readonly Pick<ItemRow, "cluster" | "citations_json">[]): {
  by: ClusteredBy;
  clusters: string[];
} {
  const documents = items.map(({ citations_json }) => {
    const [first] = JSON.parse(citations_json) as { document: string }[];
    return first?.document ?? null;
  });
  if (new Set(documents).size < fewestDocuments || documents.includes(null))
    return { by: "fact", clusters: items.map(({ cluster }) => cluster) };
  return { by: "document", clusters: documents.map((document) => document!) };
}

/** Assumed share of items on which two models disagree, if they were not compared. */
const assumedDiscordance = 0.2;

/** The overall `score` is that of the sealed split, because the other splits were seen while the model was made. */
export function summarise(answers: readonly ItemRow[], paired: Paired | null, judge: JudgeRecord | null): Summary {
  const of = (some: readonly ItemRow[]): ClusteredScore =>
    scoreOf(
      some.map(({ score }) => score),
      clustersOf(some).clusters,
    );
  const inSplit = (split: Split): ItemRow[] => answers.filter((answer) => answer.split === split);
  const splits: Summary["splits"] = {};
  for (const split of splitNames) if (inSplit(split).length > 0) splits[split] = of(inSplit(split));
  const sealed = inSplit("sealed");
  const score = of(sealed);
  return {
    ...score,
    splits,
    types: typeNames.flatMap((type) => {
      const some = sealed.filter((answer) => answer.type === type);
      if (some.length === 0) return [];
      const { score, low, high, n } = of(some);
      return [{ type, score, low, high, n, chance: type === "choice" ? chanceOf(some) : null }];
    }),
    clustered_by: clustersOf(sealed).by,
    minimum_detectable:
      paired?.minimum_detectable ??
      minimumDetectableEffect(Math.round(score.n / Math.max(1, score.design_effect)), assumedDiscordance),
    paired,
    judge,
  };
}

/** Expected score of guessing, in points out of 100. */
const chanceOf = (items: readonly ItemRow[]): number =>
  (100 / items.length) *
  items.reduce((sum, { choices_json }) => sum + 1 / (JSON.parse(choices_json) as string[]).length, 0);

/** One side of a comparison: a model's answers in one evaluation. */
export interface Side {
  modelId: string;
  baseModelId: string;
  evaluationId: string;
  answers: readonly ItemRow[];
}

export interface ItemPair {
  first: ItemRow;
  second: ItemRow;
}

/**
 * Pairs the answers of two sides by item. Null if they were not asked the very same prompts, because the template or
 * the benchmark changed. Prompts of models over different bases are not compared, because each base has its own template.
 */
export function pairItems(first: Side, second: Side, split: Split): ItemPair[] | null {
  const theirs = new Map(second.answers.map((answer) => [answer.sample_num, answer]));
  const pairs: ItemPair[] = [];
  for (const answer of first.answers.filter((one) => one.split === split)) {
    const other = theirs.get(answer.sample_num);
    if (other === undefined) return null;
    if (first.baseModelId === second.baseModelId && other.prompt_sha256 !== answer.prompt_sha256) return null;
    pairs.push({ first: answer, second: other });
  }
  return pairs;
}

export const comparePairs = (pairs: readonly ItemPair[]): Comparison =>
  compareScores(
    pairs.map(({ first }) => first.score),
    pairs.map(({ second }) => second.score),
    clustersOf(pairs.map(({ first }) => first)).clusters,
  );

/** Compares two sides on the sealed split. Null if there is nothing to compare. */
export function pair(first: Side, second: Side): Paired | null {
  const pairs = pairItems(first, second, "sealed");
  if (pairs === null || pairs.length === 0) return null;
  return { compared_with: second.modelId, evaluation_id: second.evaluationId, ...comparePairs(pairs) };
}
