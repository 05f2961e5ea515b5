// Splits a benchmark's sealed questions into the thirds that an auto-align may look at, one after the other. The thirds
// depend only on the questions, so they are fixed before anything trains. Questions about one fact are in one third,
// because otherwise one look would reveal something of the next.
import { sha256 } from "../../../base/files.ts";

export interface SealedItem {
  sample_num: number;
  cluster: string;
}

export const thirdsCount = 3;

/**
 * Splits the questions into three disjoint parts of nearly equal size. Takes the clusters from the largest to the
 * smallest and puts each into the part that is smallest so far. Orders clusters of the same size by hash, not by their
 * place in the benchmark. Returns null if there are fewer than three clusters.
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
