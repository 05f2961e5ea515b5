// All SQL of alignments. The public status is read from the latest job. A plain alignment has one job; an auto-align
// has another after each pause. The owner cannot list or look up the rows of auto-aligns, but what they use counts as
// in use.
import { alignmentWithJob, isThere } from "../../catalog/store.ts";
import type { JobState } from "../../jobs/states.ts";
import type { Store } from "../../store/open.ts";

export interface AlignmentRow {
  id: string;
  owner_id: string;
  name: string;
  description: string | null;
  workflow_id: string;
  base_model_id: string;
  benchmark_id: string | null;
  /** Id of the alignment's benchmark, if that has been deleted since. */
  deleted_benchmark_id: string | null;
  document_ids_json: string;
  document_names_json: string;
  /** Hashes of the original files. */
  document_sha256s_json: string;
  /** A Teacher; null if none is asked. */
  teacher_json: string | null;
  /** KeptRewardModels; null if the reward asks no model other than the base. */
  reward_models_json: string | null;
  organisation: string | null;
  phase: string;
  progress: number;
  /** A ProgressNote. */
  progress_json: string | null;
  metrics_json: string | null;
  report_json: string | null;
  budget_json: string | null;
  events_seen: number;
  created_at: string;
  started_at: string | null;
  /** When the owner deleted the alignment. The row stays while its run is ending or its model exists. */
  deleted_at: string | null;
  /** The project, if this is the row of an auto-align, which is never shown. */
  auto_align_of: string | null;
  state: JobState;
  error_text: string | null;
  /** When the job ended, whatever the outcome. */
  finished_at: string | null;
  model_id: string | null;
  evaluation_id: string | null;
}

interface NewAlignment {
  id: string;
  ownerId: string;
  name: string;
  description: string | null;
  workflowId: string;
  baseModelId: string;
  benchmarkId: string | null;
  documentIds: string;
  documentNames: string;
  documentSha256s: string;
  teacher: string | null;
  rewardModels: string | null;
  organisation: string | null;
  autoAlignOf: string | null;
  seq: number;
  at: string;
}

interface Progress {
  id: string;
  phase: string;
  progress: number;
  detail: string | null;
  metrics: string | null;
  seen: number;
  jobId: string;
  fence: number;
}

const alignment = `SELECT a.*, j.state, j.error_text, j.finished_at, m.id AS model_id, e.id AS evaluation_id FROM ${alignmentWithJob}
  LEFT JOIN aligned_model AS m ON m.alignment_id = a.id LEFT JOIN evaluation AS e ON e.alignment_id = a.id`;

/** Condition that the alignment is visible to its owner. */
const isShown = `${isThere} AND a.auto_align_of IS NULL`;
/** Condition that the worker still holds its claim to the job; without it, the worker writes nothing more. */
const isClaimed = "EXISTS(SELECT 1 FROM job WHERE id = :jobId AND fence = :fence AND state IN('running', 'stopping'))";

export const prepareAlignments = (store: Store) => ({
  insert: store.prepare<NewAlignment>(
    `INSERT INTO alignment(id, owner_id, name, description, workflow_id, base_model_id, benchmark_id, document_ids_json,
     document_names_json, document_sha256s_json, teacher_json, reward_models_json, organisation, auto_align_of, created_seq, created_at)
     VALUES(:id, :ownerId, :name, :description, :workflowId, :baseModelId, :benchmarkId, :documentIds,
     :documentNames, :documentSha256s, :teacher, :rewardModels, :organisation, :autoAlignOf, :seq, :at)`,
  ),
  owned: store.prepare<[string, string], AlignmentRow>(`${alignment} WHERE a.id = ? AND a.owner_id = ? AND ${isShown}`),
  byId: store.prepare<[string], AlignmentRow>(`${alignment} WHERE a.id = ?`),
  page: store.prepare<{ ownerId: string; states: string; limit: number; offset: number }, AlignmentRow>(
    `${alignment} WHERE a.owner_id = :ownerId AND ${isShown} AND j.state IN(SELECT value FROM json_each(:states))
     ORDER BY a.created_seq DESC LIMIT :limit OFFSET :offset`,
  ),
  count: store.prepare<{ ownerId: string; states: string }, { n: number }>(
    `SELECT count(*) AS n FROM ${alignmentWithJob}
     WHERE a.owner_id = :ownerId AND ${isShown} AND j.state IN(SELECT value FROM json_each(:states))`,
  ),
  /** Alignments that wait or run and were not stopped, of one owner, base and workflow. */
  underWay: store.prepare<[string, string, string], AlignmentRow>(
    `${alignment} WHERE a.owner_id = ? AND a.base_model_id = ? AND a.workflow_id = ? AND ${isShown}
     AND j.state IN('queued', 'running') ORDER BY a.created_seq`,
  ),
  /** Other alignments of an owner with the same teacher, the latest first. */
  taught: store.prepare<{ id: string; ownerId: string; model: string; provider: string | null }, { id: string }>(
    `SELECT id FROM alignment WHERE owner_id = :ownerId AND id <> :id AND deleted_at IS NULL
     AND teacher_json ->> 'model' = :model AND teacher_json ->> 'provider' IS :provider ORDER BY created_seq DESC LIMIT 20`,
  ),
  /** Rows of a project's auto-aligns. */
  ofAutoAligns: store.prepare<[string], AlignmentRow>(`${alignment} WHERE a.auto_align_of = ?`),
  loseBenchmark: store.prepare<[string]>(
    "UPDATE alignment SET deleted_benchmark_id = benchmark_id, benchmark_id = NULL WHERE benchmark_id = ?",
  ),
  hide: store.prepare<{ id: string; at: string }>("UPDATE alignment SET deleted_at = :at WHERE id = :id"),
  /** Deleted alignments whose row is still there. */
  hidden: store.prepare<[], AlignmentRow>(`${alignment} WHERE a.deleted_at IS NOT NULL`),
  /** Clears what the alignment's model does not need. */
  strip: store.prepare<[string]>(
    `UPDATE alignment SET name = '', description = NULL, document_names_json = '[]', teacher_json = NULL, reward_models_json = NULL,
     organisation = NULL, progress_json = NULL, report_json = NULL, budget_json = NULL WHERE id = ?`,
  ),
  loseEvaluation: store.prepare<[string]>("UPDATE evaluation SET alignment_id = NULL WHERE alignment_id = ?"),
  remove: store.prepare<[string]>("DELETE FROM alignment WHERE id = ?"),
  /** The next alignment to be claimed. */
  oldestQueued: store.prepare<[], AlignmentRow>(`${alignment} WHERE j.state = 'queued' ORDER BY j.created_seq LIMIT 1`),
  start: store.prepare<{ id: string; budget: string; at: string; jobId: string; fence: number }>(
    `UPDATE alignment SET budget_json = :budget, started_at = coalesce(started_at, :at) WHERE id = :id AND ${isClaimed}`,
  ),
  advance: store.prepare<Progress>(
    `UPDATE alignment SET phase = :phase, progress = max(progress, :progress), progress_json = :detail,
     metrics_json = :metrics, events_seen = :seen WHERE id = :id AND ${isClaimed}`,
  ),
  complete: store.prepare<{ id: string; metrics: string; report: string | null; at: string }>(
    `UPDATE alignment SET progress = 100, phase = 'packaging', metrics_json = :metrics, report_json = :report,
     completed_at = :at WHERE id = :id`,
  ),
});

export type AlignmentsSql = ReturnType<typeof prepareAlignments>;
