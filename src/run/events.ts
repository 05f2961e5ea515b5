// events.jsonl of a run folder. Only the run writes it, one line per event, synced to disk. Anyone may read it at any time.
import { open, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { Failure } from "../base/errors.ts";
import { isErrno, syncFolder } from "../base/files.ts";
import type { Clock } from "../base/time.ts";
import type { RunEvent } from "../contract/run-folder.ts";

/** An event without the fields that the log adds: seq, fence and at. */
export type EventDraft = Omit<RunEvent, "seq" | "fence" | "at">;

export interface EventLog {
  /** Resolves once the events are synced. Several events are written at once. */
  append(...drafts: EventDraft[]): Promise<void>;
  /** `seq` of the last event written; 0 if there is none. */
  readonly lastSeq: number;
  close(): Promise<void>;
}

/**
 * Opens the log for writing. A last line that a crash left incomplete is dropped, because its append was never acknowledged. Throws
 * run_folder_invalid on any other damage, because the log is never rewritten.
 */
export async function openEventLog(path: string, fence: number, clock: Clock): Promise<EventLog> {
  const { bytes, lastSeq: found } = await wholeLines(path);
  const file = await open(path, "a", 0o600);
  await file.truncate(bytes);
  await file.sync();
  await syncFolder(dirname(path));
  let lastSeq = found;
  // Appends are chained, so that events are in the file in the order of their numbers.
  let tail: Promise<void> = Promise.resolve();
  return {
    append(...drafts) {
      const lines = drafts.map((draft) => {
        lastSeq++;
        const event: RunEvent = { seq: lastSeq, fence, at: clock.now(), ...draft };
        return `${JSON.stringify(event)}\n`;
      });
      tail = tail.then(async () => {
        await file.appendFile(lines.join(""));
        await file.datasync();
      });
      return tail;
    },
    get lastSeq() {
      return lastSeq;
    },
    close: () => file.close(),
  };
}

/** Returns the length in bytes of the file's complete, consecutive events, and the `seq` of the last one. */
async function wholeLines(path: string): Promise<{ bytes: number; lastSeq: number }> {
  const content = await readFile(path).catch((error) => {
    if (isErrno(error, "ENOENT")) return Buffer.alloc(0);
    throw error;
  });
  let bytes = 0;
  let lastSeq = 0;
  while (true) {
    const end = content.indexOf(10, bytes);
    if (end < 0) return { bytes, lastSeq };
    const seq = seqOf(content.toString("utf8", bytes, end));
    const isLast = content.indexOf(10, end + 1) < 0;
    // A power cut can leave a last line with the right length but wrong bytes.
    if (seq === null && isLast) return { bytes, lastSeq };
    if (seq !== lastSeq + 1)
      throw new Failure("run_folder_invalid", `events.jsonl: event ${lastSeq + 1} is missing or damaged`);
    lastSeq = seq;
    bytes = end + 1;
  }
}

function seqOf(line: string): number | null {
  try {
    const seq = (JSON.parse(line) as { seq?: unknown } | null)?.seq;
    return Number.isInteger(seq) ? (seq as number) : null;
  } catch {
    return null;
  }
}

/** Returns the exact bits of a double as 16 hex digits, so that two runs can be compared without rounding. */
export function hexOfDouble(value: number): string {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  return view.getBigUint64(0).toString(16).padStart(16, "0");
}
