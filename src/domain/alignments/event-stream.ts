// events.jsonl as a stream to a client: events after the last one that it has seen, then new ones, until the alignment
// ends.
import { linesFrom } from "../../base/files.ts";
import { sleep } from "../../base/time.ts";
import type { StreamEvent } from "../../contract/endpoint.ts";
import { runEvent } from "../../contract/run-folder.ts";
import { compile } from "../../contract/validate.ts";

const check = compile(runEvent);

/**
 * Interval at which the file is polled. Events may come from a run that this process does not follow closely, and a
 * read each second costs nothing.
 */
export const lookMs = 1000;

export interface EventSource {
  path: string;
  /** Whether no more events can come. */
  isOver: () => boolean;
}

export async function* streamEvents(
  source: EventSource,
  afterSeq: number,
  signal: AbortSignal,
): AsyncGenerator<StreamEvent, void, void> {
  const place = { offset: 0, seen: afterSeq };
  while (!signal.aborted) {
    // Asked before reading, so that whatever was written before the end is in what is read.
    const isLast = source.isOver();
    for await (const { seq, text } of newEvents(source.path, place)) yield { id: String(seq), data: text };
    if (isLast) return;
    await sleep(lookMs, signal);
  }
}

/**
 * Events added to the file after `place`, which is moved along. Reads only whole lines: a torn one is dropped by the
 * run that resumes.
 */
export async function* newEvents(
  path: string,
  place: { offset: number; seen: number },
): AsyncGenerator<{ seq: number; text: string }, void, void> {
  for (const { text, end } of await linesFrom(path, place.offset)) {
    place.offset = end;
    const seq = seqOf(text);
    if (seq === null || seq <= place.seen) continue;
    place.seen = seq;
    yield { seq, text };
  }
}

/** Null for a line that is not a valid event: a client must be able to rely on the contract. */
function seqOf(line: string): number | null {
  try {
    const checked = check(JSON.parse(line));
    return checked.ok ? checked.value.seq : null;
  } catch {
    return null;
  }
}
