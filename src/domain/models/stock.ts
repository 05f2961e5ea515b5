// Takes in models: bases from files, uploads and a hub's mirror, and the adapters that runs make. A file is first stored under
// its hash. A row in the database then makes it a model.
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { dirname } from "node:path";
import { Failure, invalid } from "../../base/errors.ts";
import { removeTemporaries } from "../../base/files.ts";
import { newId } from "../../base/ids.ts";
import type { Log } from "../../base/log.ts";
import type { Clock } from "../../base/time.ts";
import type { BaseRow } from "../../catalog/store.ts";
import type { Calibration } from "../../confidence/calibration.ts";
import type { Caller, UploadedFile } from "../../contract/endpoint.ts";
import { type Gpu, mebibytes } from "../../engine/gguf/gpu.ts";
import type { Trainer } from "../../engine/train/trainer.ts";
import type { Store } from "../../store/open.ts";
import { fetchFromHub, type HubName, sourceOf as hubSource, isHubName, parseHubName } from "./hub.ts";
import {
  type ImportedFile,
  type ImportSource,
  importFile,
  type SlotPool,
  type StoredFile,
  storeAdapter,
  storeSources,
} from "./import.ts";
import { prepareModels } from "./store.ts";

export interface StockParts {
  store: Store;
  clock: Clock;
  log: Log;
  /** Where model files are kept. */
  folder: string;
  /**
   * Writes an administrative act to the audit log, in the caller's transaction. Without `by`, the act was done on the
   * machine itself.
   */
  audit: (act: string, subject: string, detail: Record<string, unknown>, by?: Caller) => void;
  /** The URL that models with hf:// names are fetched from, and the bytes of disk space that must stay free. */
  hub: { mirror: string; freeDisk: number };
  slotPool: SlotPool;
  /** Keeps account of memory reservations. */
  gpu: Gpu;
  /** Unloads the base that has been idle for longest; false if none is idle. */
  freeIdle: () => Promise<boolean>;
  /** Starts the trainer, which reports whether it can train a base. */
  startTrainer: () => Trainer;
}

export interface NewAlignedModel {
  ownerId: string;
  alignmentId: string;
  baseModelId: string;
  name: string;
  /** As returned by storeAdapter. */
  adapter: StoredFile;
  /** As returned by storeSources; null if the run made none. */
  sources: StoredFile | null;
  calibration: Calibration;
}

export interface Stock {
  /**
   * Imports a file, a folder or an hf:// name. Throws bad_request, file_missing, model_file_type, model_invalid,
   * out_of_memory, disk_full and what hubBase throws.
   */
  importBase(source: ImportSource): Promise<BaseRow>;
  importUpload(file: UploadedFile, stated: { name?: string; sha256?: string }, by: Caller): Promise<BaseRow>;
  /**
   * Finds a base by its name on a hub, or fetches it. Throws validation (at the request's field `field`) for an invalid name,
   * hub_unavailable, mirror_unreachable, disk_full, and the errors of an import.
   */
  hubBase(name: string, by?: Caller, field?: readonly string[]): Promise<BaseRow>;
  /** Imports the starter model if there is no base yet. Null if there is a base, or if the file is missing. */
  importStarter(path: string): Promise<BaseRow | null>;
  /** Copies an adapter to its permanent place, before the transaction that registers the model. */
  storeAdapter(file: string): Promise<StoredFile>;
  /** Like storeAdapter, but for the texts in which the sources of the model's answers are looked up. */
  storeSources(file: string): Promise<StoredFile>;
  /** Registers the alignment's model, in the caller's transaction. Returns its id, or that of the model that it already has. */
  registerAligned(model: NewAlignedModel): string;
  /** Whether a file is stored but not yet registered with a model. */
  isArriving(path: string): boolean;
  /** Removes temporary files of interrupted imports. Called before anything is imported. */
  prepare(): Promise<void>;
}

/** Bytes of memory for the small context that a trial uses. */
const trialBytes = 64 << 20;

export function createStock(parts: StockParts): Stock {
  const { store, clock, log, folder } = parts;
  const sql = prepareModels(store);

  async function trialRoom(fileBytes: number): Promise<{ release(): void } | null> {
    const bytes = fileBytes + trialBytes;
    if (bytes > parts.gpu.snapshot().machine.total) return null;
    for (;;) {
      const grant = parts.gpu.reserve("the trial of a new model", { machine: bytes, gpu: 0 });
      if (grant !== null) return grant;
      if (await parts.freeIdle()) continue;
      throw new Failure("out_of_memory", `Testing the file needs ${mebibytes(bytes)} of memory`, {
        retryAfterSeconds: 30,
      });
    }
  }

  const imported = (source: ImportSource): Promise<ImportedFile> =>
    importFile(source, folder, parts.slotPool, trialRoom, parts.startTrainer);

  function register(file: ImportedFile, by?: Caller, hub?: { source: string; revision: string }): BaseRow {
    return store.transaction(() => {
      const row = keep(file, by, hub);
      if (hub) sql.insertSource.run({ source: hub.source, baseId: row.id, revision: hub.revision, at: clock.now() });
      return row;
    });
  }

  function keep(file: ImportedFile, by?: Caller, hub?: { source: string }): BaseRow {
    const known = sql.baseOfHash.get(file.sha256);
    if (known) {
      // The import has just probed the file without a crash.
      sql.setBaseLoads.run(0, known.id);
      // A newer trainer may be able to train a base that an earlier version could not.
      const { can_be_aligned, reason } = file;
      sql.setAlignable.run({ id: known.id, can_be_aligned, reason });
      // Prefer a file in our folder to one elsewhere, and any file to one that no longer exists.
      if (dirname(file.path) === folder || !existsSync(known.path)) sql.moveBase.run(file.path, known.id);
      return { ...known, can_be_aligned, reason };
    }
    const row: BaseRow = { ...file, id: newId("model"), loads_begun: 0, created_at: clock.now() };
    sql.insertBase.run({ ...row, seq: store.nextSeq() });
    const { name, sha256 } = row;
    parts.audit("model.import", row.id, { name, sha256, ...(hub ? { source: hub.source } : {}) }, by);
    log("info", "model.imported", { modelId: row.id, name, sha256 });
    return row;
  }

  /** Fetches that are under way, by source, so that requests for the same model share one fetch. */
  const fetching = new Map<string, Promise<BaseRow>>();

  async function fetchBase(name: HubName, by?: Caller): Promise<BaseRow> {
    const { path, source, revision } = await fetchFromHub(name, { ...parts.hub, folder });
    try {
      const title = source
        .split("/")
        .at(-1)!
        .replace(/\.gguf$/, "");
      const file = await imported({ path, mode: "copy", name: title });
      return register(file, by, { source, revision });
    } finally {
      await rm(path, { force: true });
    }
  }

  async function hubBase(text: string, by?: Caller, field: readonly string[] = ["base_model_id"]): Promise<BaseRow> {
    const name = parseHubName(text);
    if (!name) throw invalid(["body", ...field], "must have the form hf://organisation/name[/file.gguf]");
    const source = hubSource(name);
    const [known, other] = sql.baseOfSource.all({ source });
    if (known && !other) return known;
    if (known)
      throw new Failure(
        "hub_unavailable",
        "Several files of this model were imported; name one of them, or use a model's id",
      );
    const under = fetching.get(source) ?? fetchBase(name, by).finally(() => fetching.delete(source));
    fetching.set(source, under);
    return under;
  }

  async function importBase(source: ImportSource): Promise<BaseRow> {
    if (!isHubName(source.path)) return register(await imported(source));
    if (source.name !== undefined || source.sha256 !== undefined || source.mode === "link")
      throw new Failure(
        "bad_request",
        "name, sha256 and link cannot be set for a model from a mirror: the mirror's index determines them",
      );
    return hubBase(source.path);
  }

  /**
   * Files that are stored but not yet registered with a model. Deleting another model with the same file must not remove
   * them.
   */
  const arriving = new Set<string>();
  async function arrive(storing: Promise<StoredFile>): Promise<StoredFile> {
    const file = await storing;
    arriving.add(file.path);
    return file;
  }

  return {
    importBase,
    importUpload: async ({ path, name: fileName }, stated, by) =>
      register(await imported({ path, fileName, mode: "copy", ...stated }), by),
    hubBase,
    async importStarter(path) {
      if (sql.countBases.get()!.n > 0 || !existsSync(path)) return null;
      return importBase({ path, mode: "link" });
    },
    storeAdapter: (file) => arrive(storeAdapter(file, folder)),
    storeSources: (file) => arrive(storeSources(file, folder)),
    registerAligned(model) {
      for (const file of [model.adapter, model.sources]) if (file) arriving.delete(file.path);
      const known = sql.alignedBy.get(model.alignmentId);
      if (known) return known.id;
      const id = newId("model");
      sql.insertAligned.run({
        id,
        ownerId: model.ownerId,
        alignmentId: model.alignmentId,
        baseId: model.baseModelId,
        name: model.name,
        adapterPath: model.adapter.path,
        adapterSha256: model.adapter.sha256,
        calibration: JSON.stringify(model.calibration),
        sourcesPath: model.sources?.path ?? null,
        seq: store.nextSeq(),
        at: clock.now(),
      });
      return id;
    },
    isArriving: (path) => arriving.has(path),
    prepare: () => removeTemporaries(folder),
  };
}
