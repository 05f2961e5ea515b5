// Streams events.jsonl to a client: first the events after the last one that the client has seen, then new events until
// the alignment ends.
import { linesFrom } from "../../base/files.ts";
import { sleep } from "../../base/time.ts";
import type { StreamEvent } from "../../contract/endpoint.ts";
import { runEvent } from "../../contract/run-folder.ts";
import { compile } from "../../contract/validate.ts";

const check = compile(runEvent);

/** The file is polled at this interval, because another process writes it. A read each second costs almost nothing. */
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
    // Checked before reading, so that the last read includes everything that was written before the end.
    const isLast = source.isOver();
    for await (const { seq, text } of newEvents(source.path, place)) yield { id: String(seq), data: text };
    if (isLast) return;
    await sleep(lookMs, signal);
  }
}

/**
 * Yields the events after `place`, and moves `place` past them. Reads only whole lines. A run that resumes removes an
 * incomplete last line.
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

/** Returns the event's number; null for an invalid event, because a client must be able to rely on the contract. */
function seqOf(line: string): number | null {
  try {
    const checked = check(JSON.parse(line));
    return checked.ok ? checked.value.seq : null;
  } catch {
    return null;
  }
}
