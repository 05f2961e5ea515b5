// Loading and unloading: shared, counted, within the memory that was granted.
import assert from "node:assert/strict";
import { test } from "node:test";
import { adapterFolder, base, codeOf, collect, createEngine, requestOf } from "./engine-fixture.ts";

const small = { slots: 2, slotContext: 256 };

test("loads of one model at the same time are one load, and every load wants its unload", async () => {
  const { generator, gpu, events } = createEngine(small);
  const infos = await Promise.all([generator.load(base), generator.load(base), generator.load(base)]);
  assert.equal(events.filter((event) => event === "base_loading").length, 1);
  assert.deepEqual(infos[0], infos[2]);
  const { bytes, ...info } = infos[0]!;
  assert.deepEqual(info, { architecture: "llama", context: 256, parameters: 134_515_008, slots: 2 });
  assert.ok(bytes > 90e6);
  assert.ok(generator.isLoaded(base));
  await generator.unload(base);
  await generator.unload(base);
  assert.ok(generator.isLoaded(base));
  await generator.unload(base);
  assert.ok(!generator.isLoaded(base));
  assert.deepEqual(gpu.snapshot().grants, []);
  assert.equal(await codeOf(() => generator.unload(base)), "not_loaded");
});

test("the grant covers what the library then takes", async () => {
  for (const settings of [small, { slots: 8, slotContext: 1024 }]) {
    const { generator, gpu } = createEngine(settings);
    const { bytes } = await generator.load(base);
    const granted = gpu.snapshot().grants[0]!.bytes.machine;
    assert.ok(granted >= bytes && granted < 1.5 * bytes, `granted ${granted}, taken ${bytes}`);
    await generator.dispose();
  }
});

test("unload lets what runs finish, refuses what is new, and a load meanwhile waits", async () => {
  const { generator, events } = createEngine(small);
  await generator.load(base);
  const prompt = generator.tokenizer("base").encode("Once upon a time", false);
  let unloaded: Promise<void> | null = null;
  const answer = await collect(generator, requestOf(prompt, { maxTokens: 30, ignoreEos: true }), () => {
    unloaded ??= generator.unload(base);
  });
  assert.equal(answer.completionTokens, 30);
  assert.equal(await codeOf(() => collect(generator, requestOf(prompt))), "not_loaded");
  await Promise.all([unloaded, generator.load(base)]);
  assert.equal(events.filter((event) => event === "base_loading").length, 2);
  assert.equal((await collect(generator, requestOf(prompt, { maxTokens: 2 }))).completionTokens, 2);
  await generator.dispose();
});

test("adapters come and go on a base that stays", async () => {
  const folder = adapterFolder();
  const { generator, events } = createEngine(small);
  const [one, two] = [folder.adapter("one", 1), folder.adapter("two", 1)];
  await Promise.all([generator.load(one), generator.load(two)]);
  assert.ok(!generator.isLoaded(base));
  const prompt = generator.tokenizer("base").encode("Once upon a time", false);
  const ask = async (model = one): Promise<string> =>
    (await collect(generator, requestOf(prompt, { model, maxTokens: 12 }))).text;
  const before = await ask();
  await generator.unload(one);
  assert.equal(await codeOf(ask), "not_loaded");
  await ask(two);
  await generator.load(one);
  assert.equal(await ask(), before);
  assert.equal(events.filter((event) => event === "base_loading").length, 1);
  const missing = { ...base, adapter: { id: "missing", path: "/nowhere.gguf" } };
  assert.equal(await codeOf(() => generator.load(missing)), "model_load_failed");
  const wrong = { ...base, adapter: { id: "wrong", path: base.basePath } };
  assert.equal(await codeOf(() => generator.load(wrong)), "model_load_failed");
  assert.equal(await ask(two), await ask(two));
  await generator.dispose();
  folder.remove();
});

test("what does not fit is refused with figures, and leaves nothing behind", async () => {
  const { generator, gpu } = createEngine({ ...small, memoryBytes: 100e6 });
  const error = await generator.load(base).catch((failure) => failure);
  assert.equal(error.code, "out_of_memory");
  assert.match(error.message, /needs \d+ MiB, but only 96 MiB of 96 MiB are free/);
  assert.equal(await codeOf(() => generator.load({ ...base, basePath: "/nowhere.gguf" })), "model_load_failed");
  assert.deepEqual(gpu.snapshot().grants, []);
  assert.ok(!generator.isLoaded(base));
});

test("an evaluation that does not fit beside the base is refused, and gives back what it took", async () => {
  const { generator, gpu } = createEngine(small);
  await generator.load(base);
  const evaluate = (): Promise<void> =>
    generator.evaluate({
      model: base,
      prompts: [[1, 2, 3]],
      maxTokens: 2,
      signal: new AbortController().signal,
      startAt: 0,
      onItem: () => {},
    });
  const held = gpu.snapshot().machine.free;
  const other = gpu.reserve("other", { machine: held - 1e6, gpu: 0 })!;
  assert.equal(await codeOf(evaluate), "out_of_memory");
  other.release();
  await evaluate();
  assert.equal(gpu.snapshot().machine.free, held);
  await generator.dispose();
});
