// An alignment in this process, without an appliance, for the commands that make what plumbline ships.
import { readConfig } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import { sha256OfFile } from "../base/files.ts";
import { createLog, type Level } from "../base/log.ts";
import { type OrderedWork, writeRequest } from "../domain/alignments/snapshot.ts";
import { readGgufHeader } from "../engine/gguf/header.ts";
import type { RunParts } from "../run/context.ts";
import { createControl } from "../run/control.ts";
import { readRequest } from "../run/folder/request.ts";
import { runAlignment } from "../run/run.ts";
import { partsOf } from "./run.ts";

/** Describes the base model in a GGUF file, as a run's order names it. */
export async function baseIn(path: string, id: string): Promise<OrderedWork["base"]> {
  const architecture = String(readGgufHeader(path).values.get("general.architecture"));
  return { id, sha256: await sha256OfFile(path), architecture };
}

/**
 * Runs the alignment in the folder. `by` stands for the versions in its files; `over` replaces parts. Returns the parts that it ran with.
 * Throws run_failed, with the run's own message.
 */
export async function alignHere(
  folder: string,
  { by, fence, basePath }: { by: string; fence: number; basePath: string },
  over: Partial<RunParts> = {},
): Promise<RunParts> {
  const config = readConfig();
  await writeRequest(folder, {
    fence,
    basePath,
    budget: { memory_bytes: config.memory, threads: config.threads },
    versions: { plumbline: by, trainer: by },
  });
  const request = await readRequest(folder);
  const control = createControl(() => {});
  const parts = { ...(await partsOf(request, config, createLog(config.logLevel as Level), control)), ...over };
  const result = await runAlignment(folder, parts);
  if (result.outcome !== "completed") throw new Failure("run_failed", result.error?.message);
  return parts;
}
