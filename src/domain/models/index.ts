// Models: bases, which belong to the appliance, and aligned ones, which belong to the user who aligned them.
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { dirname } from "node:path";
import { Failure, invalid } from "../../base/errors.ts";
import { removeTemporaries } from "../../base/files.ts";
import { newId } from "../../base/ids.ts";
import type { Log } from "../../base/log.ts";
import type { Clock } from "../../base/time.ts";
import type { Caller, Handlers } from "../../contract/endpoint.ts";
import type { promotions } from "../../contract/promotions.ts";
import type { Calibration } from "../../engine/confidence.ts";
import type { Generator, ModelKind, ModelRef } from "../../engine/generator.ts";
import type { Gpu } from "../../engine/gpu.ts";
import type { SavedFile, Trainer } from "../../engine/trainer.ts";
import type { Queue } from "../../jobs/queue.ts";
import type { Worker } from "../../jobs/runner.ts";
import { prepareForgetting } from "../../store/idempotency.ts";
import type { Store } from "../../store/open.ts";
import { createCalibrations } from "./calibrations.ts";
import { createDeployments } from "./deploy.ts";
import { type ExportOrder, exportModel } from "./export.ts";
import {
  type BaseRecord,
  baseRecord,
  createHandlers,
  type ModelContract,
  type Removal,
  type Told,
} from "./handlers.ts";
import { fetchFromHub, type HubName, sourceOf as hubSource, isHubName, parseHubName } from "./hub.ts";
import {
  type ImportedFile,
  type ImportSource,
  importFile,
  removeFile,
  type Seating,
  type StoredFile,
  storeAdapter,
  storeSources,
} from "./import.ts";
import { createLoadWatch, type LoadWatch } from "./load-watch.ts";
import { createLoads, type Lease, type Use } from "./loads.ts";
import { createPromotions, type Verdict } from "./promotion.ts";
import { asked, find, type Lookup, modelNotFound, type ResolvedModel, resolve } from "./resolve.ts";
import { createSources } from "./sources.ts";
import { type AlignedRow, type BaseRow, type ModelsSql, prepareModels } from "./store.ts";

export interface ModelsParts extends Told {
  store: Store;
  queue: Queue;
  generator: Generator;
  clock: Clock;
  log: Log;
  /** Where model files are kept. */
  folder: string;
  /**
   * Writes an administrative act to the audit log, in the caller's transaction; without a caller it was done on the
   * machine itself.
   */
  audit: (act: string, subject: string, detail: Record<string, unknown>, by?: Caller) => void;
  /** Where models with hf:// names are fetched, and how much disk space must stay free. */
  hub: { mirror: string; freeDisk: number };
  seating: Seating;
  /** Keeps account of memory reservations. */
  gpu: Gpu;
  /** Starts the trainer, which makes exports. */
  startTrainer: () => Trainer;
  /** The whole URL of chat completions. */
  endpointUrl: () => string;
  /** Throws forbidden unless the caller's key has the scope admin; `what` names the action in the message. */
  requireAdmin: (caller: Caller, what: string) => void;
  /** Descriptions of unfinished work that needs the model. */
  usesOf: (modelId: string) => string[];
  /** Deletes what was measured of the model. Called within the transaction that deletes it, before its row goes. */
  forgetModel: (modelId: string) => void;
  /** Called in the same transaction after its row is gone: what its alignment had kept for it may be removed. */
  modelGone: (alignmentId: string) => void;
  /** Judges whether a model may replace another one. */
  judgePromotion: (ownerId: string, modelId: string, inPlaceOf: string) => Verdict;
}

export { type ExportOrder, exportFormats } from "./export.ts";
export type { BaseRecord } from "./handlers.ts";
export type { ImportSource } from "./import.ts";

export interface ServableModel {
  modelId: string;
  name: string;
  kind: ModelKind;
  /** Null for a base. */
  owner: string | null;
  createdAt: string;
}

export interface Described {
  modelId: string;
  name: string;
  kind: ModelKind;
  isServing: boolean;
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

export interface Models {
  handlers: Handlers<ModelContract & typeof promotions>;
  workers: { deploy: Worker; undeploy: Worker };
  /** The model that answers a request. Throws not_found, not_deployed. */
  resolve(caller: Caller, name: string): ResolvedModel;
  /** Finds a model, deployed or not, for evaluations. Throws not_found. */
  find(ownerId: string, name: string): ResolvedModel;
  /** A model's name and kind, and whether it serves now; null if there is none of that name. */
  describe(ownerId: string, name: string): Described | null;
  /**
   * Keeps a model loaded until the lease is released. For a request an aligned model must be deployed (else
   * not_deployed); for an evaluation it need not be.
   */
  lease(ref: ModelRef, use: Exclude<Use, "deployment">): Promise<Lease>;
  /** Called before every native load of a base. Throws load_ended_appliance. */
  watchLoad: LoadWatch;
  /** Unloads the base that has been idle for longest; false if none is idle. */
  freeIdle(): Promise<boolean>;
  /** The installed sentence encoder with this hash; null if there is none. */
  encoderOf(sha256: string): ModelRef | null;
  /** The encoder that measures how far a question is from the documents: the smallest of all sentence encoders. */
  encoder(): { sha256: string; path: string } | null;
  /** Finds a base by id, or by its name if only one base has that name. */
  baseOf(name: string): BaseRow | null;
  /** Finds a base by its name on a hub, or fetches it. Throws hub_unavailable, disk_full, model_invalid. */
  hubBase(name: string, by?: Caller): Promise<BaseRow>;
  listBase(): BaseRecord[];
  /**
   * The id of the only base of the first kind that has any. Throws validation naming `model` if there are none or
   * several.
   */
  onlyBase(kinds: readonly ModelKind[]): string;
  /** What can answer requests now: every base, and the caller's deployed models. */
  servable(caller: Caller): ServableModel[];
  importBase(source: ImportSource): Promise<BaseRecord>;
  removeBase(name: string): Promise<void>;
  /**
   * Writes an aligned model's adapter, or the base merged with it, to a path outside. Throws not_found, bad_request,
   * trainer_error.
   */
  exportAligned(order: ExportOrder): Promise<SavedFile[]>;
  /** Imports the starter model if there is no base yet; null if there is one or the file is missing. */
  importStarter(path: string): Promise<BaseRecord | null>;
  /** Copies an adapter to its permanent place, before the transaction that registers the model. */
  storeAdapter(file: string): Promise<StoredFile>;
  /** As storeAdapter, for the texts in which the sources of the model's answers are looked up. */
  storeSources(file: string): Promise<StoredFile>;
  /** Registers the alignment's model, in the caller's transaction, or returns the one that it has. */
  registerAligned(model: NewAlignedModel): string;
  /** Removes temporary files of interrupted imports. Called before anything is imported. */
  prepare(): Promise<void>;
  redeployAtStart(): Promise<void>;
  /** Ids of models that were deployed before the start of the appliance and do not serve yet. */
  waiting(): string[];
}

/** Memory of the small context that a trial uses. */
const trialBytes = 64 << 20;

export function createModels(parts: ModelsParts): Models {
  const { store, generator, clock, log, folder } = parts;
  const sql = prepareModels(store);
  const forgetReplies = prepareForgetting(store);
  const lookup: Lookup = { sql, calibrationOf: createCalibrations(sql), sourcesOf: createSources(log) };
  const loads = createLoads({ generator, log, clock });
  const deployments = createDeployments({ ...parts, sql, loads });
  const baseOf = (name: string): BaseRow | null => sql.baseNamed.get({ name }) ?? null;

  async function lease(ref: ModelRef, use: Exclude<Use, "deployment">): Promise<Lease> {
    if (use === "request" && ref.adapter) {
      // Redeployment after a start counts loads; a request must not bypass that count by loading the model itself.
      await deployments.settled(ref.adapter.id);
      if (sql.alignedById.get(ref.adapter.id)?.deployment_status !== "DEPLOYED") throw new Failure("not_deployed");
    }
    return loads.take(ref, use);
  }

  async function trialRoom(fileBytes: number): Promise<{ release(): void } | null> {
    const bytes = fileBytes + trialBytes;
    if (bytes > parts.gpu.snapshot().machine.total) return null;
    for (;;) {
      const grant = parts.gpu.reserve("the trial of a new model", { machine: bytes, gpu: 0 });
      if (grant !== null) return grant;
      if (await loads.freeIdle()) continue;
      throw new Failure("out_of_memory", `Trying the file needs ${bytes} bytes of memory`, { retryAfterSeconds: 30 });
    }
  }

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
      // The import has just loaded it without a crash.
      sql.setBaseLoads.run(0, known.id);
      // Prefer a file in our folder to one elsewhere, and any file to one that no longer exists.
      if (dirname(file.path) === folder || !existsSync(known.path)) sql.moveBase.run(file.path, known.id);
      return known;
    }
    const row: BaseRow = { ...file, id: newId("model"), loads_begun: 0, created_at: clock.now() };
    sql.insertBase.run({ ...row, seq: store.nextSeq() });
    const { name, sha256 } = row;
    parts.audit("model.import", row.id, { name, sha256, ...(hub ? { source: hub.source } : {}) }, by);
    log("info", "model.imported", { modelId: row.id, name, sha256 });
    return row;
  }

  /** Fetches under way: requests for the same model share one. */
  const fetching = new Map<string, Promise<BaseRow>>();

  async function fetchBase(name: HubName, by?: Caller): Promise<BaseRow> {
    const { path, source, revision } = await fetchFromHub(name, { ...parts.hub, folder });
    try {
      const title = source
        .split("/")
        .at(-1)!
        .replace(/\.gguf$/, "");
      const file = await importFile({ path, mode: "copy", name: title }, folder, parts.seating, trialRoom);
      return register(file, by, { source, revision });
    } finally {
      await rm(path, { force: true });
    }
  }

  async function hubBase(text: string, by?: Caller, field = "base_model_id"): Promise<BaseRow> {
    const name = parseHubName(text);
    if (!name) throw invalid(["body", field], "is not of the form hf://organisation/name[/file.gguf]");
    const source = hubSource(name);
    const [known, other] = sql.baseOfSource.all({ source });
    if (known && !other) return known;
    if (known) throw new Failure("hub_unavailable", "Several files of it were imported; name one, or use a model's id");
    const under = fetching.get(source) ?? fetchBase(name, by).finally(() => fetching.delete(source));
    fetching.set(source, under);
    return under;
  }

  async function importBase(source: ImportSource): Promise<BaseRecord> {
    if (!isHubName(source.path))
      return baseRecord(register(await importFile(source, folder, parts.seating, trialRoom)));
    if (source.name !== undefined || source.sha256 !== undefined || source.mode === "link")
      throw new Failure("bad_request", "What is fetched from a mirror is copied, named and checked by its index");
    return baseRecord(await hubBase(source.path));
  }

  /**
   * Files that are stored and not registered with a model yet. Deleting another model with the same file must not
   * remove them.
   */
  const arriving = new Set<string>();
  async function arrive(storing: Promise<StoredFile>): Promise<StoredFile> {
    const file = await storing;
    arriving.add(file.path);
    return file;
  }

  async function removeBase(row: BaseRow, by?: Caller): Promise<void> {
    refuseUsed(sql, row, parts.usesOf(row.id));
    // This base may be one of the idle ones.
    while (await loads.freeIdle());
    store.transaction(() => {
      refuseUsed(sql, row, parts.usesOf(row.id));
      sql.deleteSources.run(row.id);
      sql.deleteBase.run(row.id);
      parts.audit("model.remove", row.id, { name: row.name, sha256: row.sha256 }, by);
    });
    await removeFile(row.path, folder);
    log("info", "model.removed", { modelId: row.id, name: row.name });
  }

  async function removeAligned({ id, name, alignment_id, adapter_sha256 }: AlignedRow, caller: Caller): Promise<void> {
    const files = store.transaction(() => {
      const { deployment_status } = sql.alignedById.get(id)!;
      if (deployment_status !== "UNDEPLOYED") throw new Failure("still_deployed", `The model is ${deployment_status}`);
      const lines = sql.linesOfModel.all(id).map(({ line }) => line);
      if (lines.length > 0) throw new Failure("still_promoted", `The model is promoted on ${lines.join(", ")}`);
      const uses = parts.usesOf(id);
      if (uses.length > 0) throw new Failure("in_use", `The model is needed by ${uses.slice(0, mostNamed).join(", ")}`);
      sql.removeDeployments.run(id);
      parts.forgetModel(id);
      const { adapter_path, sources_path } = sql.removeAligned.get(id)!;
      parts.modelGone(alignment_id);
      forgetReplies(caller.userId, id);
      parts.audit("model.delete", id, { name, alignment_id, sha256: adapter_sha256 }, caller);
      return [adapter_path, ...(sources_path === null ? [] : [sources_path])];
    });
    for (const path of files)
      if (!arriving.has(path) && sql.isFileUsed.get({ path })!.any === 0) await removeFile(path, folder);
    log("info", "model.removed", { modelId: id, name });
  }

  const removal: Removal = {
    removeAligned,
    async removeBase(row, caller) {
      parts.requireAdmin(caller, "A base model is every user's: deleting it");
      await removeBase(row, caller);
    },
    importFromHub: (source, caller) => hubBase(source, caller, "source"),
    async importUpload({ path, name: fileName }, stated, caller) {
      return register(
        await importFile({ path, fileName, mode: "copy", ...stated }, folder, parts.seating, trialRoom),
        caller,
      );
    },
  };

  return {
    handlers: {
      ...createHandlers(parts, lookup, deployments, removal),
      ...createPromotions({ ...parts, sql, deployments }),
    },
    workers: deployments.workers,
    resolve: (caller, name) => resolve(lookup, caller, name),
    find: (ownerId, name) => find(lookup, ownerId, name),
    describe(ownerId, name) {
      const aligned = sql.alignedOf.get(asked(ownerId, name));
      if (aligned) {
        const isServing = aligned.deployment_status === "DEPLOYED";
        return { modelId: aligned.id, name: aligned.name, kind: "text", isServing };
      }
      const base = baseOf(name);
      return base && { modelId: base.id, name: base.name, kind: base.kind, isServing: true };
    },
    lease,
    watchLoad: createLoadWatch(sql),
    freeIdle: loads.freeIdle,
    encoderOf(sha256) {
      const row = sql.baseOfHash.get(sha256);
      return row?.kind === "embedding" ? { baseId: row.id, basePath: row.path } : null;
    },
    encoder() {
      const [smallest] = sql.bases
        .all(-1, 0)
        .filter(({ kind }) => kind === "embedding")
        .sort((a, b) => a.parameters - b.parameters || a.sha256.localeCompare(b.sha256));
      return smallest ? { sha256: smallest.sha256, path: smallest.path } : null;
    },
    baseOf,
    hubBase,
    listBase: () => sql.bases.all(-1, 0).map(baseRecord),
    onlyBase: (kinds) => onlyBase(sql.bases.all(-1, 0), kinds),
    servable: (caller) => [
      ...sql.bases.all(-1, 0).map(({ id, name, kind, created_at }) => ({
        modelId: id,
        name,
        kind,
        owner: null,
        createdAt: created_at,
      })),
      ...sql.deployed.all(caller.userId).map(({ id, name, created_at }) => ({
        modelId: id,
        name,
        kind: "text" as const,
        owner: caller.userName,
        createdAt: created_at,
      })),
    ],
    importBase,
    async removeBase(name) {
      const row = baseOf(name);
      if (!row) throw modelNotFound();
      await removeBase(row);
    },
    async exportAligned(order) {
      const row = sql.alignedNamed.get(asked("", order.id));
      if (!row) throw modelNotFound();
      const files = await exportModel(
        { basePath: row.base_path, adapterPath: row.adapter_path },
        order,
        parts.startTrainer,
      );
      parts.audit("model.export", row.id, { format: order.format, path: order.path });
      return files;
    },
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
    prepare: () => removeTemporaries(folder),
    redeployAtStart: deployments.redeployAtStart,
    waiting: deployments.waiting,
  };
}

function onlyBase(bases: readonly BaseRow[], kinds: readonly ModelKind[]): string {
  for (const kind of kinds) {
    const [first, ...others] = bases.filter((base) => base.kind === kind);
    if (first && others.length === 0) return first.id;
    if (first)
      throw invalid(
        ["body", "model"],
        `field required: which of ${namesOf([first, ...others])} shall answer`,
        "missing",
      );
  }
  throw invalid(["body", "model"], "field required: no base model is installed", "missing");
}

/** Ids with their names; of a long list, the first `mostNamed`. */
function namesOf(bases: readonly BaseRow[]): string {
  const shown = bases.slice(0, mostNamed).map(({ id, name }) => `${id} (${name})`);
  return [...shown, ...(bases.length > mostNamed ? [`${bases.length - mostNamed} more`] : [])].join(", ");
}
const mostNamed = 10;

/** Throws conflict or in_use if the base is used. `needing`: work that asks it, as judge or teacher. */
function refuseUsed(sql: ModelsSql, row: BaseRow, needing: readonly string[]): void {
  const uses = Object.entries(sql.usesOfBase.get({ id: row.id })!).filter(([, count]) => count > 0);
  if (uses.length > 0)
    throw new Failure(
      "conflict",
      `${row.name} is used by ${uses.map(([what, count]) => `${count} ${what}`).join(", ")}`,
    );
  if (needing.length > 0)
    throw new Failure("in_use", `${row.name} is needed by ${needing.slice(0, mostNamed).join(", ")}`);
}
