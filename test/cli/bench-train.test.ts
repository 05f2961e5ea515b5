// plumbline bench train on the tests' tiny model: what it prints, from a file and from a shape, and from another's adapter.
import assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { shapes } from "../../src/cli/bench/shapes.ts";
import type { TrainFigures } from "../../src/cli/bench/train.ts";
import { everyTarget, openWorker, rowsOf, startWorker, step, tinyModel, tinyShape } from "../engine/trainer-fixture.ts";
import { plumbline } from "./plumbline.ts";

const folder = mkdtempSync(join(tmpdir(), "plumbline-bench-"));

/** Eight rows of 40 tokens; with `shared`, the first 20 are the same in all. */
function rowsFile(shared: boolean): string {
  const path = join(folder, `rows-${shared}.jsonl`);
  const rows = Array.from({ length: 8 }, (_, row) => ({
    tokens: Array.from({ length: 40 }, (_token, at) => 3 + ((at * 31 + (shared && at < 20 ? 0 : row * 17)) % 300)),
    weights: Array.from({ length: 40 }, (_token, at) => (at < 20 ? 0 : 1)),
  }));
  writeFileSync(path, rows.map((row) => JSON.stringify(row)).join("\n"));
  return path;
}

async function bench(args: string[]): Promise<TrainFigures> {
  const common = ["--batch", "4", "--rank", "4", "--steps", "3", "--warmup", "1", "--threads", "1", "--json"];
  const { code, stdout, stderr } = await plumbline(["bench", "train", ...common, ...args]);
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout) as TrainFigures;
}

test("the figures add up", async () => {
  const figures = await bench(["--model", tinyModel("tiny-q4_1"), "--rows", rowsFile(false), "--in-order"]);
  assert.equal(figures.loss.length, 3);
  assert.equal(figures.tokens, 2 * 4 * 40);
  assert.equal(figures.computed_tokens, 2 * 4 * 39, "nothing asks for what follows a row's last token");
  assert.ok(Math.abs(figures.tokens_per_second - figures.tokens / figures.seconds) < 1e-6);
  const shares = Object.values(figures.ops);
  assert.ok(Math.abs(shares.reduce((sum, share) => sum + share, 0) - 1) < 1e-9);
  assert.ok(figures.ops.linear! > 0 && figures.ops.optimizer! > 0);
  // On a busy machine the rate and the training are measured at different loads: no bound but that there is a figure.
  assert.ok(figures.floor_fraction > 0 && figures.gemm_flops_per_second > 0, `${figures.floor_fraction}`);
});

test("a beginning that rows share is computed once", async () => {
  const figures = await bench(["--model", tinyModel("tiny-q4_1"), "--rows", rowsFile(true), "--in-order"]);
  assert.equal(figures.tokens, 2 * 4 * 40);
  assert.equal(figures.computed_tokens, 2 * (20 + 4 * 19));
});

test("an exported adapter is where --init starts", async (t) => {
  const rows = rowsFile(false);
  const trainer = await openWorker(t, tinyModel("tiny-f32"), 1);
  await trainer.createAdapter("a", { ...tinyShape, targets: ["attn_q", "attn_k", "ffn_up"] });
  await trainer.forwardBackward("a", rowsOf([30, 20], 5));
  await trainer.optimStep("a", step(0.05));
  const peft = join(folder, "peft");
  await trainer.exportPeft("a", peft, {});
  const first = Array.from({ length: 4 }, (_, row) =>
    Array.from({ length: 40 }, (_token, at) => 3 + ((at * 31 + row * 17) % 300)),
  );
  const weights = first.flatMap(() => Array.from({ length: 40 }, (_token, at) => (at < 20 ? 0 : 1 / 80)));
  const { loss } = await trainer.forward("a", {
    tokens: Int32Array.from(first.flat()),
    rowLengths: Int32Array.of(40, 40, 40, 40),
    weights: Float32Array.from(weights),
  });
  const figures = await bench([
    "--model",
    tinyModel("tiny-f32"),
    "--rows",
    rows,
    "--in-order",
    "--init",
    peft,
    "--precision",
    "fp32",
  ]);
  assert.equal(figures.precision, "fp32");
  assert.ok(Math.abs(figures.loss[0]! - loss) < 1e-6, `${figures.loss[0]} and ${loss}`);
});

test("dropout changes what is learnt, and its share must be one", async () => {
  const args = ["--model", tinyModel("tiny-f32"), "--rows", rowsFile(false), "--in-order", "--lr", "0.01"];
  const [without, dropped] = [await bench(args), await bench([...args, "--dropout", "0.5"])];
  assert.equal(dropped.loss[0], without.loss[0], "B is 0: what A's inputs lose is not seen yet");
  assert.notEqual(dropped.loss[2], without.loss[2]);
  assert.equal((await plumbline(["bench", "train", ...args, "--dropout", "1"])).code, 2);
});

test("memory of a GPU is told without one", async (t) => {
  const trainer = startWorker(t);
  const shape = { ...shapes["llama-8b"], quantisation: "q4_k" };
  const training = {
    rank: 16,
    targets: everyTarget,
    longestRow: 4096,
    passTokens: 4096,
    threads: 1,
    device: "cuda",
  } as const;
  const narrow = await trainer.estimate({ shape, ...training });
  // 8.03 G weights at 4.5 bits, and 3.03 MB of activations a token besides the head's 2 GB: native/test/estimate_test.cpp counts them.
  assert.ok(Math.abs(narrow.weightBytes / 4.535e9 - 1) < 0.001, `${narrow.weightBytes}`);
  assert.ok(Math.abs(narrow.passBytes / 14.26e9 - 1) < 0.01, `${narrow.passBytes}`);
  const single = await trainer.estimate({ shape, ...training, precision: "fp32" });
  assert.ok(single.passBytes > 1.7 * narrow.passBytes && single.weightBytes === narrow.weightBytes);
  assert.ok((await trainer.estimate({ shape, ...training, dropout: 0.1 })).passBytes > narrow.passBytes);
  if ((await trainer.hello()).noGpu !== null)
    assert.deepEqual([narrow.gemmFlopsPerSecond, narrow.tokensPerSecond], [null, null], "no rate is made up");
  const tied = { ...shape, tied: true };
  await assert.rejects(trainer.estimate({ shape: tied, ...training, targets: ["output"] }), /tied_head/);
});

test("a model and a shape exclude each other", async () => {
  const rows = rowsFile(false);
  for (const args of [[], ["--model", tinyModel("tiny-f32"), "--shape", "llama-8b"]])
    assert.equal((await plumbline(["bench", "train", "--rows", rows, ...args])).code, 2);
});

test("what a shape costs is told without it, and a made-up model trains", async (t) => {
  const trainer = startWorker(t);
  const shape = { ...shapes["smollm2-135m"], layers: 2, vocabulary: 512, quantisation: "q4_k" };
  const training = {
    rank: 4,
    targets: everyTarget,
    longestRow: 32,
    passTokens: 64,
    threads: 1,
    device: "cpu",
  } as const;
  const estimate = await trainer.estimate({ shape, ...training });
  assert.ok(estimate.totalBytes > estimate.weightBytes + estimate.adapterBytes + estimate.passBytes);
  assert.ok(Math.abs(estimate.tokensPerSecond! - estimate.gemmFlopsPerSecond! / estimate.flopsPerToken) < 1e-6);
  await assert.rejects(trainer.estimate({ shape: { ...shape, quantisation: "q9" }, ...training }), /quantisation/);
  await assert.rejects(trainer.estimate({ shape: { ...shape, heads: 4096, headValues: 4096 }, ...training }), /heads/);
  await assert.rejects(trainer.open({ shape: { ...shape, architecture: "t5" }, threads: 1, memoryBytes: 0 }), /t5/);
  const opened = await trainer.open({ shape, threads: 1, memoryBytes: 0 });
  assert.equal(opened.weightBytes, estimate.weightBytes);
  await trainer.createAdapter("a", tinyShape);
  const { loss } = await trainer.forwardBackward("a", rowsOf([20, 30], 1));
  // Random weights know nothing: about log(512) nats a token.
  assert.ok(Math.abs(loss - Math.log(512)) < 1, `${loss}`);
  const { ops } = await trainer.profile();
  assert.ok(ops.find(({ name }) => name === "linear")!.flops > 0);
  await assert.rejects(trainer.exportPeft("a", join(folder, "none"), {}), /made-up/);
});
