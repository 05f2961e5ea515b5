// Threads that read what users bring: so much computing for each file and no more, so much memory, and a fair turn for every owner.
import type { Worker } from "node:worker_threads";
import { Piscina } from "piscina";
import { Failure, type FailureCode, type ValidationDetail } from "./errors.ts";
import { createLanes } from "./lanes.ts";

/** What a thread or a process of ours refuses, as plain data: an error would lose its code between them. */
export type Refused = { code: FailureCode; message: string; details?: ValidationDetail[] };

/** What a thread answers. */
export type Answer<Result> = { done: Result } | Refused;

export interface Work {
  /** Of the function in the worker's file. */
  name: string;
  /** Of the file that is read, as its user calls it. */
  of: string;
  bytes: number;
}

export interface Readers {
  /** Throws what the thread refuses, the limit's code where that is met, and bad_request when `signal` ends it. */
  read<Result>(owner: string, task: unknown, work: Work, signal: AbortSignal | null): Promise<Result>;
  close(): Promise<void>;
}

/** Threads that read at once. */
export const lanes = 2;
const watchMs = 250;

/**
 * Seconds of computing that a file of so many bytes has. Of computing and not by the clock: a busy machine refuses nothing that an idle one
 * reads. Measured beside other work: Markdown of short lists 16 s a megabyte, HTML 4, tables 2.
 */
export const readingSeconds = (bytes: number): number => Math.min(120, 10 + Math.ceil((30 * bytes) / 2 ** 20));

/** By the clock, for what waits and does not compute. */
export const readingTimeoutMs = 240_000;

/** `seconds`: of computing. */
export function tooSlow(code: FailureCode, name: string, seconds: number, cause?: unknown): Failure {
  const most = `${seconds} s of computing, or ${readingTimeoutMs / 1000} s by the clock`;
  return new Failure(code, `${name} takes too long to read; ${most} are the most`, { cause });
}

/** `worker`: whose functions answer as an Answer. `limit`: what is said of a file that takes too much time or memory. */
export function createReaders(
  worker: URL,
  limit: FailureCode,
  seconds: (bytes: number) => number = readingSeconds,
): Readers {
  // A thread to each lane, so that it is known whose computing is whose.
  const pools = Array.from(
    { length: lanes },
    () =>
      new Piscina({
        filename: worker.href,
        minThreads: 0,
        maxThreads: 1,
        idleTimeout: 30_000,
        resourceLimits: { maxOldGenerationSizeMb: 1024 },
      }),
  );
  const inThread = createLanes(lanes);
  return {
    read: <Result>(owner: string, task: unknown, work: Work, signal: AbortSignal | null): Promise<Result> =>
      inThread(owner, signal, async (lane) => {
        const pool = pools[lane]!;
        const most = seconds(work.bytes);
        const { deadline, end } = await deadlineOf(pool, most);
        const ending = signal ? AbortSignal.any([signal, deadline]) : deadline;
        let answer: Answer<Result>;
        try {
          answer = (await pool.run(task, { name: work.name, signal: ending })) as Answer<Result>;
        } catch (error) {
          if (signal?.aborted) throw new Failure("bad_request", "The upload was cut off", { cause: error });
          if (ending.aborted) throw tooSlow(limit, work.of, most, error);
          if ((error as NodeJS.ErrnoException).code === "ERR_WORKER_OUT_OF_MEMORY")
            throw new Failure(limit, `${work.of} takes too much memory to read`, { cause: error });
          throw error;
        } finally {
          end();
        }
        if ("done" in answer) return answer.done;
        const { code, message, details } = answer;
        throw new Failure(code, message, details === undefined ? {} : { details });
      }),
    close: async () => void (await Promise.all(pools.map((pool) => pool.destroy()))),
  };
}

/** Ends once the pool's one thread has computed for so many seconds from now on, or far more have gone by. */
async function deadlineOf(pool: Piscina, seconds: number): Promise<{ deadline: AbortSignal; end: () => void }> {
  const over = new AbortController();
  // First: a thread that has nothing to do keeps no process alive, so neither does the wait for its answer.
  const timer = setTimeout(() => over.abort(), readingTimeoutMs);
  const thread = pool.threads[0];
  const before = await computed(thread);
  const watch = setInterval(async () => {
    const now = pool.threads[0];
    // A thread that was started for this work began at nothing.
    const own = (await computed(now)) - (now === thread ? before : 0);
    if (own > seconds) over.abort();
  }, watchMs);
  const end = (): void => {
    clearInterval(watch);
    clearTimeout(timer);
  };
  return { deadline: over.signal, end };
}

/** Seconds; 0 of a thread that does not run. */
async function computed(thread: Worker | undefined): Promise<number> {
  const { user, system } = (await thread?.cpuUsage().catch(() => null)) ?? { user: 0, system: 0 };
  return (user + system) / 1e6;
}
