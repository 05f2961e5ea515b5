// All SQL of users, keys, their usage and the audit log.
import type { Store } from "../../store/open.ts";

export interface KeyRow {
  id: string;
  user_id: string;
  user_name: string;
  name: string;
  prefix: string;
  sha256: string;
  scopes_json: string;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
  requests_per_minute: number | null;
  tokens_per_minute: number | null;
  tokens_per_day: number | null;
  previous_sha256: string | null;
  previous_until: string | null;
}

export type NewKeyRow = Omit<
  KeyRow,
  "user_name" | "revoked_at" | "last_used_at" | "previous_sha256" | "previous_until"
>;

export interface UsageFilter {
  ownerId: string;
  from: string | null;
  to: string | null;
}

interface UsageSums {
  requests: number;
  prompt_tokens: number;
  completion_tokens: number;
}

export interface AuditRow {
  seq: number;
  at: string;
  actor: string;
  key_id: string | null;
  act: string;
  subject: string;
  detail_json: string;
  request_id: string | null;
}

const key = `SELECT api_key.*, user.name AS user_name,
  (SELECT max(ended_at) FROM usage WHERE key_id = api_key.id) AS last_used_at
  FROM api_key JOIN user ON user.id = user_id`;
const live = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)";
const inDays = `owner_id = :ownerId AND (:from IS NULL OR created_at >= :from)
  AND (:to IS NULL OR substr(created_at, 1, 10) <= :to)`;
const sums = `count(*) AS requests, coalesce(sum(prompt_tokens), 0) AS prompt_tokens,
  coalesce(sum(completion_tokens), 0) AS completion_tokens`;

const keyRows = (store: Store) => ({
  addKey: store.prepare<NewKeyRow>(
    `INSERT INTO api_key(id, user_id, name, prefix, sha256, scopes_json, created_at, expires_at, requests_per_minute,
     tokens_per_minute, tokens_per_day)
     VALUES(:id, :user_id, :name, :prefix, :sha256, :scopes_json, :created_at, :expires_at, :requests_per_minute,
     :tokens_per_minute, :tokens_per_day)`,
  ),
  /** Finds a live key by its digest, or by the digest from before its last rotation while that is still valid. */
  keyByDigest: store.prepare<{ digest: string; now: string }, Omit<KeyRow, "last_used_at">>(
    `SELECT api_key.*, user.name AS user_name FROM api_key JOIN user ON user.id = user_id
     WHERE (sha256 = :digest OR (previous_sha256 = :digest AND previous_until > :now)) AND ${live}`,
  ),
  keyById: store.prepare<[string], KeyRow>(`${key} WHERE api_key.id = ?`),
  keys: store.prepare<[], KeyRow>(`${key} ORDER BY api_key.created_at, api_key.id`),
  keysOf: store.prepare<[string, number, number], KeyRow>(
    `${key} WHERE user_id = ? ORDER BY api_key.created_at DESC, api_key.id LIMIT ? OFFSET ?`,
  ),
  revoke: store.prepare<[string, string]>("UPDATE api_key SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL"),
  rotate: store.prepare<{ id: string; prefix: string; sha256: string; until: string }>(
    `UPDATE api_key SET previous_sha256 = sha256, previous_until = :until, sha256 = :sha256, prefix = :prefix
     WHERE id = :id`,
  ),
  anyKey: store.prepare<[], { any: number }>("SELECT EXISTS(SELECT 1 FROM api_key WHERE revoked_at IS NULL) AS any"),
});

const userRows = (store: Store) => ({
  userByName: store.prepare<[string], { id: string }>("SELECT id FROM user WHERE name = ?"),
  addUser: store.prepare<[string, string, string]>("INSERT INTO user(id, name, created_at) VALUES(?, ?, ?)"),
  users: store.prepare<
    { now: string; limit: number; offset: number },
    { name: string; created_at: string; live_keys: number }
  >(
    `SELECT name, created_at, (SELECT count(*) FROM api_key WHERE user_id = user.id AND ${live}) AS live_keys
     FROM user ORDER BY created_at DESC, name LIMIT :limit OFFSET :offset`,
  ),
});

const usageRows = (store: Store) => ({
  /** Tokens charged since the given time, plus the prompt tokens of requests under way. */
  tokensSince: store.prepare<{ keyId: string; since: string }, { tokens: number }>(
    `SELECT (SELECT coalesce(sum(prompt_tokens + completion_tokens), 0) FROM usage
       WHERE key_id = :keyId AND ended_at >= :since)
     + (SELECT coalesce(sum(prompt_tokens), 0) FROM usage WHERE key_id = :keyId AND ended_at IS NULL) AS tokens`,
  ),
  chargesSince: store.prepare<{ keyId: string; since: string }, { ended_at: string; tokens: number }>(
    `SELECT ended_at, prompt_tokens + completion_tokens AS tokens FROM usage
     WHERE key_id = :keyId AND ended_at >= :since ORDER BY ended_at`,
  ),
  usage: store.prepare<
    UsageFilter & { limit: number; offset: number },
    UsageSums & { day: string; model_id: string; key_id: string }
  >(
    `SELECT substr(created_at, 1, 10) AS day, model_id, key_id, ${sums} FROM usage WHERE ${inDays}
     GROUP BY 1, 2, 3 ORDER BY 1 DESC, 2, 3 LIMIT :limit OFFSET :offset`,
  ),
  usageTotal: store.prepare<UsageFilter, UsageSums>(`SELECT ${sums} FROM usage WHERE ${inDays}`),
});

const auditRows = (store: Store) => ({
  addAct: store.prepare<AuditRow>(
    `INSERT INTO audit(seq, at, actor, key_id, act, subject, detail_json, request_id)
     VALUES(:seq, :at, :actor, :key_id, :act, :subject, :detail_json, :request_id)`,
  ),
  acts: store.prepare<[number, number], AuditRow>("SELECT * FROM audit ORDER BY seq DESC LIMIT ? OFFSET ?"),
});

export const accessRows = (store: Store) => ({
  ...keyRows(store),
  ...userRows(store),
  ...usageRows(store),
  ...auditRows(store),
});

export type AccessRows = ReturnType<typeof accessRows>;
