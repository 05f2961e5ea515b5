// Computes the progress that users see from a run's events. All functions are pure.
import type { RunEvent } from "../../contract/run-folder.ts";

export interface RunProgress {
  phase: string;
  /** 0–100 of the whole run; never falls. */
  overall: number;
  /** Detail of the current phase. */
  detail: ProgressDetail | null;
  metrics: Record<string, number | null>;
  /** Sequence number of the last event that was taken in. */
  seen: number;
}

export interface ProgressDetail {
  phase: string;
  done: number;
  total: number | null;
  unit: string;
  rate: number | null;
  seconds_left: number | null;
}

/** The content of progress_json. */
export interface ProgressNote {
  detail: ProgressDetail | null;
  estimated_completion: string | null;
}

/**
 * The range of the overall progress, in percent, that each phase covers, rounded from the phases' shares of small runs.
 * Checks run between two steps and have no range of their own. The last percent is for the appliance to store the
 * result.
 */
const stretches: Partial<Record<string, [from: number, to: number]>> = {
  preparing: [0, 10],
  training: [10, 85],
  repairing: [85, 88],
  packaging: [88, 99],
};

export function take(progress: RunProgress, event: RunEvent): RunProgress {
  const detail = event.kind === "progress" ? detailOf(event) : event.phase === progress.phase ? progress.detail : null;
  return {
    phase: event.phase,
    overall: Math.max(progress.overall, overallOf(event.phase, event.kind === "progress" ? detail : null)),
    detail,
    metrics: { ...progress.metrics, ...metricsOf(event) },
    seen: event.seq,
  };
}

function detailOf(event: RunEvent): ProgressDetail {
  return {
    phase: event.phase,
    done: event.done ?? 0,
    total: event.total ?? null,
    unit: event.unit ?? "",
    rate: event.rate ?? null,
    seconds_left: event.seconds_left ?? null,
  };
}

function overallOf(phase: string, detail: ProgressDetail | null): number {
  const stretch = stretches[phase];
  if (stretch === undefined) return 0;
  const [from, to] = stretch;
  const share = detail?.total ? Math.min(1, Math.max(0, detail.done / detail.total)) : 0;
  return from + (to - from) * share;
}

/**
 * Returns the numeric metrics of an event. Metrics of a check get the prefix dev_, so that they are not mistaken for
 * figures of the training rows.
 */
function metricsOf(event: RunEvent): Record<string, number | null> {
  if (event.kind !== "step" && event.kind !== "check") return {};
  const prefix = event.kind === "check" ? "dev_" : "";
  const numbers = Object.entries(event.metrics ?? {}).filter(
    (entry): entry is [string, number | null] => typeof entry[1] !== "string",
  );
  return Object.fromEntries(numbers.map(([name, value]) => [`${prefix}${name}`, value]));
}

/** The estimated end of a run, and the time of the estimate, both by the monotonic clock. */
export interface Estimate {
  endMs: number;
  atMs: number;
}

/**
 * After this time since the last estimate, a new one has a weight of about two thirds (1 − 1/e). Phases differ in pace,
 * and the displayed time should not swing with them.
 */
const settleMs = 60_000;

/** Combines the previous estimate with a new one of the milliseconds left. */
export function settled(before: Estimate | null, leftMs: number, nowMs: number): Estimate {
  const next = nowMs + leftMs;
  if (before === null) return { endMs: next, atMs: nowMs };
  const weight = 1 - Math.exp((before.atMs - nowMs) / settleMs);
  return { endMs: Math.max(nowMs, before.endMs + weight * (next - before.endMs)), atMs: nowMs };
}

/**
 * Returns the milliseconds left, if each further percentage point takes as long as the points since `from`. Null while
 * it is too early to tell.
 */
export function remainingMs(
  from: { overall: number; ms: number },
  now: { overall: number; ms: number },
): number | null {
  const gained = now.overall - from.overall;
  // The first points say too little, because preparing and training differ in pace.
  return gained < 5 ? null : ((now.ms - from.ms) / gained) * (100 - now.overall);
}
