// What a report says of the guards, in the form in which it stays with the model.
import type { GuardResults, Recipe } from "../../contract/run-folder.ts";

export interface KeptGuard {
  name: string;
  n: number;
  base: number;
  aligned: number;
  /** The aligned model's value at most; null where items are compared. */
  most: number | null;
  /** Those that the two answered differently, by what was asked. */
  items: { item: string; text: string; base: number; aligned: number }[];
}

/** Those that a loss counts for; none of a run whose preset watches no guard. */
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
