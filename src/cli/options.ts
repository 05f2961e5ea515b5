// What options and arguments may be, said in one way by every verb.
import { type Command, Option } from "commander";
import { Failure } from "../base/errors.ts";

/** Of `option` as it was written on the command line. Throws usage. */
export function whole(option: string, text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new Failure("usage", `${option} takes a whole number`);
  return Number(text);
}

export function number(option: string, text: string): number {
  if (!/^-?\d+(\.\d+)?$/.test(text)) throw new Failure("usage", `${option} takes a number`);
  return Number(text);
}

/** The same of one that may be left out. */
export const optional = <T>(
  read: (option: string, text: string) => T,
  option: string,
  text: string | undefined,
): T | undefined => (text === undefined ? undefined : read(option, text));

/** Of an alignment of the demo's company. */
export const workflowOption = (): Option =>
  new Option("--workflow <name>", "preset of the alignment")
    .choices(["quick", "standard", "thorough"])
    .default("quick");

/** By comma. */
export const listOf = (text: string): string[] =>
  text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");

export interface Page {
  limit?: string;
  offset?: string;
}

/** Of lists, which the API gives in pages. */
export const paged = (command: Command): Command =>
  command
    .option("--limit <n>", "most rows, 100 at most; otherwise 10")
    .option("--offset <n>", "rows to pass over, the newest first");

export const pageOf = ({ limit, offset }: Page): { limit: number | undefined; offset: number | undefined } => ({
  limit: optional(whole, "--limit", limit),
  offset: optional(whole, "--offset", offset),
});

/** Without what was not said: the contract's defaults are written down there. */
export const said = (fields: Record<string, unknown>): object =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
