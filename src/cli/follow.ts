// Follows long work of the appliance to its end, by its events if it has any, otherwise by polling. A client that connects
// later or reconnects sees the same.
import { setTimeout as delay } from "node:timers/promises";
import { Failure } from "../base/errors.ts";
import type { RunEvent } from "../contract/run-folder.ts";
import { type Client, eventOf, patiently, type Replies } from "./client.ts";
import type { Progress, Step } from "./progress.ts";

const pollMs = 500;

type Detail = { done: number; total: number | null; unit: string; rate: number | null; seconds_left: number | null };

function stepOf(phase: string, detail: Detail | null | undefined, otherwise: Omit<Step, "phase">): Step {
  if (!detail) return { phase, ...otherwise };
  const { done, total, unit, rate, seconds_left } = detail;
  return { phase, done, total, unit, rate, secondsLeft: seconds_left };
}

/** Polls until `isOver` accepts an answer, and returns that answer. Calls `show` with each answer before it. */
async function until<T>(
  signal: AbortSignal,
  ask: () => Promise<T>,
  isOver: (answer: T) => boolean,
  show: (answer: T) => void = () => {},
): Promise<T> {
  for (;;) {
    const answer = await patiently(ask);
    if (isOver(answer)) return answer;
    show(answer);
    await delay(pollMs, undefined, { signal });
  }
}

/** The failure of work that did not succeed. Work that was stopped on request is `interrupted`, not failed. */
const ended = (what: string, status: string, error: string | null | undefined): Failure =>
  status === "STOPPED"
    ? new Failure("interrupted", `${what} was stopped`)
    : new Failure("work_failed", `${what} ended ${status}: ${error ?? "no reason given"}`);

export type AlignmentStatus = Replies["alignments.status"];

/**
 * Follows an alignment until it is COMPLETED, and returns its status. Calls `onEvent` once with each event of the run. Throws
 * work_failed, interrupted.
 */
export async function followAlignment(
  client: Client,
  alignmentId: string,
  progress: Progress,
  signal: AbortSignal,
  onEvent: (event: RunEvent) => void = () => {},
): Promise<AlignmentStatus> {
  const params = { alignment_id: alignmentId };
  const ask = () => client.api["alignments.status"]({ params, signal });
  const showStatus = ({ phase, progress_detail: detail, waiting_for }: AlignmentStatus): void => {
    const step = stepOf(phase, detail, { done: 0, total: null, unit: "steps" });
    progress.show(waiting_for ? { ...step, note: waiting_for } : step);
  };
  await until(signal, ask, ({ phase }) => phase !== "queued", showStatus);
  const leaving = new AbortController();
  try {
    const stream = client.alignmentEvents(alignmentId, AbortSignal.any([signal, leaving.signal]));
    const events = stream[Symbol.asyncIterator]();
    let hasBegun = false;
    const first = events.next().finally(() => {
      hasBegun = true;
    });
    // If the status cannot be asked for, nobody waits for the event.
    first.catch(() => {});
    // A teacher is asked before the run begins. That may take hours, in which only the status tells how far it is.
    await until(signal, ask, (status) => hasBegun || hasEnded(status), showStatus);
    const show = showingEvents(progress);
    for (let next = await first; !next.done; next = await events.next()) {
      onEvent(next.value);
      show(next.value);
    }
  } finally {
    leaving.abort();
  }
  // The run's last event comes a moment before the appliance has recorded its result.
  const status = await until(signal, ask, hasEnded);
  if (status.status === "COMPLETED") return status;
  throw ended("The alignment", status.status, status.error);
}

const hasEnded = ({ status }: AlignmentStatus): boolean => !["PROCESSING", "STOPPING"].includes(status);

/** Shows the progress that events report, and each warning once: a run that is resumed may warn again. */
function showingEvents(progress: Progress): (event: RunEvent) => void {
  let loss = "";
  const warnings = new Set<string>();
  return (event) => {
    if (event.kind === "warning" && event.message !== undefined && !warnings.has(event.message)) {
      warnings.add(event.message);
      progress.tell(`Warning: ${event.message}`);
    }
    if (event.kind === "step" && typeof event.metrics?.loss === "number")
      loss = `loss ${event.metrics.loss.toFixed(3)}`;
    if (typeof event.done !== "number") return;
    progress.show({
      phase: event.phase,
      done: event.done,
      total: event.total ?? null,
      unit: event.unit ?? "",
      rate: event.rate ?? null,
      secondsLeft: event.seconds_left ?? null,
      ...(loss === "" || event.phase !== "training" ? {} : { note: loss }),
    });
  };
}

export type AutoAlignRecord = Replies["alignments.auto_align_record"];
type Move = { kind: "transition"; to: string; phase: string | null };

/** Follows an auto-align to its end or to a pause. Returns at once if it is only recorded. Throws work_failed if it FAILED. */
export async function followAutoAlign(
  client: Client,
  params: { alignment_id: string; auto_align_id: string },
  progress: Progress,
  signal: AbortSignal,
): Promise<AutoAlignRecord> {
  const ask = () => patiently(() => client.api["alignments.auto_align_record"]({ params, signal }));
  const showEvent = showingEvents(progress);
  const isOver = async (): Promise<boolean> => isEnd((await ask()).status);
  for await (const { data } of client.events("alignments.auto_align_events", { params, signal })) {
    const event = eventOf<RunEvent | Move>(data);
    if (event.kind !== "transition") showEvent(event);
    else {
      const phase = event.phase === null ? event.to.toLowerCase() : `${event.to.toLowerCase()}, ${event.phase}`;
      progress.show({ phase, done: 0, total: null, unit: "steps" });
      // The stream stays open during a pause. If the auto-align has been resumed since, more events follow.
      if (event.to === "PAUSED" && (await isOver())) break;
    }
  }
  // The stream of a request that is only recorded ends at once, and its status does not change any more.
  const record = await until(signal, ask, ({ status }) => isEnd(status) || status === "RECORDED");
  if (record.status !== "FAILED") return record;
  throw new Failure("work_failed", `The auto-align failed: ${record.error?.message ?? "no reason given"}`);
}

const isEnd = (status: string): boolean => !["RECORDED", "PLANNING", "RUNNING"].includes(status);

/** Follows an evaluation until it is READY, and returns its results. Throws work_failed, interrupted. */
export async function followEvaluation(
  client: Client,
  evaluationId: string,
  progress: Progress,
  signal: AbortSignal,
  phase = "evaluating",
): Promise<Replies["evaluations.results"]> {
  const params = { evaluation_id: evaluationId };
  const record = await until(
    signal,
    () => client.api["evaluations.get"]({ params, signal }),
    ({ status }) => status === "READY" || status === "FAILED",
    (record) => {
      const { n_samples_completed: done, n_samples: total } = record;
      const step = stepOf(phase, record.progress_detail, { done, total, unit: "questions" });
      progress.show(record.waiting_for ? { ...step, note: record.waiting_for } : step);
    },
  );
  if (record.status !== "READY")
    throw ended("The evaluation", record.stopped ? "STOPPED" : record.status, record.error);
  return client.api["evaluations.results"]({ params, signal });
}

/** Follows the creation of a benchmark until it is READY. Throws work_failed, interrupted. */
export async function followBenchmark(
  client: Client,
  benchmarkId: string,
  progress: Progress,
  signal: AbortSignal,
): Promise<Replies["benchmarks.get"]> {
  const record = await until(
    signal,
    () => client.api["benchmarks.get"]({ params: { benchmark_id: benchmarkId }, signal }),
    ({ status }) => status !== "PROCESSING",
    ({ progress_detail: detail }) =>
      progress.show(stepOf(detail?.phase ?? "queued", detail, { done: 0, total: null, unit: "items" })),
  );
  if (record.status === "READY") return record;
  throw ended("The creation of the benchmark", record.status, record.error);
}

/** Follows a deployment or undeployment that has begun. Throws work_failed. */
export async function followDeployment(
  client: Client,
  modelId: string,
  progress: Progress,
  signal: AbortSignal,
): Promise<Replies["models.deployment"]> {
  const task = await until(
    signal,
    () => client.api["models.deployment"]({ params: { model_id: modelId }, signal }),
    ({ status }) => status !== "PROCESSING",
    () => progress.show({ phase: "loading", done: 0, total: null, unit: "models" }),
  );
  if (task.status === "READY") return task;
  const why = task.result && "error" in task.result ? task.result.error : "no reason given";
  throw new Failure("work_failed", `The model ${modelId} could not be deployed or undeployed: ${why}`);
}
