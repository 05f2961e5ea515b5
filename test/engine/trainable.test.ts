// What a header says of a model's training is what the worker does with it: one list of architectures, one answer for each reason.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { basename, dirname } from "node:path";
import { test } from "node:test";
import { readGgufHeader } from "../../src/engine/gguf/header.ts";
import { defaultSlotPool, factsOf } from "../../src/engine/gguf/model-facts.ts";
import { trainableArchitectures } from "../../src/engine/gguf/trainable.ts";
import { startWorker, tinyModel } from "./trainer-fixture.ts";

const models = readdirSync(dirname(tinyModel("tiny-f32")))
  .filter((file) => file.endsWith(".gguf"))
  .map((file) => basename(file, ".gguf"));
const reasonOf = (name: string) => factsOf(readGgufHeader(tinyModel(name)), null, defaultSlotPool).reason;

test("the architectures are the worker's", async (t) => {
  const { architectures } = await startWorker(t).hello();
  assert.deepEqual(Object.keys(trainableArchitectures), architectures);
});

test("every tiny model of every architecture can be aligned", () => {
  const tiny = models.filter((name) => name.startsWith("tiny-"));
  assert.ok(tiny.length >= 20, `${tiny.length} models`);
  for (const name of tiny) assert.equal(reasonOf(name), null, name);
});

test("a model that the worker refuses cannot be aligned, and the reason says why", async (t) => {
  const reasons: Record<string, RegExp> = {
    "refused-gemma2": /architecture gemma2 .*only llama, qwen2, qwen3, gemma3/,
    "refused-gemma3n": /architecture gemma3n/,
    "refused-qwen2moe": /architecture qwen2moe/,
    "refused-experts": /[Ee]xperts/,
    "refused-output-bias": /blk\.0\.attn_output\.bias/,
    "refused-head-bias": /output\.bias/,
    "refused-rope-factors": /rope_freqs\.weight/,
    "refused-vision": /v\.patch_embd\.weight/,
    "refused-fused-qkv": /blk\.0\.attn_qkv\.weight/,
    "refused-logit-softcap": /final_logit_softcapping/,
    "refused-attention-softcap": /attn_logit_softcapping/,
    "refused-attention-scale": /attention\.scale/,
    "refused-not-causal": /non-causal|cannot be aligned/,
    "refused-longrope": /longrope/,
    "refused-yarn-windows": /yarn/,
    "refused-partial-rope": /rope\.dimension_count/,
    "refused-value-length": /attention\.value_length/,
    "refused-window-heads": /attention\.key_length_swa/,
    "refused-layers-differ": /size of its layers/,
  };
  assert.deepEqual(models.filter((name) => name.startsWith("refused-")).sort(), Object.keys(reasons).sort());
  const trainer = startWorker(t);
  for (const [name, reason] of Object.entries(reasons)) {
    assert.match(reasonOf(name) ?? "can be aligned", reason, name);
    await assert.rejects(
      trainer.open({ path: tinyModel(name), threads: 1, memoryBytes: 0 }),
      /unsupported_architecture/,
      name,
    );
  }
});
