// Converts the guard results of a report into the form that is stored with the model.

import type { Recipe } from "../../contract/recipe.ts";
import type { GuardResults } from "../../contract/run-folder.ts";

export interface KeptGuard {
  name: string;
  n: number;
  base: number;
  aligned: number;
  /** Upper limit of the aligned model's value; null if items are compared. */
  most: number | null;
  /** Items that base and aligned model answered differently, identified by their question. */
  items: { item: string; text: string; base: number; aligned: number }[];
}

/** Returns the results of the guards that gate the run; empty if its preset watches no guard. */
export function guardsOf({ guards, recipe }: { guards?: GuardResults | null; recipe?: Recipe }): KeptGuard[] {
  if (!guards || !recipe?.guards) return [];
  const { suites, drift } = guards;
  const { max_kl, max_perplexity_rise } = recipe.guards;
  const changed = (texts: readonly string[], base: number) =>
    texts.map((text) => ({ item: text, text, base, aligned: 1 - base }));
  return [
    ...suites
      .filter((suite) => suite.gates)
      .map(({ name, n, base, aligned, lost, gained }) => ({
        name,
        n,
        base,
        aligned,
        most: null,
        items: [...changed(lost, 1), ...changed(gained, 0)],
      })),
    { name: "kl", n: drift.tokens, base: 0, aligned: drift.kl, most: max_kl, items: [] },
    {
      name: "perplexity_rise",
      n: drift.tokens,
      base: 0,
      aligned: drift.perplexity_rise,
      most: max_perplexity_rise,
      items: [],
    },
  ];
}
