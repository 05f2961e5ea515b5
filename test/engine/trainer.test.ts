// The trainer through its typed face, on a tiny model: it learns, resumes to the bit, and never samples from old weights.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import type { SampledRow, Trainer, TrainerSampling } from "../../src/engine/train/trainer.ts";
import { numbers, openWorker, rowsOf, scratch, step, tinyModel, tinyShape } from "./trainer-fixture.ts";

const quantised = tinyModel("tiny-q4_1");

const sampling: TrainerSampling = {
  maxTokens: 16,
  temperature: 1,
  topK: 0,
  topP: 1,
  minP: 0,
  seed: 3,
  stopTokens: [5],
};

const refusedWith =
  (code: string) =>
  (error: unknown): boolean =>
    error instanceof Failure && error.code === "trainer_error" && error.context.code === code;

/** One optimizer step; the loss before it. */
async function train(trainer: Trainer, seed: number, learningRate = 0.01): Promise<number> {
  const [{ loss }] = await Promise.all([
    trainer.forwardBackward("a", rowsOf([20, 7, 33, 12], seed)),
    trainer.optimStep("a", step(learningRate)),
  ]);
  return loss;
}

test("the loss falls towards nothing when the same rows come again", async (t) => {
  const trainer = await openWorker(t, quantised);
  await trainer.createAdapter("a", { ...tinyShape, rank: 16, alpha: 32 });
  const rows = rowsOf([12, 16], 1);
  const before = await trainer.forward(null, rows);
  let loss = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 120; i++) {
    ({ loss } = await trainer.forwardBackward("a", rows));
    await trainer.optimStep("a", step(0.02));
  }
  assert.ok(loss < 0.1 * before.loss, `${before.loss} → ${loss}`);
  const after = await trainer.forward(null, rows);
  assert.deepEqual(after, before, "the base must not have moved");
});

test("a fresh adapter changes nothing, and its rank and alpha are counted", async (t) => {
  const trainer = await openWorker(t, quantised);
  const { parameters, version } = await trainer.createAdapter("a", tinyShape);
  // rank × (in + out) of q, k, v, output, gate, up, down, in two layers of 64 and 96 values, two key/value heads of four
  const perLayer = [64 + 64, 64 + 32, 64 + 32, 64 + 64, 64 + 96, 64 + 96, 96 + 64].reduce((sum, n) => sum + n, 0);
  assert.deepEqual({ parameters, version }, { parameters: 2 * 4 * perLayer, version: 0 });
  const rows = rowsOf([20, 30], 2);
  const [base, fresh] = [await trainer.forward(null, rows), await trainer.forward("a", rows)];
  for (const [i, value] of base.logprobs.entries()) assert.ok(Math.abs(value - fresh.logprobs[i]!) < 1e-5);
  assert.ok(Math.abs(base.loss - fresh.loss) < 1e-5);
  assert.ok(base.entropies.every((value, i) => (rows.weights[i] === 0 ? value === 0 : value > 0)));
});

test("a machine with more threads than the trainer takes is no hindrance", async (t) => {
  const trainer = await openWorker(t, quantised, 224);
  const shape = { rank: 4, targets: tinyShape.targets, longestRow: 64, passTokens: 64, device: "cuda" } as const;
  const cost = await trainer.estimate({ path: quantised, threads: 224, ...shape });
  assert.ok(cost.totalBytes > 0);
});

test("the same calls give the same bits, and a checkpoint resumes them", async (t) => {
  const folder = join(scratch(), "checkpoint");
  const first: number[] = [];
  const trainer = await openWorker(t, quantised);
  await trainer.createAdapter("a", tinyShape);
  for (let i = 0; i < 13; i++) {
    if (i === 3) {
      const files = await trainer.save("a", folder);
      assert.deepEqual(
        files.map(({ name }) => name),
        ["adapter.f32", "first_moments.f32", "second_moments.f32", "manifest.json"],
      );
    }
    first.push(await train(trainer, i));
  }
  const text = await trainer.sample("a", rowsOf([4, 9], 8), sampling);
  await trainer.close();

  const again = await openWorker(t, quantised);
  await again.createAdapter("a", { ...tinyShape, seed: 1000 });
  assert.deepEqual(await again.load("a", folder), { step: 3, version: 1 });
  const resumed: number[] = [];
  for (let i = 3; i < 13; i++) resumed.push(await train(again, i));
  assert.deepEqual(resumed, first.slice(3));
  assert.deepEqual(await again.sample("a", rowsOf([4, 9], 8), sampling), text);
});

test("a damaged checkpoint, or one of another shape, is refused and changes nothing", async (t) => {
  const folder = join(scratch(), "checkpoint");
  const trainer = await openWorker(t, quantised);
  await trainer.createAdapter("a", tinyShape);
  await train(trainer, 1);
  await trainer.save("a", folder);
  await assert.rejects(trainer.save("a", folder), refusedWith("io_error"));
  await trainer.createAdapter("b", { ...tinyShape, alpha: 9 });
  await assert.rejects(trainer.load("b", folder), refusedWith("checkpoint_mismatch"));
  const before = await trainer.forward("a", rowsOf([20], 1));
  writeFileSync(join(folder, "second_moments.f32"), "short");
  await assert.rejects(trainer.load("a", folder), refusedWith("checkpoint_mismatch"));
  assert.deepEqual(await trainer.forward("a", rowsOf([20], 1)), before);
});

test("several adapters live over one base, each with its own version", async (t) => {
  const trainer = await openWorker(t, quantised);
  await trainer.createAdapter("a", tinyShape);
  await trainer.createAdapter("b", { ...tinyShape, targets: ["attn_q", "attn_v"], rank: 2 });
  const rows = rowsOf([20, 30], 2);
  const untouched = await trainer.forward("b", rows);
  await train(trainer, 1);
  assert.deepEqual(await trainer.forward("b", rows), untouched);
  const prompts = rowsOf([5], 1);
  await assert.rejects(trainer.sample("a", prompts, sampling, 0), refusedWith("stale_version"));
  assert.equal((await trainer.sample("a", prompts, sampling, 1)).length, 1);
  assert.equal((await trainer.sample("b", prompts, sampling, 0)).length, 1);
  await trainer.dropAdapter("b");
  await assert.rejects(trainer.forward("b", rows), refusedWith("unknown_adapter"));
});

test("a moving average follows an adapter of the same shape, and a checkpoint resumes it to the bit", async (t) => {
  const folder = join(scratch(), "average");
  const rows = rowsOf([20, 30], 2);
  const trainer = await openWorker(t, quantised);
  for (const name of ["a", "average", "wider"])
    await trainer.createAdapter(name, { ...tinyShape, rank: name === "wider" ? 5 : 4 });
  const start = await trainer.forward("average", rows);
  await train(trainer, 1, 0.05);
  assert.deepEqual(await trainer.averageAdapter("average", "a", 1), { version: 1 });
  assert.deepEqual(await trainer.forward("average", rows), start);
  await trainer.averageAdapter("average", "a", 0.5);
  const [middle, policy] = [await trainer.forward("average", rows), await trainer.forward("a", rows)];
  assert.ok(middle.loss !== start.loss && middle.loss !== policy.loss);
  await trainer.save("average", folder);
  await trainer.averageAdapter("average", "a", 0);
  assert.deepEqual(await trainer.forward("average", rows), policy);
  await trainer.load("average", folder);
  assert.deepEqual(await trainer.forward("average", rows), middle);
  await assert.rejects(trainer.averageAdapter("average", "wider", 0.5), refusedWith("bad_request"));
  await assert.rejects(trainer.averageAdapter("average", "a", 1.1), refusedWith("bad_request"));
});

test("what is sampled is scored the same, and ends where it must", async (t) => {
  const trainer = await openWorker(t, quantised);
  await trainer.createAdapter("a", tinyShape);
  await train(trainer, 1, 0.05);
  const lengths = [4, 1, 70, 13, 2];
  const prompts = rowsOf(lengths, 6);
  const samples = await trainer.sample("a", prompts, sampling);
  assert.deepEqual(await trainer.sample("a", prompts, sampling), samples);
  let at = 0;
  for (const [r, row] of samples.entries()) {
    checkEnd(row);
    const prompt = prompts.tokens.slice(at, at + lengths[r]!);
    at += lengths[r]!;
    const scores = await trainer.score(
      "a",
      {
        tokens: Int32Array.from([...prompt, ...row.tokens]),
        rowLengths: Int32Array.of(prompt.length + row.tokens.length),
      },
      Int32Array.of(prompt.length),
    );
    assert.ok(scores.subarray(0, prompt.length).every((value) => value === 0));
    for (const [i, logprob] of row.logprobs.entries())
      assert.ok(Math.abs(scores[prompt.length + i]! - logprob) < 1e-4, `row ${r} token ${i}`);
  }
});

test("a draw tells the likeliest tokens of its place as forward tells them, and only when asked", async (t) => {
  const trainer = await openWorker(t, quantised);
  const lengths = [4, 1, 70];
  const prompts = rowsOf(lengths, 6);
  const silent = await trainer.sample(null, prompts, sampling);
  const told = await trainer.sample(null, prompts, { ...sampling, reportTop: 3 });
  assert.deepEqual(
    told.map(({ top, ...row }) => row),
    silent,
  );
  let at = 0;
  for (const [r, { tokens, top }] of told.entries()) {
    const prompt = prompts.tokens.slice(at, at + lengths[r]!);
    at += lengths[r]!;
    const row = Int32Array.from([...prompt, ...tokens]);
    const asked = {
      tokens: row,
      rowLengths: Int32Array.of(row.length),
      weights: Float32Array.from(row, (_, place) => (place < prompt.length ? 0 : 1)),
    };
    const said = (await trainer.forward(null, asked, 3)).top;
    assert.deepEqual(top!.tokens, said.tokens.slice(3 * prompt.length));
    assert.equal(top!.logprobs.length, 3 * tokens.length);
    for (const [i, logprob] of top!.logprobs.entries())
      assert.ok(Math.abs(said.logprobs[3 * prompt.length + i]! - logprob) < 1e-4, `row ${r} entry ${i}`);
  }
  const refused = (over: Partial<TrainerSampling>, rows = prompts): Promise<void> =>
    assert.rejects(
      trainer.sample(null, rows, { ...sampling, ...over }),
      (error: unknown) => refusedWith("bad_request")(error) && /report_top/.test((error as Failure).message),
    );
  // The vocabulary has 320; 250 rows of 500 tokens would be told in 321 MB.
  for (const reportTop of [-1, 1.5, 321, 1025]) await refused({ reportTop });
  await refused({ reportTop: 320, maxTokens: 500 }, rowsOf(new Array<number>(250).fill(1), 6));
});

function checkEnd({ tokens, logprobs, stopReason }: SampledRow): void {
  assert.equal(tokens.length, logprobs.length);
  assert.ok(tokens.slice(0, -1).every((token) => token !== 5));
  assert.equal(stopReason, tokens.at(-1) === 5 ? "stop" : "length");
  if (stopReason === "length") assert.equal(tokens.length, sampling.maxTokens);
}

test("the whole distribution explains log-prob, entropy and loss of each token", async (t) => {
  const trainer = await openWorker(t, quantised);
  const rows = rowsOf([9, 5, 1, 12], 5);
  const count = rows.tokens.length;
  const next = numbers(17);
  // Tokens with one coefficient, with several, and with none; first tokens have none.
  const coefficient = (share: number) =>
    rows.weights.map((weight) => (weight === 0 || next(10) < 4 ? 0 : share * next(9)));
  const soft = {
    targets: Int32Array.from({ length: 3 * count }, () => next(320)),
    weights: new Float32Array(3 * count),
  };
  for (let at = 0; at < count; at++)
    if (rows.weights[at] !== 0 && at % 3 > 0) soft.weights.set([0.2, 0.1 * (at % 4), 0.3], 3 * at);
  const weighted = {
    ...rows,
    weights: coefficient(0.1),
    entropyWeights: coefficient(0.02),
    zWeights: coefficient(0.01),
    soft,
  };
  const { loss, logprobs, entropies, logSums, softLogprobs, top } = await trainer.forward(null, weighted, 320);
  let expected = 0;
  for (let at = 0; at < count; at++) {
    const softWeights = soft.weights.subarray(3 * at, 3 * at + 3);
    if (
      ![weighted.weights[at], weighted.entropyWeights[at], weighted.zWeights[at], ...softWeights].some((w) => w !== 0)
    ) {
      assert.deepEqual([logprobs[at], entropies[at], logSums[at], top.logprobs[320 * at]], [0, 0, 0, 0]);
      continue;
    }
    const all = [...top.logprobs.subarray(320 * at, 320 * at + 320)];
    assert.ok(all.every((value, place) => place === 0 || value <= all[place - 1]!));
    const byToken = new Map(all.map((value, place) => [top.tokens[320 * at + place]!, value]));
    assert.equal(byToken.size, 320);
    assert.ok(Math.abs(all.reduce((sum, value) => sum + Math.exp(value), 0) - 1) < 1e-5);
    const entropy = -all.reduce((sum, value) => sum + Math.exp(value) * value, 0);
    assert.ok(Math.abs(entropy - entropies[at]!) < 1e-5, `${entropy} and ${entropies[at]}`);
    assert.ok(Math.abs(byToken.get(rows.tokens[at]!)! - logprobs[at]!) < 1e-6);
    expected -= weighted.weights[at]! * logprobs[at]! + weighted.entropyWeights[at]! * entropy;
    expected += weighted.zWeights[at]! * logSums[at]! ** 2;
    for (const [k, weight] of softWeights.entries()) {
      if (weight !== 0)
        assert.ok(Math.abs(byToken.get(soft.targets[3 * at + k]!)! - softLogprobs![3 * at + k]!) < 1e-6);
      expected -= weight * softLogprobs![3 * at + k]!;
    }
  }
  assert.ok(Math.abs(loss - expected) < 1e-5 * Math.abs(expected), `${loss} and ${expected}`);
  const few = await trainer.forward(null, weighted, 4);
  assert.deepEqual(few.top.tokens.subarray(4, 8), top.tokens.subarray(320, 324));
});

test("greedy follows the largest log-prob", async (t) => {
  const trainer = await openWorker(t, quantised);
  const prompts = rowsOf([6], 4);
  const greedy = await trainer.sample(null, prompts, { ...sampling, temperature: 0, stopTokens: [] });
  const top1 = await trainer.sample(null, prompts, { ...sampling, topK: 1, seed: 99, stopTokens: [] });
  assert.deepEqual(top1, greedy);
});

test("memory over the limit is refused with both figures", async (t) => {
  const trainer = await openWorker(t, quantised, 1, 11 << 20);
  await assert.rejects(
    trainer.createAdapter("a", { ...tinyShape, rank: 1024 }),
    (error: unknown) => refusedWith("out_of_memory")(error) && /\d+ MiB.*\d+ MiB/.test((error as Failure).message),
  );
  await trainer.createAdapter("a", tinyShape);
  await assert.rejects(trainer.forwardBackward("a", rowsOf([512], 1)), refusedWith("out_of_memory"));
  assert.ok((await trainer.forwardBackward("a", rowsOf([30], 1))).loss > 0);
});

test("a gradient that is not finite is refused and changes nothing", async (t) => {
  const trainer = await openWorker(t, quantised);
  await trainer.createAdapter("a", tinyShape);
  await train(trainer, 1);
  const rows = rowsOf([20], 3);
  const before = await trainer.forward("a", rows);
  const exploding = { ...rows, weights: rows.weights.map((weight) => (weight === 0 ? 0 : 3e38)) };
  const calls = [trainer.forwardBackward("a", exploding), trainer.optimStep("a", step(0.01))];
  const settled = await Promise.allSettled(calls);
  assert.ok(settled.some((call) => call.status === "rejected" && refusedWith("non_finite")(call.reason)));
  assert.deepEqual(await trainer.forward("a", rows), before);
});
