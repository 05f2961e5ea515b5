// The worker that carries out alignments. Each claim becomes a run over the alignment's folder, and the run's result becomes a model.
//
//   queued ──► memory is reserved, or it waits with a reason: reservations.ts
//   claimed ──► request.json ──► executor.start ··· events ··· ──► result: attempt.ts
//      result completed ──► leakage proved absent ──► adapter stored ──► one transaction: COMPLETED, model, evaluation:
//                                                                                       completion.ts
//      result failed    ──► FAILED            result stopped ──► STOPPED
//      crashed ──► queued again if this attempt wrote a checkpoint and attempts are left; else FAILED (STOPPED if a stop was requested)
//      deleted meanwhile ──► STOPPED, whatever the result was
//      an auto-align's run ──► see auto/work.ts
//
// Invariants:
//   1. A model is registered if and only if the alignment is COMPLETED.
//   2. Everything that the run wrote is checked before it is used. The executor checks hashes; this worker checks fence and leakage.
//   3. Nothing is written for a claim that was lost.
//   4. Public progress never falls.
import { join } from "node:path";
import { Failure, type FailureCode, failures } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { sleep } from "../../base/time.ts";
import type { RunResult } from "../../contract/run-folder.ts";
import type { Claim } from "../../jobs/queue.ts";
import type { Worker } from "../../jobs/runner.ts";
import type { Teacher } from "../../run/folder/teacher.ts";
import { type Attempt, type AttemptParts, begin, consultTeacher, follow, trySave } from "./attempt.ts";
import { carryOutLook, type LookParts } from "./auto/look.ts";
import { type CompletionParts, complete } from "./completion.ts";
import { createReservations, type ReservationParts } from "./reservations.ts";
import type { AlignmentRow } from "./store.ts";

export interface AlignParts extends LookParts, ReservationParts, AttemptParts, CompletionParts {
  /** Called when an attempt is over, so that what is left of an alignment that was deleted meanwhile can be removed. */
  ended: (alignmentId: string) => Promise<void>;
}

export interface AlignWorker extends Worker {
  /** What the alignment waits for; null if it waits only for its turn, or is not the oldest queued one. */
  waitingFor(alignmentId: string): string | null;
  /**
   * Asks the run to stop. Throws not_started, stop_rejected, stop_unreachable, or already_terminal if the run was asked
   * before or has ended.
   */
  stop(alignmentId: string): Promise<void>;
  /**
   * Cancels an attempt that is being prepared, before or after its run has started. Resolves once the attempt is certain
   * to end; the job's state is then stopping or terminal. Throws what stop throws, except not_started.
   */
  cancel(alignmentId: string): Promise<void>;
  /**
   * Ends an auto-align's current run (at the next step) or look, but not its job. Resolves once that is certain to end,
   * or at once if nothing is running. Throws stop_rejected, stop_unreachable.
   */
  interrupt(autoAlignId: string): Promise<void>;
}

export function createAlignWorker(parts: AlignParts): AlignWorker {
  const { sql, queue, executor } = parts;
  const folderOf = (alignmentId: string): string => join(parts.runs, alignmentId);
  /** Alignments whose run was asked to stop, whether or not it has answered. A refusal removes the alignment again. */
  const asked = new Set<string>();
  /** Abort controllers by alignment. They end an attempt before its run has started. */
  const cancelling = new Map<string, AbortController>();
  /** Alignments whose run has ended and whose result is being processed. */
  const ended = new Set<string>();
  /** Abort controllers of looks, by auto-align. */
  const looks = new Map<string, AbortController>();
  const reservations = createReservations(parts);

  async function run(claim: Claim, signal: AbortSignal): Promise<void> {
    const row = sql.byId.get(claim.subjectId)!;
    if (row.auto_align_of === null) return perform(claim, row, signal);
    try {
      parts.autoAligns.claimed(row.id);
      await perform(claim, row, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      parts.log("error", "auto_align.failed", { autoAlignId: row.id, error });
      const { code, message } = error instanceof Failure ? error : new Failure("internal");
      const failed = async () => parts.autoAligns.failed(claim, { errorCode: code, errorText: message });
      await whenDiskAllows(signal, parts.log, failed);
    }
  }

  async function perform(claim: Claim, row: AlignmentRow, signal: AbortSignal): Promise<void> {
    const { grant, budget } = reservations.take(row);
    const cancelled = new AbortController();
    cancelling.set(row.id, cancelled);
    const isStopping = (): boolean => asked.has(row.id) || queue.of(row.id, "align")?.state === "stopping";
    try {
      const either = AbortSignal.any([signal, cancelled.signal]);
      const attempt = await whenDiskAllows(either, parts.log, () => begin(parts, claim, row, { grant, budget }));
      looks.set(row.id, attempt.looking);
      if (row.teacher_json !== null) {
        const teacher = JSON.parse(row.teacher_json) as Teacher;
        grant.rest();
        await whenDiskAllows(either, parts.log, () => consultTeacher(parts, attempt, teacher, either));
        grant.resume();
      }
      cancelled.signal.throwIfAborted();
      await conclude(parts, attempt, isStopping, signal, () => follow(parts, attempt, () => ended.add(row.id)));
    } catch (error) {
      if (signal.aborted || !(cancelled.signal.aborted || isDeleted(parts, row.id))) throw error;
      queue.move(claim, "stopped");
    } finally {
      grant.release();
      cancelling.delete(row.id);
      looks.delete(row.id);
      asked.delete(row.id);
      ended.delete(row.id);
      await parts.ended(row.id).catch((error) => parts.log("error", "run.not_removed", { alignmentId: row.id, error }));
      parts.wake();
    }
  }

  async function stop(alignmentId: string): Promise<void> {
    if (asked.has(alignmentId)) throw new Failure("already_terminal", "The alignment is already being stopped");
    const folder = folderOf(alignmentId);
    if (ended.has(alignmentId))
      throw new Failure("already_terminal", "The run has ended; its result is being imported");
    if (!executor.status(folder).running) throw new Failure("not_started");
    asked.add(alignmentId);
    try {
      await executor.stop(folder);
    } catch (error) {
      // A run that refuses the stop continues. If a run does not answer and then crashes, it counts as stopped.
      if (error instanceof Failure && error.code === "stop_rejected") asked.delete(alignmentId);
      throw error;
    }
    queue.requestStop(alignmentId, "align");
  }

  return {
    concurrency: parts.maxRuns,
    canStart: reservations.canStart,
    waitingFor: reservations.waitingFor,
    run,
    stop,
    async cancel(alignmentId) {
      if (executor.status(folderOf(alignmentId)).running) return stop(alignmentId);
      queue.requestStop(alignmentId, "align");
      cancelling.get(alignmentId)?.abort(new Failure("conflict", "The alignment was cancelled"));
    },
    async interrupt(autoAlignId) {
      if (executor.status(folderOf(autoAlignId)).running)
        try {
          return await executor.stop(folderOf(autoAlignId));
        } catch (error) {
          if (!(error instanceof Failure) || error.code !== "not_started") throw error;
        }
      looks.get(autoAlignId)?.abort(new Failure("conflict", "The auto-align was stopped"));
    },
  };
}

const isDeleted = ({ sql }: AlignParts, alignmentId: string): boolean => sql.byId.get(alignmentId)?.deleted_at != null;

/** Performs the run and moves the job to the state that matches how the run ended. If this throws, the job fails. */
async function conclude(
  parts: AlignParts,
  attempt: Attempt,
  isStopping: () => boolean,
  signal: AbortSignal,
  perform: () => Promise<RunResult>,
): Promise<void> {
  const { queue } = parts;
  const { claim, row } = attempt;
  const stopped = (): void => {
    queue.requestStop(row.id, "align");
    queue.move(claim, "stopped");
  };
  let result: RunResult;
  try {
    result = await perform();
  } catch (error) {
    if (signal.aborted || !(error instanceof Failure) || error.code !== "run_crashed") throw error;
    if (isStopping()) return stopped();
    // The last events may hold a decision that is not saved yet.
    trySave(parts, attempt);
    const before = attempt.autoAlign && parts.autoAligns.placeOf(row.id);
    if (before === "unplanned" && parts.autoAligns.claimOf(row.id).stopping) return parts.autoAligns.stopped(claim);
    // After its first decision, an auto-align can continue from the decisions and checkpoints in its folder.
    const isWorthIt = attempt.saved || before === "decided";
    // Since the claim, a decision may have reset the count of attempts.
    const { attempt: made, maxAttempts } = queue.of(row.id, "align")!;
    if (!isWorthIt || made >= maxAttempts) throw error;
    queue.move(claim, "queued", { detail: error.message });
    return;
  }
  if (result.fence !== claim.fence)
    throw new Failure("run_crashed", `result.json is of claim ${result.fence}, not ${claim.fence}`);
  if (attempt.autoAlign !== null) await concludeAutoAlign(parts, attempt, result, signal);
  else if (isDeleted(parts, row.id)) stopped();
  else if (result.outcome === "completed")
    await whenDiskAllows(signal, parts.log, () =>
      complete(parts, attempt, result, (also) => queue.move(claim, "succeeded", {}, also)),
    );
  else if (result.outcome === "stopped") stopped();
  else queue.move(claim, "failed", failureOf(result));
}

/** Moves the job and status of an auto-align, which may continue after its process has ended. */
async function concludeAutoAlign(
  parts: AlignParts,
  attempt: Attempt,
  result: RunResult,
  signal: AbortSignal,
): Promise<void> {
  const { autoAligns, log } = parts;
  const { claim, row, folder } = attempt;
  if (result.outcome === "failed") return autoAligns.failed(claim, failureOf(result));
  if (result.outcome === "stopped") return autoAligns.stopped(claim);
  const told = result.auto_align;
  if (told == null) throw new Failure("run_crashed", "The result does not report on its auto-align");
  if (result.outcome === "paused") return autoAligns.paused(claim, told);
  if (result.outcome === "look") {
    attempt.giveBack();
    const base = parts.baseOf(row.base_model_id);
    const look = { autoAlignId: row.id, benchmarkId: row.benchmark_id!, folder, base, told };
    const either = AbortSignal.any([signal, attempt.looking.signal]);
    try {
      const untilWritten = (write: () => Promise<void>): Promise<void> => whenDiskAllows(either, log, write);
      return autoAligns.looked(claim, await carryOutLook(parts, look, either, untilWritten));
    } catch (error) {
      if (signal.aborted || !attempt.looking.signal.aborted) throw error;
      return autoAligns.stopped(claim);
    }
  }
  const { files } = result;
  const metrics = JSON.stringify({ ...attempt.progress.metrics, ...result.metrics });
  const at = parts.clock.now();
  if (files.length === 0)
    return autoAligns.completed(
      claim,
      told,
      () => void parts.sql.complete.run({ id: row.id, metrics, report: null, at }),
    );
  await whenDiskAllows(signal, log, () =>
    complete(parts, attempt, result, (also) => autoAligns.completed(claim, told, also)),
  );
}

function failureOf({ error }: RunResult): { errorCode: FailureCode; errorText: string } {
  const code = error?.code ?? "";
  if (Object.hasOwn(failures, code)) return { errorCode: code as FailureCode, errorText: error!.message };
  return {
    errorCode: "run_failed",
    errorText: error === null ? "The run gave no reason" : `${code}: ${error.message}`,
  };
}

/** Retries the work every second while the disk is full, so that no run fails for lack of space. */
async function whenDiskAllows<T>(signal: AbortSignal, log: Log, work: () => Promise<T>): Promise<T> {
  for (;;)
    try {
      return await work();
    } catch (error) {
      if (signal.aborted || !(error instanceof Failure) || error.code !== "disk_full") throw error;
      log("warn", "run.waits_for_disk", { error });
      await sleep(1000, signal);
    }
}
