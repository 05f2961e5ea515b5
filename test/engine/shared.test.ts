// A resource that its users share: opened once for all who come meanwhile, and never twice at a time.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { shared } from "../../src/engine/serve/shared.ts";

test("users at the same time share what is opened, and the next waits until it is closed", async () => {
  const events: string[] = [];
  const using = shared(async () => {
    events.push("open");
    await setImmediate();
    return {
      close: async () => {
        await setImmediate();
        events.push("close");
      },
    };
  });
  const gate = Promise.withResolvers<void>();
  const first = using(() => gate.promise);
  const second = using(async () => void events.push("second"));
  await second;
  assert.deepEqual(events, ["open", "second"]);
  gate.resolve();
  // The last user leaves in the next tasks, so this one comes while the resource is closed.
  await gate.promise.then().then();
  await Promise.all([first, using(async () => void events.push("third"))]);
  assert.deepEqual(events, ["open", "second", "close", "open", "third", "close"]);
});

test("what cannot be opened fails for those who wait for it, and is tried again for the next", async () => {
  let opened = 0;
  const using = shared(async () => {
    if (++opened === 1) throw new Error("no memory");
    return { close: async () => {} };
  });
  const work = async () => "done";
  const both = await Promise.allSettled([using(work), using(work)]);
  assert.deepEqual(
    both.map(({ status }) => status),
    ["rejected", "rejected"],
  );
  assert.equal(await using(work), "done");
  await assert.rejects(
    using(() => Promise.reject(new Error("broke"))),
    /broke/,
  );
});
