// A token bucket with a capacity and a refill rate. The time is a parameter, so that tests can control it.

export interface Bucket {
  /** Takes one token. Returns false and takes nothing if less than one token is left. */
  take(nowMs: number): boolean;
  left(nowMs: number): number;
  /** Milliseconds until a token can be taken; 0 if one can be taken now. */
  waitMs(nowMs: number): number;
  /** Milliseconds until the bucket is full. */
  fullMs(nowMs: number): number;
}

export function createBucket(capacity: number, perSecond: number, startMs: number): Bucket {
  let level = capacity;
  let filledAt = startMs;
  const fill = (nowMs: number): number => {
    level = Math.min(capacity, level + (Math.max(0, nowMs - filledAt) / 1000) * perSecond);
    filledAt = Math.max(filledAt, nowMs);
    return level;
  };
  return {
    take(nowMs) {
      if (fill(nowMs) < 1) return false;
      level -= 1;
      return true;
    },
    left: fill,
    waitMs: (nowMs) => (Math.max(0, 1 - fill(nowMs)) / perSecond) * 1000,
    fullMs: (nowMs) => ((capacity - fill(nowMs)) / perSecond) * 1000,
  };
}
