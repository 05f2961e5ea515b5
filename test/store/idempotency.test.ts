// What is under way under a key, and what of it outlives the process.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import type { FailureCode } from "../../src/base/errors.ts";
import { systemClock } from "../../src/base/time.ts";
import { createIdempotency, type Idempotency } from "../../src/store/idempotency.ts";
import { openStore, type Store } from "../../src/store/open.ts";

let folder: string;
let store: Store;
let once: Idempotency["once"];
let isKnown: Idempotency["isKnown"];
const open = (): void => {
  store = openStore(join(folder, "plumbline.db"));
  ({ once, isKnown } = createIdempotency({ store, clock: systemClock }));
};
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "plumbline-once-"));
  open();
  store.prepare("INSERT INTO user VALUES('u', 'ada', ''), ('v', 'bob', '')").run();
});
afterEach(() => {
  store.close();
  rmSync(folder, { recursive: true, force: true });
});

const fails = (code: FailureCode) => ({ code });
const never = async (): Promise<never> => assert.fail("it is carried out again");

test("under way: the same request is told to wait, another is refused, another key's and owner's are none of it", async () => {
  const gate = Promise.withResolvers<void>();
  const first = once("u", "k", "a", async () => {
    await gate.promise;
    return { id: 1 };
  });
  await assert.rejects(once("u", "k", "a", never), fails("request_in_progress"));
  assert.deepEqual([isKnown("u", "k"), isKnown("u", "l"), isKnown("v", "k")], [true, false, false]);
  await assert.rejects(once("u", "k", "b", never), fails("idempotency_key_reused"));
  const at = async (id: number): Promise<{ id: number }> => ({ id });
  assert.deepEqual(await once("u", "l", "a", () => at(2)), { reply: { id: 2 } });
  assert.deepEqual(await once("v", "k", "b", () => at(3)), { reply: { id: 3 } });
  gate.resolve();
  assert.deepEqual(await first, { reply: { id: 1 } });
  assert.deepEqual(await once("u", "k", "a", never), { again: '{"id":1}' });
  assert.deepEqual([isKnown("u", "k"), isKnown("v", "l")], [true, false]);
  await assert.rejects(once("u", "k", "b", never), fails("idempotency_key_reused"));
});

test("a failure keeps nothing, with whatever request the key comes next", async () => {
  const failure = new Error("no");
  await assert.rejects(
    once("u", "k", "a", async () => Promise.reject(failure)),
    failure,
  );
  assert.deepEqual(await once("u", "k", "b", async () => 1), { reply: 1 });
});

test("an answer that was kept with what it tells of holds, though the request failed after that", async () => {
  const failure = new Error("after the commit");
  const asked = once("u", "k", "a", async (keep) => {
    store.transaction(() => keep({ id: 7 }));
    throw failure;
  });
  await assert.rejects(asked, failure);
  assert.deepEqual(await once("u", "k", "a", never), { again: '{"id":7}' });
});

test("a process that ended before the commit leaves the key as good as new; after it, the answer", async () => {
  const neverEnding = once("u", "before", "a", () => new Promise<never>(() => {}));
  neverEnding.catch(() => {});
  once("u", "after", "a", (keep) => {
    store.transaction(() => keep("made"));
    return new Promise<never>(() => {});
  }).catch(() => {});
  await assert.rejects(once("u", "before", "a", never), fails("request_in_progress"));
  store.close();
  open();
  assert.deepEqual(await once("u", "before", "b", async () => "anew"), { reply: "anew" });
  assert.deepEqual(await once("u", "after", "a", never), { again: '"made"' });
});
