// Takes a measurement once for a commit: what was measured stands in a file a promise, and is not measured again.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { makeFolder, writeJsonDurably } from "../../../src/base/files.ts";
import {
  type Figure,
  isOpen,
  type Last,
  type Line,
  type Outcome,
  type Promised,
  type Taken,
  withRound,
} from "./judge.ts";

export interface Measurement {
  name: string;
  promises: readonly Promised[];
  /** What must be given first, in words; null: nothing. */
  missing: string | null;
  /** A figure of each promise, by its name. */
  measure(): Promise<Record<string, Figure>>;
}

export interface Where {
  folder: string;
  last: Record<string, Last>;
  say(text: string): void;
}

export async function take(measurement: Measurement, { folder, last, say }: Where): Promise<Line[]> {
  const { name, promises, missing } = measurement;
  const lastOf = (promised: Promised): Last | null => last[promised.name] ?? null;
  const lines = (outcomeOf: (promised: Promised) => Outcome): Line[] =>
    promises.map((promised) => ({ promised, last: lastOf(promised), outcome: outcomeOf(promised) }));

  if (missing !== null) return lines(() => ({ missing }));
  await makeFolder(folder);
  const pathOf = (promised: Promised): string => join(folder, `${promised.name}.json`);
  const taken = new Map(promises.map((promised) => [promised, readTaken(pathOf(promised))]));
  if (!promises.some((promised) => taken.get(promised) === null)) say(`${name}: measured before, in ${folder}`);
  try {
    while (promises.some((promised) => isOpen(promised, taken.get(promised)!, lastOf(promised)))) {
      const figures = await timed(measurement, say);
      for (const promised of promises) {
        // No figure is worse than NaN, so it would never be an alarm.
        if (!Number.isFinite(figures[promised.name]?.figure)) throw new Error(`${promised.name}: gave no number`);
        const date = new Date().toISOString().slice(0, 10);
        const made = withRound(promised, taken.get(promised)!, figures[promised.name]!, date);
        await writeJsonDurably(pathOf(promised), made);
        taken.set(promised, made);
      }
    }
  } catch (error) {
    // One that fails must not take the others along.
    const { message } = error as Error;
    say(`${name}: failed: ${message}`);
    return lines(() => ({ failed: message.split("\n")[0]! }));
  }
  return lines((promised) => ({ taken: taken.get(promised)! }));
}

const readTaken = (path: string): Taken | null =>
  existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as Taken) : null;

async function timed({ name, measure }: Measurement, say: Where["say"]): Promise<Record<string, Figure>> {
  const startedMs = performance.now();
  const elapsed = (): string => `${((performance.now() - startedMs) / 60_000).toFixed(1)} min`;
  say(`${name}: begun`);
  const ticking = setInterval(() => say(`${name}: ${elapsed()}`), 60_000);
  try {
    return await measure();
  } finally {
    clearInterval(ticking);
    say(`${name}: ended after ${elapsed()}`);
  }
}
