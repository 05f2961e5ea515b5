// May a model take another one's place? It is compared on every sealed split that both were asked, on the retention splits, and on
// the guards; what it does worse by more than chance speaks against it.
//
// Several comparisons are several chances to be wrong: the one-sided tests are held to 5 % together (Holm 1979), so that of models
// that are no worse at all fewer than 5 % are refused. How large a loss such a comparison lets through is printed beside it:
// a model that is worse by `refused_from` points or more is refused in 95 % of all cases.
import { type Comparison, compareScores, detectableLoss, holm } from "../../base/statistics/paired.ts";
import type { Guard } from "./guards.ts";
import { comparePairs, type ItemPair } from "./results.ts";

export interface LostItem {
  item: string;
  /** What was asked, what is right where one thing is, and what each model said where it was kept. */
  text: string;
  expected: string | null;
  answer: string | null;
  former_answer: string | null;
}

export interface Compared extends Comparison {
  about: "sealed" | "retention" | "guard";
  /** The benchmark or the guard. */
  name: string;
  compared_with: string;
  refused_from: number;
  /** Worse by more than chance. */
  regressed: boolean;
  lost_items: LostItem[];
}

export interface Limit {
  name: string;
  value: number;
  most: number;
  exceeded: boolean;
}

/** Loses of a comparison are listed so far. */
const mostLostItems = 100;

type Uncorrected = Omit<Compared, "regressed" | "refused_from">;

/** With what all of them together say. */
export function judgeTogether(compared: readonly Uncorrected[]): Compared[] {
  const regressed = holm(compared.map(({ p_worse }) => p_worse));
  return compared.map((one, index) => ({
    ...one,
    regressed: regressed[index]!,
    refused_from: detectableLoss(one, compared.length),
  }));
}

/** Of one split of a benchmark. */
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
 * What a guard's model changed of its base's scores, beside no change at all, or beside what another model over the same base changed.
 * Items that are not listed are as the base has them. Null where there are none, or the two were not asked the same.
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

/** Guards that have a limit. */
export const limitsOf = (guards: readonly Guard[]): Limit[] =>
  guards.flatMap(({ name, aligned, most }) =>
    most == null ? [] : [{ name, value: aligned, most, exceeded: aligned > most }],
  );
