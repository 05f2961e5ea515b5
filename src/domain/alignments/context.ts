// What every stage of a run is handed: the folder and its request, the log of events, and the parts that do the work.

import type { Log } from "../../base/log.ts";
import type { Clock } from "../../base/time.ts";
import type { Phase, RunRequest } from "../../contract/run-folder.ts";
import type { Generator, Tokenizer } from "../../engine/generator.ts";
import type { ChosenPrior } from "../../engine/prior.ts";
import type { Trainer } from "../../engine/trainer.ts";
import type { InstalledWriter } from "../../study/writers/installed.ts";
import type { Control } from "./control.ts";
import type { Grade, Interval } from "./dev-check.ts";
import type { EventLog } from "./events.ts";
import type { Guards } from "./guards/material.ts";
import type { Snapshot } from "./request.ts";

export interface RunParts {
  control: Control;
  clock: Clock;
  log: Log;
  /** Starts a worker; nothing is loaded yet. */
  startTrainer(): Trainer;
  /** An inference engine of this run's own. Never open at the same time as the trainer: weights are not held twice here. */
  openGenerator(): Promise<Generator>;
  /** The tokenizer alone, without weights. */
  openTokenizer(path: string): Promise<{ tokenizer: Tokenizer; dispose(): Promise<void> }>;
  grade: Grade;
  interval: Interval;
  /** Generic prompts whose answers by the base itself are replayed, so that learning the documents does not cost the chat. */
  replayPrompts: readonly string[];
  /** Openings of ordinary prose that the base goes on with, for the same reason. */
  replayOpenings: readonly string[];
  /** The shipped writer; null where this installation has none. */
  writer: InstalledWriter | null;
  /** What may not get worse, and is never trained on. */
  guards: Guards;
  /** Answers where the dev split is too small to calibrate on; it may be that of another family of models. */
  prior: ChosenPrior;
  /** Version of the inference library, part of a calibration's identity. */
  engine: string;
}

export interface Run {
  folder: string;
  request: RunRequest;
  snapshot: Snapshot;
  parts: RunParts;
  events: EventLog;
  tokenizer: Tokenizer;
  /** Whether an earlier process has written events already. */
  resumed: boolean;
  readonly phase: Phase;
  /** Says that a phase begins, unless it is this one already. */
  enter(phase: Phase): Promise<void>;
  /** Progress within the phase; rate and time left come from the clock since this piece of its work, named by the unit, began. */
  progress(done: number, total: number | null, unit: string): Promise<void>;
  /** Between two steps: waits while paused, throws Stopped after a stop. */
  turn(): Promise<void>;
  /** Seconds spent per phase in this process. */
  readonly seconds: Partial<Record<Phase, number>>;
}

export function createRun(given: Pick<Run, "folder" | "request" | "snapshot" | "parts" | "events" | "tokenizer">): Run {
  const { events, parts } = given;
  const { clock, control } = parts;
  const seconds: Partial<Record<Phase, number>> = {};
  let phase: Phase = "preparing";
  /** When progress was last told, or the phase began: the next piece of work begins there. */
  let toldMs = clock.monotonicMs();
  let settledMs = clock.monotonicMs();
  const settle = (): void => {
    seconds[phase] = (seconds[phase] ?? 0) + (clock.monotonicMs() - settledMs) / 1000;
    settledMs = clock.monotonicMs();
  };
  /** What progress is told of, and where it stood when it was first told: a rate over other work would say nothing of this. */
  let piece = { unit: "", since: toldMs, done: 0 };
  let entered = false;
  return {
    ...given,
    resumed: events.lastSeq > 0,
    get phase() {
      return phase;
    },
    get seconds() {
      settle();
      return seconds;
    },
    async enter(next) {
      if (entered && next === phase) return;
      settle();
      entered = true;
      phase = next;
      toldMs = clock.monotonicMs();
      piece = { unit: "", since: toldMs, done: 0 };
      await events.append({ kind: "phase", phase });
    },
    async progress(done, total, unit) {
      const now = clock.monotonicMs();
      if (unit !== piece.unit || done < piece.done) piece = { unit, since: toldMs, done };
      piece.done = done;
      toldMs = now;
      const elapsed = (now - piece.since) / 1000;
      const rate = elapsed > 0 ? done / elapsed : null;
      const left = rate && total !== null ? (total - done) / rate : null;
      await events.append({ kind: "progress", phase, done, total, unit, rate, seconds_left: left });
    },
    async turn() {
      const waited = control.paused;
      if (waited) await events.append({ kind: "paused", phase });
      await control.turn();
      if (waited) await events.append({ kind: "continued", phase });
    },
  };
}
