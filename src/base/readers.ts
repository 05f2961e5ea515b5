// Threads that read users' files, with limits on CPU time and memory per file, and a fair turn for every owner.
import type { Worker } from "node:worker_threads";
import { Piscina } from "piscina";
import { Failure, type FailureCode, type ValidationDetail } from "./errors.ts";
import { createLanes } from "./lanes.ts";

/** A refusal by a worker thread or process, as plain data: an error would lose its code on the way. */
export type Refused = { code: FailureCode; message: string; details?: ValidationDetail[] };

/** The answer of a worker thread. */
export type Answer<Result> = { done: Result } | Refused;

export interface Work {
  /** Name of the function in the worker's file. */
  name: string;
  /** Name of the file that is read, as its user calls it. */
  of: string;
  bytes: number;
}

export interface Readers {
  /** Throws the thread's refusal, the limit's code when a limit is exceeded, and bad_request when `signal` aborts. */
  read<Result>(owner: string, task: unknown, work: Work, signal: AbortSignal | null): Promise<Result>;
  close(): Promise<void>;
}

/** Number of threads that read at the same time. */
export const lanes = 2;
const watchMs = 250;

/**
 * CPU seconds allowed for a file of so many bytes. CPU time is used instead of wall time so that a busy machine refuses nothing
 * that an idle one reads. Measured beside other work: Markdown of short lists 16 s a megabyte, HTML 4, tables 2.
 */
export const readingSeconds = (bytes: number): number => Math.min(120, 10 + Math.ceil((30 * bytes) / 2 ** 20));

/** Wall-clock limit, for work that waits without using CPU time. */
export const readingTimeoutMs = 240_000;

/** `seconds`: limit on CPU time. */
export function tooSlow(code: FailureCode, name: string, seconds: number, cause?: unknown): Failure {
  const most = `${seconds} s of CPU time or ${readingTimeoutMs / 1000} s of clock time`;
  return new Failure(code, `${name} takes too long to read; the limit is ${most}`, { cause });
}

/** `worker`: file whose functions return an Answer. `limit`: failure code for a file that takes too much time or memory. */
export function createReaders(
  worker: URL,
  limit: FailureCode,
  seconds: (bytes: number) => number = readingSeconds,
): Readers {
  // One thread per lane, so that CPU time can be attributed to a file.
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

/** `deadline` aborts once the pool's thread has used `seconds` of CPU time from now on, or after readingTimeoutMs. */
async function deadlineOf(pool: Piscina, seconds: number): Promise<{ deadline: AbortSignal; end: () => void }> {
  const over = new AbortController();
  // Set before the first await: an idle thread does not keep the process alive, so waiting for its answer would not either.
  const timer = setTimeout(() => over.abort(), readingTimeoutMs);
  const thread = pool.threads[0];
  const before = await computed(thread);
  const watch = setInterval(async () => {
    const now = pool.threads[0];
    // A thread that was started for this work began at 0.
    const own = (await computed(now)) - (now === thread ? before : 0);
    if (own > seconds) over.abort();
  }, watchMs);
  const end = (): void => {
    clearInterval(watch);
    clearTimeout(timer);
  };
  return { deadline: over.signal, end };
}

/** CPU seconds that a thread has used; 0 when it is not running. */
async function computed(thread: Worker | undefined): Promise<number> {
  const { user, system } = (await thread?.cpuUsage().catch(() => null)) ?? { user: 0, system: 0 };
  return (user + system) / 1e6;
}
