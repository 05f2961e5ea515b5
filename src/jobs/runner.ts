// Hands queued jobs to their workers, a few at a time. When the appliance shuts down, the workers' signal is aborted. Each worker then
// leaves its work in a state from which it can be resumed, and its job is queued again. A stop that a user requests is up to the domain
// modules.
import { Failure } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { sleep } from "../base/time.ts";
import type { Traces } from "../base/traces.ts";
import type { Claim, Queue } from "./queue.ts";
import type { JobKind } from "./states.ts";

export interface Worker {
  /** Maximum number of jobs of this kind at the same time. */
  concurrency: number;
  /** Called before each claim. Returns false if, for example, memory or disk do not allow another job. */
  canStart?: () => boolean;
  /**
   * Does the work and moves the job in the queue. If it throws or ends without moving the job, the job fails, or is queued again if the
   * appliance is shutting down.
   */
  run(claim: Claim, signal: AbortSignal): Promise<void>;
}

export type Workers = Partial<Record<JobKind, Worker>>;

export interface Runner {
  /** Hands jobs to these workers from now on. The queue must have been recovered before. */
  start(workers: Workers): void;
  /** Looks for work at once instead of within a second. Does nothing before `start`. */
  wake(): void;
  /** Aborts all workers. Resolves when they have ended and their jobs are queued again, or stopped if that was requested. */
  stop(): Promise<void>;
}

const pollMs = 1000;

export function createRunner(parts: { queue: Queue; log: Log; traces: Pick<Traces, "begin"> }): Runner {
  const { queue, log, traces } = parts;
  const running = new Map<JobKind, { worker: Worker; active: Set<Promise<void>> }>();
  const ending = new AbortController();
  let timer: NodeJS.Timeout | undefined;

  function look(): void {
    if (ending.signal.aborted) return;
    for (const [kind, { worker, active }] of running) {
      while (active.size < worker.concurrency && (worker.canStart?.() ?? true)) {
        const claim = queue.claim(kind);
        if (!claim) break;
        const work = perform(worker, claim).finally(() => {
          active.delete(work);
          wake();
        });
        active.add(work);
      }
    }
  }

  /** Looks for work. A claim can fail if the disk is full or failing; the next look then tries again. */
  function wake(): void {
    try {
      look();
    } catch (error) {
      log("error", "runner.claim_failed", { error });
    }
  }

  async function perform(worker: Worker, claim: Claim): Promise<void> {
    const lines = log.with({ jobId: claim.jobId, kind: claim.kind, subjectId: claim.subjectId, fence: claim.fence });
    const attributes = { "plumbline.job": claim.jobId, "plumbline.subject": claim.subjectId };
    const span = traces.begin(claim.kind, { attributes });
    let error: unknown = new Failure("internal", "The worker ended without a result");
    let hasThrown = false;
    try {
      await span.run(() => worker.run(claim, ending.signal));
    } catch (thrown) {
      error = thrown;
      hasThrown = true;
    }
    const failure = error instanceof Failure ? error : new Failure("internal", undefined, { cause: error });
    span.end(hasThrown ? { error: failure.code } : {});
    await untilWritten(lines, () => {
      if (ending.signal.aborted) return giveBack(claim);
      const moved = queue.move(claim, "failed", { errorCode: failure.code, errorText: failure.message });
      if (moved) lines("error", "job.failed", { error });
      return moved;
    });
  }

  /** Queues the job again, or stops it if a stop was requested. */
  function giveBack(claim: Claim): boolean {
    const stopping = queue.of(claim.subjectId, claim.kind)?.state === "stopping";
    const detail = "the appliance is stopping";
    return stopping ? queue.move(claim, "stopped", { detail }) : queue.move(claim, "queued", { orderly: true, detail });
  }

  /** Retries `write` if it throws, until the appliance shuts down. If `write` returns false, the worker has already moved the job. */
  async function untilWritten(lines: Log, write: () => boolean): Promise<void> {
    for (;;)
      try {
        write();
        return;
      } catch (error) {
        lines("error", "job.unwritten", { error });
        if (ending.signal.aborted) return;
        await sleep(pollMs, ending.signal);
      }
  }

  return {
    start(workers) {
      for (const [kind, worker] of Object.entries(workers) as [JobKind, Worker][])
        running.set(kind, { worker, active: new Set() });
      timer = setInterval(wake, pollMs);
      setImmediate(wake);
    },
    wake,
    async stop() {
      clearInterval(timer);
      ending.abort();
      await Promise.all([...running.values()].flatMap(({ active }) => [...active]));
    },
  };
}
