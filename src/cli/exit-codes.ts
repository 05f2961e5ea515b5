// The exit statuses of all verbs, in one table that --help and the README show.
import { Failure, type FailureCode } from "../base/errors.ts";

export const exitCodes = {
  ok: { code: 0, meaning: "done" },
  failure: { code: 1, meaning: "failed; the message says why" },
  usage: { code: 2, meaning: "the command line, a setting or the input is wrong" },
  stopped: { code: 3, meaning: "stopped on request before it finished" },
  locked: { code: 75, meaning: "another process holds the data folder, run or backup; try again later" },
} as const;

export type Exit = keyof typeof exitCodes;

const locked: readonly FailureCode[] = [
  "data_locked",
  "run_locked",
  "backup_locked",
  "bundle_locked",
  "upgrade_locked",
];
/** Failures from wrong input whose HTTP status does not say so. */
const wrongInput: readonly FailureCode[] = ["config_invalid"];

/** HTTP statuses that mean wrong input. */
const inputRefused: readonly number[] = [400, 413, 415, 422];

export function exitOf(error: unknown): Exit {
  if (!(error instanceof Failure)) return "failure";
  if (error.code === "interrupted") return "stopped";
  if (locked.includes(error.code)) return "locked";
  if (wrongInput.includes(error.code)) return "usage";
  return inputRefused.includes(error.status) ? "usage" : "failure";
}

export const exitHelp = [
  "Exit status:",
  ...Object.values(exitCodes).map(({ code, meaning }) => `  ${String(code).padEnd(3)} ${meaning}`),
].join("\n");
