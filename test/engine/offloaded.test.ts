// Prompts that lost their slot: not read again, nobody else's, and gone when their memory is wanted.
import assert from "node:assert/strict";
import { readdirSync, readlinkSync } from "node:fs";
import { test } from "node:test";
import { createLog } from "../../src/base/log.ts";
import type { NativeContext } from "../../src/engine/serve/binding.ts";
import { OffloadedPrompts } from "../../src/engine/serve/offloaded.ts";
import { adapterFolder, base, collect, createEngine, requestOf } from "./engine-fixture.ts";

const few = { slots: 2, slotContext: 256 };
const topics = ["the sea", "a mill by the river", "an old clock", "the road to the north"];

/** Answers of eight tokens, each to a prompt of its own of some forty. */
async function house(settings: Parameters<typeof createEngine>[0] = few) {
  const engine = createEngine(settings);
  await engine.generator.pool.lease(base, "work");
  const { encode } = engine.generator.tokenizer("base");
  const prompts = topics.map((topic) =>
    encode(
      `${topic} is what this is about, and ${topic} again, for as long as ${topic} is what people ask for. `,
      false,
    ),
  );
  const ask = (index: number, owner = "ada", model = base) =>
    collect(engine.generator, requestOf(prompts[index]!, { owner, model, maxTokens: 8, ignoreEos: true }));
  const unread = async (...asked: Parameters<typeof ask>): Promise<number> =>
    prompts[asked[0]]!.length - (await ask(...asked)).cachedTokens;
  return { ...engine, prompts, ask, unread };
}

/** Files without a name that this process holds open for prompts. */
const openPrompts = (): number =>
  readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return /plumbline-prompt-\w+ \(deleted\)$/.test(readlinkSync(`/proc/self/fd/${fd}`));
    } catch {
      return false; // the one that lists them
    }
  }).length;

test("a prompt that lost its slot is not read again, by its owner and under its adapter", async () => {
  const folder = adapterFolder();
  const { generator, ask, unread } = await house();
  const adapter = folder.adapter("one", 1);
  const lease = await generator.pool.lease(adapter, "work");
  const first = await ask(0);
  for (const index of [1, 2, 3]) await ask(index);
  const again = await ask(0);
  assert.deepEqual([first.cachedTokens, again.cachedTokens], [0, again.promptTokens - 1]);
  assert.equal(again.text, first.text);
  assert.equal((await ask(0, "bob")).cachedTokens, 0);
  assert.equal((await ask(0, "ada", adapter)).cachedTokens, 0);
  for (const index of [1, 2, 3]) assert.equal(await unread(index), 1);
  assert.equal(await unread(0, "ada", adapter), 1);
  await lease.release();
  await generator.pool.lease(adapter, "work");
  assert.equal((await ask(0, "ada", adapter)).cachedTokens, 0);
  await generator.dispose();
  folder.remove();
});

test("whoever makes room while others still answer is not read again either", async () => {
  const { generator, prompts, unread } = await house({ slots: 4, slotContext: 256 });
  // The shorter answers end first, and leave gaps between the slots of those that go on.
  await Promise.all(
    [24, 4, 20, 8].map((maxTokens, index) =>
      collect(generator, requestOf(prompts[index]!, { owner: "ada", maxTokens, ignoreEos: true })),
    ),
  );
  for (const index of prompts.keys()) assert.equal(await unread(index), 1);
  await generator.dispose();
});

test("a long answer is kept with its prompt, and a prompt that goes on from it reads only what is new", async () => {
  const { generator, prompts, ask } = await house();
  const answer = await ask(0);
  for (const index of [1, 2, 3]) await ask(index);
  const said = answer.tokens.map(({ token }) => token);
  const longer = [...prompts[0]!, ...said, ...prompts[1]!];
  const next = await collect(generator, requestOf(longer, { owner: "ada", maxTokens: 2 }));
  // The last token of an answer was never decoded.
  assert.equal(next.cachedTokens, prompts[0]!.length + said.length - 1);
  await generator.dispose();
});

test("the memory of offloaded prompts is lent: who needs it gets it, and with the base all of it goes", async () => {
  const { generator, gpu, ask, unread } = await house();
  const { free } = gpu.snapshot().machine;
  for (const index of [0, 1, 2, 3]) await ask(index);
  // One after another they take the same slot.
  assert.equal(openPrompts(), 3);
  assert.equal(gpu.snapshot().machine.free, free);
  const wanted = gpu.reserve("a run", { machine: free, gpu: 0 })!;
  assert.equal(openPrompts(), 0);
  assert.ok((await unread(0)) > 1);
  assert.equal(openPrompts(), 0);
  wanted.release();
  await ask(1);
  await ask(2);
  assert.ok(openPrompts() > 0);
  await generator.dispose();
  assert.equal(openPrompts(), 0);
  assert.equal(gpu.lend("all of it", 4e9, () => {})?.bytes.machine, 4e9);
});

/** Offloaded prompts of 100 bytes each over a context that writes them as it is told; `log` says what went wrong. */
function offloadedOver(save: () => Promise<number | null>, bytes = 250) {
  const events: string[] = [];
  const context = { save, restore: async () => true, clear: () => {} } as unknown as NativeContext;
  const log = createLog("warn", (line) => events.push(JSON.parse(line).event));
  const offloaded = new OffloadedPrompts({ context, bytes, lend: () => ({ release: () => {} }), log });
  const held = (first: number, length = 20) => ({
    key: "",
    owner: "ada",
    cells: Array(length).fill(first) as number[],
  });
  return { offloaded, held, events, isKept: (first: number) => offloaded.find(held(first)) !== null };
}

test("the prompt asked for longest ago goes first, and one that goes on from another takes its place", async () => {
  const { offloaded, held, isKept } = offloadedOver(async () => 100);
  await offloaded.keep(held(1), 0);
  await offloaded.keep(held(2), 0);
  assert.ok(await offloaded.restore(offloaded.find(held(1))!.offloaded, 0));
  await offloaded.keep(held(3), 0);
  assert.deepEqual([1, 2, 3].map(isKept), [true, false, true]);
  await offloaded.keep(held(1, 30), 0);
  assert.deepEqual([1, 3].map(isKept), [true, true]);
  assert.equal(offloaded.find(held(1, 30))!.length, 30);
  offloaded.forget();
  assert.equal(openPrompts(), 0);
});

test("where there is no room for one more prompt, it is said once, and those that are kept make room for each other", async () => {
  let isFull = false;
  let tries = 0;
  const { offloaded, held, events, isKept } = offloadedOver(async () => {
    tries++;
    if (isFull) throw new Error("no space left on device");
    return 100;
  });
  await offloaded.keep(held(1), 0);
  isFull = true;
  await offloaded.keep(held(2), 0);
  isFull = false;
  await offloaded.keep(held(3), 0);
  assert.deepEqual([events, [1, 2, 3].map(isKept)], [["prompt_not_offloaded"], [false, false, true]]);
  offloaded.forget();
  assert.equal(openPrompts(), 0);
  const none = offloadedOver(async () => {
    tries++;
    throw new Error("no space left on device");
  });
  tries = 0;
  for (const first of [1, 2, 3]) await none.offloaded.keep(none.held(first), 0);
  assert.deepEqual([tries, none.events, openPrompts()], [1, ["prompt_not_offloaded"], 0]);
});
