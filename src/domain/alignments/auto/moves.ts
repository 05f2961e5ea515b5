// Moves an auto-align from one status to the next. Each move is a compare-and-set. The same transaction adds it to the
// auto-align's history and reports it.
import type { FailureCode } from "../../../base/errors.ts";
import type { Clock } from "../../../base/time.ts";
import type { AutoAlignRequest, AutoAlignStatus } from "../../../contract/auto-align.ts";
import { hasEnded, wayTo } from "./statuses.ts";
import type { AutoAlignRow, AutoAlignsSql } from "./store.ts";

/** A change of status, or the start of a phase while RUNNING. */
export interface Transition {
  ownerId: string;
  autoAlignId: string;
  alignmentId: string;
  from: AutoAlignStatus;
  to: AutoAlignStatus;
  /** The kind of phase that began with this transition; null if none did. */
  phase: string | null;
  at: string;
}

/** The webhook event of a transition. */
export const webhookOf = ({ ownerId, autoAlignId, alignmentId, from, to, phase, at }: Transition) => ({
  ownerId,
  kind: "auto_align.moved",
  subjectId: autoAlignId,
  body: { auto_align_id: autoAlignId, alignment_id: alignmentId, from, to, phase, at },
});

export interface Ending {
  errorCode: FailureCode;
  errorText: string;
}

export interface Moves {
  /**
   * Moves the auto-align to the status, in the caller's transaction. Each status on the way is recorded and reported
   * too, for example if an auto-align ends before it was planned or before its first decision.
   */
  to(id: string, status: AutoAlignStatus, ending?: Ending): void;
  /** Records that a phase begins, and moves to RUNNING if needed, in the caller's transaction. Not called while PAUSED. */
  intoPhase(id: string, phase: string): void;
}

export function createMoves({
  sql,
  clock,
  onTransition,
}: {
  sql: AutoAlignsSql;
  clock: Clock;
  /** Called inside the transaction of each transition, unless the request turned these notifications off. */
  onTransition: (transition: Transition) => void;
}): Moves {
  function tell(row: AutoAlignRow, to: AutoAlignStatus, phase: string | null): void {
    const { id, owner_id: ownerId, alignment_id: alignmentId, status: from } = row;
    const at = clock.now();
    sql.insertMove.run({ id, from_status: from, to_status: to, phase, at });
    const { notify_on_phase_transition: isAsked } = JSON.parse(row.request_json) as AutoAlignRequest;
    if (isAsked !== false) onTransition({ ownerId, autoAlignId: id, alignmentId, from, to, phase, at });
  }

  function step(id: string, to: AutoAlignStatus, phase: string | null, ending?: Ending): void {
    const row = sql.byId.get(id)!;
    const at = clock.now();
    const { changes } = sql.move.run({
      id,
      from: row.status,
      to,
      errorCode: ending?.errorCode ?? null,
      errorText: ending?.errorText ?? null,
      endedAt: hasEnded(to) ? at : null,
      at,
    });
    if (changes !== 1) throw new Error(`auto-align ${id} changed during its own transaction`);
    if (phase !== null) sql.enterPhase.run({ id, phase, at });
    tell(row, to, phase);
  }

  return {
    to(id, status, ending) {
      const way = wayTo(sql.byId.get(id)!.status, status);
      for (const [at, one] of way.entries()) step(id, one, null, at === way.length - 1 ? ending : undefined);
    },
    intoPhase(id, phase) {
      const row = sql.byId.get(id)!;
      if (row.status === "RUNNING") {
        sql.enterPhase.run({ id, phase, at: clock.now() });
        return tell(row, "RUNNING", phase);
      }
      const way = wayTo(row.status, "RUNNING");
      for (const one of way.slice(0, -1)) step(id, one, null);
      step(id, "RUNNING", phase);
    },
  };
}
