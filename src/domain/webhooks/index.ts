// Webhooks: events are sent to the URLs that the settings name, and nowhere if they name none. An event is one row of the
// outbox per target, written in the transaction of the change that it reports, so that it is sent only if that transaction
// was committed.
//
// Each target gets the events of a subject in order. An unacknowledged event is sent again under the same webhook-id, so that a
// target can drop repeats. The job queue is not used, because it is made for a few long jobs that run independently; here
// thousands of short requests must be kept in order.
import { newId } from "../../base/ids.ts";
import type { Store } from "../../store/open.ts";
import { type Delivery, type DeliveryParts, limits, startDelivery } from "./delivery.ts";
import type { Target } from "./send.ts";
import { type DeliveryState, prepareWebhooks } from "./store.ts";

export interface WebhookEvent {
  ownerId: string;
  /**
   * The kind of event, such as `alignment.completed`: words of letters, digits and underscores, separated by full
   * stops.
   */
  kind: string;
  /** What the event is about. The events of one subject are delivered in order. */
  subjectId: string;
  /** The field `data` of the JSON that is sent. */
  body: Record<string, unknown>;
}

/** Adds an event to the outbox, inside the caller's transaction. */
export type EnqueueWebhook = (event: WebhookEvent) => void;

export interface Webhooks {
  enqueue: EnqueueWebhook;
  /** Starts delivery, including events left from before a restart. */
  start(): void;
  counts(): { state: DeliveryState; count: number }[];
  close(): Promise<void>;
}

export type WebhooksParts = Omit<DeliveryParts, "sql"> & { store: Store };

export function createWebhooks(parts: WebhooksParts): Webhooks {
  const { store, clock, targets, log } = parts;
  const sql = prepareWebhooks(store);
  let delivery: Delivery | null = null;

  /** Gives up pending events for targets that the settings no longer name. */
  function forgetOtherTargets(): void {
    const error = "PLUMBLINE_WEBHOOKS no longer names this target";
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
      // By then the caller's synchronous transaction has ended. If it was rolled back, there is no row to find.
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

/** The targets of the settings. There is one secret for all targets, or one for each. */
export const targetsOf = (urls: readonly string[], secrets: readonly string[]): Target[] =>
  urls.map((url, at) => ({ url, key: keyOf(secrets.length === 1 ? secrets[0]! : secrets[at]!) }));

const keyOf = (secret: string): Buffer => Buffer.from(secret.slice("whsec_".length), "base64");
