// All SQL of benchmarks.
import { type BenchmarkRow, type ItemRow, prepareBenchmarkReads } from "../../catalog/store.ts";
import type { JobState } from "../../jobs/states.ts";
import type { Store } from "../../store/open.ts";

/** A benchmark that is or was made from documents, with the state of its job. */
export interface DraftRow {
  id: string;
  owner_id: string;
  name: string;
  document_ids_json: string;
  settings_json: string;
  gates_json: string;
  phase: "queued" | "reading" | "phrasing" | "checking" | "done";
  seconds: number;
  created_seq: number;
  created_at: string;
  updated_at: string;
  state: JobState;
  error_text: string | null;
  candidates: number;
  phrased: number;
  checked: number;
}

export interface CandidateRow {
  position: number;
  /** A plan while questions are being written; afterwards a draft. */
  draft_json: string;
  phrased_json: string | null;
  verdict_json: string | null;
}

/** Condition that the worker still holds its claim to the job; without it, the worker writes nothing more. */
const isClaimed = "EXISTS(SELECT 1 FROM job WHERE id = :jobId AND fence = :fence AND state IN('running', 'stopping'))";

export interface Claimed {
  jobId: string;
  fence: number;
}

/** Condition that no benchmark of the draft exists. Otherwise that benchmark and its later versions are shown instead. */
const isAlone = "NOT EXISTS(SELECT 1 FROM benchmark AS b WHERE b.draft_id = d.id)";

const draft = `SELECT d.*, j.state, j.error_text,
  (SELECT count(*) FROM benchmark_candidate AS c WHERE c.draft_id = d.id) AS candidates,
  (SELECT count(phrased_json) FROM benchmark_candidate AS c WHERE c.draft_id = d.id) AS phrased,
  (SELECT count(verdict_json) FROM benchmark_candidate AS c WHERE c.draft_id = d.id) AS checked
  FROM benchmark_draft AS d JOIN job AS j ON j.subject_id = d.id AND j.kind = 'generate'`;

export function benchmarkRows(store: Store) {
  return {
    ...prepareBenchmarkReads(store),
    add: store.prepare<BenchmarkRow>(
      `INSERT INTO benchmark(id, owner_id, document_id, name, sha256, version, previous_id, struck_json, draft_id, created_seq,
         created_at, updated_at)
       VALUES(:id, :owner_id, :document_id, :name, :sha256, :version, :previous_id, :struck_json, :draft_id, :created_seq,
         :created_at, :updated_at)`,
    ),
    addItem: store.prepare<ItemRow>(
      `INSERT INTO benchmark_item(benchmark_id, sample_num, instruction, response, aliases_json, type, choices_json, rubric_json, citations_json,
         cluster, split, tolerance)
       VALUES(:benchmark_id, :sample_num, :instruction, :response, :aliases_json, :type, :choices_json, :rubric_json, :citations_json,
         :cluster, :split, :tolerance)`,
    ),
    /** Finished benchmarks and those being made, newest first. */
    page: store.prepare<[string, string, number, number], { id: string }>(
      `SELECT id, created_seq FROM benchmark WHERE owner_id = ?
       UNION ALL SELECT id, created_seq FROM benchmark_draft AS d
         WHERE owner_id = ? AND ${isAlone}
       ORDER BY created_seq DESC LIMIT ? OFFSET ?`,
    ),
    count: store.prepare<[string, string], { n: number }>(
      `SELECT (SELECT count(*) FROM benchmark WHERE owner_id = ?) + (SELECT count(*) FROM benchmark_draft AS d
         WHERE owner_id = ? AND ${isAlone}) AS n`,
    ),

    addDraft: store.prepare<
      Pick<DraftRow, "id" | "owner_id" | "name" | "document_ids_json" | "settings_json" | "created_seq" | "created_at">
    >(
      `INSERT INTO benchmark_draft(id, owner_id, name, document_ids_json, settings_json, created_seq, created_at, updated_at)
       VALUES(:id, :owner_id, :name, :document_ids_json, :settings_json, :created_seq, :created_at, :created_at)`,
    ),
    draft: store.prepare<[string], DraftRow>(`${draft} WHERE d.id = ?`),
    ownedDraft: store.prepare<[string, string], DraftRow>(`${draft} WHERE d.owner_id = ? AND d.id = ? AND ${isAlone}`),
    setDraft: store.prepare<Claimed & Pick<DraftRow, "id" | "phase" | "gates_json" | "seconds"> & { at: string }>(
      `UPDATE benchmark_draft SET phase = :phase, gates_json = :gates_json, seconds = :seconds, updated_at = :at
       WHERE id = :id AND ${isClaimed}`,
    ),
    addCandidate: store.prepare<Claimed & { id: string; position: number; draft: string }>(
      `INSERT INTO benchmark_candidate(draft_id, position, draft_json) SELECT :id, :position, :draft WHERE ${isClaimed}`,
    ),
    candidates: store.prepare<[string], CandidateRow>(
      "SELECT position, draft_json, phrased_json, verdict_json FROM benchmark_candidate WHERE draft_id = ? ORDER BY position",
    ),
    setPhrased: store.prepare<Claimed & { id: string; position: number; phrased: string }>(
      `UPDATE benchmark_candidate SET phrased_json = :phrased WHERE draft_id = :id AND position = :position AND ${isClaimed}`,
    ),
    setVerdict: store.prepare<Claimed & { id: string; position: number; verdict: string }>(
      `UPDATE benchmark_candidate SET verdict_json = :verdict WHERE draft_id = :id AND position = :position AND ${isClaimed}`,
    ),
    loseVersion: store.prepare<[string]>("UPDATE benchmark SET previous_id = NULL WHERE previous_id = ?"),
    removeItems: store.prepare<[string]>("DELETE FROM benchmark_item WHERE benchmark_id = ?"),
    remove: store.prepare<[string]>("DELETE FROM benchmark WHERE id = ?"),
    removeDraft: store.prepare<[string]>("DELETE FROM benchmark_draft WHERE id = ?"),
    /** The number of benchmarks with this document, and the number with this draft. */
    sharing: store.prepare<{ documentId: string; draftId: string | null }, { document: number; draft: number }>(
      `SELECT (SELECT count(*) FROM benchmark WHERE document_id = :documentId) AS document,
       (SELECT count(*) FROM benchmark WHERE draft_id = :draftId) AS draft`,
    ),
    dropCandidates: store.prepare<[string]>("DELETE FROM benchmark_candidate WHERE draft_id = ?"),
  };
}

export type BenchmarkRows = ReturnType<typeof benchmarkRows>;
