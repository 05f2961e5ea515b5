// Logs one JSON line per event to stderr, with the ids that it belongs to. API keys are never logged.
import { hiddenEscaped } from "./visible.ts";

export type Level = "debug" | "info" | "warn" | "error";

export interface Log {
  (level: Level, event: string, fields?: Record<string, unknown>): void;
  /** A log whose lines also have these fields, e.g. requestId or jobId. */
  with(fields: Record<string, unknown>): Log;
}

const order: Record<Level, number> = { debug: 0, info: 1, warn: 2, error: 3 };

export function createLog(
  least: Level,
  write: (line: string) => void = (line) => void process.stderr.write(line),
  bound: Record<string, unknown> = {},
): Log {
  const log = (level: Level, event: string, fields: Record<string, unknown> = {}): void => {
    if (order[level] < order[least]) return;
    const line = JSON.stringify({ at: new Date().toISOString(), level, event, ...bound, ...fields }, plain);
    // JSON escapes only some control characters and no direction marks; all are escaped here, for reading in a terminal.
    write(`${hiddenEscaped(line)}\n`);
  };
  return Object.assign(log, {
    with: (fields: Record<string, unknown>) => createLog(least, write, { ...bound, ...fields }),
  });
}

function plain(_name: string, value: unknown): unknown {
  if (value instanceof Error)
    return { name: value.name, message: value.message, stack: value.stack, cause: value.cause };
  return typeof value === "bigint" ? value.toString() : value;
}
