// Delivers what is pending: a line per target and subject, each in the order of its events, all lines at the same time.
//
//   pending ──2xx──► delivered ──a week──► (removed)
//    │  ▲ └──the last of the attempts, or a day after the event──► failed, kept with its last error
//    └──┘ anything else: again, later and later
//
// I1 a subject's next event is not sent to a target before the one before it is delivered or failed there
// I2 the rows alone are the truth: whatever an attempt's end, it is sent again under the same id unless its row says otherwise
// I3 once a target has answered 410, no attempt is begun there before the next start; what is pending for it stays so
import type { Log } from "../../base/log.ts";
import { type Clock, sleep as sleepReally } from "../../base/time.ts";
import type { Store } from "../../store/open.ts";
import { type Outcome, send, type Target } from "./send.ts";
import type { PendingRow, WebhooksSql } from "./store.ts";

/** README.md tells of these. */
export const limits = {
  attemptMs: 20_000,
  /** Before the second attempt; it doubles from one to the next, up to `longestRetryMs`. */
  firstRetryMs: 5_000,
  longestRetryMs: 3_600_000,
  attempts: 50,
  /** From the event on, counted at the end of an attempt: after a long stop of the appliance each is tried once more. */
  ageMs: 24 * 3_600_000,
  /** To one target at the same time, so that many subjects are no flood. A line that waits for its next attempt takes none. */
  atOnce: 8,
  /** How long what is delivered is remembered. */
  keptMs: 7 * 24 * 3_600_000,
} as const;

/** While the disk refuses what came of an attempt. */
const writeAgainMs = 1000;

export interface DeliveryParts {
  store: Store;
  sql: WebhooksSql;
  clock: Clock;
  log: Log;
  targets: readonly Target[];
  attemptMs?: number;
  sleep?: typeof sleepReally;
  /** From 0 to 1. */
  random?: () => number;
}

export interface Delivery {
  /** Something may be pending for that subject. */
  look(subjectId: string): void;
  /** Ends what is under way; resolves once nothing is. */
  close(): Promise<void>;
}

/** A target, and what is sent to it. */
interface Route {
  target: Target;
  /** Its place in the log and nothing more: paths and queries may hold what only the receiver should know. */
  origin: string;
  /** The subjects that have a line now. */
  lines: Set<string>;
  gone: AbortController;
  /** Aborted when nothing more is to be sent. */
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
        // No event comes between the look that finds none and the end of the line: enqueue has us look after its own turn.
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

  /** By the wall clock, since it outlives a restart; a clock that was set back must not keep it for longer than any wait. */
  function waitOf({ next_attempt_at: at }: PendingRow): number {
    const left = at === null ? 0 : Date.parse(at) - Date.parse(clock.now());
    return Math.min(Math.max(left, 0), limits.longestRetryMs);
  }

  async function attempt({ target, ended }: Route, row: PendingRow): Promise<Outcome | null> {
    if (ended.aborted) return null;
    const message = { id: row.webhook_id, payload: row.payload };
    const seconds = Math.floor(Date.parse(clock.now()) / 1000);
    // A target that is gone for one subject may still acknowledge what is on its way for another.
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
        "Nothing is sent there before the next start. Mend the receiver, or take it out of PLUMBLINE_WEBHOOKS.";
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

  /** Half of it by chance, so that what failed together does not come back together. */
  function backOffMs(attempts: number): number {
    const most = Math.min(limits.firstRetryMs * 2 ** (attempts - 1), limits.longestRetryMs);
    return Math.round((most / 2) * (1 + random()));
  }

  /** A disk that refuses is tried again until we go down; to send once more would not mend it. */
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

/** At most so many at the same time, the others in the order in which they came. */
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
