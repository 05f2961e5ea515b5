// Carries out a request with an Idempotency-Key only once. If the same request comes again within a day, it gets the first answer again.
//
//   (none) ──► under way ──keep, in the transaction of what is made──► kept ──a day──► (none)
//                 └──failure: nothing was made──► (none)                └──what it made is deleted──► gone ──a day──► (none)
//
// Requests under way are recorded in memory only. A crash ends them. It leaves either both the created resource and its answer, or neither.
import { Failure } from "../base/errors.ts";
import type { Clock } from "../base/time.ts";
import type { Store } from "./open.ts";

/** Keeps an answer, inside the caller's transaction. `subjects` are the ids of the deletable resources that the answer describes. */
type Keep = (reply: unknown, subjects?: readonly string[]) => void;

export interface Idempotency {
  /**
   * Returns the first answer as JSON if there is one; otherwise calls `perform` and returns its reply. `request` is a digest of the
   * request. Throws idempotency_key_reused, request_in_progress, made_and_deleted, or what `perform` throws. If `perform` throws before
   * its transaction has been committed, no answer is kept.
   */
  once<Reply>(
    ownerId: string,
    key: string,
    request: string,
    perform: (keep: Keep) => Promise<Reply>,
  ): Promise<{ again: string } | { reply: Reply }>;
  /** Whether a request with this key is under way or was answered, so that `once` will perform nothing. */
  isKnown(ownerId: string, key: string): boolean;
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
  /** The digests of the requests under way, by owner and key. */
  const underWay = new Map<string, string>();
  // The mark is unambiguous, because ids contain no spaces.
  const markOf = (ownerId: string, key: string): string => `${ownerId} ${key}`;
  const keptOf = (ownerId: string, key: string): Row | undefined => {
    sql.expire.run(new Date(Date.parse(clock.now()) - keptMs).toISOString());
    return sql.get.get(ownerId, key);
  };

  return {
    isKnown: (ownerId, key) => underWay.has(markOf(ownerId, key)) || keptOf(ownerId, key) !== undefined,
    async once(ownerId, key, request, perform) {
      const mark = markOf(ownerId, key);
      const kept = keptOf(ownerId, key);
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
        // `perform` created nothing, so it had no transaction in which to keep its reply.
        if (!isKept) keep(reply);
        return { reply };
      } finally {
        underWay.delete(mark);
      }
    },
  };
}

/** Returns a function that clears the kept answers about a resource. Call that function in the transaction that deletes the resource. */
export function prepareForgetting(store: Store): (ownerId: string, subject: string) => void {
  const forget = store.prepare<[string, string]>(
    `UPDATE kept_reply SET reply_json = NULL
     WHERE owner_id = ? AND EXISTS(SELECT 1 FROM json_each(subjects_json) WHERE value = ?)`,
  );
  return (ownerId, subject) => void forget.run(ownerId, subject);
}
