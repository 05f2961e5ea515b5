// Which figure is an alarm, and how promises and their figures are shown. Plain functions: here nothing is measured and nothing read.
import { shortened } from "../../helpers/commit.ts";

/** What the product promises, in one figure: a line of the table. */
export interface Promised {
  name: string;
  says: string;
  unit: string;
  better: "higher" | "lower";
  /** Decimal places that are shown. */
  digits: number;
  /** Most that it may be, for a figure so small that its ratio to the last one says nothing. */
  most?: number;
  /** What else runs on the machine shows in it: an alarm counts when the median of three rounds still is one. */
  rounds?: 3;
}

export interface Figure {
  figure: number;
  details: string;
}

/** What was measured of a promise: a figure a round. */
export interface Taken {
  figures: number[];
  details: string;
  date: string;
}

/** What the next figure is compared with: the best one so far. */
export interface Last {
  figure: number;
  date: string;
  commit: string;
}

/** By processor and name of the promise. */
export type Known = Record<string, Record<string, Last>>;

/** `missing` is what the measurement needs and was not given. */
export type Outcome = { taken: Taken } | { missing: string } | { failed: string };

export interface Line {
  promised: Promised;
  last: Last | null;
  outcome: Outcome;
}

/** Share of the best figure so far below which one is an alarm. */
const leastOfLast = 0.85;

export const figureOf = ({ figures }: Taken): number =>
  figures.toSorted((a, b) => a - b)[Math.floor(figures.length / 2)]!;

export function isWorse({ better, most }: Promised, figure: number, last: Last | null): boolean {
  if (most !== undefined) return figure > most;
  if (last === null) return false;
  return (better === "higher" ? figure / last.figure : last.figure / figure) < leastOfLast;
}

/** Whether another round is needed before the promise can be judged. */
export function isOpen(promised: Promised, taken: Taken | null, last: Last | null): boolean {
  if (taken === null) return true;
  const made = taken.figures.length;
  if (made >= (promised.rounds ?? 1)) return false;
  // Of two figures there is no median: who took a second takes the third.
  return made > 1 || isWorse(promised, taken.figures[0]!, last);
}

/** A promise of one round has no use for an older figure. */
export const withRound = (promised: Promised, old: Taken | null, { figure, details }: Figure, date: string): Taken => ({
  figures: [...(promised.rounds === undefined ? [] : (old?.figures ?? [])), figure],
  details,
  date,
});

export function isAlarm({ promised, last, outcome }: Line): boolean {
  if ("taken" in outcome) return isWorse(promised, figureOf(outcome.taken), last);
  return "failed" in outcome;
}

/**
 * With these figures in place of those that they are better than; promises that were not measured keep theirs. A figure that is a little
 * worse replaces none: many small losses would never be an alarm.
 */
export function updated(known: Known, processor: string, commit: string, lines: readonly Line[]): Known {
  const now = lines.flatMap(({ promised, outcome }): [string, Last][] => {
    if (!("taken" in outcome)) return [];
    const figure = Number(figureOf(outcome.taken).toPrecision(4));
    const was = known[processor]?.[promised.name];
    if (was !== undefined && (promised.better === "higher" ? figure <= was.figure : figure >= was.figure)) return [];
    return [[promised.name, { figure, date: outcome.taken.date, commit }]];
  });
  return { ...known, [processor]: { ...known[processor], ...Object.fromEntries(now) } };
}

export const tableOf = (lines: readonly Line[]): string =>
  ["| Promise | Figure | Best on this processor | Change | Alarm |", "|---|---|---|---|---|", ...lines.map(rowOf)].join(
    "\n",
  );

function rowOf(line: Line): string {
  const { promised, last } = line;
  const was = last === null ? "none" : `${shown(promised, last.figure)}, ${last.date}, ${shortened(last.commit)}`;
  const cells = [promised.says, toldOf(line), was, changeOf(line), isAlarm(line) ? "alarm" : ""];
  return `| ${cells.map((cell) => cell.replace(/\s+/g, " ").replaceAll("|", "\\|")).join(" | ")} |`;
}

function toldOf({ promised, outcome }: Line): string {
  if ("missing" in outcome) return `not measured: ${outcome.missing}`;
  if ("failed" in outcome) return `failed: ${outcome.failed}`;
  const { taken } = outcome;
  const rounds = taken.figures.map((figure) => figure.toFixed(promised.digits));
  const details = rounds.length > 1 ? `median of ${rounds.join(", ")}` : taken.details;
  return `${shown(promised, figureOf(taken))}${details === "" ? "" : ` (${details})`}`;
}

function changeOf({ promised, last, outcome }: Line): string {
  if (last === null || !("taken" in outcome)) return "";
  const figure = figureOf(outcome.taken);
  if (promised.most !== undefined)
    return `${signed(figure - last.figure, promised.digits)}, at most ${promised.most} ${promised.unit}`;
  if (last.figure === 0) return "";
  const change = signed(100 * (figure / last.figure - 1), 1);
  if (Number(change) === 0) return `${change} %`;
  return `${change} %, ${change.startsWith("+") === (promised.better === "higher") ? "better" : "worse"}`;
}

const shown = ({ digits, unit }: Promised, figure: number): string => `${figure.toFixed(digits)} ${unit}`;
const signed = (value: number, digits: number): string => `${value < 0 ? "" : "+"}${value.toFixed(digits)}`;
