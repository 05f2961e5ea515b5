// All SQL of auto-aligns. An auto-align that is carried out has a row in `alignment` under its own id; an auto-align
// that was only recorded has none.
import type { AutoAlignStatus } from "../../../contract/auto-align.ts";
import type { JobState } from "../../../jobs/states.ts";
import type { Store } from "../../../store/open.ts";
import { isUnended } from "./statuses.ts";

export interface AutoAlignRow {
  id: string;
  owner_id: string;
  alignment_id: string;
  status: AutoAlignStatus;
  /** The request without its configuration. */
  request_json: string;
  config_text: string;
  /** The kind of phase under way. */
  phase: string | null;
  phases: number;
  /** Dev score of the best checkpoint; null before the first decision. */
  dev_json: string | null;
  hours: number;
  confirmed: 0 | 1 | null;
  looks_json: string;
  help_json: string;
  /** Phases and looks before each resume, in order. */
  resumes_json: string;
  stopping: 0 | 1;
  error_code: string | null;
  error_text: string | null;
  created_at: string;
  updated_at: string;
  ended_at: string | null;
  /** State of the latest job; null for an auto-align that was only recorded. */
  job_state: JobState | null;
  job_error_code: string | null;
  job_error_text: string | null;
  model_id: string | null;
  evaluation_id: string | null;
}

export interface MoveRow {
  seq: number;
  from_status: AutoAlignStatus;
  to_status: AutoAlignStatus;
  phase: string | null;
  at: string;
}

export interface PastRow {
  arm: string;
  headroom: number;
  gain: number;
}

interface Move {
  id: string;
  from: AutoAlignStatus;
  to: AutoAlignStatus;
  errorCode: string | null;
  errorText: string | null;
  endedAt: string | null;
  at: string;
}

const autoAlign = `SELECT x.*, j.state AS job_state, j.error_code AS job_error_code, j.error_text AS job_error_text,
  m.id AS model_id, e.id AS evaluation_id FROM auto_align AS x
  LEFT JOIN job AS j ON j.subject_id = x.id AND j.kind = 'align'
  AND j.created_seq = (SELECT max(created_seq) FROM job WHERE subject_id = x.id AND kind = 'align')
  LEFT JOIN aligned_model AS m ON m.alignment_id = x.id LEFT JOIN evaluation AS e ON e.alignment_id = x.id`;

export const prepareAutoAligns = (store: Store) => ({
  counts: store.prepare<[], { status: AutoAlignStatus; count: number }>(
    "SELECT status, count(*) AS count FROM auto_align GROUP BY status",
  ),
  insert: store.prepare<{
    id: string;
    ownerId: string;
    alignmentId: string;
    request: string;
    config: string;
    seq: number;
    at: string;
  }>(
    `INSERT INTO auto_align(id, owner_id, alignment_id, request_json, config_text, created_seq, created_at, updated_at)
     VALUES(:id, :ownerId, :alignmentId, :request, :config, :seq, :at, :at)`,
  ),
  byId: store.prepare<[string], AutoAlignRow>(`${autoAlign} WHERE x.id = ?`),
  owned: store.prepare<{ id: string; alignmentId: string; ownerId: string }, AutoAlignRow>(
    `${autoAlign} JOIN alignment AS a ON a.id = x.alignment_id
     WHERE x.id = :id AND x.alignment_id = :alignmentId AND x.owner_id = :ownerId AND a.deleted_at IS NULL`,
  ),
  latest: store.prepare<[string], AutoAlignRow>(
    `${autoAlign} WHERE x.alignment_id = ? ORDER BY x.created_seq DESC LIMIT 20`,
  ),
  /** The project's auto-align that is carried out and has not ended. */
  live: store.prepare<[string], AutoAlignRow>(
    `${autoAlign} WHERE x.alignment_id = ? AND j.id IS NOT NULL AND x.${isUnended} LIMIT 1`,
  ),
  /** Auto-aligns whose job has ended although their status has not, because the queue ended the job after a crash. */
  stranded: store.prepare<[], AutoAlignRow>(
    `${autoAlign} WHERE x.status IN('RECORDED', 'PLANNING', 'RUNNING') AND j.state IN('failed', 'stopped')`,
  ),
  move: store.prepare<Move>(
    `UPDATE auto_align SET status = :to, phase = NULL, error_code = :errorCode, error_text = :errorText, ended_at = :endedAt,
     updated_at = :at WHERE id = :id AND status = :from`,
  ),
  enterPhase: store.prepare<{ id: string; phase: string | null; at: string }>(
    "UPDATE auto_align SET phase = :phase, updated_at = :at WHERE id = :id AND status = 'RUNNING'",
  ),
  insertMove: store.prepare<Omit<MoveRow, "seq"> & { id: string }>(
    `INSERT INTO auto_align_move(auto_align_id, seq, from_status, to_status, phase, at)
     VALUES(:id, 1 + (SELECT coalesce(max(seq), 0) FROM auto_align_move WHERE auto_align_id = :id), :from_status, :to_status,
     :phase, :at)`,
  ),
  movesAfter: store.prepare<{ id: string; seq: number }, MoveRow>(
    "SELECT * FROM auto_align_move WHERE auto_align_id = :id AND seq > :seq ORDER BY seq",
  ),
  insertCard: store.prepare<{ id: string; step: number; next: string; card: string; seq: number; at: string }>(
    `INSERT INTO auto_align_card(auto_align_id, step, next, card_json, created_seq, at)
     VALUES(:id, :step, :next, :card, :seq, :at) ON CONFLICT DO NOTHING`,
  ),
  cards: store.prepare<[string], { card_json: string }>(
    "SELECT card_json FROM auto_align_card WHERE auto_align_id = ? ORDER BY created_seq",
  ),
  /** Stores the figures of the latest card. */
  note: store.prepare<{ id: string; phases: number; dev: string; hours: number; looks: string; at: string }>(
    `UPDATE auto_align SET phases = max(phases, :phases), dev_json = :dev, hours = max(hours, :hours), looks_json = :looks,
     updated_at = :at WHERE id = :id`,
  ),
  /** Stores the figures of the run's result. */
  conclude: store.prepare<{ id: string; phases: number; hours: number; confirmed: number | null; help: string }>(
    "UPDATE auto_align SET phases = :phases, hours = :hours, confirmed = :confirmed, help_json = :help WHERE id = :id",
  ),
  setStopping: store.prepare<{ id: string; stopping: 0 | 1; at: string }>(
    "UPDATE auto_align SET stopping = :stopping, updated_at = :at WHERE id = :id",
  ),
  resume: store.prepare<{ id: string }>(
    `UPDATE auto_align SET help_json = '[]', resumes_json =
     json_insert(resumes_json, '$[#]', json_object('phases', phases, 'looks', json_array_length(looks_json))) WHERE id = :id`,
  ),
  /**
   * The gains of the latest 50 phases of the owner's projects with this base, newest first. A phase's result is on every card until the next
   * phase ends, so the cards are grouped by checkpoint.
   */
  past: store.prepare<{ ownerId: string; baseId: string }, PastRow>(
    `SELECT json_extract(c.card_json, '$.result.arm') AS arm, json_extract(c.card_json, '$.result.headroom') AS headroom,
     json_extract(c.card_json, '$.result.difference') AS gain
     FROM auto_align_card AS c JOIN alignment AS a ON a.id = c.auto_align_id
     WHERE a.owner_id = :ownerId AND a.base_model_id = :baseId AND json_extract(c.card_json, '$.result') IS NOT NULL
     GROUP BY c.auto_align_id, json_extract(c.card_json, '$.result.checkpoint') ORDER BY min(c.created_seq) DESC LIMIT 50`,
  ),
  /** Removes all auto-aligns of a project, but not their models or run folders. */
  removeOf: store.prepare<[string]>("DELETE FROM auto_align WHERE alignment_id = ?"),
});

export type AutoAlignsSql = ReturnType<typeof prepareAutoAligns>;
