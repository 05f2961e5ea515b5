// Resolves the name in a request to the model that answers it.
//
//   model_<id>           a base model, or an aligned model of the caller
//   alignment-<id>       the caller's aligned model, by the alignment that made it (alignment_<id>)
//   any other name       the base model of exactly that name, unless several have it; else the model promoted on the caller's line of
//                        that name, unless lines over several bases have it; else the caller's aligned model of that name (the name
//                        of its alignment): the only one, or the only one that is deployed
import { Failure } from "../../base/errors.ts";
import type { Caller } from "../../contract/endpoint.ts";
import type { Calibration } from "../../engine/confidence.ts";
import type { ModelRef } from "../../engine/generator.ts";
import type { SourceSpace } from "../../engine/sources.ts";
import type { CalibrationOf } from "./calibrations.ts";
import type { SourcesOf } from "./sources.ts";
import type { AlignedRow, ModelsSql, TargetRow } from "./store.ts";

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

export interface Lookup {
  sql: ModelsSql;
  calibrationOf: CalibrationOf;
  sourcesOf: SourcesOf;
}

const aliasMark = "alignment-";

/** The SQL parameters of a look-up by name. */
export function asked(ownerId: string, name: string): { ownerId: string; name: string; alignmentId: string | null } {
  const alias = name.startsWith(aliasMark) ? name.slice(aliasMark.length) : null;
  const alignmentId = alias === null || alias.startsWith("alignment_") ? alias : `alignment_${alias}`;
  return { ownerId, name, alignmentId };
}

export const modelNotFound = (): Failure => new Failure("not_found", "Model not found");

/** Finds a model, deployed or not. Throws not_found. */
export function find(lookup: Lookup, ownerId: string, name: string): ResolvedModel {
  const row = lookup.sql.target.get(asked(ownerId, name));
  if (!row) throw modelNotFound();
  return toResolved(row, lookup);
}

/** Finds a model for inference. Throws not_found, or not_deployed for an aligned model that is not deployed. */
export function resolve(lookup: Lookup, caller: Caller, name: string): ResolvedModel {
  const model = find(lookup, caller.userId, name);
  if (!model.isDeployed) throw new Failure("not_deployed");
  return model;
}

export const refOf = (row: AlignedRow): ModelRef => ({
  baseId: row.base_model_id,
  basePath: row.base_path,
  adapter: { id: row.id, path: row.adapter_path },
});

function toResolved(row: TargetRow, { calibrationOf, sourcesOf }: Lookup): ResolvedModel {
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
