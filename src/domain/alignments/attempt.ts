// Carries out one attempt at an alignment: writes the request, asks the teacher, follows the run, and stores what the run reports.
import { join } from "node:path";
import type { Log } from "../../base/log.ts";
import type { Clock } from "../../base/time.ts";
import type { Traces } from "../../base/traces.ts";
import type { RunEvent, RunRequest, RunResult } from "../../contract/run-folder.ts";
import type { ModelQuestion } from "../../contract/run-lines.ts";
import type { Executor } from "../../jobs/executor.ts";
import type { Claim } from "../../jobs/queue.ts";
import { readRequest, readSnapshot } from "../../run/folder/request.ts";
import { askTeacher, type Teacher } from "../../run/folder/teacher.ts";
import { openStudyThread } from "../../study/thread.ts";
import type { KeptRewardModels } from "./auto/reward-models.ts";
import type { AutoAlignClaim, AutoAlignWork } from "./auto/work.ts";
import { type Estimate, type ProgressNote, type RunProgress, remainingMs, settled, take } from "./progress.ts";
import type { AskedQuestion, Prover } from "./proof.ts";
import type { BaseModel, Budget, Grant } from "./reservations.ts";
import { diskFailure, writeRequest } from "./snapshot.ts";
import type { AlignmentRow, AlignmentsSql } from "./store.ts";

export interface AttemptParts {
  sql: AlignmentsSql;
  autoAligns: AutoAlignWork;
  log: Log;
  /** Directory of the run folders. */
  runs: string;
  baseOf: (baseModelId: string) => BaseModel;
  executor: Executor;
  prover: Prover;
  clock: Clock;
  traces: Pick<Traces, "current">;
  /** The installed sentence encoder; null if there is none. */
  encoder: () => { sha256: string; path: string } | null;
  versions: () => Promise<RunRequest["versions"]>;
  /** A chat model's answer to one message, at temperature 0. */
  say: (
    ownerId: string,
    by: Teacher,
    content: string,
    options: { maxTokens: number; signal: AbortSignal },
  ) => Promise<{ text: string }>;
  /** Asks a model that an auto-align's reward names, for its run. Returns the judge's text, or the preference model's logits. */
  askRewardModel: (
    ownerId: string,
    named: KeptRewardModels,
    question: ModelQuestion,
    signal: AbortSignal,
  ) => Promise<string | readonly number[]>;
  /** The benchmark's questions, of all splits. */
  questionsOf: (benchmarkId: string) => AskedQuestion[];
}

export interface Attempt {
  claim: Claim;
  row: AlignmentRow;
  folder: string;
  /** Whether this attempt wrote a checkpoint, from which a retry after a crash can continue. */
  saved: boolean;
  progress: RunProgress;
  /** The auto-align's values in this claim's request; null for a plain alignment. */
  autoAlign: AutoAlignClaim | null;
  /** Decisions of the auto-align that are not written yet. */
  cards: unknown[];
  /** Aborted to end a look before its scores are known. */
  looking: AbortController;
  /** Releases the run's memory before the attempt is over, once the run has ended. */
  giveBack: () => void;
  /** Progress and time from which the remaining time is extrapolated. */
  began: { overall: number; ms: number };
  estimate: Estimate | null;
}

export async function begin(
  parts: AttemptParts,
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

/** Maximum number of passages that a teacher is asked about at the same time: an installed one, which others use too, and an upstream. */
const togetherHere = 2;
const togetherUpstream = 8;
/** Maximum tokens of a teacher's reply. Twelve facts with four questions each take some 1,500. */
const longestReply = 4000;

/**
 * Asks the teacher before the run starts, because a run opens no connections of its own. Passages that an earlier
 * attempt asked about are not asked again.
 */
export async function consultTeacher(
  parts: AttemptParts,
  attempt: Attempt,
  by: Teacher,
  signal: AbortSignal,
): Promise<void> {
  const { folder, row } = attempt;
  const request = await readRequest(folder);
  const { documents } = await readSnapshot(folder, request);
  // Large documents take seconds, so they are split into passages in a separate thread; this one serves all requests.
  const thread = openStudyThread(signal);
  const passages = await thread
    .passages({ documents, organisation: request.organisation ?? null })
    .finally(() => thread.close());
  const taught = parts.sql.taught.all({ id: row.id, ownerId: row.owner_id, model: by.model, provider: by.provider });
  const since = parts.clock.monotonicMs();
  const report = (done: number, total: number, asked: number): void => {
    // Passages that an earlier run or attempt asked about take no time, so only the others tell how long the rest takes.
    const rate = asked / Math.max(0.001, (parts.clock.monotonicMs() - since) / 1000);
    const detail = {
      phase: "preparing",
      done,
      total,
      unit: "passages shown to the teacher",
      rate: asked === 0 ? null : rate,
      seconds_left: asked === 0 ? null : (total - done) / rate,
    };
    attempt.progress = { ...attempt.progress, phase: "preparing", detail };
    trySave(parts, attempt);
  };
  report(0, passages.length, 0);
  await askTeacher(
    folder,
    passages,
    {
      together: by.provider === null ? togetherHere : togetherUpstream,
      say: async (content) => (await parts.say(row.owner_id, by, content, { maxTokens: longestReply, signal })).text,
    },
    {
      earlier: taught.map(({ id }) => join(parts.runs, id)),
      rounds: request.recipe.dataset.teacher_rounds,
      onProgress: report,
    },
  ).catch((error) => {
    throw diskFailure(error);
  });
  // From here on, the time left is computed from the run's own pace.
  attempt.began = { overall: attempt.progress.overall, ms: parts.clock.monotonicMs() };
}

/**
 * Follows the run to its result. The proof against leakage starts once the rows are prepared. A leak stops the run
 * early. Throws benchmark_leak, and what the executor throws.
 */
export async function follow(parts: AttemptParts, attempt: Attempt, onEnd: () => void): Promise<RunResult> {
  const { executor, log } = parts;
  const { folder, row } = attempt;
  // If a stop was requested after request.json was written, the run would not learn of it, so the run is not started.
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
      // Events arrive in bursts, so each burst is saved in one transaction.
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

/** Returns a function that is called with the run's phase after each event, or null at the end, and traces each finished phase. */
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

/** The result for a run that was stopped before its process started. */
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
 * Saves the attempt's progress, but only logs an error, because the disk may be full for a while. The next event or the
 * end of the run saves it again.
 */
export function trySave(parts: AttemptParts, attempt: Attempt): void {
  try {
    save(parts, attempt);
  } catch (error) {
    parts.log("error", "run.progress_unwritten", { alignmentId: attempt.row.id, error });
  }
}

function save({ sql, clock, autoAligns }: AttemptParts, attempt: Attempt): void {
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
