// Erases deleted alignments. The row stays while the run is ending. While the model exists, the row stays too, but holds only what the
// model was made of. The folder stays until the run has ended.

import { isTerminal } from "../../jobs/states.ts";
import type { Store } from "../../store/open.ts";
import type { AutoAlignsSql } from "./auto/store.ts";
import { removeRunFolder, tidyRuns } from "./snapshot.ts";
import type { AlignmentRow, AlignmentsSql } from "./store.ts";

export interface Erasure {
  /**
   * Erases the row of an alignment that has ended, in the caller's transaction. If the alignment has a model, the row stays, with
   * only what the model was made of.
   */
  erase(id: string, hasModel: boolean): void;
  /** Called when an alignment's model is deleted, in the caller's transaction. If the alignment was deleted before, removes its row. */
  loseModel(alignmentId: string): void;
  /** Detaches a benchmark that is being deleted from its alignments, in the caller's transaction. They keep only its id. */
  loseBenchmark(benchmarkId: string): void;
  /** Called when a run has ended. If its alignment was deleted meanwhile, removes what is left of it. */
  runEnded(alignmentId: string): Promise<void>;
  /**
   * Completes deletions that a crash interrupted, and removes run folders without an alignment. A crash leaves such a folder between
   * making the folder and its row, or between deleting the row and its folder. Spares folders that are being made.
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

/** Whether the run folder is kept. That of a deleted alignment is kept until its run has ended. */
const isKept = (row: AlignmentRow | undefined): boolean =>
  row !== undefined && (row.deleted_at === null || !isTerminal(row.state));
