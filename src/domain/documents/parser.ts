// Who reads documents: threads what is text, a process of its own what is not. A hostile one costs its own upload, not the house.
import { open } from "node:fs/promises";
import { Piscina } from "piscina";
import { Failure } from "../../base/errors.ts";
import { binaryKind } from "./binary-kind.ts";
import type { Duplicate } from "./duplicates.ts";
import type { Parsed, ParseOptions } from "./parse.ts";
import type { CompareTask, StructureTask } from "./parse.worker.ts";
import { probeDocument } from "./probe.ts";
import type { Refused } from "./refusal.ts";
import { recognise } from "./scans.ts";
import type { Parts } from "./structure.ts";

export interface Parser {
  parse(path: string, options: ParseOptions, signal: AbortSignal): Promise<Parsed>;
  /** Which of its paragraphs others have too. */
  compare(task: CompareTask): Promise<Duplicate[]>;
  /** Pages, blocks and chunks of a clean text. */
  parts(task: StructureTask): Promise<Parts>;
  close(): Promise<void>;
}

const timeLimitMs = 120_000;

/** Processes that read at once, at most: each may take two gigabytes. */
const mostProbes = 2;

async function headOf(path: string): Promise<Uint8Array> {
  const handle = await open(path, "r");
  try {
    const { buffer, bytesRead } = await handle.read(new Uint8Array(64), 0, 64, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

export function createParser(): Parser {
  const pool = new Piscina({
    filename: new URL("./parse.worker.ts", import.meta.url).href,
    minThreads: 0,
    maxThreads: 2,
    idleTimeout: 30_000,
    resourceLimits: { maxOldGenerationSizeMb: 1024 },
  });

  let probes = 0;
  const waiting: (() => void)[] = [];

  async function probing<T>(work: () => Promise<T>): Promise<T> {
    if (probes >= mostProbes) await new Promise<void>((resolve) => waiting.push(resolve));
    else probes++;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else probes--;
    }
  }

  async function within<Result>(task: object, work: string, name: string, signal: AbortSignal | null): Promise<Result> {
    const deadline = AbortSignal.timeout(timeLimitMs);
    const limit = signal ? AbortSignal.any([signal, deadline]) : deadline;
    let result: { done: Result } | Refused;
    try {
      result = (await pool.run(task, { name: work, signal: limit })) as { done: Result } | Refused;
    } catch (error) {
      if (signal?.aborted) throw new Failure("bad_request", "The upload was cut off", { cause: error });
      if (limit.aborted) throw new Failure("document_limit", `${name} takes too long to read`, { cause: error });
      if ((error as NodeJS.ErrnoException).code === "ERR_WORKER_OUT_OF_MEMORY")
        throw new Failure("document_limit", `${name} takes too much memory to read`, { cause: error });
      throw error;
    }
    if ("code" in result) throw new Failure(result.code, result.message);
    return result.done;
  }

  return {
    async parse(path, options, signal) {
      const { name, asIs } = options;
      const kind = binaryKind(await headOf(path), name);
      if (kind === null) return within({ ...options, path }, "text", name, signal);
      if (asIs) throw new Failure("document_type", `${name} is not text`);
      return probing(async () => {
        const answer = await probeDocument(path, kind, name, signal);
        const empty = /^\{"format":"\w+","empty":\[([\d,]+)\]/.exec(answer)?.[1]?.split(",").map(Number) ?? [];
        const recognised = await recognise(path, empty, name, signal);
        return within({ ...options, answer, recognised }, "reading", name, signal);
      });
    },
    compare: (task) => within(task, "compare", task.name, null),
    parts: (task) => within(task, "parts", task.name, null),
    close: () => pool.destroy(),
  };
}
