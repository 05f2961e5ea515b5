// The library's insides as binding.ts uses them: each of these fails when the pinned version moves in a way that matters.
import assert from "node:assert/strict";
import { mkdtempSync, statSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { createLog } from "../../src/base/log.ts";
import type { TopLogits } from "../../src/engine/generator.ts";
import {
  type NativeContext,
  type NativeModel,
  type NativeSampler,
  openNative,
} from "../../src/engine/serve/binding.ts";
import { logSumExp } from "../../src/engine/serve/sampling.ts";
import { codeOf, starterModel } from "./engine-fixture.ts";

let model: NativeModel;
let context: NativeContext;
let sampler: NativeSampler;
let prompt: number[];

before(async () => {
  model = await (await openNative(createLog("error"))).openModel(starterModel);
  context = await model.openContext({ sequences: 4, slotContext: 256, batch: 64, threads: 1 });
  sampler = context.openSampler();
  prompt = model.tokenizer.encode("The capital of France is", false);
});
after(async () => {
  sampler.dispose();
  await context.dispose();
  await model.dispose();
});

/** The logits after a sequence's next tokens. */
async function next(sequence: number, position: number, tokens: number[]): Promise<TopLogits> {
  const [rows] = await context.decode([{ sequence, position, tokens, logitsAt: [tokens.length - 1] }]);
  return sampler.top(rows![0]!);
}

const same = (a: TopLogits, b: TopLogits): void => {
  assert.equal(a.tokens[0], b.tokens[0]);
  assert.ok(Math.abs(a.logits[0]! - b.logits[0]!) < 1e-3, `${a.logits[0]} is not ${b.logits[0]}`);
};

test("a known continuation", async () => {
  const top = await next(0, 0, prompt);
  assert.equal(model.tokenizer.decode([top.tokens[0]!]), " Paris");
  context.clear(0);
});

test("a moved sequence goes on where it was, also over the cells of another", async () => {
  const first = await next(3, 0, prompt);
  await next(1, 0, [...prompt, 5, 6, 7, 8, 9]);
  const token = first.tokens[0]!;
  const stayed = await next(3, prompt.length, [token]);
  assert.ok(context.cut(3, prompt.length));
  await context.move(3, 1);
  same(await next(1, prompt.length, [token]), stayed);
  same(await next(3, 0, prompt), first);
  for (const sequence of [1, 3]) context.clear(sequence);
});

test("a saved sequence goes on in the place of another, and none is taken for one whose copy is still to come", async () => {
  const path = join(mkdtempSync(join(tmpdir(), "cells-")), "cells");
  const [token] = (await next(0, 0, prompt)).tokens;
  assert.equal(await context.save(0, path), statSync(path).size);
  const stayed = await next(0, prompt.length, [token!]);
  await next(2, 0, [5, 6, 7, 8, 9, 10, 11, 12, 13]);
  assert.ok(await context.restore(2, path));
  same(await next(2, prompt.length, [token!]), stayed);
  assert.ok(context.cut(2, prompt.length));
  same(await next(2, prompt.length, [token!]), stayed);
  await context.copy(2, 3);
  assert.deepEqual([await context.save(3, path), await context.restore(2, path)], [null, false]);
  same(await next(3, prompt.length + 1, [12]), await next(2, prompt.length + 1, [12]));
  truncateSync(path, statSync(path).size - 100);
  await assert.rejects(context.restore(1, path));
  assert.equal((await next(1, 0, prompt)).tokens[0], token);
  for (const sequence of [0, 1, 2, 3]) context.clear(sequence);
});

test("a cut sequence knows nothing of what was cut", async () => {
  const plain = await next(2, 0, prompt);
  const after = await next(2, prompt.length, [11]);
  await next(2, prompt.length + 1, [400, 401, 402]);
  assert.ok(context.cut(2, prompt.length));
  same(await next(2, prompt.length, [11]), after);
  context.clear(2);
  same(await next(2, 0, prompt), plain);
  context.clear(2);
});

test("sequences of one batch do not see each other", async () => {
  const alone = await next(0, 0, prompt);
  context.clear(0);
  const parts = [0, 1, 2].map((sequence) => ({
    sequence,
    position: 0,
    tokens: sequence === 0 ? prompt : [1, 2, 3, 4].slice(0, sequence + 1),
    logitsAt: sequence === 1 ? [] : [sequence === 0 ? prompt.length - 1 : 0],
  }));
  const rows = await context.decode(parts);
  assert.deepEqual(
    rows.map((list) => list.length),
    [1, 0, 1],
  );
  const together = await sampler.top(rows[0]![0]!);
  assert.equal(together.tokens[0], alone.tokens[0]);
  assert.ok(Math.abs(together.logits[0]! - alone.logits[0]!) < 0.1);
  for (const sequence of [0, 1, 2]) context.clear(sequence);
});

test("the exact log-prob is the raw logit less the log-sum over the whole vocabulary", async () => {
  const [rows] = await context.decode([{ sequence: 0, position: 0, tokens: prompt, logitsAt: [prompt.length - 1] }]);
  const top = await sampler.top(rows![0]!);
  const exact: number[] = [];
  for (const token of top.tokens) exact.push((await sampler.exact(rows![0]!, token)).logprob);
  assert.equal((await sampler.exact(rows![0]!, top.tokens[3]!)).best, top.tokens[0]);
  const lse = top.logits[0]! - exact[0]!;
  assert.ok(lse > logSumExp(top.logits));
  for (const [index, value] of exact.entries()) assert.ok(Math.abs(top.logits[index]! - lse - value) < 1e-4);
  assert.ok(exact.reduce((sum, value) => sum + Math.exp(value), 0) < 1);
  context.clear(0);
});

test("a bias chooses the kept tokens, and is taken off their logits", async () => {
  const [rows] = await context.decode([{ sequence: 0, position: 0, tokens: prompt, logitsAt: [prompt.length - 1] }]);
  const row = rows![0]!;
  const plain = await sampler.top(row);
  const rare = model.tokenizer.encode(" zebra", false)[0]!;
  const [best, second] = plain.tokens as unknown as [number, number];
  sampler.setBias(
    new Map([
      [rare, 80],
      [best, -100],
    ]),
  );
  const biased = await sampler.top(row);
  assert.ok(biased.tokens.includes(rare) && !biased.tokens.includes(best));
  assert.equal(biased.tokens[0], second);
  assert.ok(Math.abs(biased.logits[0]! - plain.logits[1]!) < 1e-4);
  const { logprob } = await sampler.exact(row, rare);
  const { logprob: bestLogprob } = await sampler.exact(row, best);
  const raw = biased.logits[biased.tokens.indexOf(rare)]!;
  assert.ok(Math.abs(raw - plain.logits[0]! - (logprob - bestLogprob)) < 1e-3);
  sampler.setBias(new Map());
  same(await sampler.top(row), plain);
  context.clear(0);
});

test("a file that is no model is refused, not fatal", async () => {
  const native = await openNative(createLog("error"));
  assert.equal(await codeOf(() => native.openModel(import.meta.filename)), "model_invalid");
  assert.equal(await codeOf(() => model.openAdapter(import.meta.filename)), "model_load_failed");
});
