// Decides what a support file may contain: numbers and booleans, and plumbline's own words in fields that hold nothing
// else. Everything else is left out. A list of what to hide instead would miss cases that nobody thought of.

/** Fields whose text is made by plumbline: times, ids, names of events and states. */
const ours = new Set([
  ...["at", "level", "event", "kind", "phase", "state", "status", "outcome", "unit", "code", "error_code", "type"],
  ...["requestId", "request_id", "jobId", "job_id", "alignmentId", "alignment_id", "modelId", "model_id", "baseId"],
  ...["adapterId", "evaluationId", "method", "signal", "device", "precision", "architecture", "version"],
]);

/**
 * Ids, times, codes and enumerations: one word of plain characters. No field in `ours` holds the name of a file or a
 * person.
 */
const word = /^[\w.:+-]{1,80}$/;

export const leftOut = "(left out)";

/** Copies a value of any shape, and replaces the texts that a person may have written. */
export function redacted(value: unknown, field = ""): unknown {
  if (typeof value === "number" || typeof value === "boolean" || value === null) return value;
  if (typeof value === "string") return ours.has(field) && word.test(value) ? value : leftOut;
  if (Array.isArray(value)) return value.map((one) => redacted(one, field));
  if (typeof value !== "object") return leftOut;
  if (isError(value)) return redactedError(value);
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => (isName(name) ? [name, redacted(one, name)] : [leftOut, leftOut])),
  );
}

/** Whether a field's name counts as plumbline's own, which it does if it looks like an identifier of a program. */
const isName = (name: string): boolean => /^[A-Za-z_]\w{0,40}$/.test(name);

type Logged = { name: string; message: string; stack: string; cause?: unknown };

const isError = (value: object): value is Logged =>
  "stack" in value && typeof value.stack === "string" && "message" in value;

/** Keeps where an error happened and drops its message, because messages quote names, paths and texts. */
function redactedError({ name, stack, cause }: Logged): object {
  const frames = [...stack.matchAll(/^\s+at (.+)$/gm)].map(([, frame]) => frameOf(frame!));
  return {
    name: word.test(name) ? name : leftOut,
    frames,
    ...(typeof cause === "object" && cause !== null && { cause: redacted(cause) }),
  };
}

/** Reduces a stack frame to its function, its file under src or node_modules, its line and its column. */
function frameOf(frame: string): string {
  const place = /((?:src|node_modules)\/[\w@./-]+:\d+:\d+)\)?$/.exec(frame)?.[1];
  const caller = /^((?:async |new )?[\w.$#<>[\]]+(?: \[as \w+\])?) \(/.exec(frame)?.[1];
  return [caller ?? "", place ?? (/^node:|\(node:/.test(frame) ? "node" : leftOut)]
    .filter((part) => part !== "")
    .join(" ");
}

/** A log line, redacted; null if plumbline did not write it. */
export function redactedLine(line: string): unknown {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null && "event" in value ? redacted(value) : null;
  } catch {
    return null;
  }
}
