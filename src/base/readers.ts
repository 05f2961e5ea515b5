// Reads users' files in threads, with limits on CPU time and memory per file, and with fair turns for the files' owners.
import type { Worker } from "node:worker_threads";
import { Piscina } from "piscina";
import { Failure, type FailureCode, type ValidationDetail } from "./errors.ts";
import { createLanes } from "./lanes.ts";

/** A refusal by a worker thread or process. It is plain data, because an Error would lose its code in transit. */
export type Refused = { code: FailureCode; message: string; details?: ValidationDetail[] };

/** The answer of a worker thread. */
export type Answer<Result> = { done: Result } | Refused;

export interface Work {
  /** Name of the function in the worker's file. */
  name: string;
  /** The user's name of the file that is read. */
  of: string;
  bytes: number;
}

export interface Readers {
  /** Reads a file in a thread. Throws the thread's refusal, the reader's limit code if the file exceeds a limit, or bad_request. */
  read<Result>(owner: string, task: unknown, work: Work, signal: AbortSignal | null): Promise<Result>;
  close(): Promise<void>;
}

/** Number of threads that read at the same time. */
export const lanes = 2;
const watchMs = 250;

/**
 * CPU seconds allowed for a file of `bytes` bytes. The limit is on CPU time and not on wall-clock time, so that a busy machine refuses
 * no file that an idle one reads. On a machine with other work, a megabyte took 16 s of Markdown with short lists, 4 s of HTML and 2 s
 * of tables.
 */
export const readingSeconds = (bytes: number): number => Math.min(120, 10 + Math.ceil((30 * bytes) / 2 ** 20));

/** Wall-clock limit per file, for work that waits without using CPU time. */
export const readingTimeoutMs = 240_000;

/** The failure for a file that takes longer than `seconds` of CPU time or the wall-clock limit. */
export function tooSlow(code: FailureCode, name: string, seconds: number, cause?: unknown): Failure {
  const most = `${seconds} s of CPU time or ${readingTimeoutMs / 1000} s of clock time`;
  return new Failure(code, `${name} takes too long to read; the limit is ${most}`, { cause });
}

/**
 * Creates the threads. `worker` is a file whose functions return an Answer. `limit` is the failure code for a file that takes too much
 * time or memory. `seconds` returns the CPU seconds allowed for a file of the given size.
 */
export function createReaders(
  worker: URL,
  limit: FailureCode,
  seconds: (bytes: number) => number = readingSeconds,
): Readers {
  // Each lane has its own thread, so that CPU time can be attributed to a file.
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

/**
 * Returns a signal that aborts when the pool's thread has used `seconds` of CPU time from now on, or after readingTimeoutMs. `end` stops
 * the watch.
 */
async function deadlineOf(pool: Piscina, seconds: number): Promise<{ deadline: AbortSignal; end: () => void }> {
  const over = new AbortController();
  // The timer is set before the first await to keep the process alive, because waiting for an idle thread's answer does not.
  const timer = setTimeout(() => over.abort(), readingTimeoutMs);
  const thread = pool.threads[0];
  const before = await computed(thread);
  const watch = setInterval(async () => {
    const now = pool.threads[0];
    // A thread that was started for this work has used CPU time only for it.
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
