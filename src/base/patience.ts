// Repeats work that failed for a reason that may pass, such as a server that is overloaded or restarts.
import { Failure } from "./errors.ts";
import type { Log } from "./log.ts";
import { type Clock, sleep as sleepReally } from "./time.ts";

export interface PatienceParts {
  clock: Pick<Clock, "monotonicMs">;
  log: Log;
  /** Whether the same work may succeed later. */
  mayPass: (failure: Failure) => boolean;
  /** Milliseconds without a success after which a failure is thrown. */
  patienceMs?: number;
  sleep?: typeof sleepReally;
  /** A random number from 0 to 1. */
  random?: () => number;
}

/**
 * Does `work`, and repeats it while it throws failures that may pass: after 1, 2, 4 … 60 seconds, or when the failure says, and up
 * to a quarter later, so that work that failed together is repeated apart. `whom` is what the work depends on: a success of any
 * work for the same one shows that waiting is worthwhile. Throws the last failure, with the time that it was tried for, once
 * there was no success for too long; other errors of `work` at once; and the signal's reason when it is aborted.
 */
export type Patience = <T>(whom: string, work: () => Promise<T>, signal: AbortSignal) => Promise<T>;

const longestWaitMs = 60_000;

export function createPatience({
  clock,
  log,
  mayPass,
  patienceMs = 30 * 60_000,
  sleep = sleepReally,
  random = Math.random,
}: PatienceParts): Patience {
  /** When work last succeeded, on the monotonic clock. */
  const succeededMs = new Map<string, number>();
  return async (whom, work, signal) => {
    const beganMs = clock.monotonicMs();
    for (let tries = 1; ; tries++) {
      try {
        const done = await work();
        succeededMs.set(whom, clock.monotonicMs());
        return done;
      } catch (error) {
        if (signal.aborted || !(error instanceof Failure) || !mayPass(error)) throw error;
        const nowMs = clock.monotonicMs();
        const leftMs = Math.max(beganMs, succeededMs.get(whom) ?? beganMs) + patienceMs - nowMs;
        if (leftMs <= 0) throw givenUp(error, nowMs - beganMs);
        const usualMs = Math.min(longestWaitMs, 1000 * 2 ** (tries - 1));
        const wantedMs = Math.max(usualMs, 1000 * (error.retryAfterSeconds ?? 0)) * (1 + random() / 4);
        // What asks for a longer wait than there is patience for is tried once more at the end of it.
        const waitMs = Math.min(leftMs, wantedMs);
        log("warn", "patience.waiting", { whom, tries, seconds: Math.round(waitMs / 1000), error: error.message });
        await sleep(waitMs, signal);
        signal.throwIfAborted();
      }
    }
  };
}

function givenUp(last: Failure, triedMs: number): Failure {
  const { code, message, context, retryAfterSeconds } = last;
  return new Failure(code, `${message} (it was tried again for ${Math.round(triedMs / 60_000)} minutes)`, {
    context,
    cause: last,
    ...(retryAfterSeconds !== null && { retryAfterSeconds }),
  });
}
