// Lets files be read in a few lanes, with fair turns for their owners. No owner can hold all lanes, so one owner's slow files do not
// block the files of all others.
import { Failure } from "./errors.ts";

/** Runs `work` with a lane's number (from 0) when it is the owner's turn. Throws bad_request if `signal` aborts the wait. */
export type InLane = <T>(owner: string, signal: AbortSignal | null, work: (lane: number) => Promise<T>) => Promise<T>;

/** Creates `count` lanes. There must be at least 2, because an owner may hold all lanes but one. */
export function createLanes(count: number): InLane {
  const free = Array.from({ length: count }, (_, lane) => lane);
  const held = new Map<string, number>();
  /** Waiting calls of each owner. The map's order is the order in which owners are served. */
  const waiting = new Map<string, ((lane: number) => void)[]>();

  function serve(): void {
    for (const [owner, turns] of waiting) {
      if (free.length === 0) return;
      const own = held.get(owner) ?? 0;
      if (own >= count - 1) continue;
      held.set(owner, own + 1);
      waiting.delete(owner);
      const next = turns.shift()!;
      if (turns.length > 0) waiting.set(owner, turns);
      next(free.shift()!);
    }
  }

  function leave(owner: string, turn: (lane: number) => void): void {
    const turns = (waiting.get(owner) ?? []).filter((one) => one !== turn);
    if (turns.length > 0) waiting.set(owner, turns);
    else waiting.delete(owner);
  }

  function take(owner: string, signal: AbortSignal | null): Promise<number> {
    return new Promise((resolve, reject) => {
      const cutOff = (): void => {
        leave(owner, turn);
        reject(new Failure("bad_request", "The upload was cut off"));
      };
      const turn = (lane: number): void => {
        signal?.removeEventListener("abort", cutOff);
        resolve(lane);
      };
      if (signal?.aborted) {
        cutOff();
        return;
      }
      signal?.addEventListener("abort", cutOff, { once: true });
      waiting.set(owner, [...(waiting.get(owner) ?? []), turn]);
      serve();
    });
  }

  function giveBack(owner: string, lane: number): void {
    const left = held.get(owner)! - 1;
    if (left === 0) held.delete(owner);
    else held.set(owner, left);
    free.push(lane);
    serve();
  }

  return async (owner, signal, work) => {
    const lane = await take(owner, signal);
    try {
      return await work(lane);
    } finally {
      giveBack(owner, lane);
    }
  };
}
