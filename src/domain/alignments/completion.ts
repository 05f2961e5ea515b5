// Completes an alignment: the files that its run left become a model.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../base/errors.ts";
import type { Clock } from "../../base/time.ts";
import { type Calibration, readCalibration, type StoredCalibration } from "../../confidence/calibration.ts";
import type { RunResult } from "../../contract/run-folder.ts";
import type { Attempt } from "./attempt.ts";
import { guardsOf, type KeptGuard } from "./kept-guards.ts";
import type { AlignmentsSql } from "./store.ts";

export interface StoredFile {
  path: string;
  sha256: string;
}

export interface CompletionParts {
  sql: AlignmentsSql;
  clock: Clock;
  /** Copies an adapter to its permanent place. Storing the same file again gives the same path. */
  storeAdapter: (file: string) => Promise<StoredFile>;
  /** Like storeAdapter, for the texts in which the sources of the model's answers are looked up. */
  storeSources: (file: string) => Promise<StoredFile>;
  /** Registers the model and returns its id. Called within the transaction that completes the alignment. */
  registerModel: (model: {
    ownerId: string;
    alignmentId: string;
    baseModelId: string;
    name: string;
    adapter: StoredFile;
    /** Null if the run wrote none. */
    sources: StoredFile | null;
    calibration: Calibration;
  }) => string;
  /** Stores the guard results of the model and of its base. Called in the same transaction. */
  keepGuards: (modelId: string, guards: readonly KeptGuard[]) => void;
  /** Called in the same transaction. */
  enqueueEvaluation: (evaluation: {
    ownerId: string;
    modelId: string;
    baseId: string;
    benchmarkId: string;
    alignmentId: string;
  }) => void;
}

/**
 * Stores the model and completes the alignment (invariant 1 of job.ts). Can be repeated safely after a failure. `move` moves the job
 * and runs the given function in the same transaction. Throws run_crashed if the run's files are incomplete or have changed.
 */
export async function complete(
  parts: CompletionParts,
  attempt: Attempt,
  result: RunResult,
  move: (also: () => void) => void,
): Promise<void> {
  const { sql, clock } = parts;
  const { row, folder } = attempt;
  const named = new Map(result.files.map((file) => [file.name, file]));
  for (const name of ["adapter.gguf", "calibration.json", "report.json"] as const)
    if (!named.has(name)) throw new Failure("run_crashed", `The result has no ${name}`);
  const artefact = join(folder, "artefact");
  const report = await readJson(join(artefact, "report.json"));
  const calibration = readCalibration(
    (await readJson(join(artefact, "calibration.json"))) as unknown as StoredCalibration,
  );
  const stored = async (name: "adapter.gguf" | "sources.json", store: CompletionParts["storeAdapter"]) => {
    const file = await store(join(artefact, name));
    if (file.sha256 !== named.get(name)!.sha256)
      throw new Failure("run_crashed", `${name} changed while it was being stored`);
    return file;
  };
  const adapter = await stored("adapter.gguf", parts.storeAdapter);
  const sources = named.has("sources.json") ? await stored("sources.json", parts.storeSources) : null;
  const { owner_id: ownerId, base_model_id: baseId, benchmark_id: benchmarkId, id: alignmentId, name } = row;
  move(() => {
    sql.complete.run({
      id: alignmentId,
      metrics: JSON.stringify({ ...attempt.progress.metrics, ...result.metrics }),
      report: JSON.stringify(report),
      at: clock.now(),
    });
    const model = { ownerId, alignmentId, baseModelId: baseId, name, adapter, sources, calibration };
    const modelId = parts.registerModel(model);
    parts.keepGuards(modelId, guardsOf(report));
    if (benchmarkId !== null) parts.enqueueEvaluation({ ownerId, modelId, baseId, benchmarkId, alignmentId });
  });
}

async function readJson(path: string): Promise<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, "utf8"));
  } catch (error) {
    throw new Failure("run_crashed", `${path} is not valid JSON: ${(error as Error).message}`, { cause: error });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Failure("run_crashed", `${path} is not a JSON object`);
  return value as Record<string, unknown>;
}
