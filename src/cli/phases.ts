// Works out from a run's events how many steps it made and how long each phase took.
import type { RunEvent } from "../contract/run-folder.ts";

/** Returns a collector: pass each event to `see`; `steps` and `seconds` return the optimizer steps and the seconds per phase. */
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
