// Defines options that several verbs share, and reads the values of options.
import { type Command, Option } from "commander";
import { Failure } from "../base/errors.ts";

/** Reads a whole number. The message of a failure names the `option`. Throws usage. */
export function whole(option: string, text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new Failure("usage", `${option} needs a whole number`);
  return Number(text);
}

export function number(option: string, text: string): number {
  if (!/^-?\d+(\.\d+)?$/.test(text)) throw new Failure("usage", `${option} needs a number`);
  return Number(text);
}

/** Reads an option that may be left out; undefined if it is. */
export const optional = <T>(
  read: (option: string, text: string) => T,
  option: string,
  text: string | undefined,
): T | undefined => (text === undefined ? undefined : read(option, text));

/** The option that chooses the preset for the demo's alignment. */
export const workflowOption = (): Option =>
  new Option("--workflow <name>", "preset of the alignment")
    .choices(["quick", "standard", "thorough"])
    .default("quick");

/** Converts a number of days, such as 30d, to the time that is this far from now. Returns other text unchanged. */
export function timeOf(text: string): string {
  const days = /^(\d{1,5})d$/.exec(text)?.[1];
  return days === undefined ? text : new Date(Date.now() + Number(days) * 86_400_000).toISOString();
}

/** Splits at commas, and drops empty parts. */
export const listOf = (text: string): string[] =>
  text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");

export interface Page {
  limit?: string;
  offset?: string;
}

/** Adds the paging options of a list. */
export const paged = (command: Command): Command =>
  command
    .option("--limit <n>", "maximum number of rows, up to 100 (default: 10)")
    .option("--offset <n>", "number of rows to skip, newest first");

export const pageOf = ({ limit, offset }: Page): { limit: number | undefined; offset: number | undefined } => ({
  limit: optional(whole, "--limit", limit),
  offset: optional(whole, "--offset", offset),
});

/** Leaves out undefined fields, so that the defaults of the contract apply. */
export const said = (fields: Record<string, unknown>): object =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
