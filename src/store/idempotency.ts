// Requests with an Idempotency-Key are carried out once: the same request within a day is given the first answer again.
//
//   (none) ──► under way ──keep, in the transaction of what is made──► kept ──a day──► (none)
//                 └──failure: nothing was made──► (none)                └──what it made is deleted──► gone ──a day──► (none)
//
// Requests under way are recorded in memory only. A crash ends them, and leaves either what was made with its answer, or neither.
import { Failure } from "../base/errors.ts";
import type { Clock } from "../base/time.ts";
import type { Store } from "./open.ts";

/** Runs inside the caller's transaction. `subjects`: ids of the deletable resources that the answer describes. */
type Keep = (reply: unknown, subjects?: readonly string[]) => void;

export interface Idempotency {
  /**
   * Returns the first answer again, as JSON, or else the reply of `perform`. `request` is a digest of the request. Throws
   * idempotency_key_reused, request_in_progress, made_and_deleted, and what `perform` throws; nothing is kept then.
   */
  once<Reply>(
    ownerId: string,
    key: string,
    request: string,
    perform: (keep: Keep) => Promise<Reply>,
  ): Promise<{ again: string } | { reply: Reply }>;
}

interface Row {
  request_sha256: string;
  reply_json: string | null;
}

const keptMs = 24 * 3_600_000;

export function createIdempotency({ store, clock }: { store: Store; clock: Clock }): Idempotency {
  const sql = {
    expire: store.prepare<[string]>("DELETE FROM kept_reply WHERE created_at <= ?"),
    get: store.prepare<[string, string], Row>(
      "SELECT request_sha256, reply_json FROM kept_reply WHERE owner_id = ? AND key = ?",
    ),
    add: store.prepare<[string, string, string, string, string, string]>(
      "INSERT INTO kept_reply(owner_id, key, request_sha256, reply_json, subjects_json, created_at) VALUES(?, ?, ?, ?, ?, ?)",
    ),
  };
  /** The requests under way, by owner and key. */
  const underWay = new Map<string, string>();

  return {
    async once(ownerId, key, request, perform) {
      sql.expire.run(new Date(Date.parse(clock.now()) - keptMs).toISOString());
      // Ids contain no spaces.
      const mark = `${ownerId} ${key}`;
      const kept = sql.get.get(ownerId, key);
      const first = kept?.request_sha256 ?? underWay.get(mark);
      if (first !== undefined && first !== request) throw new Failure("idempotency_key_reused");
      if (kept?.reply_json === null) throw new Failure("made_and_deleted");
      if (kept !== undefined) return { again: kept.reply_json };
      if (first !== undefined) throw new Failure("request_in_progress");
      underWay.set(mark, request);
      try {
        let isKept = false;
        const keep: Keep = (reply, subjects = []) => {
          sql.add.run(ownerId, key, request, JSON.stringify(reply), JSON.stringify(subjects), clock.now());
          isKept = true;
        };
        const reply = await perform(keep);
        // It created nothing, so it had no transaction in which to keep its reply.
        if (!isKept) keep(reply);
        return { reply };
      } finally {
        underWay.delete(mark);
      }
    },
  };
}

/** Returns a function that clears the kept answers about a deleted resource; call it in the transaction that deletes that. */
export function prepareForgetting(store: Store): (ownerId: string, subject: string) => void {
  const forget = store.prepare<[string, string]>(
    `UPDATE kept_reply SET reply_json = NULL
     WHERE owner_id = ? AND EXISTS(SELECT 1 FROM json_each(subjects_json) WHERE value = ?)`,
  );
  return (ownerId, subject) => void forget.run(ownerId, subject);
}
