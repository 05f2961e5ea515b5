// Commands from the appliance to a working run, and questions from the run to the appliance. Commands arrive at any time. A pause takes
// effect between two steps; a stop also aborts long work and waiting questions. An answer goes to the question that waits for it.
//
//   running ──pause──► paused ──resume──► running
//      └──────stop────────┴──► stopping ──► (the run ends with outcome stopped)
//   running or paused ──close()──► closed (the artefact is being finished; every further command is refused)
import { Failure } from "../base/errors.ts";
import { type ModelQuestion, type RunCommand, type RunReply, runCommand } from "../contract/run-lines.ts";
import { compile } from "../contract/validate.ts";

/** Thrown to end the work after a stop. runAlignment catches it. */
export class Stopped extends Error {}

/** Thrown when a model that the appliance was asked to query gives no answer. */
export class Unanswered extends Failure {
  constructor(why: string) {
    super("run_failed", `A model named in the reward gave no answer: ${why}`);
  }
}

export interface Control {
  /** Handles a line of the run's stdin. A command gets exactly one reply; an answer gets none. */
  handle(line: string): void;
  /** Asks the appliance. Throws Unanswered if there is no answer, and Stopped after a stop. */
  ask(question: ModelQuestion): Promise<string | readonly number[]>;
  /** Aborted by a stop. Passed to all long work. */
  readonly signal: AbortSignal;
  readonly paused: boolean;
  /** Called between two steps. Waits while the run is paused. Throws Stopped after a stop. */
  turn(): Promise<void>;
  /** Refuses commands from now on, because they would come too late. Throws Stopped if a stop came earlier. */
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
