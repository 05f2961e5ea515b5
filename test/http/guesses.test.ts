// How many wrong keys an address may try, with the clock in hand.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createBucket } from "../../src/base/bucket.ts";
import { Failure } from "../../src/base/errors.ts";
import { durationText } from "../../src/domain/access/limits.ts";
import { createGuesses } from "../../src/http/guesses.ts";

describe("a bucket", () => {
  test("gives what it holds, fills as time goes by and never over", () => {
    const bucket = createBucket(3, 0.5, 1000);
    assert.deepEqual(
      [1, 2, 3, 4].map(() => bucket.take(1000)),
      [true, true, true, false],
    );
    assert.equal(bucket.waitMs(1000), 2000);
    assert.equal(bucket.fullMs(1000), 6000);
    assert.equal(bucket.take(2999), false);
    assert.equal(bucket.take(3000), true);
    assert.equal(bucket.left(1_000_000), 3);
  });

  test("is not filled by a clock that goes back", () => {
    const bucket = createBucket(1, 1, 5000);
    assert.ok(bucket.take(5000));
    assert.equal(bucket.take(0), false);
    assert.equal(bucket.take(5999), false);
    assert.ok(bucket.take(6000));
  });
});

describe("wrong keys", () => {
  const refusedAfter = (count: (address: string) => void, addressOf: (n: number) => string): number => {
    for (let n = 0; n < 1000; n++)
      try {
        count(addressOf(n));
      } catch (error) {
        assert.ok(error instanceof Failure && error.code === "too_many_requests");
        assert.ok((error.retryAfterSeconds ?? 0) >= 1);
        return n;
      }
    return Infinity;
  };

  test("are counted by address, and forgotten with time", () => {
    let now = 0;
    const { count } = createGuesses(() => now);
    const most = refusedAfter(count, () => "192.0.2.1");
    assert.ok(most > 1 && most <= 50, `${most}`);
    assert.doesNotThrow(() => count("192.0.2.2"));
    assert.throws(() => count("192.0.2.1"));
    now += 3_600_000;
    assert.equal(
      refusedAfter(count, () => "192.0.2.1"),
      most,
    );
  });

  test("of one /64 network count together, of two apart", () => {
    const { count } = createGuesses(() => 0);
    const most = refusedAfter(count, (n) => `2001:db8::${n.toString(16)}`);
    assert.ok(most < 100, `${most}`);
    assert.throws(() => count("2001:db8:0:0:ffff::1"));
    assert.doesNotThrow(() => count("2001:db8:0:1::1"));
    assert.doesNotThrow(() => count("::ffff:192.0.2.1"));
  });

  test("from very many addresses take a bounded room", () => {
    const { count } = createGuesses(() => 0);
    assert.equal(
      refusedAfter(count, () => "192.0.2.1"),
      20,
    );
    for (let n = 0; n < 10_001; n++) count(`10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`);
    // The first one was pushed out by others, and begins anew.
    assert.doesNotThrow(() => count("192.0.2.1"));
  });
});

test("durations are written as OpenAI's clients read them", () => {
  assert.deepEqual([0, 12, 999, 1000, 59_001, 60_000, 360_000, 3_600_000, 86_399_000].map(durationText), [
    "0ms",
    "12ms",
    "999ms",
    "1s",
    "1m0s",
    "1m0s",
    "6m0s",
    "1h0m0s",
    "23h59m59s",
  ]);
});
