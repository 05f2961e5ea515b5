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
 * Does `work`, and repeats it while it throws failures that may pass. The waits are 1, 2, 4 … 60 seconds, or as long as the failure
 * asks for if that is longer, plus up to a quarter at random, so that work that failed together is not repeated together. `whom`
 * names what the work depends on: a success of any other work for it restarts the patience.
 *
 * Throws other errors of `work` at once, and the last failure, with the time spent on it, after `patienceMs` without a success. Once
 * the signal is aborted, it throws the signal's reason if that ended a wait, and the error of `work` otherwise.
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
        // If the failure asks for a longer wait than the patience that is left, the work is tried once more when that ends.
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
  return new Failure(code, `${message} (retried for ${Math.round(triedMs / 60_000)} minutes)`, {
    context,
    cause: last,
    ...(retryAfterSeconds !== null && { retryAfterSeconds }),
  });
}
