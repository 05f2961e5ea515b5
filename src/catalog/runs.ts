// Work of alignments, evaluations and the making of benchmarks, as far as others need to know of it: what it holds and what it
// still needs.
import type { DocumentSnapshot } from "../contract/documents.ts";
import type { Store } from "../store/open.ts";
import { type HolderRow, prepareRunReads } from "./store.ts";

export interface RunCatalog {
  /** Whether an alignment of the owner is under way. */
  isAligning(ownerId: string): boolean;
  /** Alignments of the owner, auto-aligns among them, that hold a snapshot of the document; newest first. */
  holding(ownerId: string, documentId: string): HolderRow[];
  /** As holding, by project: a document that a project and its auto-aligns hold is listed once, under the project's id. */
  snapshotsOf(ownerId: string, documentId: string): DocumentSnapshot[];
  /** Ids of alignments under way that are measured by a benchmark. */
  alignmentsOn(benchmarkId: string): string[];
  /** Evaluations on a benchmark: those still to be done, and those that have ended. */
  evaluationsOn(benchmarkId: string): { live: string[]; ended: string[] };
  /**
   * Ids of unfinished work that needs a model: evaluations, benchmarks being made, and alignments that ask it as teacher, judge
   * or preference model.
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
