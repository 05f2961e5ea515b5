// Finds models: base models, which belong to the appliance, and aligned models, which belong to the user who aligned them. A name in a
// request stands for the model that answers the request:
//
//   model_<id>           a base model, or an aligned model of the caller
//   alignment-<id>       the caller's aligned model, by the alignment that made it (alignment_<id>)
//   any other name       the first that exists of:
//                        the base model of exactly that name, if it is the only one;
//                        the model promoted to the caller's channel of that name, if only one base model has such a channel;
//                        the caller's aligned model of that name (the name of its alignment), if it is the only one or the only
//                        one that is deployed
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
   * Loads the data in which the sources of the model's answers are looked up. Null for a base model, and for a model that was made before
   * such data were stored.
   */
  sources: (() => Promise<SourceSpace | null>) | null;
  /** Whether the model serves requests now. Always true for a base model. */
  isDeployed: boolean;
}

export interface ServableModel {
  modelId: string;
  name: string;
  kind: ModelKind;
  /** Null for a base model. */
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
  /** Finds the model that answers a request. Throws not_found, or not_deployed for an aligned model that is not deployed. */
  resolve(caller: Caller, name: string): ResolvedModel;
  /** Finds a model, deployed or not. Throws not_found, with the ids of the models if several have the name. */
  find(ownerId: string, name: string): ResolvedModel;
  /**
   * Describes the owner's aligned model of an id or alias, or the base model of an id or name. Null if there is none. Names of channels
   * and of alignments are not looked up.
   */
  describe(ownerId: string, name: string): Described | null;
  /** Finds the owner's aligned model by its id or alias. Null if there is none. */
  aligned(ownerId: string, name: string): AlignedRow | null;
  /** Finds a base model by its id, or by its name if only one base model has that name. Null if there is none. */
  base(name: string): BaseRow | null;
  /** Newest first. */
  bases(limit?: number, offset?: number): BaseRow[];
  /**
   * Takes the first kind that any base model has, and returns the id of the only base model of that kind. Throws validation, for the field
   * `model`, if the kind has several base models or no kind has any.
   */
  onlyBase(kinds: readonly ModelKind[]): string;
  /** The installed sentence encoder with this hash; null if there is none. */
  encoderOf(sha256: string): ModelRef | null;
  /** The smallest installed sentence encoder, which measures how far a question is from the documents. Null if there is none. */
  encoder(): { sha256: string; path: string } | null;
  /** The models that can answer requests now: all base models, and the caller's deployed models. */
  servable(caller: Caller): ServableModel[];
  calibrationOf: CalibrationOf;
}

const aliasMark = "alignment-";

/** The SQL parameters of a look-up by name. `alignmentId` is set if the name is an alias `alignment-<id>`. */
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

/** Maximum number of models that an error message names. */
const mostNamed = 10;

export function catalogModels(store: Store, log: Log): ModelCatalog {
  const sql = prepareModelReads(store);
  const calibrationOf = createCalibrations(sql);
  const sourcesOf = createSources(log);
  const bases = (limit = -1, offset = 0): BaseRow[] => sql.bases.all(limit, offset);
  const base = (name: string): BaseRow | null => sql.baseNamed.get({ name }) ?? null;
  const aligned = (ownerId: string, name: string): AlignedRow | null => sql.alignedOf.get(asked(ownerId, name)) ?? null;

  function notFound(ownerId: string, name: string): Failure {
    const ids = sql.named.all({ ownerId, name }).map(({ id }) => id);
    if (ids.length === 0) return modelNotFound();
    return new Failure("not_found", `${ids.length} models are called ${name}; name one by its id: ${listOf(ids)}`);
  }

  function find(ownerId: string, name: string): ResolvedModel {
    const row = sql.target.get(asked(ownerId, name));
    if (!row) throw notFound(ownerId, name);
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
        `field required: names the model that answers, ${listOf([first, ...others].map(({ id, name }) => `${id} (${name})`))}`,
        "missing",
      );
  }
  throw invalid(["body", "model"], "field required: no base model is installed", "missing");
}

/** Lists the first `mostNamed` models, and the number of the others. */
function listOf(models: readonly string[]): string {
  const left = models.length - mostNamed;
  return [...models.slice(0, mostNamed), ...(left > 0 ? [`${left} more`] : [])].join(", ");
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
