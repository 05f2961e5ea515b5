// Sends an async iterable as an event stream. Nothing is sent before the first event exists, so that an earlier error gets a
// response with its own status.
import type { ServerResponse } from "node:http";
import type { EventStream, StreamEvent } from "../contract/endpoint.ts";

export interface StreamLimits {
  /** Interval between the comments that keep the connection open. */
  keepAliveMs: number;
  /** A client that reads nothing for this long is disconnected. */
  stallMs: number;
}

export const keepAliveMs = 10_000;

/** Sends the events, and resolves once the stream has ended. `describe` turns an error after the start into an event. */
export async function sendEvents(
  response: ServerResponse,
  stream: EventStream,
  describe: (error: unknown) => StreamEvent,
  limits: StreamLimits,
): Promise<void> {
  const events = stream.events[Symbol.asyncIterator]();
  const first = await events.next();
  if (response.destroyed) {
    await leave(events);
    return;
  }
  response.writeHead(200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
  });
  const alive = setInterval(() => {
    if (!response.writableNeedDrain) response.write(": keepalive\n\n");
  }, limits.keepAliveMs);
  try {
    for (let next = first; !next.done && !response.destroyed; next = await events.next())
      await write(response, format(next.value), limits.stallMs);
  } catch (error) {
    if (!response.destroyed) response.write(format(describe(error)));
  } finally {
    clearInterval(alive);
    if (response.destroyed) await leave(events);
    else response.end();
  }
}

/** Lets a generator run its `finally` once the client has left. The request's signal has already been aborted. */
async function leave(events: AsyncIterator<StreamEvent>): Promise<void> {
  await events.return?.().catch(() => {});
}

function format({ id, event, data }: StreamEvent): string {
  const lines = data.split(/\r\n|\r|\n/).map((line) => `data: ${line}`);
  if (event !== undefined) lines.unshift(`event: ${event}`);
  if (id !== undefined) lines.unshift(`id: ${id}`);
  return `${lines.join("\n")}\n\n`;
}

function write(response: ServerResponse, text: string, stallMs: number): Promise<void> {
  if (response.write(text) || response.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(() => response.destroy(), stallMs);
    const done = (): void => {
      clearTimeout(timer);
      response.off("drain", done).off("close", done);
      resolve();
    };
    response.on("drain", done).on("close", done);
  });
}
