// Which models can be trained is the worker's answer, given without opening a model: the same as when it opens one.
import assert from "node:assert/strict";
import { readdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { test } from "node:test";
import { plainArchitectures } from "../../src/engine/gguf/soundness.ts";
import { reasonNotToTrain } from "../../src/engine/train/trainable.ts";
import { maxRowTokens } from "../../src/engine/train/trainer.ts";
import { startTrainer } from "../../src/engine/train/trainer-process.ts";
import { executable, scratch, silentLog, startWorker, tinyModel } from "./trainer-fixture.ts";

const models = readdirSync(dirname(tinyModel("tiny-f32")))
  .filter((file) => file.endsWith(".gguf"))
  .map((file) => basename(file, ".gguf"));
const askedOf = (path: string, program = executable) =>
  reasonNotToTrain(startTrainer({ executable: program, log: silentLog }), path);

test("the architectures whose shapes are checked are the worker's", async (t) => {
  const { architectures } = await startWorker(t).hello();
  assert.deepEqual(plainArchitectures, architectures);
});

test("the longest row that plans allow is the worker's", async (t) => {
  const { limits } = await startWorker(t).hello();
  assert.equal(maxRowTokens, limits.maxRowTokens);
});

test("every tiny model of every architecture can be trained", async () => {
  const tiny = models.filter((name) => name.startsWith("tiny-"));
  assert.ok(tiny.length >= 20, `${tiny.length} models`);
  for (const name of tiny) assert.equal(await askedOf(tinyModel(name)), null, name);
});

test("a model that the worker refuses to open cannot be trained, and the reason says why", async (t) => {
  const reasons: Record<string, RegExp> = {
    "refused-gemma2": /architecture gemma2.*: llama, qwen2, qwen3, gemma3$/,
    "refused-gemma3n": /architecture gemma3n/,
    "refused-qwen2moe": /architecture qwen2moe/,
    "refused-experts": /experts/,
    "refused-output-bias": /blk\.0\.attn_output\.bias/,
    "refused-head-bias": /output\.bias/,
    "refused-rope-factors": /rope_freqs\.weight/,
    "refused-vision": /v\.patch_embd\.weight/,
    "refused-fused-qkv": /queries, keys and values in one tensor/,
    "refused-logit-softcap": /final_logit_softcapping/,
    "refused-attention-softcap": /attn_logit_softcapping/,
    "refused-attention-scale": /attention\.scale/,
    "refused-not-causal": /attention that sees what follows/,
    "refused-longrope": /longrope/,
    "refused-yarn-windows": /yarn/,
    "refused-partial-rope": /positions on a part of the head/,
    "refused-value-length": /keys and values of different length/,
    "refused-window-heads": /attention\.key_length_swa/,
    "refused-layers-differ": /differs between layers/,
  };
  assert.deepEqual(models.filter((name) => name.startsWith("refused-")).sort(), Object.keys(reasons).sort());
  const trainer = startWorker(t);
  for (const [name, reason] of Object.entries(reasons)) {
    assert.match((await askedOf(tinyModel(name))) ?? "can be trained", reason, name);
    await assert.rejects(
      trainer.open({ path: tinyModel(name), threads: 1, memoryBytes: 0 }),
      /unsupported_architecture/,
      name,
    );
  }
});

test("a damaged file and a trainer that does not run are reasons too", async () => {
  const damaged = join(scratch(), "damaged.gguf");
  writeFileSync(damaged, "GGUF");
  assert.match((await askedOf(damaged)) ?? "", /^It cannot be trained yet: .*header is damaged$/);
  assert.match((await askedOf(tinyModel("tiny-f32"), "/none")) ?? "", /^The trainer could not examine it: /);
  assert.match(
    (await askedOf(tinyModel("tiny-f32"), "/bin/false")) ?? "",
    /^The trainer could not examine it: .*ended/,
  );
});
