// Sends an async iterable as an event stream. The head is sent with the first event, so that an earlier error gets a response with its
// own status. A stream that may be silent for long sends its head without waiting for an event. While nothing else is sent, comments
// are, because clients and proxies close connections that stay silent.
import type { ServerResponse } from "node:http";
import type { EventStream, StreamEvent } from "../contract/endpoint.ts";

export interface StreamLimits {
  /** Interval between the comments that keep the connection open. A stream that may be silent sends its head within this time. */
  keepAliveMs: number;
  /** A client that reads nothing for this long is disconnected. */
  stallMs: number;
}

export const keepAliveMs = 10_000;

/**
 * Sends the events, and resolves once the stream has ended. Rejects with an error that came before the head was sent. `describe` turns
 * a later one into an event.
 */
export async function sendEvents(
  response: ServerResponse,
  stream: EventStream,
  describe: (error: unknown) => StreamEvent,
  limits: StreamLimits,
): Promise<void> {
  const events = stream.events[Symbol.asyncIterator]();
  const alive = setInterval(() => {
    if (response.destroyed || !(response.headersSent || stream.mayBeSilent)) return;
    sendHead(response);
    if (!response.writableNeedDrain) response.write(": keepalive\n\n");
  }, limits.keepAliveMs);
  try {
    for (let next = await events.next(); !response.destroyed; next = await events.next()) {
      sendHead(response);
      if (next.done) break;
      await write(response, format(next.value), limits.stallMs);
    }
  } catch (error) {
    if (!response.headersSent) throw error;
    if (!response.destroyed) response.write(format(describe(error)));
  } finally {
    clearInterval(alive);
    if (response.destroyed) await leave(events);
    else if (response.headersSent) response.end();
  }
}

function sendHead(response: ServerResponse): void {
  if (response.headersSent) return;
  response.writeHead(200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
  });
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
