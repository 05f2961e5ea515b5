// What every stage of a run receives: its folder and request, the event log, and the parts that do the work.

import type { Log } from "../base/log.ts";
import type { Clock } from "../base/time.ts";
import type { ChosenPrior } from "../confidence/prior.ts";
import type { Recipe } from "../contract/recipe.ts";
import type { Phase, RunRequest } from "../contract/run-folder.ts";
import type { Generator, Tokenizer } from "../engine/generator.ts";
import type { ShippedAdapter } from "../engine/train/shipped-adapter.ts";
import type { Trainer } from "../engine/train/trainer.ts";
import type { InstalledWriter } from "../study/writers/installed.ts";
import type { Control } from "./control.ts";
import type { DevAnswer, Grade, Interval } from "./dev-check.ts";
import type { EventDraft, EventLog } from "./events.ts";
import type { Snapshot } from "./folder/request.ts";
import type { Guards } from "./guards/material.ts";
import type { Means } from "./rewards/plan.ts";

export interface RunParts {
  control: Control;
  clock: Clock;
  log: Log;
  /** Starts the trainer's worker, without loading anything. */
  startTrainer(): Trainer;
  /**
   * Opens an inference engine for this run alone. It is never open at the same time as the trainer, so that the weights are not in memory
   * twice.
   */
  openGenerator(): Promise<Generator>;
  /** Opens the tokenizer alone, without weights. */
  openTokenizer(path: string): Promise<{ tokenizer: Tokenizer; dispose(): Promise<void> }>;
  grade: Grade;
  interval: Interval;
  /**
   * Generic prompts. The base's own answers to them are replayed, so that learning the documents does not degrade chat.
   */
  replayPrompts: readonly string[];
  /** Openings of ordinary prose. The base's own continuations are replayed for the same reason. */
  replayOpenings: readonly string[];
  /** Returns the writer that is shipped with this installation; null if there is none. Throws installation_damaged. */
  writer(): InstalledWriter | null;
  /**
   * Returns the adapter that the training of documents in this language starts from if it fits base, shape and recipe; null if this
   * installation has none. Throws installation_damaged.
   */
  warmStart(language: string | null): ShippedAdapter | null;
  /** What is available to judge sampled answers with. */
  means: Means;
  /** Tests of abilities that must not get worse. They are never trained on. */
  guards: Guards;
  /** Answers to calibrate with if the dev split is too small. They may come from another family of models. */
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
  /**
   * Returns an answer's score, in [0, 1]: 1 if it is right, else 0. If an auto-align's target is a reward, returns that reward.
   */
  points(answer: DevAnswer): number;
  /** Whether an earlier process has already written events. */
  resumed: boolean;
  /** When this process took over the folder, by the monotonic clock. */
  beganMs: number;
  readonly phase: Phase;
  /** Writes the event that a phase begins, unless it has already been entered. */
  enter(phase: Phase): Promise<void>;
  /**
   * Reports progress within the phase. `unit` names the piece of work. Rate and time left are computed from the time that this process
   * spent on that piece. Earlier processes and other work in between do not count.
   */
  progress(done: number, total: number | null, unit: string): Promise<void>;
  /** Called between two steps. Waits while the run is paused. Throws Stopped after a stop. */
  turn(): Promise<void>;
  /** Seconds spent per phase in this process. */
  readonly seconds: Partial<Record<Phase, number>>;
  /** Stops the timer that repeats reports. */
  close(): void;
}

/** Returns the same run with another value of one field. */
export const withField = <F extends "request" | "snapshot" | "points">(run: Run, field: F, value: Run[F]): Run =>
  Object.create(run, { [field]: { value, enumerable: true } }) as Run;

/** Returns the same run with another recipe. */
export const withRecipe = (run: Run, recipe: Recipe): Run => withField(run, "request", { ...run.request, recipe });

/**
 * After this long without a report, a run repeats its last one, so that no client waits 10 seconds for news.
 */
const quietMs = 8_000;

/** Progress of a piece of work. `done` and `total` are as last reported; `worked` and `seconds` count this process alone. */
interface Piece {
  done: number;
  total: number | null;
  worked: number;
  seconds: number;
}

type Given = Pick<Run, "folder" | "request" | "snapshot" | "parts" | "events" | "tokenizer" | "beganMs">;

export function createRun(given: Given): Run {
  const { events, parts } = given;
  const { clock, control } = parts;
  const seconds: Partial<Record<Phase, number>> = {};
  let phase: Phase = "preparing";
  /** When progress was last reported or the phase began. The time of the next piece of work is measured from here. */
  let toldMs = clock.monotonicMs();
  /** When any progress event was last written. */
  let saidMs = toldMs;
  let settledMs = clock.monotonicMs();
  const settle = (): void => {
    seconds[phase] = (seconds[phase] ?? 0) + (clock.monotonicMs() - settledMs) / 1000;
    settledMs = clock.monotonicMs();
  };
  /** Keyed by phase and unit, because training continues after each check. */
  const pieces = new Map<string, Piece>();
  /** The last progress event of the phase; null if there is none yet. */
  let last: EventDraft | null = null;
  let entered = false;
  let enteredMs = toldMs;
  const resumed = events.lastSeq > 0;
  /** The log of the run. It notes every progress event, because steps of training write theirs themselves. */
  const log: EventLog = {
    append(...drafts) {
      const found = drafts.findLast(({ kind }) => kind === "progress");
      if (found !== undefined) [last, saidMs] = [found, clock.monotonicMs()];
      return events.append(...drafts);
    },
    get lastSeq() {
      return events.lastSeq;
    },
    close: () => events.close(),
  };

  const tell = async (unit: string, piece: Piece): Promise<void> => {
    const { done, total, worked, seconds: spent } = piece;
    const rate = worked > 0 && spent > 0 ? worked / spent : null;
    const left = total === null ? null : done >= total ? 0 : rate && (total - done) / rate;
    await log.append({ kind: "progress", phase, done, total, unit, rate, seconds_left: left });
  };

  /** Repeats the last progress after `quietMs`. If the phase has reported none yet, reports the seconds for which it has run. */
  function goesOn(): void {
    const now = clock.monotonicMs();
    if (now - saidMs < quietMs || control.paused || control.signal.aborted) return;
    const told = events.append(
      last ?? {
        ...{ kind: "progress", phase, done: Math.round((now - enteredMs) / 1000), total: null },
        ...{ unit: "seconds", rate: null, seconds_left: null },
      },
    );
    saidMs = now;
    told.catch((error) => parts.log("error", "run.progress_unwritten", { error }));
  }
  const timer = setInterval(goesOn, quietMs / 8).unref();

  return {
    ...given,
    events: log,
    points: ({ correct }) => Number(correct),
    resumed,
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
      [enteredMs, saidMs] = [toldMs, toldMs];
      last = null;
      await events.append({ kind: "phase", phase });
    },
    async progress(done, total, unit) {
      const now = clock.monotonicMs();
      const known = pieces.get(`${phase} ${unit}`);
      const before = known && done >= known.done ? known : { done: 0, worked: 0, seconds: 0 };
      // In a resumed process, an earlier process may have done what is reported first, so this part does not count.
      const isOthers = resumed && before !== known;
      const piece: Piece = {
        done,
        total,
        worked: isOthers ? 0 : before.worked + done - before.done,
        seconds: isOthers ? 0 : before.seconds + (now - toldMs) / 1000,
      };
      pieces.set(`${phase} ${unit}`, piece);
      toldMs = now;
      await tell(unit, piece);
    },
    async turn() {
      const waited = control.paused;
      if (waited) await events.append({ kind: "paused", phase });
      await control.turn();
      if (waited) await events.append({ kind: "continued", phase });
    },
    close: () => clearInterval(timer),
  };
}
