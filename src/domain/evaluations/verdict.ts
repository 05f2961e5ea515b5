// Judges whether a model may replace another one. The two are compared on every sealed and every retention split on which both were
// asked the same prompts, and on the guards. A result that is worse by more than chance is evidence against the model.
//
// Several comparisons are several chances to be wrong, so the one-sided tests together have a significance level of 5 % (Holm
// 1979): of models that are no worse at all, at most 5 % are refused. Each comparison also gives the loss that it can miss: a model
// that is worse by `refused_from` points or more is refused in at least 95 % of all cases.
import { type Comparison, compareScores, detectableLoss, holm } from "../../base/statistics/paired.ts";
import type { Guard } from "./guards.ts";
import { comparePairs, type ItemPair } from "./results.ts";

export interface LostItem {
  item: string;
  /** The question. The fields after it have the right answer if there is one, and each model's answer if it was stored. */
  text: string;
  expected: string | null;
  answer: string | null;
  former_answer: string | null;
}

export interface Compared extends Comparison {
  about: "sealed" | "retention" | "guard";
  /** Id of the benchmark, or name of the guard. */
  name: string;
  compared_with: string;
  refused_from: number;
  /** Whether the model is worse by more than chance. */
  regressed: boolean;
  lost_items: LostItem[];
}

export interface Limit {
  name: string;
  value: number;
  most: number;
  exceeded: boolean;
}

/** Maximum number of lost items that a comparison lists. */
const mostLostItems = 100;

type Uncorrected = Omit<Compared, "regressed" | "refused_from">;

/** Adds the verdict that Holm's method gives on all comparisons together. */
export function judgeTogether(compared: readonly Uncorrected[]): Compared[] {
  const regressed = holm(compared.map(({ p_worse }) => p_worse));
  return compared.map((one, index) => ({
    ...one,
    regressed: regressed[index]!,
    refused_from: detectableLoss(one, compared.length),
  }));
}

/** Compares one split of a benchmark. */
export const compareSplit = (
  pairs: readonly ItemPair[],
  about: { about: "sealed" | "retention"; name: string; compared_with: string },
): Uncorrected => ({
  ...about,
  ...comparePairs(pairs),
  lost_items: pairs
    .filter(({ first, second }) => first.score < second.score)
    .slice(0, mostLostItems)
    .map(({ first, second }) => ({
      item: String(first.sample_num),
      text: first.instruction,
      expected: first.response,
      answer: first.answer,
      former_answer: second.answer,
    })),
});

/**
 * Compares a model's scores on a guard with its base's. If `former` is given, compares the model's changes from the base with those of
 * another model over the same base. Items that are not listed have the base's score. Null if the guard compares no items, or if
 * `former` has a different number of items or a different score of the base.
 */
export function compareGuard(guard: Guard, comparedWith: string, former?: Guard): Uncorrected | null {
  if (guard.most != null || guard.n === 0) return null;
  if (former !== undefined && (former.n !== guard.n || former.base !== guard.base)) return null;
  const [own, theirs] = [guard.items, former?.items ?? []].map(
    (items) => new Map(items.map((item) => [item.item, item.aligned - item.base])),
  ) as [Map<string, number>, Map<string, number>];
  const texts = new Map([...guard.items, ...(former?.items ?? [])].map(({ item, text }) => [item, text]));
  const listed = [...texts.keys()].map((item) => ({ item, now: own.get(item) ?? 0, before: theirs.get(item) ?? 0 }));
  const unchanged = Array.from({ length: Math.max(0, guard.n - listed.length) }, (_, index) => ({
    item: `unlisted ${index}`,
    now: 0,
    before: 0,
  }));
  const all = [...listed, ...unchanged];
  return {
    about: "guard",
    name: guard.name,
    compared_with: comparedWith,
    ...compareScores(
      all.map(({ now }) => now),
      all.map(({ before }) => before),
      all.map(({ item }) => item),
    ),
    lost_items: listed
      .filter(({ now, before }) => now < before)
      .slice(0, mostLostItems)
      .map(({ item }) => ({ item, text: texts.get(item)!, expected: null, answer: null, former_answer: null })),
  };
}

/** The limits of the guards that have one, with the model's values. */
export const limitsOf = (guards: readonly Guard[]): Limit[] =>
  guards.flatMap(({ name, aligned, most }) =>
    most == null ? [] : [{ name, value: aligned, most, exceeded: aligned > most }],
  );
