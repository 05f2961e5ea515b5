// Counts wrong API keys by network. After too many, further wrong keys get too_many_requests. A valid key from there still works.
import { type Bucket, createBucket } from "../base/bucket.ts";
import { Failure } from "../base/errors.ts";
import { networkOf } from "./address.ts";

const burst = 20;
const perSecond = 1;
const maxAddresses = 10_000;

export interface Guesses {
  /** Counts a wrong key. Throws too_many_requests if there were too many. */
  count(address: string): void;
}

export function createGuesses(nowMs: () => number = () => performance.now()): Guesses {
  const buckets = new Map<string, Bucket>();

  /** Returns the bucket of an address's network. Beyond maxAddresses, the least recently seen network is dropped. */
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
