// The models that are loaded: shared, counted, within the memory that was granted, unloaded after their last lease.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { Failure } from "../../src/base/errors.ts";
import type { ModelRef } from "../../src/engine/generator.ts";
import { emptyPool } from "../helpers/pool.ts";
import { adapterFolder, base, codeOf, collect, createEngine, requestOf } from "./engine-fixture.ts";

const small = { slots: 2, slotContext: 256 };

test("leases of one model at the same time are one load, and every lease wants its release", async () => {
  const { generator, gpu, events } = createEngine(small);
  const { pool } = generator;
  const leases = await Promise.all([pool.lease(base, "work"), pool.lease(base, "request"), pool.lease(base, "work")]);
  assert.equal(events.filter((event) => event === "base_loading").length, 1);
  assert.deepEqual(leases[0]!.info, leases[2]!.info);
  const { bytes, ...info } = leases[0]!.info;
  assert.deepEqual(info, { architecture: "llama", context: 256, parameters: 134_515_008, slots: 2 });
  assert.ok(bytes > 90e6);
  assert.ok(pool.isLoaded(base));
  await leases[1]!.release();
  // A second release of the same lease does nothing.
  await leases[1]!.release();
  await leases[2]!.release();
  assert.ok(pool.isLoaded(base));
  await leases[0]!.release();
  assert.ok(!pool.isLoaded(base));
  assert.deepEqual(gpu.snapshot().grants, []);
  assert.equal(await codeOf(() => collect(generator, requestOf([1]))), "not_loaded");
});

test("the grant covers what the library then takes", async () => {
  for (const settings of [small, { slots: 8, slotContext: 1024 }]) {
    const { generator, gpu } = createEngine(settings);
    const { bytes } = (await generator.pool.lease(base, "work")).info;
    const granted = gpu.snapshot().grants[0]!.bytes.machine;
    assert.ok(granted >= bytes && granted < 1.5 * bytes, `granted ${granted}, taken ${bytes}`);
    await generator.dispose();
  }
});

test("unload lets what runs finish, refuses what is new, and a load meanwhile waits", async () => {
  const { generator, events } = createEngine(small);
  const lease = await generator.pool.lease(base, "work");
  const prompt = generator.tokenizer("base").encode("Once upon a time", false);
  let unloaded: Promise<void> | null = null;
  const answer = await collect(generator, requestOf(prompt, { maxTokens: 30, ignoreEos: true }), () => {
    unloaded ??= lease.release();
  });
  assert.equal(answer.completionTokens, 30);
  assert.equal(await codeOf(() => collect(generator, requestOf(prompt))), "not_loaded");
  await Promise.all([unloaded, generator.pool.lease(base, "work")]);
  assert.equal(events.filter((event) => event === "base_loading").length, 2);
  assert.equal((await collect(generator, requestOf(prompt, { maxTokens: 2 }))).completionTokens, 2);
  await generator.dispose();
});

test("adapters come and go on a base that stays", async () => {
  const folder = adapterFolder();
  const { generator, events } = createEngine(small);
  const [one, two] = [folder.adapter("one", 1), folder.adapter("two", 1)];
  const [held] = await Promise.all([generator.pool.lease(one, "work"), generator.pool.lease(two, "work")]);
  assert.ok(!generator.pool.isLoaded(base));
  const prompt = generator.tokenizer("base").encode("Once upon a time", false);
  const ask = async (model = one): Promise<string> =>
    (await collect(generator, requestOf(prompt, { model, maxTokens: 12 }))).text;
  const before = await ask();
  await held.release();
  assert.equal(await codeOf(ask), "not_loaded");
  await ask(two);
  await generator.pool.lease(one, "work");
  assert.equal(await ask(), before);
  assert.equal(events.filter((event) => event === "base_loading").length, 1);
  const missing = { ...base, adapter: { id: "missing", path: "/nowhere.gguf" } };
  assert.equal(await codeOf(() => generator.pool.lease(missing, "work")), "model_load_failed");
  const wrong = { ...base, adapter: { id: "wrong", path: base.basePath } };
  assert.equal(await codeOf(() => generator.pool.lease(wrong, "work")), "model_load_failed");
  assert.equal(await ask(two), await ask(two));
  await generator.dispose();
  folder.remove();
});

test("what does not fit is refused with figures, and leaves nothing behind", async () => {
  const { generator, gpu } = createEngine({ ...small, memoryBytes: 100e6 });
  const error = await generator.pool.lease(base, "work").catch((failure) => failure);
  assert.equal(error.code, "out_of_memory");
  assert.match(error.message, /needs \d+ MiB, but only 96 MiB of 96 MiB are free/);
  assert.equal(
    await codeOf(() => generator.pool.lease({ ...base, basePath: "/nowhere.gguf" }, "work")),
    "model_load_failed",
  );
  assert.deepEqual(gpu.snapshot().grants, []);
  assert.ok(!generator.pool.isLoaded(base));
});

test("an evaluation that does not fit beside the base is refused, and gives back what it took", async () => {
  const { generator, gpu } = createEngine(small);
  await generator.pool.lease(base, "work");
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

describe("leases", () => {
  const bare: ModelRef = { baseId: "b", basePath: "/b" };

  test("several takes are one load; the model goes with its last user", async () => {
    const { pool, loaded } = emptyPool(undefined, { keepIdleMs: 0 });
    const ref = { ...bare, adapter: { id: "a", path: "/a" } };
    const [one, two] = await Promise.all([pool.lease(ref, "request"), pool.lease(ref, "work")]);
    assert.deepEqual(loaded, ["a"]);
    await one.release();
    await one.release();
    assert.deepEqual(loaded, ["a"]);
    await two.release();
    assert.deepEqual(loaded, []);
  });

  test("a base waits for the next request, and makes room when memory is wanted", async () => {
    let full = true;
    const { pool, loaded } = emptyPool(async (ref) => {
      if (ref.baseId === "c" && loaded.length > 0 && full) throw new Failure("out_of_memory");
      full = ref.baseId !== "c";
    });
    await (await pool.lease(bare, "request")).release();
    assert.deepEqual(loaded, ["b"]);
    await pool.lease({ baseId: "c", basePath: "/c" }, "request");
    assert.deepEqual(loaded, ["c"]);
  });

  test("of the bases that nobody uses, the one used longest ago goes first, and no more than must", async () => {
    const { pool, loaded } = emptyPool(async (ref) => {
      if (ref.baseId === "d" && loaded.length > 2) throw new Failure("out_of_memory");
    });
    const use = async (baseId: string) => (await pool.lease({ baseId, basePath: `/${baseId}` }, "request")).release();
    for (const baseId of ["a", "b", "c", "a", "d"]) await use(baseId);
    assert.deepEqual(loaded.toSorted(), ["a", "c", "d"]);
    const busy = await pool.lease({ baseId: "c", basePath: "/c" }, "work");
    assert.deepEqual([await pool.freeIdle(), await pool.freeIdle(), await pool.freeIdle()], [true, true, false]);
    assert.deepEqual(loaded, ["c"]);
    await busy.release();
  });

  test("a load that failed cools down, longer each time, but for who deploys", async () => {
    let fails = true;
    let ms = 0;
    let tries = 0;
    const clock = { now: () => new Date(0).toISOString(), monotonicMs: () => ms };
    const { pool, loaded } = emptyPool(
      async () => {
        tries++;
        if (fails) throw new Failure("model_load_failed", "the file is cut off");
      },
      { clock },
    );
    const refused = async (use: "request" | "work") => {
      const error = await pool.lease(bare, use).then(
        () => null,
        (failure) => failure,
      );
      return [error.code, error.retryAfterSeconds, /cut off/.test(error.message)];
    };
    assert.deepEqual(await refused("request"), ["model_load_failed", null, true]);
    ms = 3000;
    assert.deepEqual(await refused("request"), ["load_cooling", 7, true]);
    assert.deepEqual(await refused("work"), ["load_cooling", 7, true]);
    ms = 10_001;
    assert.deepEqual(await refused("request"), ["model_load_failed", null, true]);
    assert.deepEqual(await refused("request"), ["load_cooling", 20, true]);
    assert.equal(tries, 2);
    assert.equal(await codeOf(() => pool.hold("it", bare)), "model_load_failed");
    assert.deepEqual(await refused("request"), ["load_cooling", 40, true]);
    fails = false;
    await pool.hold("it", bare);
    await pool.letGo("it");
    await pool.lease(bare, "request");
    assert.deepEqual(loaded, ["b"]);
  });

  test("want of memory needs no pause", async () => {
    let full = true;
    const { pool, loaded } = emptyPool(async () => {
      if (full) throw new Failure("out_of_memory");
    });
    assert.equal(await codeOf(() => pool.lease(bare, "request")), "out_of_memory");
    full = false;
    await pool.lease(bare, "request");
    assert.deepEqual(loaded, ["b"]);
  });

  test("a lease is released when its scope ends", async () => {
    const { pool, loaded } = emptyPool(undefined, { keepIdleMs: 0 });
    {
      await using lease = await pool.lease(bare, "work");
      assert.equal(lease.info.architecture, "llama");
      assert.deepEqual(loaded, ["b"]);
    }
    assert.deepEqual(loaded, []);
  });

  test("a name holds one lease, until it lets go; loads under names wait for one another", async () => {
    const gates = new Map(["a", "b"].map((id) => [id, Promise.withResolvers<void>()]));
    const begun: string[] = [];
    const { pool, loaded } = emptyPool(
      async ({ baseId }) => {
        begun.push(baseId);
        await gates.get(baseId)!.promise;
      },
      { keepIdleMs: 0 },
    );
    const held = ["a", "a", "b"].map((baseId) => pool.hold(`name ${baseId}`, { baseId, basePath: `/${baseId}` }));
    await setImmediate();
    assert.deepEqual(begun, ["a"]);
    for (const gate of gates.values()) gate.resolve();
    await Promise.all(held);
    assert.deepEqual(loaded, ["a", "b"]);
    await pool.letGo("name a");
    assert.deepEqual(loaded, ["b"]);
    await pool.letGo("name a");
    await pool.letGo("nobody");
    await pool.letGo("name b");
    assert.deepEqual(loaded, []);
  });

  test("quiet waits for requests, and for nothing else", async () => {
    const { pool } = emptyPool();
    await pool.quiet(bare);
    const [one, two] = [await pool.lease(bare, "request"), await pool.lease(bare, "request")];
    await pool.lease(bare, "work");
    await pool.hold("it", bare);
    let isQuiet = false;
    const quiet = pool.quiet(bare).then(() => {
      isQuiet = true;
    });
    await one.release();
    await setImmediate();
    assert.ok(!isQuiet);
    await two.release();
    await quiet;
  });

  test("an unload that fails is told to who released, and the model can be loaded again", async () => {
    let fails = true;
    const onClose = async () => {
      if (fails) throw new Failure("inference_failed", "it does not end");
    };
    const { pool } = emptyPool(undefined, { onClose, keepIdleMs: 0 });
    const lease = await pool.lease(bare, "work");
    assert.equal(await codeOf(() => lease.release()), "inference_failed");
    assert.ok(!pool.isLoaded(bare));
    fails = false;
    await (await pool.lease(bare, "work")).release();
  });

  test("clients learn the name of a file that does not load, not its folder", async () => {
    const { pool } = emptyPool(async ({ basePath }) => {
      throw new Failure("model_load_failed", `${basePath} is cut off`);
    });
    await assert.rejects(pool.lease({ baseId: "b", basePath: "/srv/models/b.gguf" }, "work"), {
      message: "b.gguf is cut off",
    });
  });
});
