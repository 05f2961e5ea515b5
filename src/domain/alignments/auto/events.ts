// The stream of an auto-align: the events of its run and, between them, each change of its status or phase. The id of a
// streamed event, `<run's seq>.<move's seq>`, tells how far both were read, so that a client that reconnects misses nothing.

import type { FromSchema } from "json-schema-to-ts";
import { sleep } from "../../../base/time.ts";
import type { autoAlignMove } from "../../../contract/auto-align.ts";
import type { StreamEvent } from "../../../contract/endpoint.ts";
import { type EventSource, lookMs, newEvents } from "../event-stream.ts";
import type { MoveRow } from "./store.ts";

export interface AutoAlignSource extends EventSource {
  movesAfter: (seq: number) => MoveRow[];
  subject: { auto_align_id: string; alignment_id: string };
}

export async function* streamAutoAlign(
  source: AutoAlignSource,
  after: { event: number; move: number },
  signal: AbortSignal,
): AsyncGenerator<StreamEvent, void, void> {
  const place = { offset: 0, seen: after.event };
  let move = after.move;
  while (!signal.aborted) {
    // Checked before reading, so that the last read includes everything that was written before the end.
    const isLast = source.isOver();
    // A change of status follows the event of the decision that caused it.
    for await (const { seq, text } of newEvents(source.path, place)) yield { id: `${seq}.${move}`, data: text };
    for (const { seq, from_status: from, to_status: to, phase, at } of source.movesAfter(move)) {
      move = seq;
      const told: FromSchema<typeof autoAlignMove> = { kind: "transition", ...source.subject, from, to, phase, at };
      yield { id: `${place.seen}.${move}`, event: "transition", data: JSON.stringify(told) };
    }
    if (isLast) return;
    await sleep(lookMs, signal);
  }
}
