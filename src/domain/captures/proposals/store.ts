// All SQL of proposals. Every look-up by id also checks the owner.
import type { Store } from "../../../store/open.ts";
import { type CaptureRow, prepareUse } from "../store.ts";

export interface ProposalRow {
  id: string;
  alignment_id: string;
  status: "PROPOSED" | "ACCEPTED" | "DISMISSED";
  auto_align_id: string | null;
  captures_json: string | null;
  created_at: string;
  decided_at: string | null;
}

/** A captured answer with the feedback on it. */
export interface EvidenceRow extends CaptureRow {
  /** The lowest rating. */
  rating: number | null;
  intervention: 0 | 1 | null;
}

/** A project, with its latest score, target and run time. */
export interface Project {
  id: string;
  name: string;
  /** Captures up to this sequence number are not evidence, because they are of an older model or were already decided on. */
  since: number;
  /** Score of the newest model on the sealed questions, target of the last auto-align, hours of the last run. Null if there is none. */
  score: number | null;
  target: number | null;
  hours: number | null;
}

/** SQL for the id of a model's project. Models made by an auto-align belong to the project that it improved. */
const projectOfModel = "coalesce(a.auto_align_of, a.id)";

const project = `SELECT p.id, p.name,
  max(coalesce((SELECT max(m.created_seq) FROM aligned_model AS m JOIN alignment AS a ON a.id = m.alignment_id
    WHERE ${projectOfModel} = p.id), 0),
   coalesce((SELECT max(decided_seq) FROM auto_align_proposal WHERE alignment_id = p.id), 0)) AS since,
  (SELECT json_extract(e.result_json, '$.score') FROM evaluation AS e JOIN aligned_model AS m ON m.id = e.model_id
   JOIN alignment AS a ON a.id = m.alignment_id
   WHERE ${projectOfModel} = p.id AND e.benchmark_id = p.benchmark_id AND e.result_json IS NOT NULL
   ORDER BY m.created_seq DESC, e.created_seq DESC LIMIT 1) AS score,
  (SELECT json_extract(request_json, '$.target_score') FROM auto_align WHERE alignment_id = p.id
   ORDER BY created_seq DESC LIMIT 1) AS target,
  coalesce((SELECT hours FROM auto_align WHERE alignment_id = p.id AND hours > 0 ORDER BY created_seq DESC LIMIT 1),
   24 * (julianday(p.completed_at) - julianday(p.started_at))) AS hours
  FROM alignment AS p`;

/** Captures that are evidence for an auto-align of a project. Only subjects that still have captures enabled count. */
const evidence = `FROM capture AS c
  JOIN capture_setting AS s ON s.kind = c.kind AND s.subject_id = c.subject_id AND s.owner_id = c.owner_id
  JOIN aligned_model AS m ON m.id = c.model_id AND m.owner_id = c.owner_id JOIN alignment AS a ON a.id = m.alignment_id
  LEFT JOIN (SELECT agent_id, request_id, min(rating) AS rating, max(intervention) AS intervention FROM agent_feedback
   WHERE request_id IS NOT NULL GROUP BY agent_id, request_id) AS f
  ON c.kind = 'agent' AND f.agent_id = c.subject_id AND f.request_id = c.request_id
  WHERE c.owner_id = :ownerId AND c.used_in IS NULL AND c.created_seq > :since AND ${projectOfModel} = :projectId
  AND (f.rating < :poor OR f.intervention = 1 OR c.confidence < :poor)`;

interface Sought {
  ownerId: string;
  projectId: string;
  since: number;
  poor: number;
}

const owned = `SELECT x.* FROM auto_align_proposal AS x JOIN alignment AS p ON p.id = x.alignment_id
  WHERE x.owner_id = :ownerId AND x.alignment_id = :projectId AND p.deleted_at IS NULL`;

export const prepareProposals = (store: Store) => ({
  ...prepareUse(store),
  /**
   * The project of the model that answered a request. A project without a benchmark is left out, because an auto-align of it could
   * not be measured.
   */
  projectOfRequest: store.prepare<{ ownerId: string; requestId: string }, Project>(
    `${project} WHERE p.owner_id = :ownerId AND p.benchmark_id IS NOT NULL AND p.deleted_at IS NULL AND p.id = (
     SELECT ${projectOfModel} FROM capture AS c JOIN aligned_model AS m ON m.id = c.model_id
     JOIN alignment AS a ON a.id = m.alignment_id WHERE c.owner_id = :ownerId AND c.request_id = :requestId)`,
  ),
  ownedProject: store.prepare<{ ownerId: string; projectId: string }, Project>(
    `${project} WHERE p.owner_id = :ownerId AND p.id = :projectId AND p.auto_align_of IS NULL AND p.deleted_at IS NULL`,
  ),
  /** Whether a proposal about the newest model is waiting, or an auto-align has not ended. A paused one has not. */
  isBusy: store.prepare<{ projectId: string; since: number }, { one: 1 }>(
    `SELECT 1 AS one FROM auto_align_proposal WHERE alignment_id = :projectId AND status = 'PROPOSED' AND created_seq > :since
     UNION ALL SELECT 1 FROM auto_align AS x WHERE alignment_id = :projectId AND ended_at IS NULL
     AND EXISTS(SELECT 1 FROM job WHERE subject_id = x.id) LIMIT 1`,
  ),
  count: store.prepare<Sought, { n: number }>(`SELECT count(*) AS n ${evidence}`),
  /** The newest thousand captures, oldest first. */
  evidence: store.prepare<Sought, EvidenceRow>(
    `SELECT * FROM (SELECT c.*, f.rating, f.intervention ${evidence} ORDER BY c.created_seq DESC LIMIT 1000)
     ORDER BY created_seq`,
  ),
  /** Those of the captures with these ids that still exist. The ids are those that a proposal was decided on. */
  decidedOn: store.prepare<{ ownerId: string; ids: string }, EvidenceRow>(
    `SELECT c.*, (SELECT min(rating) FROM agent_feedback AS f WHERE f.agent_id = c.subject_id
     AND f.request_id = c.request_id) AS rating,
     (SELECT max(intervention) FROM agent_feedback AS f WHERE f.agent_id = c.subject_id
     AND f.request_id = c.request_id) AS intervention
     FROM capture AS c WHERE c.owner_id = :ownerId AND c.id IN(SELECT value FROM json_each(:ids)) ORDER BY c.created_seq`,
  ),
  /**
   * Dismisses a waiting proposal about an older model. Its decided_seq is its own created_seq, so captures made since
   * stay undecided.
   */
  withdraw: store.prepare<{ projectId: string; at: string }>(
    `UPDATE auto_align_proposal SET status = 'DISMISSED', captures_json = '[]', decided_seq = created_seq, decided_at = :at
     WHERE alignment_id = :projectId AND status = 'PROPOSED'`,
  ),
  insert: store.prepare<{ id: string; ownerId: string; projectId: string; seq: number; at: string }>(
    `INSERT INTO auto_align_proposal(id, owner_id, alignment_id, created_seq, created_at)
     VALUES(:id, :ownerId, :projectId, :seq, :at)`,
  ),
  page: store.prepare<{ ownerId: string; projectId: string; limit: number; offset: number }, ProposalRow>(
    `${owned} ORDER BY x.created_seq DESC LIMIT :limit OFFSET :offset`,
  ),
  owned: store.prepare<{ ownerId: string; projectId: string; id: string }, ProposalRow>(`${owned} AND x.id = :id`),
  decide: store.prepare<{
    id: string;
    status: "ACCEPTED" | "DISMISSED";
    autoAlignId: string | null;
    captures: string;
    seq: number;
    at: string;
  }>(
    `UPDATE auto_align_proposal SET status = :status, auto_align_id = :autoAlignId, captures_json = :captures,
     decided_seq = :seq, decided_at = :at WHERE id = :id AND status = 'PROPOSED'`,
  ),
});
