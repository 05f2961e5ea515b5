// What the appliance may ask of a run while it works, and what the run asks of the appliance. Commands arrive at any
// time and take effect between two steps; an answer goes to the question that waits for it.
//
//   running ──pause──► paused ──resume──► running
//      └──────stop────────┴──► stopping ──► (the run ends with outcome stopped)
//   any ──close()──► closed: the result is being written; every command is refused
import { Failure } from "../base/errors.ts";
import { type ModelQuestion, type RunCommand, type RunReply, runCommand } from "../contract/run-lines.ts";
import { compile } from "../contract/validate.ts";

/** Unwinds the loop after a stop; never leaves runAlignment. */
export class Stopped extends Error {}

/** A model that the appliance was asked to query has not answered. */
export class Unanswered extends Failure {
  constructor(why: string) {
    super("run_failed", `A model named in the reward gave no answer: ${why}`);
  }
}

export interface Control {
  /** Handles a line of the run's stdin. A command gets exactly one reply, an answer gets none. */
  handle(line: string): void;
  /** Asks the appliance. Throws Unanswered, or Stopped once the run is to end. */
  ask(question: ModelQuestion): Promise<string | readonly number[]>;
  /** Aborted by stop; passed to everything that takes long. */
  readonly signal: AbortSignal;
  readonly paused: boolean;
  /** Called between two steps: returns when the run may go on, throws Stopped when it is to end. */
  turn(): Promise<void>;
  /** Refuses commands from now on, because they would come too late. Throws Stopped when a stop came before. */
  close(): void;
}

const check = compile(runCommand);

export function createControl(reply: (reply: RunReply) => void): Control {
  const stop = new AbortController();
  let paused = false;
  let closed = false;
  let wake: () => void = () => {};
  let asked = 0;
  const waiting = new Map<number, PromiseWithResolvers<string | readonly number[]>>();

  const obey = (command: Exclude<RunCommand["command"], "answer">): void => {
    if (command === "stop") {
      stop.abort(new Stopped());
      for (const { reject } of waiting.values()) reject(stop.signal.reason);
      waiting.clear();
    }
    paused = command === "pause";
    wake();
  };

  const answer = ({ seq, said, failed }: RunCommand): void => {
    const question = waiting.get(seq);
    waiting.delete(seq);
    if (said !== undefined) question?.resolve(said);
    else question?.reject(new Unanswered(failed ?? "it gave no reason"));
  };

  return {
    handle(line) {
      const parsed = parse(line);
      if (parsed instanceof Failure) return reply({ kind: "refused", message: parsed.message });
      const { seq, command } = parsed;
      if (command === "answer") return answer(parsed);
      if (closed) return reply({ kind: "refused", seq, message: "The run has finished its work" });
      obey(command);
      reply({ kind: "ack", seq });
    },
    async ask(question) {
      stop.signal.throwIfAborted();
      const seq = ++asked;
      const answered = Promise.withResolvers<string | readonly number[]>();
      waiting.set(seq, answered);
      reply({ kind: "ask", seq, question });
      return answered.promise;
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

function parse(line: string): RunCommand | Failure {
  try {
    const checked = check(JSON.parse(line));
    if (checked.ok) return checked.value;
    return new Failure("bad_request", `Not a command: ${checked.details[0]!.loc.join(".")} ${checked.details[0]!.msg}`);
  } catch {
    return new Failure("bad_request", "Not a command: not JSON");
  }
}
