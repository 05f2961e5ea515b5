// Prints what verbs report: the answer on stdout (text, or one JSON object with --json), everything else on stderr.
import type { Command } from "commander";
import { Failure } from "../base/errors.ts";
import { hiddenEscaped, linesEscaped } from "../base/visible.ts";
import { type Exit, exitCodes, exitOf } from "./exit-codes.ts";

export interface Answer {
  /** What --json prints. */
  json: unknown;
  /** Text for people; nothing is printed if it is empty. */
  text: string;
  /** Printed in place of `text`, unchanged, if stdout is not a terminal. */
  content?: string;
  /** Exit status for a verb that worked but found something wrong; ok when absent. */
  exit?: Exit;
  /** Runs after the answer is printed. A demo with --keep continues to serve here. */
  after?: () => Promise<void>;
}

/**
 * Adds --json and an action to a command, so that every verb reports its answer or failure in the same way. A variadic
 * argument is passed as one list.
 */
export function answers<O extends object, Words extends unknown[] = string[]>(
  command: Command,
  act: (options: O & { json?: boolean }, ...words: Words) => Promise<Answer>,
): Command {
  return command.option("--json", "print one JSON object on standard output").action(async (...given: unknown[]) => {
    // commander hands over the arguments, then the options, then the command.
    const options = given.at(-2) as O & { json?: boolean };
    const words = given.slice(0, -2) as Words;
    try {
      const answer = await act(options, ...words);
      if (options.json) print(JSON.stringify(answer.json));
      else if (answer.content !== undefined && !process.stdout.isTTY) process.stdout.write(answer.content);
      else if (answer.text !== "") print(answer.text);
      process.exitCode = exitCodes[answer.exit ?? "ok"].code;
      await answer.after?.();
    } catch (error) {
      speakFailure(error, options.json === true);
    }
  });
}

/** Prints lines with control characters escaped, so that names given by users cannot control the terminal. */
export const print = (lines: string): void => void process.stdout.write(`${linesEscaped(lines)}\n`);
export const note = (lines: string): void => void process.stderr.write(`${linesEscaped(lines)}\n`);

/** Reports a failure, as one line with its message and hint or as a JSON object, and sets the exit status. */
export function speakFailure(error: unknown, json: boolean): void {
  const failure = error instanceof Failure ? error : new Failure("internal", messageOf(error), { cause: error });
  const exit = exitCodes[exitOf(failure)].code;
  if (json)
    print(JSON.stringify({ error: { code: failure.code, message: failure.message, hint: failure.hint }, exit }));
  else note(`plumbline: ${failure.message}. ${failure.hint}`);
  // An unexpected error is a defect, so its stack is printed too.
  if (!(error instanceof Failure) && error instanceof Error && !json) note(error.stack ?? "");
  process.exitCode = exit;
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Renders a table with aligned columns. The first row is the head. A cell stays on one line, whatever it contains. */
export function table(cells: string[][]): string {
  const rows = cells.map((row) => row.map(hiddenEscaped));
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

export function bytesText(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${(bytes / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
}

export function secondsText(seconds: number): string {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
