// Clocks. Wall time is for people and records. Durations come from the monotonic clock, which changes of the system time do not affect.
import { setImmediate } from "node:timers/promises";

export interface Clock {
  /** ISO 8601 with milliseconds, UTC. */
  now(): string;
  /** Milliseconds of a clock that never goes back. */
  monotonicMs(): number;
}

export const systemClock: Clock = {
  now: () => new Date().toISOString(),
  monotonicMs: () => performance.now(),
};

export const sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const timer = setTimeout(done, ms);
    function done(): void {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    }
    signal?.addEventListener("abort", done);
  });

/**
 * Lets long work on the main thread give way to other work. Await the returned function between steps: it yields to the event loop if
 * `everyMs` have passed since it last did.
 */
export function givingWay(everyMs = 20): () => Promise<void> {
  let last = performance.now();
  return async () => {
    if (performance.now() - last < everyMs) return;
    await setImmediate();
    last = performance.now();
  };
}
