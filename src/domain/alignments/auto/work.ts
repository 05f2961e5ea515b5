// What the run worker does for an auto-align: it stores decisions as cards, and turns each end of the run's process into a status.
//
//   claimed ──► PLANNING ··· first card ──► RUNNING ··· phases ··· ──► process ends
//      look       ──► the third is scored ──► job queued again         (after a kill the look is repeated, or its scores are read)
//      paused     ──► job succeeded, PAUSED: a resume is another job
//      completed  ──► job succeeded, with a model or, if no phase improved on the base, without one
//      stopped    ──► before the first decision STOPPED, else job queued again to package the best so far
//      failed     ──► job failed, FAILED
//
// Wherever a line moves the job, the status moves in the same transaction, so the two cannot disagree. If the queue itself ends a job
// after a crash of the appliance, the status follows at the same start (`tellStranded`).
import { Failure, type FailureCode } from "../../../base/errors.ts";
import type { Log } from "../../../base/log.ts";
import type { Clock } from "../../../base/time.ts";
import { type AutoAlignStatus, decisionCard, type ToldCard } from "../../../contract/auto-align.ts";
import type { RunRequest, RunResult } from "../../../contract/run-folder.ts";
import { compile } from "../../../contract/validate.ts";
import type { Claim, Queue } from "../../../jobs/queue.ts";
import type { Store } from "../../../store/open.ts";
import type { Ending, Moves } from "./moves.ts";
import type { AutoAlignsSql } from "./store.ts";

export type Told = NonNullable<RunResult["auto_align"]>;
/** The values of an auto-align that each claim writes into its request anew. */
export type AutoAlignClaim = Required<Pick<NonNullable<RunRequest["auto_align"]>, "resumes" | "stopping">>;

export interface AutoAlignWork {
  claimed(id: string): void;
  claimOf(id: string): AutoAlignClaim;
  /** Whether the run has reported a decision. */
  placeOf(id: string): "unplanned" | "decided";
  /**
   * Stores the run's decisions, in one transaction with its progress. `advance` saves the progress and returns whether
   * the claim is still valid. A new decision resets the count of attempts, so that a run that fails repeatedly is given
   * up, but not a run that makes progress for days.
   */
  save(claim: Claim, cards: readonly unknown[], advance: () => boolean): void;
  /** Called when the process has ended for a look and the scores are written. */
  looked(claim: Claim, look: number): void;
  paused(claim: Claim, told: Told): void;
  /** `also` runs in the same transaction; it registers the model, if there is one. */
  completed(claim: Claim, told: Told, also: () => void): void;
  /** Called when the process was stopped. */
  stopped(claim: Claim): void;
  failed(claim: Claim, ending: Ending): void;
}

const checkCard = compile(decisionCard);

const final: Partial<Record<Told["status"], AutoAlignStatus>> = {
  REACHED: "REACHED",
  BUDGET_SPENT: "BUDGET_SPENT",
  STOPPED: "STOPPED",
};

export function createAutoAlignWork(parts: {
  store: Store;
  sql: AutoAlignsSql;
  queue: Queue;
  clock: Clock;
  log: Log;
  moves: Moves;
}): AutoAlignWork {
  const { store, sql, queue, clock, log, moves } = parts;

  /**
   * Stores a card in the caller's transaction. Returns false if the card is already stored, because a run that was
   * killed reports its last card again.
   */
  function take(id: string, card: ToldCard): boolean {
    const { step, next, hours, looks, best } = card;
    const at = clock.now();
    const kept = { id, step, next: next.kind, card: JSON.stringify(card), seq: store.nextSeq(), at };
    if (sql.insertCard.run(kept).changes === 0) return false;
    const arm = next.kind === "phase" ? (next.phase?.arm ?? null) : null;
    const { status } = sql.byId.get(id)!;
    if (arm !== null) moves.intoPhase(id, arm);
    else if (status !== "RUNNING") moves.to(id, "RUNNING");
    else sql.enterPhase.run({ id, phase: null, at });
    const [dev, seen] = [JSON.stringify(best.dev), JSON.stringify(looks)];
    sql.note.run({ id, phases: Math.max(0, step - looks.length), dev, hours: hours.spent, looks: seen, at });
    return true;
  }

  function conclude(id: string, { phases, hours, confirmed, help }: Told, status: AutoAlignStatus): void {
    moves.to(id, status);
    const isConfirmed = status === "REACHED" && confirmed !== null ? Number(confirmed) : null;
    sql.conclude.run({ id, phases, hours, confirmed: isConfirmed, help: JSON.stringify(help) });
  }

  function requeue(claim: Claim, detail: string, also = () => {}): void {
    queue.move(claim, "queued", { orderly: true, detail }, also);
  }

  return {
    claimed(id) {
      store.transaction(() => {
        if (sql.byId.get(id)!.status === "RECORDED") moves.to(id, "PLANNING");
      });
    },
    claimOf(id) {
      const { resumes_json, stopping } = sql.byId.get(id)!;
      return { resumes: JSON.parse(resumes_json) as AutoAlignClaim["resumes"], stopping: stopping === 1 };
    },
    placeOf: (id) => (sql.byId.get(id)!.status === "RUNNING" ? "decided" : "unplanned"),
    save: (claim, cards, advance) =>
      store.transaction(() => {
        if (!advance()) return;
        const { subjectId: id } = claim;
        for (const one of cards) {
          const checked = checkCard(one);
          if (checked.ok) {
            if (take(id, checked.value as ToldCard)) queue.renew(claim);
          } else log("warn", "run.bad_card", { autoAlignId: id, details: checked.details.slice(0, 5) });
        }
      }),
    looked: (claim, look) => requeue(claim, `look ${look + 1} is scored`),
    paused(claim, told) {
      // The stop came after the run had ended. A paused auto-align would ignore it, so the job is queued again.
      if (sql.byId.get(claim.subjectId)!.stopping === 1) return requeue(claim, "paused, and asked to stop");
      queue.move(claim, "succeeded", {}, () => conclude(claim.subjectId, told, "PAUSED"));
    },
    completed(claim, told, also) {
      const status = final[told.status];
      if (status === undefined) throw new Failure("run_crashed", `The run completed, but its status is ${told.status}`);
      queue.move(claim, "succeeded", {}, () => {
        also();
        conclude(claim.subjectId, told, status);
      });
    },
    stopped(claim) {
      const { subjectId: id } = claim;
      if (sql.byId.get(id)!.status !== "PLANNING")
        return requeue(claim, "stopped: the best checkpoint so far will be packaged", () =>
          sql.setStopping.run({ id, stopping: 1, at: clock.now() }),
        );
      store.transaction(() => {
        queue.requestStop(id, "align");
        queue.move(claim, "stopped", {}, () => moves.to(id, "STOPPED"));
      });
    },
    failed(claim, ending) {
      queue.move(claim, "failed", ending, () => moves.to(claim.subjectId, "FAILED", ending));
    },
  };
}

/**
 * Sets the final status of auto-aligns whose job the queue ended after a crash of the appliance. Called at start, after
 * the queue has recovered.
 */
export function tellStranded({ store, sql, moves }: { store: Store; sql: AutoAlignsSql; moves: Moves }): void {
  store.transaction(() => {
    for (const { id, job_state, job_error_code, job_error_text } of sql.stranded.all()) {
      if (job_state === "stopped") moves.to(id, "STOPPED");
      else {
        const errorCode = (job_error_code ?? "internal") as FailureCode;
        moves.to(id, "FAILED", { errorCode, errorText: job_error_text ?? "The run failed" });
      }
    }
  });
}
