// All SQL of models. Statements that look up the name of a request also check the owner, so that another user's model is not
// found, like a model that does not exist. Statements by id expect an id from a row that was checked.
import {
  type AlignedRow,
  alignedModels,
  type BaseRow,
  type DeploymentStatus,
  prepareModelReads,
} from "../../catalog/store.ts";
import type { Store } from "../../store/open.ts";

/** What the alignment recorded about the model that it made. */
export interface LineageRow {
  workflow_id: string;
  document_ids_json: string;
  document_sha256s_json: string;
  benchmark_id: string | null;
  metrics_json: string | null;
}

export interface DeploymentRow {
  id: string;
  model_id: string;
  kind: "deploy" | "undeploy";
  status: "PROCESSING" | "READY" | "FAILED";
  error: string | null;
  loads_begun: number;
  started_at: string;
  ended_at: string | null;
}

interface AlignedFilter {
  ownerId: string;
  status: DeploymentStatus | null;
  baseId: string | null;
}
type AlignedPage = AlignedFilter & { limit: number; offset: number };

const filtered = `m.owner_id = :ownerId AND (:status IS NULL OR m.deployment_status = :status)
  AND (:baseId IS NULL OR m.base_model_id = :baseId)`;

function prepareBases(store: Store) {
  return {
    insertBase: store.prepare<Omit<BaseRow, "loads_begun"> & { seq: number }>(
      `INSERT INTO base_model(id, name, kind, architecture, context_length, parameters, file_type, bytes, memory_bytes,
       can_be_aligned, reason, license, sha256, path, created_seq, created_at)
       VALUES(:id, :name, :kind, :architecture, :context_length, :parameters, :file_type, :bytes, :memory_bytes,
       :can_be_aligned, :reason, :license, :sha256, :path, :seq, :created_at)`,
    ),
    /** Bases by their name on a hub: the name of a file or, with a trailing slash, of a repository with all its files. */
    baseOfSource: store.prepare<{ source: string }, BaseRow>(
      `SELECT base_model.* FROM base_model_source JOIN base_model ON base_model.id = base_model_id
       WHERE source = :source OR (:source LIKE '%/' AND substr(source, 1, length(:source)) = :source)
       ORDER BY source LIMIT 2`,
    ),
    insertSource: store.prepare<{ source: string; baseId: string; revision: string; at: string }>(
      `INSERT INTO base_model_source(source, base_model_id, revision, created_at) VALUES(:source, :baseId, :revision, :at)
       ON CONFLICT(source) DO UPDATE SET base_model_id = :baseId, revision = :revision, created_at = :at`,
    ),
    deleteSources: store.prepare<[string]>("DELETE FROM base_model_source WHERE base_model_id = ?"),
    baseById: store.prepare<[string], BaseRow>("SELECT * FROM base_model WHERE id = ?"),
    setAlignable: store.prepare<Pick<BaseRow, "id" | "can_be_aligned" | "reason">>(
      "UPDATE base_model SET can_be_aligned = :can_be_aligned, reason = :reason WHERE id = :id",
    ),
    setBaseLoads: store.prepare<[number, string]>("UPDATE base_model SET loads_begun = ? WHERE id = ?"),
    countBases: store.prepare<[], { n: number }>("SELECT count(*) AS n FROM base_model"),
    moveBase: store.prepare<[string, string]>("UPDATE base_model SET path = ? WHERE id = ?"),
    deleteBase: store.prepare<[string]>("DELETE FROM base_model WHERE id = ?"),
    usesOfBase: store.prepare<{ id: string }, { models: number; alignments: number; evaluations: number }>(
      `SELECT (SELECT count(*) FROM aligned_model WHERE base_model_id = :id) AS models,
       (SELECT count(*) FROM alignment WHERE base_model_id = :id) AS alignments,
       (SELECT count(*) FROM evaluation WHERE base_model_id = :id) AS evaluations`,
    ),
  };
}

function prepareAligned(store: Store) {
  return {
    insertAligned: store.prepare<{
      id: string;
      ownerId: string;
      alignmentId: string;
      baseId: string;
      name: string;
      adapterPath: string;
      adapterSha256: string;
      calibration: string;
      sourcesPath: string | null;
      seq: number;
      at: string;
    }>(
      `INSERT INTO aligned_model(id, owner_id, alignment_id, base_model_id, name, adapter_path, adapter_sha256,
       calibration_json, sources_path, created_seq, created_at)
       VALUES(:id, :ownerId, :alignmentId, :baseId, :name, :adapterPath, :adapterSha256, :calibration, :sourcesPath, :seq, :at)`,
    ),
    /** Does not check the owner, and is therefore only for commands on the machine itself. */
    alignedNamed: store.prepare<{ ownerId: string; name: string; alignmentId: string | null }, AlignedRow>(
      `${alignedModels} WHERE m.id = :name OR m.alignment_id = :alignmentId`,
    ),
    removeDeployments: store.prepare<[string]>("DELETE FROM deployment WHERE model_id = ?"),
    removeAligned: store.prepare<[string], { adapter_path: string; sources_path: string | null }>(
      "DELETE FROM aligned_model WHERE id = ? RETURNING adapter_path, sources_path",
    ),
    /** Whether any model uses a file that is stored under its hash. */
    isFileUsed: store.prepare<{ path: string }, { any: number }>(
      "SELECT EXISTS(SELECT 1 FROM aligned_model WHERE adapter_path = :path OR sources_path = :path) AS any",
    ),
    /** The model that an alignment or auto-align made. */
    alignedBy: store.prepare<[string], { id: string }>("SELECT id FROM aligned_model WHERE alignment_id = ?"),
    alignedById: store.prepare<[string], AlignedRow>(`${alignedModels} WHERE m.id = ?`),
    alignedPage: store.prepare<AlignedPage, AlignedRow>(
      `${alignedModels} WHERE ${filtered} ORDER BY m.created_seq DESC LIMIT :limit OFFSET :offset`,
    ),
    countAligned: store.prepare<AlignedFilter, { n: number }>(
      `SELECT count(*) AS n FROM aligned_model AS m WHERE ${filtered}`,
    ),
    ownsAligned: store.prepare<[string], { one: 1 }>("SELECT 1 AS one FROM aligned_model WHERE owner_id = ? LIMIT 1"),
    inStatus: store.prepare<[string], AlignedRow>(
      `${alignedModels} WHERE m.deployment_status IN(SELECT value FROM json_each(?)) ORDER BY m.created_seq`,
    ),
    lineage: store.prepare<[string], LineageRow>(
      `SELECT workflow_id, document_ids_json, document_sha256s_json, coalesce(benchmark_id, deleted_benchmark_id) AS benchmark_id,
       metrics_json FROM alignment WHERE id = ?`,
    ),
  };
}

function prepareDeployments(store: Store) {
  return {
    moveModel: store.prepare<{ id: string; to: DeploymentStatus; error: string | null }>(
      "UPDATE aligned_model SET deployment_status = :to, error = :error WHERE id = :id",
    ),
    insertDeployment: store.prepare<Omit<DeploymentRow, "loads_begun"> & { seq: number }>(
      `INSERT INTO deployment(id, model_id, kind, status, error, created_seq, started_at, ended_at)
       VALUES(:id, :model_id, :kind, :status, :error, :seq, :started_at, :ended_at)`,
    ),
    latestDeployment: store.prepare<{ modelId: string; kind: string | null }, DeploymentRow>(
      `SELECT * FROM deployment WHERE model_id = :modelId AND (:kind IS NULL OR kind = :kind)
       ORDER BY created_seq DESC LIMIT 1`,
    ),
    endDeployment: store.prepare<{ id: string; status: "READY" | "FAILED"; error: string | null; at: string }>(
      `UPDATE deployment SET status = :status, error = :error, ended_at = :at
       WHERE id = :id AND status = 'PROCESSING'`,
    ),
    setLoadsBegun: store.prepare<[number, string]>("UPDATE deployment SET loads_begun = ? WHERE id = ?"),
  };
}

export interface PromotionRow {
  seq: number;
  owner_id: string;
  base_model_id: string;
  channel: string;
  act: "promote" | "rollback";
  model_id: string | null;
  replaced_model_id: string | null;
  before_seq: number | null;
  overridden: 0 | 1;
  reason: string | null;
  verdict_json: string;
  key_id: string;
  at: string;
}

/** The model that a channel currently names. */
export interface PromotedRow {
  base_model_id: string;
  channel: string;
  model_id: string;
  promotion_seq: number;
}

interface Channel {
  ownerId: string;
  baseId: string;
  channel: string;
}

function preparePromotions(store: Store) {
  const onChannel = "owner_id = :ownerId AND base_model_id = :baseId AND channel = :channel";
  const promoted = "SELECT base_model_id, channel, model_id, promotion_seq FROM promoted";
  return {
    promotedOn: store.prepare<Channel, PromotedRow>(`${promoted} WHERE ${onChannel}`),
    channelsOfModel: store.prepare<[string], PromotedRow>(`${promoted} WHERE model_id = ? ORDER BY channel`),
    channelsOfOwner: store.prepare<[string], PromotedRow>(
      `${promoted} WHERE owner_id = ? ORDER BY channel, base_model_id`,
    ),
    insertPromotion: store.prepare<Omit<PromotionRow, "seq">, { seq: number }>(
      `INSERT INTO promotion(owner_id, base_model_id, channel, act, model_id, replaced_model_id, before_seq, overridden, reason,
       verdict_json, key_id, at)
       VALUES(:owner_id, :base_model_id, :channel, :act, :model_id, :replaced_model_id, :before_seq, :overridden, :reason,
       :verdict_json, :key_id, :at) RETURNING seq`,
    ),
    promotion: store.prepare<[number], PromotionRow>("SELECT * FROM promotion WHERE seq = ?"),
    promotions: store.prepare<{ ownerId: string; channel: string | null; limit: number; offset: number }, PromotionRow>(
      `SELECT * FROM promotion WHERE owner_id = :ownerId AND (:channel IS NULL OR channel = :channel)
       ORDER BY seq DESC LIMIT :limit OFFSET :offset`,
    ),
    countPromotions: store.prepare<{ ownerId: string; channel: string | null }, { n: number }>(
      "SELECT count(*) AS n FROM promotion WHERE owner_id = :ownerId AND (:channel IS NULL OR channel = :channel)",
    ),
    point: store.prepare<Channel & { modelId: string; seq: number }>(
      `INSERT INTO promoted(owner_id, base_model_id, channel, model_id, promotion_seq)
       VALUES(:ownerId, :baseId, :channel, :modelId, :seq)
       ON CONFLICT(owner_id, base_model_id, channel) DO UPDATE SET model_id = :modelId, promotion_seq = :seq`,
    ),
    unpoint: store.prepare<Channel>(`DELETE FROM promoted WHERE ${onChannel}`),
  };
}

export const prepareModels = (store: Store) => ({
  ...prepareModelReads(store),
  ...prepareBases(store),
  ...prepareAligned(store),
  ...prepareDeployments(store),
  ...preparePromotions(store),
});

export type ModelsSql = ReturnType<typeof prepareModels>;
