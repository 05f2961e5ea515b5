// events.jsonl as a stream to a client: what is there after the last one it has, then what comes, until the alignment ends.
import { open } from "node:fs/promises";
import { isErrno } from "../../base/files.ts";
import { sleep } from "../../base/time.ts";
import type { StreamEvent } from "../../contract/endpoint.ts";
import { runEvent } from "../../contract/run-folder.ts";
import { compile } from "../../contract/validate.ts";

const check = compile(runEvent);

/** News may come from a run that this process does not follow closely; a look a second costs nothing. */
const lookMs = 1000;

export interface EventSource {
  path: string;
  /** Whether no more can come. */
  isOver: () => boolean;
}

export async function* streamEvents(
  source: EventSource,
  afterSeq: number,
  signal: AbortSignal,
): AsyncGenerator<StreamEvent, void, void> {
  let offset = 0;
  let seen = afterSeq;
  while (!signal.aborted) {
    // Asked before the look: what was written before the end is then in what is read.
    const isLast = source.isOver();
    const gained = await bytesFrom(source.path, offset);
    let from = 0;
    for (let end = gained.indexOf(10); end >= 0; end = gained.indexOf(10, from)) {
      const line = gained.toString("utf8", from, end);
      from = end + 1;
      const seq = seqOf(line);
      if (seq === null || seq <= seen) continue;
      seen = seq;
      yield { id: String(seq), data: line };
    }
    // Whole lines only: a torn one is dropped by the run that goes on, and written over.
    offset += from;
    if (isLast) return;
    await sleep(lookMs, signal);
  }
}

/** null for a line that is no event: a client must be able to rely on the contract. */
function seqOf(line: string): number | null {
  try {
    const checked = check(JSON.parse(line));
    return checked.ok ? checked.value.seq : null;
  } catch {
    return null;
  }
}

async function bytesFrom(path: string, offset: number): Promise<Buffer> {
  const file = await open(path, "r").catch((error) => {
    if (isErrno(error, "ENOENT")) return null;
    throw error;
  });
  if (file === null) return Buffer.alloc(0);
  try {
    const size = Math.max((await file.stat()).size - offset, 0);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size), 0, size, offset);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}
