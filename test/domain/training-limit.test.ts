// On which device the time of a training is foretold: the one that it will be trained on.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { installation } from "../../src/base/config.ts";
import { trainingLimit } from "../../src/domain/alignments/estimate.ts";
import { readRecipes } from "../../src/domain/alignments/recipes.ts";
import type { Trainer, TrainerHello, TrainingEstimate } from "../../src/engine/trainer.ts";

test("time is foretold for the CPU where there is a GPU that the trainer cannot use", async () => {
  const recipe = (await readRecipes(join(installation, "config/recipes"))).get("standard")!;
  for (const [noGpu, device] of [
    ["cuBLASLt was not found", "cpu"],
    [null, "cuda"],
  ] as const) {
    const trainer = {
      hello: async () => ({ noGpu, devices: [{ kind: "cpu" }, { kind: "cuda" }] }) as TrainerHello,
      // As the worker: a GPU that cannot be used tells no speed.
      estimate: async (asked: { device: string }) =>
        ({ tokensPerSecond: asked.device === "cpu" ? 100 : noGpu === null ? 9000 : null }) as TrainingEstimate,
      close: async () => {},
    } as unknown as Trainer;
    const limit = await trainingLimit(trainer, { path: "model.gguf", recipe, threads: 1 });
    assert.equal(limit, device === "cpu" ? 100 : 9000);
  }
});
