// What a run did and how long it took, by its events.
import type { RunEvent } from "../contract/run-folder.ts";

/** Steps and seconds per phase, from the run's own events. */
export function watchRun() {
  const seconds: Record<string, number> = {};
  let steps = 0;
  let last: { phase: string; at: number } | null = null;
  return {
    see(event: RunEvent): void {
      const at = Date.parse(event.at);
      if (last) seconds[last.phase] = (seconds[last.phase] ?? 0) + (at - last.at) / 1000;
      last = { phase: event.phase, at };
      if (event.kind === "step") steps = Math.max(steps, event.step ?? 0);
    },
    steps: () => steps,
    seconds: () => Object.fromEntries(Object.entries(seconds).map(([phase, value]) => [phase, tenths(value)])),
  };
}

/** Rounded to a tenth. */
export const tenths = (value: number): number => Math.round(value * 10) / 10;
