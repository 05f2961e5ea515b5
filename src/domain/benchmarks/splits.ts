// Decides which items may be seen while training (dev), and which only at the end (sealed). Unless a row names a split,
// a hash of the item's cluster determines the split. So items that belong together stay together, and an item keeps its
// split when a benchmark grows.
import { createHash } from "node:crypto";
import type { Split } from "../../catalog/store.ts";
import type { Complain, Row } from "./row.ts";

const devShare = 0.4;

export function assignSplits(rows: Row[], complain: Complain): { cluster: string; split: Split }[] {
  const clusters = rows.map((row) => row.cluster ?? `item-${digest(row.instruction).toString("hex").slice(0, 16)}`);
  const written = new Map<string, { split: Split; row: number }>();
  rows.forEach(({ split }, index) => {
    if (split === undefined) return;
    const before = written.get(clusters[index]!);
    if (!before) written.set(clusters[index]!, { split, row: index + 1 });
    else if (before.split !== split)
      complain(index + 1, ["split"], `row ${before.row} already puts its cluster in ${before.split}`);
  });
  const splitOf = new Map<string, Split>([...written].map(([cluster, { split }]) => [cluster, split]));
  const drawn = new Map<string, number>();
  for (const cluster of clusters) if (!written.has(cluster) && !drawn.has(cluster)) drawn.set(cluster, share(cluster));
  for (const [cluster, drawnShare] of drawn) splitOf.set(cluster, drawnShare < devShare ? "dev" : "sealed");
  // If there are only a few items, all can fall into dev, and a benchmark without a sealed item would prove nothing.
  const last = [...drawn].sort((a, b) => b[1] - a[1])[0];
  if (last && ![...splitOf.values()].includes("sealed")) splitOf.set(last[0], "sealed");
  return clusters.map((cluster) => ({ cluster, split: splitOf.get(cluster)! }));
}

const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

/** Maps the cluster to a number that is uniform in [0, 1). */
const share = (cluster: string): number => digest(`split:${cluster}`).readUInt32BE() / 2 ** 32;
