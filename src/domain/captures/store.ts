// All SQL of captures.
import type { Store } from "../../store/open.ts";

export type SubjectKind = "agent" | "key";

export interface SettingRow {
  kind: SubjectKind;
  subject_id: string;
  masking: 0 | 1;
}

export interface CaptureRow {
  id: string;
  owner_id: string;
  kind: SubjectKind;
  subject_id: string;
  model_id: string;
  question: string;
  answer: string;
  confidence: number | null;
  masked: number;
  used_in: string | null;
  /** The request that was answered; null in rows of an older version. */
  request_id: string | null;
  created_seq: number;
  created_at: string;
}

/** Without a kind, the subject may be an agent or a key. */
interface Subject {
  ownerId: string;
  kind: SubjectKind | null;
  subjectId: string;
}

const ownsSubject = `SELECT 1 AS one FROM agent
  WHERE coalesce(:kind, 'agent') = 'agent' AND id = :subjectId AND owner_id = :ownerId
  UNION ALL
  SELECT 1 FROM api_key WHERE coalesce(:kind, 'key') = 'key' AND id = :subjectId AND user_id = :ownerId`;

/** Statements that proposals need as well. */
export const prepareUse = (store: Store) => ({
  /** Changes fewer rows than there are ids if some of the captures were used or deleted in the meantime. */
  use: store.prepare<{ ids: string; usedIn: string }>(
    "UPDATE capture SET used_in = :usedIn WHERE used_in IS NULL AND id IN(SELECT value FROM json_each(:ids))",
  ),
  /** Questions of all the owner's benchmarks. */
  benchmarkQuestions: store.prepare<[string], { instruction: string }>(
    "SELECT i.instruction FROM benchmark_item AS i JOIN benchmark AS b ON b.id = i.benchmark_id WHERE b.owner_id = ?",
  ),
});

export const prepareCaptures = (store: Store) => ({
  ...prepareUse(store),
  ownsSubject: store.prepare<Subject, { one: 1 }>(ownsSubject),
  /** Also finds an agent that was deleted, while its setting or its captures remain. */
  knowsSubject: store.prepare<Subject, { one: 1 }>(
    `${ownsSubject}
     UNION ALL
     SELECT 1 FROM capture_setting WHERE kind = coalesce(:kind, kind) AND subject_id = :subjectId AND owner_id = :ownerId
     UNION ALL
     SELECT 1 FROM capture WHERE kind = coalesce(:kind, kind) AND subject_id = :subjectId AND owner_id = :ownerId`,
  ),
  setting: store.prepare<{ kind: SubjectKind; subjectId: string }, SettingRow>(
    "SELECT kind, subject_id, masking FROM capture_setting WHERE kind = :kind AND subject_id = :subjectId",
  ),
  settings: store.prepare<[string], SettingRow>(
    "SELECT kind, subject_id, masking FROM capture_setting WHERE owner_id = ? ORDER BY kind, subject_id",
  ),
  enable: store.prepare<{ ownerId: string; kind: SubjectKind; subjectId: string; masking: 0 | 1; at: string }>(
    `INSERT INTO capture_setting(kind, subject_id, owner_id, masking, created_at)
     VALUES(:kind, :subjectId, :ownerId, :masking, :at)
     ON CONFLICT(kind, subject_id) DO UPDATE SET masking = :masking`,
  ),
  disable: store.prepare<{ kind: SubjectKind; subjectId: string }>(
    "DELETE FROM capture_setting WHERE kind = :kind AND subject_id = :subjectId",
  ),
  insert: store.prepare<CaptureRow>(
    `INSERT INTO capture(id, owner_id, kind, subject_id, model_id, question, answer, confidence, masked, used_in,
     request_id, created_seq, created_at)
     VALUES(:id, :owner_id, :kind, :subject_id, :model_id, :question, :answer, :confidence, :masked, :used_in,
     :request_id, :created_seq, :created_at)`,
  ),
  /** Deletes all but the owner's newest captures. */
  trim: store.prepare<{ ownerId: string; most: number }>(
    `DELETE FROM capture WHERE owner_id = :ownerId AND created_seq <= (
     SELECT created_seq FROM capture WHERE owner_id = :ownerId ORDER BY created_seq DESC LIMIT 1 OFFSET :most)`,
  ),
  page: store.prepare<{ ownerId: string; subjectId: string | null; limit: number; offset: number }, CaptureRow>(
    `SELECT * FROM capture WHERE owner_id = :ownerId AND (:subjectId IS NULL OR subject_id = :subjectId)
     ORDER BY created_seq DESC LIMIT :limit OFFSET :offset`,
  ),
  count: store.prepare<{ ownerId: string; subjectId: string | null }, { n: number }>(
    "SELECT count(*) AS n FROM capture WHERE owner_id = :ownerId AND (:subjectId IS NULL OR subject_id = :subjectId)",
  ),
  unused: store.prepare<{ ownerId: string; subjectId: string | null }, CaptureRow>(
    `SELECT * FROM capture WHERE owner_id = :ownerId AND used_in IS NULL
     AND (:subjectId IS NULL OR subject_id = :subjectId) ORDER BY created_seq`,
  ),
  remove: store.prepare<[id: string, ownerId: string]>("DELETE FROM capture WHERE id = ? AND owner_id = ?"),
});
