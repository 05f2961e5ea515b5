// Models: bases, which belong to the appliance, and aligned ones, which belong to the user who aligned them. A name in a request
// stands for the model that answers it:
//
//   model_<id>           a base model, or an aligned model of the caller
//   alignment-<id>       the caller's aligned model, by the alignment that made it (alignment_<id>)
//   any other name       the base model of exactly that name, unless several have it; else the model promoted to the caller's
//                        channel of that name, unless channels over several bases have it; else the caller's aligned model of
//                        that name (the name of its alignment): the only one, or the only one that is deployed
import { Failure, invalid } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Calibration } from "../confidence/calibration.ts";
import type { SourceSpace } from "../confidence/sources.ts";
import type { Caller } from "../contract/endpoint.ts";
import type { ModelKind, ModelRef } from "../engine/generator.ts";
import type { Store } from "../store/open.ts";
import { type CalibrationOf, createCalibrations } from "./calibrations.ts";
import { createSources, type SourcesOf } from "./sources.ts";
import { type AlignedRow, type BaseRow, prepareModelReads, type TargetRow } from "./store.ts";

export interface ResolvedModel {
  modelId: string;
  kind: "base" | "aligned";
  ref: ModelRef;
  /** Null for a base model. */
  calibration: Calibration | null;
  baseId: string;
  baseSha256: string;
  /** Null for a base model. */
  adapterSha256: string | null;
  /**
   * Loads the texts in which the sources of its answers are looked up; null for a base model, and for a model made
   * before these were stored.
   */
  sources: (() => Promise<SourceSpace | null>) | null;
  /** Whether it serves requests now; always true for a base. */
  isDeployed: boolean;
}

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

export interface ModelCatalog {
  /** The model that answers a request. Throws not_found, or not_deployed for an aligned model that is not deployed. */
  resolve(caller: Caller, name: string): ResolvedModel;
  /** Finds a model, deployed or not. Throws not_found. */
  find(ownerId: string, name: string): ResolvedModel;
  /** A model's name and kind, and whether it serves now; null if there is none of that name. */
  describe(ownerId: string, name: string): Described | null;
  /** The owner's aligned model; null if there is none of that id or alias. */
  aligned(ownerId: string, name: string): AlignedRow | null;
  /** Finds a base by id, or by its name if only one base has that name. */
  base(name: string): BaseRow | null;
  /** Newest first. */
  bases(limit?: number, offset?: number): BaseRow[];
  /**
   * The id of the only base of the first kind that has any. Throws validation naming `model` if there are none or
   * several.
   */
  onlyBase(kinds: readonly ModelKind[]): string;
  /** The installed sentence encoder with this hash; null if there is none. */
  encoderOf(sha256: string): ModelRef | null;
  /** The encoder that measures how far a question is from the documents: the smallest of all sentence encoders. */
  encoder(): { sha256: string; path: string } | null;
  /** What can answer requests now: every base, and the caller's deployed models. */
  servable(caller: Caller): ServableModel[];
  calibrationOf: CalibrationOf;
}

const aliasMark = "alignment-";

/** The SQL parameters of a look-up by name. */
export function asked(ownerId: string, name: string): { ownerId: string; name: string; alignmentId: string | null } {
  const alias = name.startsWith(aliasMark) ? name.slice(aliasMark.length) : null;
  const alignmentId = alias === null || alias.startsWith("alignment_") ? alias : `alignment_${alias}`;
  return { ownerId, name, alignmentId };
}

export const modelNotFound = (): Failure => new Failure("not_found", "Model not found");

export const refOf = (row: AlignedRow): ModelRef => ({
  baseId: row.base_model_id,
  basePath: row.base_path,
  adapter: { id: row.id, path: row.adapter_path },
});

/** Number of models that a message names at most. */
const mostNamed = 10;

export function catalogModels(store: Store, log: Log): ModelCatalog {
  const sql = prepareModelReads(store);
  const calibrationOf = createCalibrations(sql);
  const sourcesOf = createSources(log);
  const bases = (limit = -1, offset = 0): BaseRow[] => sql.bases.all(limit, offset);
  const base = (name: string): BaseRow | null => sql.baseNamed.get({ name }) ?? null;
  const aligned = (ownerId: string, name: string): AlignedRow | null => sql.alignedOf.get(asked(ownerId, name)) ?? null;

  function find(ownerId: string, name: string): ResolvedModel {
    const row = sql.target.get(asked(ownerId, name));
    if (!row) throw modelNotFound();
    return toResolved(row, calibrationOf, sourcesOf);
  }

  return {
    find,
    resolve(caller, name) {
      const model = find(caller.userId, name);
      if (!model.isDeployed) throw new Failure("not_deployed");
      return model;
    },
    describe(ownerId, name) {
      const own = aligned(ownerId, name);
      if (own) {
        const isServing = own.deployment_status === "DEPLOYED";
        return { modelId: own.id, name: own.name, kind: "text", isServing };
      }
      const found = base(name);
      return found && { modelId: found.id, name: found.name, kind: found.kind, isServing: true };
    },
    aligned,
    base,
    bases,
    onlyBase: (kinds) => onlyBase(bases(), kinds),
    encoderOf(sha256) {
      const row = sql.baseOfHash.get(sha256);
      return row?.kind === "embedding" ? { baseId: row.id, basePath: row.path } : null;
    },
    encoder() {
      const [smallest] = bases()
        .filter(({ kind }) => kind === "embedding")
        .sort((a, b) => a.parameters - b.parameters || a.sha256.localeCompare(b.sha256));
      return smallest ? { sha256: smallest.sha256, path: smallest.path } : null;
    },
    servable: (caller) => [
      ...bases().map(({ id, name, kind, created_at }) => ({
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
    calibrationOf,
  };
}

function onlyBase(bases: readonly BaseRow[], kinds: readonly ModelKind[]): string {
  for (const kind of kinds) {
    const [first, ...others] = bases.filter((base) => base.kind === kind);
    if (first && others.length === 0) return first.id;
    if (first)
      throw invalid(
        ["body", "model"],
        `field required: names the model that answers, ${namesOf([first, ...others])}`,
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

function toResolved(row: TargetRow, calibrationOf: CalibrationOf, sourcesOf: SourcesOf): ResolvedModel {
  const base = { baseId: row.base_id, basePath: row.base_path };
  const isAligned = row.adapter_path !== null;
  const { sources_path: sourcesPath } = row;
  return {
    modelId: row.id,
    kind: isAligned ? "aligned" : "base",
    ref: isAligned ? { ...base, adapter: { id: row.id, path: row.adapter_path! } } : base,
    calibration: isAligned ? calibrationOf({ id: row.id, calibration_version: row.calibration_version! }) : null,
    baseId: row.base_id,
    baseSha256: row.base_sha256,
    adapterSha256: row.adapter_sha256,
    sources: sourcesPath === null ? null : () => sourcesOf(sourcesPath),
    isDeployed: !isAligned || row.deployment_status === "DEPLOYED",
  };
}
