// Rate limits of keys. Requests are counted in memory, with a token bucket per key. Tokens are summed from the usage
// rows, so that every use counts, even after a restart. A request is admitted while any tokens are left, and is charged
// for what it actually used.
import { type Bucket, createBucket } from "../../base/bucket.ts";
import { Failure } from "../../base/errors.ts";
import type { Clock } from "../../base/time.ts";
import type { AccessRows, KeyRow } from "./store.ts";

export type SetHeader = (name: string, value: string) => void;
export type Limited = Pick<KeyRow, "id" | "requests_per_minute" | "tokens_per_minute" | "tokens_per_day">;

export interface Limits {
  /** Counts a request and sets headers with what is left. Throws too_many_requests. */
  admit(key: Limited, spendsTokens: boolean, setHeader: SetHeader): void;
  forget(keyId: string): void;
}

const minuteMs = 60_000;
const dayMs = 86_400_000;

/** The current state of a token limit. */
interface Level {
  limit: number;
  left: number;
  /** Time until a request is admitted again; 0 if requests are admitted now. */
  waitMs: number;
  resetMs: number;
}

export function createLimits({ rows, clock }: { rows: AccessRows; clock: Clock }): Limits {
  const buckets = new Map<string, Bucket>();

  function countRequest(key: Limited, perMinute: number, setHeader: SetHeader): void {
    const now = clock.monotonicMs();
    const bucket = buckets.get(key.id) ?? createBucket(perMinute, perMinute / 60, now);
    buckets.set(key.id, bucket);
    const isTaken = bucket.take(now);
    setHeader("x-ratelimit-limit-requests", String(perMinute));
    setHeader("x-ratelimit-remaining-requests", String(Math.floor(bucket.left(now))));
    setHeader("x-ratelimit-reset-requests", durationText(bucket.fullMs(now)));
    if (!isTaken) throw tooMany(`The key's limit is ${perMinute} requests a minute`, bucket.waitMs(now));
  }

  function lastMinute(keyId: string, limit: number): Level {
    const now = Date.parse(clock.now());
    const since = new Date(now - minuteMs).toISOString();
    const used = rows.tokensSince.get({ keyId, since })!.tokens;
    const charges = rows.chargesSince.all({ keyId, since });
    const goneAt = (charge: { ended_at: string }): number => Date.parse(charge.ended_at) + minuteMs - now;
    let over = used - limit;
    const freeing = charges.find((charge) => {
      over -= charge.tokens;
      return over < 0;
    });
    const last = charges.at(-1);
    return {
      limit,
      left: Math.max(0, limit - used),
      // If the requests under way alone use up the limit, the time of their end is unknown, so the client waits one second.
      waitMs: used < limit ? 0 : freeing ? Math.max(1, goneAt(freeing)) : 1000,
      resetMs: last ? Math.max(0, goneAt(last)) : 0,
    };
  }

  function today(keyId: string, limit: number): Level {
    const now = Date.parse(clock.now());
    const midnight = now - (now % dayMs);
    const used = rows.tokensSince.get({ keyId, since: new Date(midnight).toISOString() })!.tokens;
    const resetMs = midnight + dayMs - now;
    return { limit, left: Math.max(0, limit - used), waitMs: used < limit ? 0 : resetMs, resetMs };
  }

  function checkTokens(key: Limited, setHeader: SetHeader): void {
    const levels: [string, Level][] = [];
    if (key.tokens_per_minute !== null) levels.push(["minute", lastMinute(key.id, key.tokens_per_minute)]);
    if (key.tokens_per_day !== null) levels.push(["day", today(key.id, key.tokens_per_day)]);
    if (levels.length === 0) return;
    // The headers describe only one token limit, so report the limit with the fewest tokens left.
    const [span, level] = levels.toSorted(([, a], [, b]) => a.left - b.left || b.waitMs - a.waitMs)[0]!;
    setHeader("x-ratelimit-limit-tokens", String(level.limit));
    setHeader("x-ratelimit-remaining-tokens", String(level.left));
    setHeader("x-ratelimit-reset-tokens", durationText(level.resetMs));
    if (level.waitMs > 0) throw tooMany(`The key's limit is ${level.limit} tokens a ${span}`, level.waitMs);
  }

  return {
    admit(key, spendsTokens, setHeader) {
      if (key.requests_per_minute !== null) countRequest(key, key.requests_per_minute, setHeader);
      if (spendsTokens) checkTokens(key, setHeader);
    },
    forget: (keyId) => void buckets.delete(keyId),
  };
}

const tooMany = (message: string, waitMs: number): Failure =>
  new Failure("too_many_requests", message, { retryAfterSeconds: Math.ceil(waitMs / 1000) });

/** Formats a duration as OpenAI's clients read it, such as 12ms, 1s or 6m0s. */
export function durationText(ms: number): string {
  if (ms < 1000) return `${Math.ceil(ms)}ms`;
  const seconds = Math.ceil(ms / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
  return `${hours > 0 ? `${hours}h` : ""}${seconds >= 60 ? `${minutes}m` : ""}${seconds % 60}s`;
}
