// The book of memory: two pools, and who may take what of them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Bytes, contextBytes, createGpu, shapeOf } from "../../src/engine/gguf/gpu.ts";
import type { GgufHeader, GgufValue } from "../../src/engine/gguf/header.ts";
import { reserve } from "../../src/engine/serve/base-model.ts";

const machine = (bytes: number): Bytes => ({ machine: bytes, gpu: 0 });
const onGpu = (bytes: number): Bytes => ({ machine: 0, gpu: bytes });

test("memory is granted while there is any, and threads are noted as far as they are free", () => {
  const gpu = createGpu({ memoryBytes: 100, gpuBytes: 0, threads: 4 });
  const first = gpu.reserveRun("first", machine(60), 3)!;
  assert.equal(gpu.reserve("second", machine(41)), null);
  const second = gpu.reserveRun("second", machine(40), 2)!;
  assert.deepEqual(gpu.snapshot(), {
    machine: { total: 100, free: 0 },
    gpu: null,
    runs: { total: machine(100), free: machine(0) },
    threads: 4,
    freeThreads: 0,
    grants: [
      { holder: "first", bytes: machine(60), threads: 3 },
      { holder: "second", bytes: machine(40), threads: 1 },
    ],
  });
  first.release();
  first.release();
  assert.equal(gpu.snapshot().machine.free, 60);
  assert.equal(gpu.snapshot().freeThreads, 3);
  second.release();
  assert.equal(gpu.snapshot().machine.free, 100);
});

test("what is on the GPU takes no memory of the machine, and the other way round", () => {
  const gpu = createGpu({ memoryBytes: 100, gpuBytes: 0, threads: 1 });
  assert.equal(gpu.reserve("nobody has met a GPU", onGpu(1)), null);
  gpu.found(80);
  const served = gpu.reserve("a base", onGpu(50))!;
  assert.deepEqual([gpu.snapshot().machine.free, gpu.snapshot().gpu], [100, { total: 80, free: 30 }]);
  assert.ok(gpu.reserve("parsing", machine(100)));
  assert.equal(gpu.reserve("another base", onGpu(31)), null);
  served.release();
  assert.ok(gpu.reserve("another base", onGpu(31)));
});

test("a setting limits what is taken of the GPU, which has no more than it has", () => {
  const limited = createGpu({ memoryBytes: 1, gpuBytes: 30, threads: 1 });
  limited.found(80);
  assert.equal(limited.snapshot().gpu!.total, 30);
  limited.found(20);
  assert.equal(limited.snapshot().gpu!.total, 20);
});

test("runs leave an eighth of the GPU to answers, however many they are", () => {
  const gpu = createGpu({ memoryBytes: 100, gpuBytes: 0, threads: 1 });
  gpu.found(80);
  assert.deepEqual(gpu.snapshot().runs.total, { machine: 100, gpu: 70 });
  assert.equal(gpu.reserveRun("too large", onGpu(71), 1), null);
  assert.ok(gpu.reserveRun("one", onGpu(40), 1));
  assert.equal(gpu.reserveRun("another", onGpu(31), 1), null);
  assert.ok(gpu.reserveRun("another", onGpu(30), 1));
  assert.ok(gpu.reserve("an evaluation", onGpu(10)));
  // Answers that are there already take what runs could have: there is only one GPU.
  const busy = createGpu({ memoryBytes: 100, gpuBytes: 0, threads: 1 });
  busy.found(80);
  assert.ok(busy.reserve("a base", onGpu(50)));
  assert.deepEqual(busy.snapshot().runs.free, { machine: 100, gpu: 30 });
});

test("a model goes to the GPU's memory where there is one, within what others left of it", () => {
  const gpu = createGpu({ memoryBytes: 100, gpuBytes: 0, threads: 1 });
  const card = (free: number) => ({ gpuMemory: () => ({ total: 80 << 20, free }) });
  const failure = (bytes: number, free: number): Error => {
    try {
      reserve(gpu, "a base", bytes, card(free));
    } catch (error) {
      return error as Error;
    }
    return assert.fail("it was granted");
  };
  reserve(gpu, "a base", 30 << 20, card(80 << 20));
  assert.deepEqual([gpu.snapshot().machine.free, gpu.snapshot().gpu!.free], [100, 50 << 20]);
  assert.match(
    failure(60 << 20, 80 << 20).message,
    /a base needs 60 MiB, but only 50 MiB of 80 MiB of the GPU are free/,
  );
  // Another program's.
  assert.match(failure(40 << 20, 20 << 20).message, /needs 40 MiB, but only 20 MiB of 80 MiB of the GPU are free/);
  assert.deepEqual(reserve(gpu, "without one", 100, { gpuMemory: () => null }).bytes, machine(100));
});

test("heads are counted layer by layer where the header lists them", () => {
  const list = (...numbers: number[]): GgufValue => ({ arrayOf: "uint32", length: numbers.length, numbers });
  const shapeWith = (heads: GgufValue, keyHeads: GgufValue) => {
    const values = new Map<string, GgufValue>([
      ["general.architecture", "llama"],
      ["llama.block_count", 2],
      ["llama.attention.head_count", heads],
      ["llama.attention.head_count_kv", keyHeads],
      ["llama.attention.key_length", 64],
    ]);
    const header: GgufHeader = { version: 3, values, tensors: [], fileBytes: 0 };
    return shapeOf(header);
  };
  const listed = shapeWith(list(4, 8), list(2, 4));
  const bytes = (slots: number, slotContext: number): number => contextBytes(listed, { slots, slotContext, batch: 1 });
  assert.equal(bytes(16, 2048) - bytes(1, 1), 6 * 64 * 4 * (32_768 - 1));
  assert.equal(shapeWith(8, list(0, 2)).cachedHeads, 2);
  assert.equal(shapeWith(8, 2).cachedHeads, 4);
});

test("a run that rests lends its threads and keeps its memory", () => {
  const gpu = createGpu({ memoryBytes: 100, gpuBytes: 0, threads: 4 });
  const run = gpu.reserveRun("run", machine(60), 3)!;
  run.rest();
  assert.deepEqual([gpu.snapshot().freeThreads, gpu.snapshot().machine.free], [4, 40]);
  const other = gpu.reserveRun("other", machine(10), 2)!;
  run.resume();
  assert.equal(gpu.snapshot().freeThreads, 0, "as many as are left");
  other.release();
  run.resume();
  assert.equal(gpu.snapshot().freeThreads, 1);
  run.release();
  run.resume();
  assert.equal(gpu.snapshot().freeThreads, 4);
});
