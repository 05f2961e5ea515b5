// The worker behind an alignment: a claim becomes a run over the alignment's folder, and the run's result becomes a model.
//
//   queued ──► the trainer estimates its cost ──► memory is reserved, if need be with smaller passes, or it waits with a reason
//   claimed ──► request.json ──► executor.start ··· events ··· ──► result
//      result completed ──► leakage proved absent ──► adapter stored ──► one transaction: COMPLETED, model, evaluation
//      result failed    ──► FAILED            result stopped ──► STOPPED
//      crashed ──► queued again if this attempt wrote a checkpoint; else FAILED (STOPPED where a stop was requested)
//      deleted meanwhile ──► STOPPED, whatever the result was
//      an auto-align's run ──► see auto/work.ts
//
// Invariants:
//   1. A model is registered if and only if the alignment is COMPLETED.
//   2. Whatever the run wrote is checked before it is used: hashes by the executor, fence and leakage here.
//   3. Nothing is written for a claim that was lost.
//   4. Public progress never falls.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { Failure, type FailureCode, failures } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { type Clock, sleep } from "../../base/time.ts";
import type { Traces } from "../../base/traces.ts";
import type { ModelQuestion, Recipe, RunEvent, RunRequest, RunResult } from "../../contract/run-folder.ts";
import { type Calibration, readCalibration, type StoredCalibration } from "../../engine/confidence.ts";
import { type Bytes, fits, mebibytes } from "../../engine/gpu.ts";
import type { Executor } from "../../jobs/executor.ts";
import type { Claim, Queue } from "../../jobs/queue.ts";
import type { Worker } from "../../jobs/runner.ts";
import { readRequest, readSnapshot } from "../../run/folder/request.ts";
import { askTeacher, type Teacher } from "../../run/folder/teacher.ts";
import { openStudyThread } from "../../study/thread.ts";
import { carryOutLook, type LookParts } from "./auto/look.ts";
import type { KeptRewardModels } from "./auto/reward-models.ts";
import type { AutoAlignClaim, AutoAlignWork } from "./auto/work.ts";
import type { RunCost } from "./estimate.ts";
import { guardsOf, type KeptGuard } from "./kept-guards.ts";
import { type Estimate, type ProgressNote, type RunProgress, remainingMs, settled, take } from "./progress.ts";
import type { AskedQuestion, Prover } from "./proof.ts";
import { readOrderedRecipe, writeRequest } from "./snapshot.ts";
import type { AlignmentRow, AlignmentsSql } from "./store.ts";

export interface BaseModel {
  id: string;
  path: string;
  bytes: number;
  parameters: number;
  memory_bytes: number;
}

export interface StoredFile {
  path: string;
  sha256: string;
}

export interface Grant {
  release(): void;
}

export interface AlignParts extends LookParts {
  sql: AlignmentsSql;
  autoAligns: AutoAlignWork;
  queue: Queue;
  executor: Executor;
  prover: Prover;
  clock: Clock;
  traces: Pick<Traces, "current">;
  /** Directory of the run folders. */
  runs: string;
  maxRuns: number;
  /** Number of threads that all runs share. */
  threads: number;
  /** Memory and speed of a run over the base on this machine. */
  costOf: (base: BaseModel, recipe: Recipe) => Promise<RunCost>;
  /** Memory that runs may use: when nothing else runs (`total`), and now (`free`). */
  room: () => { total: Bytes; free: Bytes };
  /** Reserves memory for a run until it is released; null while others hold it. */
  grant: (want: { bytes: Bytes; threads: number }, alignmentId: string) => Grant | null;
  /** Unloads a model that is only kept for the next request; false if there was none. */
  makeRoom: () => Promise<boolean>;
  /** The installed sentence encoder; null if there is none. */
  encoder: () => { sha256: string; path: string } | null;
  versions: () => Promise<RunRequest["versions"]>;
  baseOf: (baseModelId: string) => BaseModel;
  /** A chat model's answer to one message, at temperature 0. */
  say: (ownerId: string, by: Teacher, content: string, signal: AbortSignal) => Promise<string>;
  /** The answer, to an auto-align's run, of a model that its reward names. */
  askRewardModel: (
    ownerId: string,
    named: KeptRewardModels,
    question: ModelQuestion,
    signal: AbortSignal,
  ) => Promise<string | readonly number[]>;
  /** Questions of all splits. */
  questionsOf: (benchmarkId: string) => AskedQuestion[];
  /** Copies an adapter to its permanent place. Storing the same file again gives the same path. */
  storeAdapter: (file: string) => Promise<StoredFile>;
  /** As storeAdapter, for the texts in which the sources of the model's answers are looked up. */
  storeSources: (file: string) => Promise<StoredFile>;
  /** Returns the model's id. Called within the transaction that completes the alignment. */
  registerModel: (model: {
    ownerId: string;
    alignmentId: string;
    baseModelId: string;
    name: string;
    adapter: StoredFile;
    /** Null if the run made none. */
    sources: StoredFile | null;
    calibration: Calibration;
  }) => string;
  /** Keeps the model's guard results beside its base's. Called in the same transaction. */
  keepGuards: (modelId: string, guards: readonly KeptGuard[]) => void;
  /** Called in the same transaction. */
  enqueueEvaluation: (evaluation: {
    ownerId: string;
    modelId: string;
    baseId: string;
    benchmarkId: string;
    alignmentId: string;
  }) => void;
  /** Tells the runner that there is work. */
  wake: () => void;
  /** Called when an attempt is over: what is left of an alignment that was deleted meanwhile can be removed. */
  ended: (alignmentId: string) => Promise<void>;
}

export interface AlignWorker extends Worker {
  /** What the alignment waits for; null if it only waits for its turn, or is not the oldest queued one. */
  waitingFor(alignmentId: string): string | null;
  /**
   * Asks the run to stop. Throws not_started, stop_rejected, stop_unreachable, or already_terminal if it was already
   * asked or has ended.
   */
  stop(alignmentId: string): Promise<void>;
  /**
   * Ends an attempt that is being prepared, in its run or before that has started. Resolves once it is certain to end;
   * the job's state is then stopping or terminal. Throws what stop throws, except not_started.
   */
  cancel(alignmentId: string): Promise<void>;
  /**
   * Ends what an auto-align is doing now (its run, at the next step, or a look) but not its job. Resolves once that is
   * certain to end, also if nothing is running. Throws stop_rejected, stop_unreachable.
   */
  interrupt(autoAlignId: string): Promise<void>;
}

interface Attempt {
  claim: Claim;
  row: AlignmentRow;
  folder: string;
  /** Whether this attempt wrote a checkpoint, so that a retry after a crash starts further on. */
  saved: boolean;
  progress: RunProgress;
  /** What an auto-align's run was told with this claim; null for a plain alignment. */
  autoAlign: AutoAlignClaim | null;
  /** Decisions of the auto-align that are not written yet. */
  cards: unknown[];
  /** Aborted when a look is to end before its scores are known. */
  looking: AbortController;
  /** Releases the memory of a run that has ended. */
  giveBack: () => void;
  /** Progress and time from which the remaining time is extrapolated. */
  began: { overall: number; ms: number };
  estimate: Estimate | null;
}

type Budget = RunRequest["budget"];

/** Memory of the run's own process, in addition to that of its trainer or its inference. */
const ownBytes = 512 << 20;

/** A budget, and the bytes that it takes of each memory pool. */
interface Want {
  budget: Omit<Budget, "threads">;
  bytes: Bytes;
}

/** The possible budgets, from the largest passes to the smallest. */
function wantsOf({ needs, gpuBytes }: RunCost, total: Bytes): Want[] {
  return needs.map(({ passTokens, memoryBytes, gpuMemoryBytes }) => {
    // On a GPU, machine memory is needed only if the GPU fails and the CPU takes over: it is capped at what the machine
    // has, so that a shortage of it does not refuse the run.
    const memory = gpuBytes === null ? memoryBytes : Math.min(memoryBytes, total.machine - ownBytes);
    return {
      budget: {
        memory_bytes: memory,
        gpu_memory_bytes: gpuMemoryBytes,
        pass_tokens: passTokens,
        full_pass_tokens: needs[0]!.passTokens,
      },
      bytes: { machine: memory + ownBytes, gpu: gpuMemoryBytes },
    };
  });
}

const earlierOf = (row: AlignmentRow): Budget | null =>
  row.budget_json === null ? null : (JSON.parse(row.budget_json) as Budget);

/**
 * Whether the budget is that of the earlier attempt. A resumed run keeps its pass sizes and threads, because others
 * would change its losses in the last bits.
 */
const isBudget = (budget: Want["budget"], earlier: Budget | null): boolean =>
  earlier !== null && isDeepStrictEqual({ ...budget, threads: earlier.threads }, earlier);

/** "900 MiB of the GPU's memory, and 300 MiB are free", for the pool that is too small. */
function shortage(want: Bytes, have: Bytes): string {
  const pool = want.gpu > have.gpu ? "gpu" : "machine";
  const whose = pool === "gpu" ? "of the GPU's memory" : "of the machine's memory";
  return `${mebibytes(want[pool])} ${whose}, and ${mebibytes(Math.max(0, have[pool]))} are free`;
}

export function createAlignWorker(parts: AlignParts): AlignWorker {
  const { sql, queue, executor } = parts;
  const folderOf = (alignmentId: string): string => join(parts.runs, alignmentId);
  /** Runs that were asked to stop, whether or not they answered. */
  const asked = new Set<string>();
  /** Abort controllers of attempts, by alignment; they end an attempt before its run has started. */
  const cancelling = new Map<string, AbortController>();
  /** Runs that have ended and whose result is being processed. */
  const ended = new Set<string>();
  /** Abort controllers of looks, by auto-align. */
  const looks = new Map<string, AbortController>();
  /** Made when canStart finds room for the next alignment, used when that is claimed. */
  let reserved: { alignmentId: string; grant: Grant; budget: Budget } | null = null;
  /** Costs of queued alignments: null while the trainer is being asked, an Error if it could not tell. */
  const costs = new Map<string, RunCost | Error | null>();
  const waiting = new Map<string, string>();
  /** Alignments for which no idle model was left to unload: they may take a smaller budget at the next check. */
  const cleared = new Set<string>();
  let isClearing = false;

  function askCost(row: AlignmentRow): void {
    costs.set(row.id, null);
    const ask = async (): Promise<RunCost> =>
      parts.costOf(parts.baseOf(row.base_model_id), await readOrderedRecipe(folderOf(row.id)));
    ask()
      .then(
        (cost) => costs.set(row.id, cost),
        (error: Error) => costs.set(row.id, error),
      )
      .finally(parts.wake);
  }

  /**
   * The largest budget that there is room for, or null if the alignment has to wait. Idle models are unloaded before a
   * smaller budget is taken. Throws out_of_memory if the smallest would not fit even with nothing else running.
   */
  function choose(row: AlignmentRow, cost: RunCost): Want | null {
    const { total, free } = parts.room();
    const wants = wantsOf(cost, total);
    const possible = wants.filter(({ bytes }) => fits(bytes, total));
    if (possible.length === 0) {
      const least = shortage(wants.at(-1)!.bytes, total);
      throw new Failure("out_of_memory", `Its smallest passes need ${least} when nothing else runs`);
    }
    const same = possible.filter(({ budget }) => isBudget(budget, earlierOf(row)));
    const allowed = same.length > 0 ? same : possible;
    const chosen = allowed.find(({ bytes }) => fits(bytes, free)) ?? null;
    if (chosen !== allowed[0] && !cleared.delete(row.id)) {
      makeWay(row.id);
      return null;
    }
    if (chosen === null) waiting.set(row.id, `It needs ${shortage(allowed.at(-1)!.bytes, free)}`);
    return chosen;
  }

  function makeWay(alignmentId: string): void {
    if (isClearing) return;
    isClearing = true;
    parts
      .makeRoom()
      .catch((error) => {
        parts.log("error", "model.unload_failed", { error });
        return false;
      })
      .then((hasMade) => {
        isClearing = false;
        if (!hasMade) cleared.add(alignmentId);
        parts.wake();
      });
  }

  function threadsOf(row: AlignmentRow): number {
    const share = Math.min(parts.maxRuns, queue.count("align", ["queued", "running", "stopping"]));
    return earlierOf(row)?.threads ?? Math.max(1, Math.floor(parts.threads / Math.max(1, share)));
  }

  function reserve(row: AlignmentRow, cost: RunCost): boolean {
    if (reserved?.alignmentId === row.id) return true;
    reserved?.grant.release();
    reserved = null;
    const want = choose(row, cost);
    if (want === null) return false;
    const budget = { ...want.budget, threads: threadsOf(row) };
    const grant = parts.grant({ bytes: want.bytes, threads: budget.threads }, row.id);
    if (grant !== null) reserved = { alignmentId: row.id, grant, budget };
    return grant !== null;
  }

  /**
   * Whether the oldest queued alignment can be claimed. One that can never fit, or whose cost is unknown, is let
   * through, to fail with the reason.
   */
  function canStart(): boolean {
    const next = sql.oldestQueued.get();
    if (next === undefined) {
      // It may have been cancelled while it waited to be claimed.
      reserved?.grant.release();
      reserved = null;
      for (const kept of [costs, waiting, cleared]) kept.clear();
      return false;
    }
    const cost = costs.get(next.id);
    if (cost === undefined) askCost(next);
    if (!cost) return false;
    if (cost instanceof Error) return true;
    try {
      return reserve(next, cost);
    } catch (error) {
      if (error instanceof Failure && error.code === "out_of_memory") return true;
      throw error;
    }
  }

  /** Returns what was reserved for a run that is claimed now. Throws the reason if nothing could be reserved. */
  function takeReserved(row: AlignmentRow): { grant: Grant; budget: Budget } {
    const cost = costs.get(row.id);
    costs.delete(row.id);
    waiting.delete(row.id);
    if (cost instanceof Error) throw cost;
    if (!cost || !reserve(row, cost)) throw new Failure("out_of_memory");
    const { grant, budget } = reserved!;
    reserved = null;
    return { grant, budget };
  }

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
    const { grant, budget } = takeReserved(row);
    const cancelled = new AbortController();
    cancelling.set(row.id, cancelled);
    const isStopping = (): boolean => asked.has(row.id) || queue.of(row.id, "align")?.state === "stopping";
    try {
      const either = AbortSignal.any([signal, cancelled.signal]);
      const attempt = await whenDiskAllows(either, parts.log, () => begin(parts, claim, row, { grant, budget }));
      looks.set(row.id, attempt.looking);
      if (row.teacher_json !== null) await beTaught(parts, attempt, JSON.parse(row.teacher_json) as Teacher, either);
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
    if (asked.has(alignmentId)) throw new Failure("already_terminal", "The alignment is already asked to stop");
    const folder = folderOf(alignmentId);
    if (ended.has(alignmentId))
      throw new Failure("already_terminal", "The run has ended; its result is being taken in");
    if (!executor.status(folder).running) throw new Failure("not_started");
    asked.add(alignmentId);
    try {
      await executor.stop(folder);
    } catch (error) {
      // A run that refuses goes on as before. One that does not answer is ended before long, and counts as stopped.
      if (error instanceof Failure && error.code === "stop_rejected") asked.delete(alignmentId);
      throw error;
    }
    queue.requestStop(alignmentId, "align");
  }

  return {
    concurrency: parts.maxRuns,
    canStart,
    waitingFor: (alignmentId) => waiting.get(alignmentId) ?? null,
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

async function begin(
  parts: AlignParts,
  claim: Claim,
  row: AlignmentRow,
  { grant, budget }: { grant: Grant; budget: Budget },
): Promise<Attempt> {
  const { sql, clock } = parts;
  const folder = join(parts.runs, row.id);
  const base = parts.baseOf(row.base_model_id);
  const autoAlign = row.auto_align_of === null ? null : parts.autoAligns.claimOf(row.id);
  await writeRequest(folder, {
    ...(autoAlign && { autoAlign }),
    fence: claim.fence,
    basePath: base.path,
    budget,
    encoder: parts.encoder(),
    versions: await parts.versions(),
  });
  const { jobId, fence } = claim;
  sql.start.run({ id: row.id, budget: JSON.stringify(budget), at: clock.now(), jobId, fence });
  const note = row.progress_json === null ? null : (JSON.parse(row.progress_json) as ProgressNote);
  return {
    claim,
    row,
    folder,
    saved: false,
    autoAlign,
    cards: [],
    looking: new AbortController(),
    giveBack: () => grant.release(),
    began: { overall: row.progress, ms: clock.monotonicMs() },
    estimate: null,
    progress: {
      phase: row.phase === "queued" ? "preparing" : row.phase,
      overall: row.progress,
      detail: note?.detail ?? null,
      metrics: row.metrics_json === null ? {} : JSON.parse(row.metrics_json),
      seen: row.events_seen,
    },
  };
}

/**
 * Asks the teacher before the run starts, because a run opens no connections of its own. Passages that an earlier
 * attempt asked about are not asked again.
 */
async function beTaught(parts: AlignParts, attempt: Attempt, by: Teacher, signal: AbortSignal): Promise<void> {
  const { folder, row } = attempt;
  const request = await readRequest(folder);
  const { documents } = await readSnapshot(folder, request);
  // In a thread of its own: large documents take seconds, and this one serves all requests.
  const thread = openStudyThread(signal);
  const passages = await thread
    .passages({ documents, organisation: request.organisation ?? null })
    .finally(() => thread.close());
  const since = parts.clock.monotonicMs();
  await askTeacher(
    folder,
    passages,
    (content) => parts.say(row.owner_id, by, content, signal),
    (done, total) => {
      const rate = done / Math.max(0.001, (parts.clock.monotonicMs() - since) / 1000);
      const detail = {
        phase: "preparing",
        done,
        total,
        unit: "passages taught",
        rate,
        seconds_left: (total - done) / rate,
      };
      attempt.progress = { ...attempt.progress, phase: "preparing", detail };
      trySave(parts, attempt);
    },
  );
}

/**
 * Follows the run to its result. The proof against leakage starts once the rows are prepared; a leak ends the run
 * early.
 */
async function follow(parts: AlignParts, attempt: Attempt, onEnd: () => void): Promise<RunResult> {
  const { executor, log } = parts;
  const { folder, row } = attempt;
  // The run would not learn of a stop that was requested after request.json was written.
  if (attempt.autoAlign !== null && parts.autoAligns.claimOf(row.id).stopping !== attempt.autoAlign.stopping)
    return stoppedBefore(attempt.claim);
  const questions = row.benchmark_id === null ? [] : parts.questionsOf(row.benchmark_id);
  let proof: Promise<void> | null = null;
  const prove = (): Promise<void> =>
    questions.length === 0 ? Promise.resolve() : parts.prover.prove(folder, questions);
  save(parts, attempt);
  let unsaved = false;
  const tracePhase = phaseSpans(parts.traces.current(), attempt.progress.phase);
  const named = row.reward_models_json === null ? null : (JSON.parse(row.reward_models_json) as KeptRewardModels);
  const result = await executor.start(folder, {
    afterSeq: attempt.progress.seen,
    ...(named && { onAsk: (question, signal) => parts.askRewardModel(row.owner_id, named, question, signal) }),
    onEvent(event: RunEvent) {
      attempt.progress = take(attempt.progress, event);
      tracePhase(attempt.progress.phase);
      if (event.kind === "checkpoint") attempt.saved = true;
      if (event.card !== undefined && attempt.autoAlign !== null) attempt.cards.push(event.card);
      if (event.phase !== "preparing" && proof === null) {
        proof = prove();
        proof.catch(() => executor.stop(folder).catch((error) => log("warn", "run.not_stopped", { error })));
      }
      // Events arrive in bursts: one transaction for each burst.
      if (!unsaved)
        setImmediate(() => {
          unsaved = false;
          trySave(parts, attempt);
        });
      unsaved = true;
    },
  });
  tracePhase(null);
  onEnd();
  save(parts, attempt);
  if (proof !== null || result.outcome === "completed") await (proof ?? prove());
  return result;
}

/** Traces each phase of a run once the next one begins; null: the run has ended. */
function phaseSpans(span: ReturnType<Traces["current"]>, phase: string): (next: string | null) => void {
  let beganMs = performance.now();
  let current = phase;
  return (next) => {
    if (next === current) return;
    const nowMs = performance.now();
    span.record(`phase ${current}`, beganMs, nowMs);
    [beganMs, current] = [nowMs, next ?? ""];
  };
}

/** The result of a run that was stopped before its process started. */
const stoppedBefore = ({ fence }: Claim): RunResult => ({
  format: 1,
  fence,
  outcome: "stopped",
  error: null,
  chosen_step: null,
  files: [],
  metrics: {},
});

/**
 * As save, but only logs an error: the disk may be full for a while, and the next event, or the end of the run, writes
 * it again.
 */
function trySave(parts: AlignParts, attempt: Attempt): void {
  try {
    save(parts, attempt);
  } catch (error) {
    parts.log("error", "run.progress_unwritten", { alignmentId: attempt.row.id, error });
  }
}

function save({ sql, clock, autoAligns }: AlignParts, attempt: Attempt): void {
  const { claim, row, progress, began } = attempt;
  const nowMs = clock.monotonicMs();
  const left = remainingMs(began, { overall: progress.overall, ms: nowMs });
  if (left !== null) attempt.estimate = settled(attempt.estimate, left, nowMs);
  const { estimate } = attempt;
  const note: ProgressNote = {
    detail: progress.detail,
    estimated_completion: estimate && new Date(Date.parse(clock.now()) + estimate.endMs - nowMs).toISOString(),
  };
  const advance = (): boolean =>
    sql.advance.run({
      id: row.id,
      phase: progress.phase,
      progress: progress.overall,
      detail: JSON.stringify(note),
      metrics: JSON.stringify(progress.metrics),
      seen: progress.seen,
      jobId: claim.jobId,
      fence: claim.fence,
    }).changes === 1;
  if (attempt.autoAlign === null) return void advance();
  autoAligns.save(claim, attempt.cards, advance);
  attempt.cards = [];
}

/** Moves the job to the state that matches the run's end. If it throws, the job fails. */
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
    // The last events may hold a decision.
    trySave(parts, attempt);
    const before = attempt.autoAlign && parts.autoAligns.placeOf(row.id);
    if (before === "unplanned" && parts.autoAligns.claimOf(row.id).stopping) return parts.autoAligns.stopped(claim);
    // An auto-align's decisions and checkpoints are in its folder.
    const isWorthIt = attempt.saved || before === "decided";
    // A decision may have reset the count of attempts since the claim.
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

/** As conclude, for an auto-align, which may go on after its process has ended. */
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
  if (told == null) throw new Failure("run_crashed", "The result says nothing of its auto-align");
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

/**
 * Stores the model and completes the alignment (invariant 1). Safe to repeat. `move` moves the job and runs the given
 * function in the same transaction.
 */
async function complete(
  parts: AlignParts,
  attempt: Attempt,
  result: RunResult,
  move: (also: () => void) => void,
): Promise<void> {
  const { sql, clock } = parts;
  const { row, folder } = attempt;
  const named = new Map(result.files.map((file) => [file.name, file]));
  for (const name of ["adapter.gguf", "calibration.json", "report.json"] as const)
    if (!named.has(name)) throw new Failure("run_crashed", `The result has no ${name}`);
  const artefact = join(folder, "artefact");
  const report = await readJson(join(artefact, "report.json"));
  const calibration = readCalibration(
    (await readJson(join(artefact, "calibration.json"))) as unknown as StoredCalibration,
  );
  const stored = async (name: "adapter.gguf" | "sources.json", store: AlignParts["storeAdapter"]) => {
    const file = await store(join(artefact, name));
    if (file.sha256 !== named.get(name)!.sha256)
      throw new Failure("run_crashed", `${name} changed while it was stored`);
    return file;
  };
  const adapter = await stored("adapter.gguf", parts.storeAdapter);
  const sources = named.has("sources.json") ? await stored("sources.json", parts.storeSources) : null;
  const { owner_id: ownerId, base_model_id: baseId, benchmark_id: benchmarkId, id: alignmentId, name } = row;
  move(() => {
    sql.complete.run({
      id: alignmentId,
      metrics: JSON.stringify({ ...attempt.progress.metrics, ...result.metrics }),
      report: JSON.stringify(report),
      at: clock.now(),
    });
    const model = { ownerId, alignmentId, baseModelId: baseId, name, adapter, sources, calibration };
    const modelId = parts.registerModel(model);
    parts.keepGuards(modelId, guardsOf(report));
    if (benchmarkId !== null) parts.enqueueEvaluation({ ownerId, modelId, baseId, benchmarkId, alignmentId });
  });
}

async function readJson(path: string): Promise<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, "utf8"));
  } catch (error) {
    throw new Failure("run_crashed", `${path} is not JSON: ${(error as Error).message}`, { cause: error });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Failure("run_crashed", `${path} is no JSON object`);
  return value as Record<string, unknown>;
}
