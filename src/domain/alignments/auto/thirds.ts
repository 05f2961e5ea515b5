// The thirds of a benchmark's sealed questions that an auto-align may look at, one after the other. A pure function of
// the questions, so that the thirds are fixed before anything trains. Questions about one fact are in one third:
// otherwise one look would reveal something of the next.
import { sha256 } from "../../../base/files.ts";

export interface SealedItem {
  sample_num: number;
  cluster: string;
}

export const thirdsCount = 3;

/**
 * Splits the questions into disjoint thirds, as equal in size as the clusters allow: the largest cluster first, each
 * into the smallest third so far. Clusters of the same size are ordered by hash, not by their place in the benchmark.
 * Null if there are fewer clusters than thirds.
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
