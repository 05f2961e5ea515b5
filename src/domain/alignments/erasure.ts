// What is left of a deleted alignment, and when it goes: its row stays while its run is ending or its model exists, with only what
// the model was made of; its folder stays until its run has ended.

import { isTerminal } from "../../jobs/states.ts";
import type { Store } from "../../store/open.ts";
import type { AutoAlignsSql } from "./auto/store.ts";
import { removeRunFolder, tidyRuns } from "./snapshot.ts";
import type { AlignmentRow, AlignmentsSql } from "./store.ts";

export interface Erasure {
  /**
   * Erases an alignment that has ended, in the caller's transaction: all of it or, if it has a model, all but what that was made
   * of.
   */
  erase(id: string, hasModel: boolean): void;
  /**
   * Called when the alignment's model is deleted, in the caller's transaction: removes what a deleted alignment had kept for it.
   */
  loseModel(alignmentId: string): void;
  /** Detaches a benchmark that is being deleted, in the caller's transaction: its alignments keep only its id. */
  loseBenchmark(benchmarkId: string): void;
  /** Called when a run has ended: removes what is left if the alignment was deleted meanwhile. */
  runEnded(alignmentId: string): Promise<void>;
  /**
   * Removes run folders without an alignment, left by a crash between folder and row, or by a deletion between row and folder;
   * not those that are being made.
   */
  tidy(isMaking: (alignmentId: string) => boolean): Promise<void>;
}

export function createErasure(parts: {
  store: Store;
  sql: AlignmentsSql;
  autoAlignsSql: AutoAlignsSql;
  /** Directory of the run folders. */
  runs: string;
}): Erasure {
  const { store, sql, autoAlignsSql, runs } = parts;

  function erase(id: string, hasModel: boolean): void {
    autoAlignsSql.removeOf.run(id);
    if (hasModel) return void sql.strip.run(id);
    sql.loseEvaluation.run(id);
    sql.remove.run(id);
  }

  return {
    erase,
    loseModel(alignmentId) {
      if (sql.byId.get(alignmentId)?.deleted_at != null) erase(alignmentId, false);
    },
    loseBenchmark: (benchmarkId) => void sql.loseBenchmark.run(benchmarkId),
    async runEnded(alignmentId) {
      const row = sql.byId.get(alignmentId);
      if (row === undefined || isKept(row)) return;
      store.transaction(() => erase(row.id, row.model_id !== null));
      await removeRunFolder(runs, row.id);
    },
    async tidy(isMaking) {
      for (const row of sql.hidden.all())
        if (!isKept(row)) store.transaction(() => erase(row.id, row.model_id !== null));
      await tidyRuns(runs, (id) => isMaking(id) || isKept(sql.byId.get(id)));
    },
  };
}

/** Whether the run folder is kept: for a deleted alignment, until its run has ended. */
const isKept = (row: AlignmentRow | undefined): boolean =>
  row !== undefined && (row.deleted_at === null || !isTerminal(row.state));
