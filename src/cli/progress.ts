// Shows progress on stderr: on a terminal as a bar that stays in place, elsewhere as a plain line every few seconds.
import { type Preset, SingleBar } from "cli-progress";
import { note, secondsText } from "./output.ts";

export interface Step {
  phase: string;
  done: number;
  total: number | null;
  unit: string;
  /** Units per second and seconds left, if the work reports them. */
  rate?: number | null;
  secondsLeft?: number | null;
  note?: string;
}

export interface Progress {
  show(step: Step): void;
  /** Prints a line that stays. */
  tell(line: string): void;
  /** Removes the bar. */
  end(): void;
}

/** Minimum time between two plain lines of one phase. */
const plainEveryMs = 5000;

export function startProgress(): Progress {
  return process.stderr.isTTY ? bar() : lines();
}

function bar(): Progress {
  const style: Preset = {
    format: "{phase}  {bar}  {line}",
    barCompleteChar: "━",
    barIncompleteChar: "─",
  };
  const single = new SingleBar({ stream: process.stderr, hideCursor: true, clearOnComplete: true, barsize: 24 }, style);
  let phase: string | null = null;
  const end = (): void => {
    if (phase !== null) single.stop();
    phase = null;
  };
  return {
    show(step) {
      const total = step.total ?? Math.max(1, step.done);
      const payload = { phase: step.phase, line: lineOf(step) };
      if (step.phase !== phase) {
        end();
        single.start(total, step.done, payload);
        phase = step.phase;
      } else {
        single.setTotal(total);
        single.update(step.done, payload);
      }
    },
    tell(line) {
      end();
      note(line);
    },
    end,
  };
}

function lines(): Progress {
  let phase: string | null = null;
  let shown = "";
  let shownMs = 0;
  return {
    show(step) {
      const now = performance.now();
      const line = `${step.phase}: ${lineOf(step)}`;
      const isLast = step.total !== null && step.done >= step.total;
      if (line === shown || (step.phase === phase && !isLast && now - shownMs < plainEveryMs)) return;
      phase = step.phase;
      shown = line;
      shownMs = now;
      note(line);
    },
    tell: note,
    end() {},
  };
}

/** Returns a function that shows how many bytes are done, with the measured rate. */
export function showBytes(progress: Progress): (phase: string, done: number, total: number) => void {
  const MiB = 1 << 20;
  let since: { phase: string; ms: number; done: number } | null = null;
  return (phase, done, total) => {
    if (since?.phase !== phase) since = { phase, ms: performance.now(), done };
    const seconds = (performance.now() - since.ms) / 1000;
    const rate = seconds > 1 ? (done - since.done) / seconds : 0;
    progress.show({
      ...{ phase, done: done / MiB, total: total / MiB, unit: "MiB" },
      ...(rate > 0 ? { rate: rate / MiB, secondsLeft: (total - done) / rate } : {}),
    });
  };
}

export function lineOf(step: Step): string {
  const parts = [`${round(step.done)}${step.total === null ? "" : `/${round(step.total)}`} ${step.unit}`];
  if (typeof step.rate === "number" && step.rate > 0) parts.push(`${step.rate.toPrecision(3)}/s`);
  if (typeof step.secondsLeft === "number") parts.push(`${secondsText(step.secondsLeft)} left`);
  if (step.note !== undefined) parts.push(step.note);
  return parts.join(", ");
}

const round = (value: number): string => String(Math.round(value * 10) / 10);
