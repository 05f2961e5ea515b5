// Removes the copies of a document from run folders, on the request of its owner.
import { join } from "node:path";
import { Failure } from "../../base/errors.ts";
import type { RunCatalog } from "../../catalog/runs.ts";
import { removeSnapshot } from "./snapshot.ts";

export interface Snapshots {
  /**
   * Deletes a document's snapshots in all alignments of the owner, with the rows made from them. Throws conflict while one of the
   * alignments is under way.
   */
  remove(ownerId: string, documentId: string): Promise<void>;
  /** Whether one of these documents is being removed. If so, nothing that was made from them meanwhile may be kept. */
  isLosing(documentIds: readonly string[]): boolean;
}

/** `runs`: directory of the run folders. */
export function createSnapshots({ runs, catalog }: { runs: string; catalog: { runs: RunCatalog } }): Snapshots {
  const losing = new Set<string>();
  return {
    async remove(ownerId, documentId) {
      const live = catalog.runs.snapshotsOf(ownerId, documentId).filter((one) => one.under_way);
      if (live.length > 0)
        throw new Failure(
          "conflict",
          `Running alignments need the snapshot: ${live.map((one) => one.alignment_id).join(", ")}`,
        );
      losing.add(documentId);
      try {
        for (const { id } of catalog.runs.holding(ownerId, documentId))
          await removeSnapshot(join(runs, id), documentId);
      } finally {
        losing.delete(documentId);
      }
    },
    isLosing: (documentIds) => documentIds.some((id) => losing.has(id)),
  };
}
