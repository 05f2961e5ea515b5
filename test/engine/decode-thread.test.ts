// Steps have a thread of their own: the same one every time, and none of those that files wait for.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { createLog } from "../../src/base/log.ts";
import { type NativeContext, type NativeModel, openNative } from "../../src/engine/serve/binding.ts";
import { starterModel } from "./engine-fixture.ts";

let model: NativeModel;
let contexts: NativeContext[];
before(async () => {
  model = await (await openNative(createLog("error"))).openModel(starterModel);
  const shape = { sequences: 1, slotContext: 256, batch: 256, threads: 1 };
  contexts = [await model.openContext(shape), await model.openContext(shape)];
});
after(async () => {
  for (const context of contexts) await context.dispose();
  await model.dispose();
});

/** Milliseconds on a core so far, by thread; proc(5). */
const computed = (): Map<string, number> =>
  new Map(
    readdirSync("/proc/self/task").map((id) => [
      id,
      Number(readFileSync(`/proc/self/task/${id}/schedstat`, "latin1").split(" ")[0]) / 1e6,
    ]),
  );

/** What each thread but the main one computed while `work` ran, most first. */
async function shares(work: () => Promise<unknown>): Promise<number[]> {
  const start = computed();
  await work();
  return [...computed()]
    .filter(([id]) => id !== String(process.pid))
    .map(([id, ms]) => ms - (start.get(id) ?? 0))
    .sort((a, b) => b - a);
}

async function steps(context: NativeContext, count: number): Promise<void> {
  context.clear(0);
  for (let position = 0; position < count; position++)
    await context.decode([{ sequence: 0, position, tokens: [100], logitsAt: [0] }]);
}

test("all steps are computed by one thread, whichever of the pool's asks for them", async () => {
  const [most = 0, ...others] = await shares(() => steps(contexts[0]!, 30));
  const rest = others.reduce((sum, ms) => sum + ms, 0);
  assert.ok(most > 4 * rest, `${most} ms on one thread, and ${others.filter((ms) => ms > 1)} on others`);
});

test("two models step beside each other, each with a thread", async () => {
  const [first = 0, second = 0, ...others] = await shares(() =>
    Promise.all(contexts.map((context) => steps(context, 30))),
  );
  const rest = others.reduce((sum, ms) => sum + ms, 0);
  assert.ok(second > first / 2 && second > 4 * rest, `${first} and ${second} ms, and ${rest} on others`);
});

test("what the library says of a step comes through", async () => {
  const whole = { sequence: 0, position: 0, tokens: Array.from({ length: 256 }, () => 100), logitsAt: [] };
  contexts[0]!.clear(0);
  await contexts[0]!.decode([whole]);
  await assert.rejects(contexts[0]!.decode([{ ...whole, position: 256 }]), /KV slot/);
});
