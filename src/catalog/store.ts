// All SQL of the catalog. It only selects. A look-up for a user matches the owner, so another user's row is not found, as if it did not
// exist. The other queries read base models, or take ids that the caller has already looked up.
import type { itemTypes } from "../contract/benchmarks.ts";
import type { ModelKind } from "../engine/generator.ts";
import { isLive } from "../jobs/states.ts";
import type { Store } from "../store/open.ts";

export type DeploymentStatus = "UNDEPLOYED" | "DEPLOYING" | "DEPLOYED" | "UNDEPLOYING";

export interface BaseRow {
  id: string;
  name: string;
  /** What the model is for. */
  kind: ModelKind;
  architecture: string;
  context_length: number;
  parameters: number;
  file_type: string;
  bytes: number;
  memory_bytes: number;
  can_be_aligned: 0 | 1;
  reason: string | null;
  license: string | null;
  sha256: string;
  path: string;
  /** Number of native loads that began and have not ended. A load that crashed the appliance never ends. */
  loads_begun: number;
  created_at: string;
}

export interface AlignedRow {
  id: string;
  owner_id: string;
  /** Id of the alignment or auto-align that made the model. */
  alignment_id: string;
  /** Id of the alignment that the auto-align belongs to; alignment_id itself if it is not an auto-align. It may have been deleted. */
  project_id: string;
  base_model_id: string;
  base_model_name: string;
  base_path: string;
  base_sha256: string;
  name: string;
  adapter_path: string;
  adapter_sha256: string;
  /** Changes when the calibration changes. */
  calibration_version: number;
  deployment_status: DeploymentStatus;
  error: string | null;
  created_at: string;
}

/**
 * The model that a name in a request stands for: a base model, an aligned model of the caller, or the model promoted to the caller's
 * channel of that name. The adapter's columns are null for a base model.
 */
export interface TargetRow {
  id: string;
  base_id: string;
  base_path: string;
  base_sha256: string;
  adapter_path: string | null;
  adapter_sha256: string | null;
  calibration_version: number | null;
  /** Null also for models made before sources were stored. */
  sources_path: string | null;
  deployment_status: DeploymentStatus | null;
}

export type Split = "dev" | "sealed" | "retention";

export type ItemType = (typeof itemTypes)[number];

export interface BenchmarkRow {
  id: string;
  owner_id: string;
  document_id: string;
  name: string;
  sha256: string;
  version: number;
  previous_id: string | null;
  struck_json: string | null;
  /** Id of the draft that the benchmark was made from; null if the benchmark was uploaded. */
  draft_id: string | null;
  created_seq: number;
  created_at: string;
  updated_at: string;
}

export interface ItemRow {
  benchmark_id: string;
  sample_num: number;
  instruction: string;
  response: string;
  aliases_json: string;
  type: ItemType;
  choices_json: string;
  rubric_json: string;
  citations_json: string;
  cluster: string;
  split: Split;
  tolerance: number | null;
}

/** An alignment that holds a snapshot of a document. For an auto-align, project_id is the id of its project. */
export interface HolderRow {
  id: string;
  project_id: string;
  name: string;
  created_at: string;
  is_live: 0 | 1;
}

const ownDocument = "owner_id = ? AND kind = 'document' AND id = ?";

export const prepareDocumentReads = (store: Store) => ({
  has: store.prepare<[string, string], { any: number }>(
    `SELECT EXISTS(SELECT 1 FROM document WHERE ${ownDocument}) AS any`,
  ),
});

export const prepareBenchmarkReads = (store: Store) => ({
  get: store.prepare<[string, string], BenchmarkRow>("SELECT * FROM benchmark WHERE owner_id = ? AND id = ?"),
  items: store.prepare<[string], ItemRow>("SELECT * FROM benchmark_item WHERE benchmark_id = ? ORDER BY sample_num"),
  splits: store.prepare<[string], { split: Split; n: number }>(
    "SELECT split, count(*) AS n FROM benchmark_item WHERE benchmark_id = ? GROUP BY split",
  ),
});

/** Selects aligned models with their base models. A WHERE clause must follow. */
export const alignedModels = `SELECT m.id, m.owner_id, m.alignment_id, m.base_model_id, m.name, m.adapter_path, m.adapter_sha256,
  m.calibration_version, m.deployment_status, m.error, m.created_at,
  b.name AS base_model_name, b.path AS base_path, b.sha256 AS base_sha256, coalesce(a.auto_align_of, a.id) AS project_id
  FROM aligned_model AS m JOIN base_model AS b ON b.id = m.base_model_id JOIN alignment AS a ON a.id = m.alignment_id`;

/** Condition on a base model's name. A name that several base models share matches none of them. */
const isNamed = "name = :name AND (SELECT count(*) FROM base_model AS other WHERE other.name = :name) = 1";

/** Selects the id of the caller's only aligned model of a name, or of the only deployed one; null if neither exists. */
const calledSo = `SELECT CASE 1 WHEN count(*) THEN max(id)
  WHEN sum(deployment_status = 'DEPLOYED') THEN max(CASE deployment_status WHEN 'DEPLOYED' THEN id END) END
  FROM aligned_model WHERE owner_id = :ownerId AND name = :name`;

export const prepareModelReads = (store: Store) => ({
  baseNamed: store.prepare<{ name: string }, BaseRow>(
    `SELECT * FROM base_model WHERE id = :name OR (${isNamed}) ORDER BY id = :name DESC LIMIT 1`,
  ),
  baseOfHash: store.prepare<[string], BaseRow>("SELECT * FROM base_model WHERE sha256 = ?"),
  bases: store.prepare<[number, number], BaseRow>(
    "SELECT * FROM base_model ORDER BY created_seq DESC LIMIT ? OFFSET ?",
  ),
  alignedOf: store.prepare<{ ownerId: string; name: string; alignmentId: string | null }, AlignedRow>(
    `${alignedModels} WHERE m.owner_id = :ownerId AND (m.id = :name OR m.alignment_id = :alignmentId)`,
  ),
  named: store.prepare<{ ownerId: string; name: string }, { id: string }>(
    `SELECT id FROM aligned_model WHERE owner_id = :ownerId AND name = :name
     UNION ALL SELECT id FROM base_model WHERE name = :name`,
  ),
  deployed: store.prepare<[string], Pick<AlignedRow, "id" | "name" | "created_at">>(
    `SELECT id, name, created_at FROM aligned_model WHERE owner_id = ? AND deployment_status = 'DEPLOYED'
     ORDER BY created_seq DESC`,
  ),
  calibration: store.prepare<[string], { calibration_json: string }>(
    "SELECT calibration_json FROM aligned_model WHERE id = ?",
  ),
  target: store.prepare<{ ownerId: string; name: string; alignmentId: string | null }, TargetRow>(
    `SELECT m.id, b.id AS base_id, b.path AS base_path, b.sha256 AS base_sha256, m.adapter_path, m.adapter_sha256,
     m.calibration_version, m.sources_path, m.deployment_status, 0 AS rank
     FROM aligned_model AS m JOIN base_model AS b ON b.id = m.base_model_id
     WHERE m.owner_id = :ownerId AND (m.id = :name OR m.alignment_id = :alignmentId)
     UNION ALL
     SELECT id, id, path, sha256, NULL, NULL, NULL, NULL, NULL, id <> :name FROM base_model WHERE id = :name OR (${isNamed})
     UNION ALL
     SELECT m.id, b.id, b.path, b.sha256, m.adapter_path, m.adapter_sha256, m.calibration_version, m.sources_path,
     m.deployment_status, 2
     FROM promoted AS p JOIN aligned_model AS m ON m.id = p.model_id JOIN base_model AS b ON b.id = m.base_model_id
     WHERE p.owner_id = :ownerId AND p.channel = :name
     AND (SELECT count(*) FROM promoted WHERE owner_id = :ownerId AND channel = :name) = 1
     UNION ALL
     SELECT m.id, b.id, b.path, b.sha256, m.adapter_path, m.adapter_sha256, m.calibration_version, m.sources_path,
     m.deployment_status, 3
     FROM aligned_model AS m JOIN base_model AS b ON b.id = m.base_model_id WHERE m.id = (${calledSo})
     ORDER BY rank LIMIT 1`,
  ),
});

export type ModelReads = ReturnType<typeof prepareModelReads>;

/** Alignments, each with its latest job. */
export const alignmentWithJob = `alignment AS a JOIN job AS j ON j.subject_id = a.id AND j.kind = 'align'
  AND j.created_seq = (SELECT max(created_seq) FROM job WHERE subject_id = a.id AND kind = 'align')`;

/** Condition on an alignment: its owner has not deleted it. */
export const isThere = "a.deleted_at IS NULL";

/** Condition on an alignment: it still needs its inputs. A paused auto-align needs them, because it may be resumed. */
const isUnderWay = `(${isLive} OR EXISTS(SELECT 1 FROM auto_align AS x WHERE x.id = a.id AND x.ended_at IS NULL))`;

const namesModel = (column: string, at = ""): string =>
  `(json_extract(${column}, '$${at}.model') = :modelId AND json_extract(${column}, '$${at}.provider') IS NULL)`;

const evaluationWithJob = "evaluation AS e JOIN job AS j ON j.subject_id = e.id AND j.kind = 'evaluate'";

export const prepareRunReads = (store: Store) => ({
  /** Alignments of an owner that hold a snapshot of a document, newest first. */
  holding: store.prepare<{ ownerId: string; documentId: string }, HolderRow>(
    `SELECT a.id, coalesce(a.auto_align_of, a.id) AS project_id, a.name, a.created_at, ${isUnderWay} AS is_live
     FROM ${alignmentWithJob} WHERE a.owner_id = :ownerId AND ${isThere}
     AND EXISTS(SELECT 1 FROM json_each(a.document_ids_json) WHERE value = :documentId) ORDER BY a.created_seq DESC`,
  ),
  isAligning: store.prepare<[string], { any: number }>(
    `SELECT EXISTS(SELECT 1 FROM ${alignmentWithJob} WHERE a.owner_id = ? AND ${isThere} AND ${isLive}) AS any`,
  ),
  /** Unfinished alignments that are measured on a benchmark. */
  alignmentsOn: store.prepare<[string], { id: string }>(
    `SELECT coalesce(a.auto_align_of, a.id) AS id FROM ${alignmentWithJob}
     WHERE a.benchmark_id = ? AND ${isUnderWay} ORDER BY a.created_seq`,
  ),
  /** Unfinished alignments that use a model of this appliance as teacher, judge or preference model. */
  alignmentsAsking: store.prepare<{ modelId: string }, { id: string }>(
    `SELECT coalesce(a.auto_align_of, a.id) AS id FROM ${alignmentWithJob}
     WHERE (${isLive} AND ${namesModel("a.teacher_json")})
     OR (${isUnderWay} AND (${namesModel("a.reward_models_json", ".judge")}
       OR json_extract(a.reward_models_json, '$.preferenceModel') = :modelId)) ORDER BY a.created_seq`,
  ),
  /** Evaluations on a benchmark, and whether each is unfinished. */
  evaluationsOn: store.prepare<[string], { id: string; is_live: 0 | 1 }>(
    `SELECT e.id, ${isLive} AS is_live FROM ${evaluationWithJob} WHERE e.benchmark_id = ? ORDER BY e.created_seq`,
  ),
  /** Unfinished evaluations that need a model to answer or to judge. */
  evaluationsAsking: store.prepare<{ modelId: string }, { id: string }>(
    `SELECT e.id FROM ${evaluationWithJob} WHERE ${isLive}
     AND (e.model_id = :modelId OR json_extract(e.settings_json, '$.judge.model_id') = :modelId) ORDER BY e.created_seq`,
  ),
  /** Benchmarks that are being created with a model of this appliance, which checks or writes the questions. */
  benchmarksAsking: store.prepare<{ modelId: string }, { id: string }>(
    `SELECT d.id FROM benchmark_draft AS d JOIN job AS j ON j.subject_id = d.id AND j.kind = 'generate'
     WHERE ${isLive} AND (json_extract(settings_json, '$.model_id') = :modelId
     OR (json_extract(settings_json, '$.generator.model') = :modelId
     AND json_extract(settings_json, '$.generator.provider') IS NULL)) ORDER BY d.created_seq`,
  ),
});
