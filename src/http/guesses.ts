// Counts wrong API keys by address: a client that tries many is slowed down. A valid key from that address still works.
import { type Bucket, createBucket } from "../base/bucket.ts";
import { Failure } from "../base/errors.ts";
import { networkOf } from "./address.ts";

const burst = 20;
const perSecond = 1;
const maxAddresses = 10_000;

export interface Guesses {
  /** Counts a wrong key. Throws too_many_requests when there were too many. */
  count(address: string): void;
}

export function createGuesses(nowMs: () => number = () => performance.now()): Guesses {
  const buckets = new Map<string, Bucket>();

  /** Beyond maxAddresses, the least recently seen one is dropped. */
  function bucketOf(address: string): Bucket {
    const network = networkOf(address);
    const bucket = buckets.get(network) ?? createBucket(burst, perSecond, nowMs());
    buckets.delete(network);
    buckets.set(network, bucket);
    if (buckets.size > maxAddresses) buckets.delete(buckets.keys().next().value!);
    return bucket;
  }

  return {
    count(address) {
      const bucket = bucketOf(address);
      if (!bucket.take(nowMs()))
        throw new Failure("too_many_requests", "Too many wrong keys from this address", {
          retryAfterSeconds: Math.ceil(bucket.waitMs(nowMs()) / 1000),
        });
    },
  };
}
