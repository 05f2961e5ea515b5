// result.json: the last file that a run writes, and the only one that says how it ended.
import { readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../base/errors.ts";
import { isErrno, sha256OfFile, syncFolder, writeJsonDurably } from "../base/files.ts";
import { type RunRequest, type RunResult, runResult } from "../contract/run-folder.ts";
import { compile } from "../contract/validate.ts";
import { readScores } from "./folder/looks.ts";

const check = compile(runResult);

/**
 * Whether an auto-align that ended its process, but not its work, is to go on: its look has scores, its pause was
 * ended, or it is to package its best (`stopping`).
 */
async function goesOn(folder: string, { outcome, auto_align: told }: RunResult, request: RunRequest): Promise<boolean> {
  const asked = request.auto_align;
  if (asked == null) return false;
  if (outcome === "stopped") return asked.stopping;
  if (outcome === "paused") return asked.stopping || (told!.phases > 0 && asked.resumed_after === told!.phases);
  if (outcome !== "look") return false;
  return asked.stopping || (await readScores(folder, told!.look!)) !== null;
}

/**
 * The result that an earlier process left. A finished or stopped run keeps its result under every fence; a failed one
 * is tried again when the appliance claims it anew. A result whose files are missing or damaged is removed.
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

/** Result of an auto-align that leaves no artefact, or none yet. */
export const withoutArtefact = (
  request: RunRequest,
  outcome: "completed" | "look" | "paused",
  told: NonNullable<RunResult["auto_align"]>,
): RunResult => ({ ...ended(request, outcome, null), auto_align: told });

export const stoppedResult = (request: RunRequest): RunResult => ended(request, "stopped", null);

/** Only the message of a Failure is meant for people; for any other error the log has the stack. */
export function failedResult(request: RunRequest, error: unknown): RunResult {
  const failure =
    error instanceof Failure
      ? error
      : isErrno(error, "ENOSPC", "EDQUOT")
        ? new Failure("disk_full")
        : new Failure("run_failed", `${(error as Error)?.message ?? error}`);
  return ended(request, "failed", { code: failure.code, message: failure.message });
}
