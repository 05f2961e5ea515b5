// Work that failed is done again, as long as there is hope; its waits take no time here.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import { createLog } from "../../src/base/log.ts";
import { createPatience, type PatienceParts } from "../../src/base/patience.ts";

/** A clock that moves only when something waits. */
function patienceOf(more: Partial<PatienceParts> = {}) {
  const state = { ms: 5_000_000, waits: [] as number[], lines: [] as Record<string, unknown>[] };
  const patience = createPatience({
    clock: { monotonicMs: () => state.ms },
    log: createLog("debug", (line) => void state.lines.push(JSON.parse(line) as Record<string, unknown>)),
    mayPass: ({ code }) => code === "engine_busy",
    random: () => 0,
    async sleep(ms, signal) {
      if (signal?.aborted) return;
      state.waits.push(ms / 1000);
      state.ms += ms;
    },
    ...more,
  });
  return { patience, state };
}

const busy = (retryAfterSeconds?: number) =>
  new Failure("engine_busy", "It is busy", retryAfterSeconds === undefined ? {} : { retryAfterSeconds });
const { signal } = new AbortController();

/** Throws the failures, in turn, and then says so. */
const failing = (...failures: unknown[]) =>
  async function work(): Promise<string> {
    if (failures.length > 0) throw failures.shift();
    return "done";
  };

describe("patience", () => {
  test("waits longer each time, up to a minute, and logs each wait once", async () => {
    const { patience, state } = patienceOf();
    assert.equal(await patience("it", failing(...Array.from({ length: 9 }, () => busy())), signal), "done");
    assert.deepEqual(state.waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    assert.equal(state.lines.length, 9);
    const { level, event, whom, tries, seconds, error } = state.lines[2]!;
    assert.deepEqual(
      { level, event, whom, tries, seconds, error },
      { level: "warn", event: "patience.waiting", whom: "it", tries: 3, seconds: 4, error: "It is busy" },
    );
  });

  test("waits as long as the failure asks, and up to a quarter longer by chance", async () => {
    const { patience, state } = patienceOf({ random: () => 1 });
    await patience("it", failing(busy(), busy(7), busy(1)), signal);
    assert.deepEqual(state.waits, [1.25, 8.75, 5]);
  });

  test("ends without a success for half an hour, and says for how long it was tried", async () => {
    const { patience, state } = patienceOf();
    let tried = 0;
    const work = async () => {
      tried++;
      throw busy(tried === 1 ? 1000 : 5000);
    };
    await assert.rejects(patience("it", work, signal), {
      code: "engine_busy",
      message: "It is busy (retried for 30 minutes)",
    });
    assert.deepEqual(state.waits, [1000, 800], "the last wait ends with the patience");
    assert.equal(tried, 3);
  });

  test("begins anew with a success of other work for the same one, and of no other", async () => {
    for (const [whom, seconds] of [
      ["it", 2700],
      ["another", 1800],
    ] as const) {
      const { patience, state } = patienceOf();
      const began = state.ms;
      const work = async () => {
        if (state.ms - began === 900_000) await patience(whom, failing(), signal);
        throw busy(900);
      };
      await assert.rejects(patience("it", work, signal), { code: "engine_busy" });
      assert.equal((state.ms - began) / 1000, seconds);
    }
  });

  test("is whole for work that begins long after the last success", async () => {
    const { patience, state } = patienceOf();
    await patience("it", failing(), signal);
    state.ms += 5 * 3_600_000;
    assert.equal(await patience("it", failing(busy()), signal), "done");
  });

  test("is not for failures that stay, nor for errors of the program", async () => {
    const { patience, state } = patienceOf();
    await assert.rejects(patience("it", failing(new Failure("not_found")), signal), { code: "not_found" });
    await assert.rejects(patience("it", failing(new TypeError("oh")), signal), TypeError);
    assert.deepEqual(state.waits, []);
  });

  test("ends at once with the signal, in a wait and before one", async () => {
    const leaving = new AbortController();
    const { patience, state } = patienceOf({ sleep: async () => leaving.abort(new Error("left")) });
    let tried = 0;
    const work = async () => {
      tried++;
      throw busy();
    };
    await assert.rejects(patience("it", work, leaving.signal), /left/);
    await assert.rejects(patience("it", work, leaving.signal), { code: "engine_busy" });
    assert.equal(tried, 2);
    assert.equal(state.lines.length, 1);
  });
});
