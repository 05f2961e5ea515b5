// Reads documents: text in worker threads, other formats in a separate process. A hostile file makes only its own upload fail.
import { open } from "node:fs/promises";
import { Failure } from "../../base/errors.ts";
import { createLanes } from "../../base/lanes.ts";
import { createReaders, lanes, readingSeconds } from "../../base/readers.ts";
import { binaryKind } from "./binary-kind.ts";
import type { Duplicate } from "./duplicates.ts";
import type { Parsed, ParseOptions } from "./parse.ts";
import type { CompareTask, StructureTask } from "./parse.worker.ts";
import { probeDocument } from "./probe.ts";
import { recognise } from "./scans.ts";
import type { Parts } from "./structure.ts";

/** `owner` is the user for whom the work waits its turn; see base/lanes.ts. */
export interface Parser {
  /** Parses a file. Throws what is wrong with it (document_limit and other 415s and 422s), or bad_request if `signal` aborts. */
  parse(owner: string, path: string, options: ParseOptions, signal: AbortSignal): Promise<Parsed>;
  /** Finds the paragraphs of `task.own` that also occur in `task.others`. */
  compare(owner: string, task: CompareTask): Promise<Duplicate[]>;
  /** Pages, blocks and chunks of a clean text. */
  parts(owner: string, task: StructureTask): Promise<Parts>;
  close(): Promise<void>;
}

/** The first 64 bytes of a file, and its size in bytes. */
async function headOf(path: string): Promise<{ head: Uint8Array; bytes: number }> {
  const handle = await open(path, "r");
  try {
    const { buffer, bytesRead } = await handle.read(new Uint8Array(64), 0, 64, 0);
    return { head: buffer.subarray(0, bytesRead), bytes: (await handle.stat()).size };
  } finally {
    await handle.close();
  }
}

/** `seconds` returns the CPU time in seconds that a document of the given number of bytes may take. */
export function createParser(seconds: (bytes: number) => number = readingSeconds): Parser {
  const threads = createReaders(new URL("./parse.worker.ts", import.meta.url), "document_limit", seconds);
  // At most as many processes as threads run at once, because each process may take two gigabytes.
  const inProcess = createLanes(lanes);

  return {
    async parse(owner, path, options, signal) {
      const { name, asIs } = options;
      const { head, bytes } = await headOf(path);
      const kind = binaryKind(head, name);
      if (kind === null) return threads.read(owner, { ...options, path }, { name: "text", of: name, bytes }, signal);
      if (asIs) throw new Failure("document_type", `${name} is not text`);
      return inProcess(owner, signal, async () => {
        const answer = await probeDocument(path, kind, name, seconds(bytes), signal);
        const empty = /^\{"format":"\w+","empty":\[([\d,]+)\]/.exec(answer)?.[1]?.split(",").map(Number) ?? [];
        const recognised = await recognise(path, empty, name, seconds(bytes), signal);
        const work = { name: "reading", of: name, bytes: answer.length };
        return threads.read(owner, { ...options, answer, recognised }, work, signal);
      });
    },
    compare(owner, task) {
      const bytes = task.others.reduce((sum, { signatures }) => sum + signatures.length, task.own.length);
      return threads.read(owner, task, { name: "compare", of: task.name, bytes }, null);
    },
    parts: (owner, task) =>
      threads.read(
        owner,
        task,
        { name: "parts", of: task.name, bytes: task.text.length + (task.structure?.length ?? 0) },
        null,
      ),
    close: () => threads.close(),
  };
}
