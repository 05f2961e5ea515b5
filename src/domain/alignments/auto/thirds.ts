// The thirds of a benchmark's sealed questions that an auto-align may look at, one after the other. A pure function of the questions, so
// that they are fixed before anything trains. Questions about one fact lie in one third: else a look would tell of the next.
import { sha256 } from "../../../base/files.ts";

export interface SealedItem {
  sample_num: number;
  cluster: string;
}

export const thirdsCount = 3;

/**
 * Disjoint, all of them, and as large as one another as the clusters allow: the largest cluster first, each into the smallest third so far.
 * Which of two as large comes first is a matter of their hashes, not of where they stand in the benchmark. null: there are fewer
 * clusters than thirds.
 */
export function thirdsOf<Item extends SealedItem>(sealed: readonly Item[]): Item[][] | null {
  const clusters = [...Map.groupBy(sealed, ({ cluster }) => cluster)].map(([cluster, items]) => ({
    items,
    hash: sha256(cluster),
  }));
  if (clusters.length < thirdsCount) return null;
  clusters.sort((a, b) => b.items.length - a.items.length || (a.hash < b.hash ? -1 : 1));
  const thirds: Item[][] = Array.from({ length: thirdsCount }, () => []);
  for (const { items } of clusters)
    thirds.reduce((least, third) => (third.length < least.length ? third : least)).push(...items);
  for (const third of thirds) third.sort((a, b) => a.sample_num - b.sample_num);
  return thirds;
}
