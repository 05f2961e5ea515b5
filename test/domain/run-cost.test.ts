// What a run takes, by the trainer's own figures for the device that it will be trained on.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { installation } from "../../src/base/config.ts";
import type { Recipe } from "../../src/contract/recipe.ts";
import { costOf } from "../../src/domain/alignments/estimate.ts";
import { readRecipes } from "../../src/domain/alignments/recipes.ts";
import type { Trainer, TrainerHello, TrainingEstimate } from "../../src/engine/train/trainer.ts";
import { startTrainer } from "../../src/engine/train/trainer-process.ts";
import { executable, silentLog, tinyModel } from "../engine/trainer-fixture.ts";

const recipe = (await readRecipes(join(installation, "config/recipes"))).get("standard")!;
const of = (over: Partial<{ rows: number; longest: number }>): Recipe => ({
  ...recipe,
  training: { ...recipe.training, batch_size: over.rows ?? 8 },
  rendering: { ...recipe.rendering, max_seq_len: over.longest ?? 512 },
});

/** A worker on a machine with a GPU, whose estimates are 1,000 bytes and one a token, on the CPU ten. */
function worker(noGpu: string | null) {
  const asked: { rank: number; device: string; passTokens: number }[] = [];
  const devices = [
    { kind: "cpu", passTokens: 1024 },
    { kind: "cuda", passTokens: 16_384, memoryBytes: 80e9 },
  ];
  const trainer = {
    hello: async () => ({ noGpu, devices }) as TrainerHello,
    estimate: async (training: { rank: number; device: string; passTokens: number }) => {
      asked.push(training);
      const totalBytes = 1000 + training.passTokens * (training.device === "cpu" ? 10 : 1);
      // As the worker: a GPU that cannot be used tells no speed.
      const tokensPerSecond = training.device === "cpu" ? 100 : noGpu === null ? 9000 : null;
      return { totalBytes, adapterBytes: 5, tokensPerSecond } as TrainingEstimate;
    },
    close: async () => {},
  } as unknown as Trainer;
  return { trainer, asked };
}

const base = { path: "model.gguf", layers: 30, memory_bytes: 2000 };

test("time is foretold for the CPU where there is a GPU that the trainer cannot use", async () => {
  const cost = (noGpu: string | null) =>
    costOf(worker(noGpu).trainer, { base, recipe: of({}), threads: 1, hasGpu: false });
  assert.equal((await cost("cuBLASLt was not found")).tokensPerSecond, 100);
  assert.equal((await cost(null)).tokensPerSecond, 9000);
});

test("on a GPU a step's rows go through at once: its memory is that of the estimate, and none of the CPU's passes", async () => {
  const { trainer, asked } = worker(null);
  const { needs, gpuBytes } = await costOf(trainer, { base, recipe: of({ rows: 16 }), threads: 2, hasGpu: true });
  assert.equal(gpuBytes, 80e9);
  assert.deepEqual(
    needs.map(({ passTokens, gpuMemoryBytes }) => [passTokens, gpuMemoryBytes]),
    [8192, 4096, 2048, 1024, 512].map((tokens) => [tokens, Math.max(2000, 1005 + tokens)]),
  );
  // Should the GPU fail, the CPU has room for the smallest passes.
  assert.ok(needs.every(({ memoryBytes }) => memoryBytes === 1005 + 5120));
  assert.ok(asked.every(({ rank }) => rank === recipe.adapter.rank));
});

test("on the CPU passes are no larger than what it computes at once, and serving before and after has room too", async () => {
  const { needs, gpuBytes } = await costOf(worker("no driver").trainer, {
    ...{ base: { ...base, memory_bytes: 9000 }, recipe: of({ rows: 16 }), threads: 2, hasGpu: false },
  });
  assert.equal(gpuBytes, null);
  assert.deepEqual(needs, [
    { passTokens: 1024, memoryBytes: 11_245, gpuMemoryBytes: 0 },
    { passTokens: 512, memoryBytes: 9000, gpuMemoryBytes: 0 },
  ]);
  // Answers on a GPU that the trainer cannot use: before and after training the run's are there too.
  const beside = await costOf(worker("too old").trainer, { base, recipe: of({ rows: 1 }), threads: 2, hasGpu: true });
  assert.deepEqual(beside.needs, [{ passTokens: 512, memoryBytes: 6125, gpuMemoryBytes: 2000 }]);
});

test("a row is never cut, and more than a step's rows are of no use", async () => {
  const sizes = async (over: { rows: number; longest: number }): Promise<number[]> => {
    const { needs } = await costOf(worker(null).trainer, { base, recipe: of(over), threads: 1, hasGpu: true });
    return needs.map(({ passTokens }) => passTokens);
  };
  assert.deepEqual(await sizes({ rows: 3, longest: 512 }), [1536, 768, 512]);
  assert.equal((await sizes({ rows: 100, longest: 512 }))[0], 16_384);
  assert.deepEqual(await sizes({ rows: 2, longest: 20_000 }), [20_000]);
});

test("the worker itself says of both devices what they compute at once and what that takes", async () => {
  const trainer = startTrainer({ executable, log: silentLog });
  const path = tinyModel("tiny-f32");
  const { needs } = await costOf(trainer, {
    ...{ base: { path, layers: 2, memory_bytes: 1 }, recipe: of({ rows: 16, longest: 64 }), threads: 1, hasGpu: false },
  });
  assert.deepEqual(
    needs.map(({ passTokens }) => passTokens),
    [1024, 512, 256, 128, 64],
  );
  const bytes = needs.map((need) => Math.max(need.memoryBytes, need.gpuMemoryBytes));
  assert.ok(bytes.every((one, at) => at === 0 || one < bytes[at - 1]!));
});
