// What the appliance may ask of a run while it works. Commands come in at any time and take effect between two steps.
//
//   running ──pause──► paused ──resume──► running
//      └──────stop────────┴──► stopping ──► (the run ends with outcome stopped)
//   any ──close()──► closed: the result is being written; every command is refused
import { Failure } from "../base/errors.ts";
import { type RunReply, runCommand } from "../contract/run-folder.ts";
import { compile } from "../contract/validate.ts";

/** Unwinds the loop after a stop; never leaves runAlignment. */
export class Stopped extends Error {}

export interface Control {
  /** A line of the run's stdin; answered by exactly one reply. */
  handle(line: string): void;
  /** Aborted by stop: reaches into whatever takes long. */
  readonly signal: AbortSignal;
  readonly paused: boolean;
  /** Between two steps: returns when the run may go on, throws Stopped when it shall end. */
  turn(): Promise<void>;
  /** From now on commands are refused: it is too late for them. Throws Stopped when one came before. */
  close(): void;
}

const check = compile(runCommand);

export function createControl(reply: (reply: RunReply) => void): Control {
  const stop = new AbortController();
  let paused = false;
  let closed = false;
  let wake: () => void = () => {};

  const obey = (command: "pause" | "resume" | "stop"): void => {
    if (command === "stop") stop.abort(new Stopped());
    paused = command === "pause";
    wake();
  };

  return {
    handle(line) {
      const parsed = parse(line);
      if (parsed instanceof Failure) return reply({ kind: "refused", message: parsed.message });
      if (closed) return reply({ kind: "refused", seq: parsed.seq, message: "The run has finished its work" });
      obey(parsed.command);
      reply({ kind: "ack", seq: parsed.seq });
    },
    signal: stop.signal,
    get paused() {
      return paused;
    },
    async turn() {
      while (paused && !stop.signal.aborted)
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      stop.signal.throwIfAborted();
    },
    close() {
      stop.signal.throwIfAborted();
      closed = true;
    },
  };
}

function parse(line: string): { seq: number; command: "pause" | "resume" | "stop" } | Failure {
  try {
    const checked = check(JSON.parse(line));
    if (checked.ok) return checked.value;
    return new Failure("bad_request", `Not a command: ${checked.details[0]!.loc.join(".")} ${checked.details[0]!.msg}`);
  } catch {
    return new Failure("bad_request", "Not a command: not JSON");
  }
}
