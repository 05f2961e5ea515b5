// All SQL of webhooks.
import type { Store } from "../../store/open.ts";

export type DeliveryState = "pending" | "delivered" | "failed";

export interface PendingRow {
  seq: number;
  target: string;
  webhook_id: string;
  kind: string;
  subject_id: string;
  payload: string;
  attempts: number;
  next_attempt_at: string | null;
  created_at: string;
}

interface NewRow extends Omit<PendingRow, "attempts" | "next_attempt_at"> {
  owner_id: string;
}

type Which = Pick<PendingRow, "target" | "seq">;

export const prepareWebhooks = (store: Store) => ({
  insert: store.prepare<NewRow>(
    `INSERT INTO webhook_delivery(seq, target, webhook_id, owner_id, kind, subject_id, payload, state, created_at)
     VALUES(:seq, :target, :webhook_id, :owner_id, :kind, :subject_id, :payload, 'pending', :created_at)`,
  ),
  /** The subject's first event that is neither acknowledged by the target nor given up. */
  first: store.prepare<[target: string, subjectId: string], PendingRow>(
    "SELECT * FROM webhook_delivery WHERE target = ? AND subject_id = ? AND state = 'pending' ORDER BY seq LIMIT 1",
  ),
  pendingSubjects: store.prepare<[target: string], { subject_id: string }>(
    "SELECT subject_id FROM webhook_delivery WHERE target = ? AND state = 'pending' GROUP BY subject_id ORDER BY min(seq)",
  ),
  deliver: store.prepare<Which & { at: string }>(
    `UPDATE webhook_delivery SET state = 'delivered', attempts = attempts + 1, payload = NULL, ended_at = :at
     WHERE target = :target AND seq = :seq AND state = 'pending'`,
  ),
  postpone: store.prepare<Which & { error: string; nextAttemptAt: string }>(
    `UPDATE webhook_delivery SET attempts = attempts + 1, last_error = :error, next_attempt_at = :nextAttemptAt
     WHERE target = :target AND seq = :seq AND state = 'pending'`,
  ),
  giveUp: store.prepare<Which & { error: string; at: string }>(
    `UPDATE webhook_delivery SET state = 'failed', attempts = attempts + 1, last_error = :error, ended_at = :at
     WHERE target = :target AND seq = :seq AND state = 'pending'`,
  ),
  /** Gives up the pending events of targets whose URL is not in `targets`, a JSON list. */
  giveUpOthers: store.prepare<{ targets: string; error: string; at: string }>(
    `UPDATE webhook_delivery SET state = 'failed', last_error = :error, ended_at = :at
     WHERE state = 'pending' AND target NOT IN(SELECT value FROM json_each(:targets))`,
  ),
  expire: store.prepare<[before: string]>("DELETE FROM webhook_delivery WHERE state = 'delivered' AND ended_at <= ?"),
  counts: store.prepare<[], { state: DeliveryState; count: number }>(
    "SELECT state, count(*) AS count FROM webhook_delivery GROUP BY state",
  ),
});

export type WebhooksSql = ReturnType<typeof prepareWebhooks>;
