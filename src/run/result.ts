// result.json is the last file that a run writes. It says how the run ended.
import { readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../base/errors.ts";
import { isErrno, sha256OfFile, syncFolder, writeJsonDurably } from "../base/files.ts";
import { type RunRequest, type RunResult, runResult } from "../contract/run-folder.ts";
import { compile } from "../contract/validate.ts";
import { readScores } from "./folder/looks.ts";
import { resumesOf } from "./folder/request.ts";

const check = compile(runResult);

/**
 * Whether an auto-align whose process ended before its work is to go on. It goes on if the scores of its look have arrived, if its pause
 * was ended, or if it is to package its best adapter (`stopping`).
 */
async function goesOn(folder: string, { outcome, auto_align: told }: RunResult, request: RunRequest): Promise<boolean> {
  const asked = request.auto_align;
  if (asked == null) return false;
  if (outcome === "stopped") return asked.stopping;
  if (outcome === "paused") return asked.stopping || resumesOf(asked).at(-1)?.phases === told!.phases;
  if (outcome !== "look") return false;
  return asked.stopping || (await readScores(folder, told!.look!)) !== null;
}

/**
 * Returns the result that an earlier process left, if the run is over; otherwise removes the file and returns null. A completed or stopped
 * run keeps its result under every fence. A failed run is tried again under a new fence. A run whose artefact has missing or damaged files
 * is not over, nor is an auto-align that is to go on.
 */
export async function earlierResult(folder: string, request: RunRequest): Promise<RunResult | null> {
  const path = join(folder, "result.json");
  const found = await readResult(path);
  const isOver = found !== null && !(await goesOn(folder, found, request)) && (await isWhole(folder, found));
  if (isOver && found.fence === request.fence) return found;
  if (isOver && found.outcome !== "failed") {
    const renewed = { ...found, fence: request.fence };
    await writeJsonDurably(path, renewed);
    return renewed;
  }
  await rm(path, { force: true });
  await syncFolder(folder);
  return null;
}

async function readResult(path: string): Promise<RunResult | null> {
  try {
    const checked = check(JSON.parse(await readFile(path, "utf8")));
    return checked.ok ? checked.value : null;
  } catch (error) {
    if (error instanceof SyntaxError || isErrno(error, "ENOENT")) return null;
    throw error;
  }
}

async function isWhole(folder: string, result: RunResult): Promise<boolean> {
  for (const file of result.files) {
    const path = join(folder, "artefact", file.name);
    const size = await stat(path).then(
      (found) => found.size,
      () => -1,
    );
    if (size !== file.bytes || (await sha256OfFile(path)) !== file.sha256) return false;
  }
  return true;
}

const ended = (request: RunRequest, outcome: RunResult["outcome"], error: RunResult["error"]): RunResult => ({
  format: 1,
  fence: request.fence,
  outcome,
  error,
  chosen_step: null,
  files: [],
  metrics: {},
});

/** Returns the result of an auto-align without an artefact, or without one yet. */
export const withoutArtefact = (
  request: RunRequest,
  outcome: "completed" | "look" | "paused",
  told: NonNullable<RunResult["auto_align"]>,
): RunResult => ({ ...ended(request, outcome, null), auto_align: told });

export const stoppedResult = (request: RunRequest): RunResult => ended(request, "stopped", null);

/**
 * A Failure keeps its code and message. Any other error becomes disk_full or run_failed and is told in the log alone, because its message
 * may name paths of the server, and users read the result.
 */
export function failedResult(request: RunRequest, error: unknown): RunResult {
  const failure =
    error instanceof Failure
      ? error
      : isErrno(error, "ENOSPC", "EDQUOT")
        ? new Failure("disk_full")
        : new Failure("run_failed");
  return ended(request, "failed", { code: failure.code, message: failure.message });
}
