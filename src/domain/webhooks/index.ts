// Webhooks: what happens here is told to the URLs that the settings name, and to nobody where they name none. An event is a row of
// the outbox, written in the transaction of what it tells of: it is sent if that was committed, and only then.
//
// Each target sees each event of a subject once and in order, by its webhook-id: what was sent and not acknowledged is sent again
// under the same id. This is a room and no kind of job: it keeps thousands of short exchanges in order, where the queue keeps few long
// works apart.
import { newId } from "../../base/ids.ts";
import type { Store } from "../../store/open.ts";
import { type Delivery, type DeliveryParts, limits, startDelivery } from "./delivery.ts";
import type { Target } from "./send.ts";
import { type DeliveryState, prepareWebhooks } from "./store.ts";

export interface WebhookEvent {
  ownerId: string;
  /** What happened, as in `alignment.completed`: words of letters, digits and underscores with full stops between. */
  kind: string;
  /** What it happened to: its events are delivered in order. */
  subjectId: string;
  /** JSON: `data` of what is sent. */
  body: Record<string, unknown>;
}

/** Inside the caller's transaction. */
export type EnqueueWebhook = (event: WebhookEvent) => void;

export interface Webhooks {
  enqueue: EnqueueWebhook;
  /** Begins to deliver, with what an earlier life has left. */
  start(): void;
  counts(): { state: DeliveryState; count: number }[];
  close(): Promise<void>;
}

export type WebhooksParts = Omit<DeliveryParts, "sql"> & { store: Store };

export function createWebhooks(parts: WebhooksParts): Webhooks {
  const { store, clock, targets, log } = parts;
  const sql = prepareWebhooks(store);
  let delivery: Delivery | null = null;

  /** Where the settings name a target no longer, nothing leaves for it. */
  function forgetOtherTargets(): void {
    const error = "PLUMBLINE_WEBHOOKS names this target no longer";
    const named = JSON.stringify(targets.map(({ url }) => url));
    const { changes } = sql.giveUpOthers.run({ targets: named, error, at: clock.now() });
    if (changes > 0) log("error", "webhook.given_up", { events: changes, error });
  }

  return {
    enqueue({ ownerId, kind, subjectId, body }) {
      if (targets.length === 0) return;
      const now = clock.now();
      const event = {
        webhook_id: newId("webhook"),
        owner_id: ownerId,
        kind,
        subject_id: subjectId,
        payload: JSON.stringify({ type: kind, timestamp: now, subject_id: subjectId, data: body }),
        created_at: now,
      };
      const seq = store.nextSeq();
      for (const { url } of targets) sql.insert.run({ ...event, seq, target: url });
      // By then the caller's transaction, which is synchronous, has been committed, or there is nothing to be found.
      setImmediate(() => delivery?.look(subjectId));
    },

    start() {
      store.transaction(() => {
        forgetOtherTargets();
        sql.expire.run(new Date(Date.parse(clock.now()) - limits.keptMs).toISOString());
      });
      delivery = startDelivery({ ...parts, sql });
    },

    counts: () => sql.counts.all(),

    async close() {
      await delivery?.close();
    },
  };
}

/** Of the settings: a secret for all, or one each. */
export const targetsOf = (urls: readonly string[], secrets: readonly string[]): Target[] =>
  urls.map((url, at) => ({ url, key: keyOf(secrets.length === 1 ? secrets[0]! : secrets[at]!) }));

const keyOf = (secret: string): Buffer => Buffer.from(secret.slice("whsec_".length), "base64");
