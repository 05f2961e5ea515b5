// Logs each event as one JSON line to stderr, with the ids of what the event concerns. API keys are never logged.
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
    // JSON escapes only some control characters and no direction marks. All are escaped here, so that a terminal shows lines as they are.
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

/** Returns a log that writes to `log` and also keeps its last `most` lines of level info and above. `recent` returns them, oldest first. */
export function withRecent(log: Log, most = 500): { log: Log; recent: () => string[] } {
  const lines: string[] = [];
  const kept = createLog("info", (line) => {
    lines.push(line);
    if (lines.length > most) lines.shift();
  });
  return { log: toBoth(log, kept), recent: () => [...lines] };
}

const toBoth = (one: Log, other: Log): Log =>
  Object.assign(
    (level: Level, event: string, fields?: Record<string, unknown>): void => {
      one(level, event, fields);
      other(level, event, fields);
    },
    { with: (fields: Record<string, unknown>) => toBoth(one.with(fields), other.with(fields)) },
  );
