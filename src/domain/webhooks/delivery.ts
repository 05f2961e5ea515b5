// Delivers pending events. Each pair of target and subject has a line, which sends the events of the pair in order. Lines run
// concurrently.
//
//   pending ──2xx──► delivered ──a week──► (removed)
//    │  ▲ └──the last of the attempts, or a day after the event──► failed, kept with its last error
//    └──┘ anything else: retried with growing delay
//
// I1 a subject's next event is not sent to a target until the previous one is delivered or failed there
// I2 only the rows decide: after any attempt the event is sent again under the same id, unless its row is delivered or failed
// I3 once a target has answered 410, it gets no further attempt before the next start; its pending events stay pending
import type { Log } from "../../base/log.ts";
import { type Clock, sleep as sleepReally } from "../../base/time.ts";
import type { Store } from "../../store/open.ts";
import { type Outcome, send, type Target } from "./send.ts";
import type { PendingRow, WebhooksSql } from "./store.ts";

/** README.md documents these limits. */
export const limits = {
  attemptMs: 20_000,
  /** Delay before the second attempt; it doubles with each attempt, up to `longestRetryMs`. */
  firstRetryMs: 5_000,
  longestRetryMs: 3_600_000,
  attempts: 50,
  /**
   * Maximum age of an event. It is checked at the end of an attempt, so that each event is tried once more after a long stop
   * of the appliance.
   */
  ageMs: 24 * 3_600_000,
  /**
   * Maximum number of concurrent attempts to one target, so that many subjects do not flood it. A line that waits for its
   * next attempt is not counted.
   */
  atOnce: 8,
  /** How long delivered events are kept. */
  keptMs: 7 * 24 * 3_600_000,
} as const;

/** Delay before the result of an attempt is written again after a failed write. */
const writeAgainMs = 1000;

export interface DeliveryParts {
  store: Store;
  sql: WebhooksSql;
  clock: Clock;
  log: Log;
  targets: readonly Target[];
  attemptMs?: number;
  sleep?: typeof sleepReally;
  /** A random number from 0 to 1. */
  random?: () => number;
}

export interface Delivery {
  /** Begins to send the subject's pending events to all targets, unless that is already under way. */
  look(subjectId: string): void;
  /** Aborts the attempts under way. Resolves once all lines have ended. */
  close(): Promise<void>;
}

/** A target and the state of its deliveries. */
interface Route {
  target: Target;
  /** The target as the log shows it. Paths and queries are left out, since they may hold secrets of the receiver. */
  origin: string;
  /** Subjects that have a running line. */
  lines: Set<string>;
  gone: AbortController;
  /** Aborted when nothing more may be sent. */
  ended: AbortSignal;
  inTurn: <T>(work: () => Promise<T>) => Promise<T>;
}

export function startDelivery(parts: DeliveryParts): Delivery {
  const { store, sql, clock, log, sleep = sleepReally, random = Math.random, attemptMs = limits.attemptMs } = parts;
  const ending = new AbortController();
  const lines = new Set<Promise<void>>();
  const routes = parts.targets.map((target): Route => {
    const gone = new AbortController();
    const ended = AbortSignal.any([ending.signal, gone.signal]);
    const { origin } = new URL(target.url);
    return { target, origin, lines: new Set(), gone, ended, inTurn: createTurns(limits.atOnce) };
  });

  function open(route: Route, subjectId: string): void {
    if (route.ended.aborted || route.lines.has(subjectId)) return;
    route.lines.add(subjectId);
    const line = deliverInOrder(route, subjectId)
      .catch((error) => log("error", "webhook.line_failed", { target: route.origin, subjectId, error }))
      .finally(() => lines.delete(line));
    lines.add(line);
  }

  async function deliverInOrder(route: Route, subjectId: string): Promise<void> {
    try {
      for (;;) {
        // No event can be lost between this query and the end of the line, because enqueue calls `look` in a later turn of
        // the event loop.
        const row = sql.first.get(route.target.url, subjectId);
        if (!row) return;
        await sleep(waitOf(row), route.ended);
        const outcome = await route.inTurn(() => attempt(route, row));
        if (outcome) await untilWritten(() => store.transaction(() => settle(route, row, outcome)));
        if (route.ended.aborted) return;
      }
    } finally {
      route.lines.delete(subjectId);
    }
  }

  /**
   * Milliseconds until the next attempt. They are measured with the wall clock, because its times survive a restart, and are
   * capped in case the clock was set back.
   */
  function waitOf({ next_attempt_at: at }: PendingRow): number {
    const left = at === null ? 0 : Date.parse(at) - Date.parse(clock.now());
    return Math.min(Math.max(left, 0), limits.longestRetryMs);
  }

  async function attempt({ target, ended }: Route, row: PendingRow): Promise<Outcome | null> {
    if (ended.aborted) return null;
    const message = { id: row.webhook_id, payload: row.payload };
    const seconds = Math.floor(Date.parse(clock.now()) / 1000);
    // Abort the attempt only when the appliance closes, because a target that answered 410 for one subject may still
    // acknowledge an event of another subject.
    return send(target, message, { seconds, timeoutMs: attemptMs, signal: ending.signal });
  }

  function settle(route: Route, row: PendingRow, outcome: Outcome): void {
    const { target, seq, webhook_id: webhookId, kind, subject_id: subjectId } = row;
    const now = clock.now();
    const attempts = row.attempts + 1;
    const about = { webhookId, target: route.origin, kind, subjectId, attempts };
    if (outcome.acknowledged) {
      sql.deliver.run({ target, seq, at: now });
      sql.expire.run(new Date(Date.parse(now) - limits.keptMs).toISOString());
      log("debug", "webhook.delivered", about);
      return;
    }
    const { error, isGone, retryAfterMs } = outcome;
    if (isGone) {
      const hint =
        "Nothing more is sent to this target until the next start. Repair the receiver, or remove it from PLUMBLINE_WEBHOOKS.";
      log("error", "webhook.target_gone", { ...about, error, hint });
      route.gone.abort();
    }
    if (attempts >= limits.attempts || Date.parse(now) - Date.parse(row.created_at) >= limits.ageMs) {
      sql.giveUp.run({ target, seq, error, at: now });
      log("error", "webhook.given_up", { ...about, error });
      return;
    }
    const retryMs = Math.max(backOffMs(attempts), Math.min(retryAfterMs, limits.longestRetryMs));
    sql.postpone.run({ target, seq, error, nextAttemptAt: new Date(Date.parse(now) + retryMs).toISOString() });
    log("warn", "webhook.attempt_failed", { ...about, error, retryMs });
  }

  /** Delay before the next attempt: exponential, with a random half, so that events that failed together are retried apart. */
  function backOffMs(attempts: number): number {
    const most = Math.min(limits.firstRetryMs * 2 ** (attempts - 1), limits.longestRetryMs);
    return Math.round((most / 2) * (1 + random()));
  }

  /** Retries a failed write until the appliance closes; sending the event again would not help. */
  async function untilWritten(write: () => void): Promise<void> {
    for (;;)
      try {
        write();
        return;
      } catch (error) {
        log("error", "webhook.unwritten", { error });
        if (ending.signal.aborted) return;
        await sleep(writeAgainMs, ending.signal);
      }
  }

  for (const route of routes)
    for (const { subject_id } of sql.pendingSubjects.all(route.target.url)) open(route, subject_id);

  return {
    look(subjectId) {
      for (const route of routes) open(route, subjectId);
    },
    async close() {
      ending.abort();
      await Promise.all(lines);
    },
  };
}

/** Returns a function that runs at most `count` tasks at a time. Further tasks begin in the order in which they came. */
function createTurns(count: number): Route["inTurn"] {
  let free = count;
  const waiting: (() => void)[] = [];
  return async (work) => {
    if (free > 0) free--;
    else await new Promise<void>((begin) => void waiting.push(begin));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else free++;
    }
  };
}
