// Who reads documents: threads what is text, a process of its own what is not. A hostile one costs its own upload, not the house.
import { open } from "node:fs/promises";
import type { Worker } from "node:worker_threads";
import { Piscina } from "piscina";
import { Failure } from "../../base/errors.ts";
import { binaryKind } from "./binary-kind.ts";
import type { Duplicate } from "./duplicates.ts";
import { createLanes } from "./lanes.ts";
import { readingSeconds, readingTimeoutMs } from "./limits.ts";
import type { Parsed, ParseOptions } from "./parse.ts";
import type { CompareTask, StructureTask } from "./parse.worker.ts";
import { probeDocument } from "./probe.ts";
import { type Refused, tooSlow } from "./refusal.ts";
import { recognise } from "./scans.ts";
import type { Parts } from "./structure.ts";

/** `owner`: whose turn it takes. */
export interface Parser {
  /** Throws what is wrong with the file: document_limit and other 415s and 422s; bad_request when `signal` ends it. */
  parse(owner: string, path: string, options: ParseOptions, signal: AbortSignal): Promise<Parsed>;
  /** Which of its paragraphs others have too. */
  compare(owner: string, task: CompareTask): Promise<Duplicate[]>;
  /** Pages, blocks and chunks of a clean text. */
  parts(owner: string, task: StructureTask): Promise<Parts>;
  close(): Promise<void>;
}

/** Threads, and processes too, that read at once: each process may take two gigabytes. */
const lanes = 2;
const watchMs = 250;

/** What a file begins with, and its bytes. */
async function headOf(path: string): Promise<{ head: Uint8Array; bytes: number }> {
  const handle = await open(path, "r");
  try {
    const { buffer, bytesRead } = await handle.read(new Uint8Array(64), 0, 64, 0);
    return { head: buffer.subarray(0, bytesRead), bytes: (await handle.stat()).size };
  } finally {
    await handle.close();
  }
}

/** `seconds`: of computing that a document of so many bytes has. */
export function createParser(seconds: (bytes: number) => number = readingSeconds): Parser {
  // A thread to each lane, so that it is known whose computing is whose.
  const pools = Array.from(
    { length: lanes },
    () =>
      new Piscina({
        filename: new URL("./parse.worker.ts", import.meta.url).href,
        minThreads: 0,
        maxThreads: 1,
        idleTimeout: 30_000,
        resourceLimits: { maxOldGenerationSizeMb: 1024 },
      }),
  );
  const inThread = createLanes(lanes);
  const inProcess = createLanes(lanes);

  const within = <Result>(
    owner: string,
    task: object,
    work: { name: string; of: string; bytes: number },
    signal: AbortSignal | null,
  ): Promise<Result> =>
    inThread(owner, signal, async (lane) => {
      const pool = pools[lane]!;
      const most = seconds(work.bytes);
      const { deadline, end } = await deadlineOf(pool, most);
      const limit = signal ? AbortSignal.any([signal, deadline]) : deadline;
      let result: { done: Result } | Refused;
      try {
        result = (await pool.run(task, { name: work.name, signal: limit })) as { done: Result } | Refused;
      } catch (error) {
        if (signal?.aborted) throw new Failure("bad_request", "The upload was cut off", { cause: error });
        if (limit.aborted) throw tooSlow(work.of, most, error);
        if ((error as NodeJS.ErrnoException).code === "ERR_WORKER_OUT_OF_MEMORY")
          throw new Failure("document_limit", `${work.of} takes too much memory to read`, { cause: error });
        throw error;
      } finally {
        end();
      }
      if ("code" in result) throw new Failure(result.code, result.message);
      return result.done;
    });

  return {
    async parse(owner, path, options, signal) {
      const { name, asIs } = options;
      const { head, bytes } = await headOf(path);
      const kind = binaryKind(head, name);
      if (kind === null) return within(owner, { ...options, path }, { name: "text", of: name, bytes }, signal);
      if (asIs) throw new Failure("document_type", `${name} is not text`);
      return inProcess(owner, signal, async () => {
        const answer = await probeDocument(path, kind, name, seconds(bytes), signal);
        const empty = /^\{"format":"\w+","empty":\[([\d,]+)\]/.exec(answer)?.[1]?.split(",").map(Number) ?? [];
        const recognised = await recognise(path, empty, name, seconds(bytes), signal);
        const work = { name: "reading", of: name, bytes: answer.length };
        return within(owner, { ...options, answer, recognised }, work, signal);
      });
    },
    compare(owner, task) {
      const bytes = task.others.reduce((sum, { signatures }) => sum + signatures.length, task.own.length);
      return within(owner, task, { name: "compare", of: task.name, bytes }, null);
    },
    parts: (owner, task) =>
      within(
        owner,
        task,
        { name: "parts", of: task.name, bytes: task.text.length + (task.structure?.length ?? 0) },
        null,
      ),
    close: async () => void (await Promise.all(pools.map((pool) => pool.destroy()))),
  };
}

/** Ends once the pool's one thread has computed for so many seconds from now on, or far more have gone by. */
async function deadlineOf(pool: Piscina, seconds: number): Promise<{ deadline: AbortSignal; end: () => void }> {
  const over = new AbortController();
  const thread = pool.threads[0];
  const before = await computed(thread);
  const watch = setInterval(async () => {
    const now = pool.threads[0];
    // A thread that was started for this work began at nothing.
    const own = (await computed(now)) - (now === thread ? before : 0);
    if (own > seconds) over.abort();
  }, watchMs);
  const timer = setTimeout(() => over.abort(), readingTimeoutMs);
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
