// Looks up what the work of alignments, evaluations and benchmark creation holds and still needs.
import type { DocumentSnapshot } from "../contract/documents.ts";
import type { Store } from "../store/open.ts";
import { type HolderRow, prepareRunReads } from "./store.ts";

export interface RunCatalog {
  /** Whether an alignment job of the owner is unfinished. */
  isAligning(ownerId: string): boolean;
  /** The owner's alignments, including auto-aligns, that hold a snapshot of the document; newest first. */
  holding(ownerId: string, documentId: string): HolderRow[];
  /** As `holding`, but with one entry per project: a project and its auto-aligns are listed once, under the project's id. */
  snapshotsOf(ownerId: string, documentId: string): DocumentSnapshot[];
  /** Ids of unfinished alignments that are measured on a benchmark. For an auto-align, this is the id of its project. */
  alignmentsOn(benchmarkId: string): string[];
  /** Ids of the evaluations on a benchmark: `live` are unfinished. */
  evaluationsOn(benchmarkId: string): { live: string[]; ended: string[] };
  /**
   * Ids of unfinished work that needs a model: evaluations, benchmarks that are being created, and alignments that use the model as
   * teacher, judge or preference model.
   */
  needing(modelId: string): string[];
}

export function catalogRuns(store: Store): RunCatalog {
  const rows = prepareRunReads(store);
  const idsOf = (found: readonly { id: string }[]): string[] => [...new Set(found.map(({ id }) => id))];
  const holding = (ownerId: string, documentId: string): HolderRow[] => rows.holding.all({ ownerId, documentId });
  return {
    isAligning: (ownerId) => rows.isAligning.get(ownerId)!.any === 1,
    holding,
    snapshotsOf(ownerId, documentId) {
      const byProject = Map.groupBy(holding(ownerId, documentId), ({ project_id }) => project_id);
      return [...byProject].map(([alignment_id, holders]) => {
        const { name, created_at: created_date } = holders.at(-1)!;
        return { alignment_id, name, under_way: holders.some(({ is_live }) => is_live === 1), created_date };
      });
    },
    alignmentsOn: (benchmarkId) => idsOf(rows.alignmentsOn.all(benchmarkId)),
    evaluationsOn(benchmarkId) {
      const { 1: live = [], 0: ended = [] } = Object.groupBy(rows.evaluationsOn.all(benchmarkId), (one) => one.is_live);
      return { live: idsOf(live), ended: idsOf(ended) };
    },
    needing: (modelId) => [
      ...idsOf(rows.evaluationsAsking.all({ modelId })),
      ...idsOf(rows.benchmarksAsking.all({ modelId })),
      ...idsOf(rows.alignmentsAsking.all({ modelId })),
    ],
  };
}
