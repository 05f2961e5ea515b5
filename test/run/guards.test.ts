// The guards: what they ask, and that what they measure is what its name says.
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { formatChat } from "../../src/engine/format/chat-format.ts";
import type { Trainer, WeightedRows } from "../../src/engine/train/trainer.ts";
import { type Examined, isPreferred, penaltyOf } from "../../src/run/choose.ts";
import { askTeacher, withSoftTargets } from "../../src/run/distil.ts";
import { readGuards } from "../../src/run/guards/material.ts";
import { type Asked, choose, divergence, follow, groupedKl, proseSaid } from "../../src/run/guards/measure.ts";
import { findOverlap } from "../../src/study/leakage.ts";
import { partsOf, tinyModel } from "./run-harness.ts";

const config = resolve(import.meta.dirname, "../../config");
const guards = await readGuards(join(config, "guards"));
const json = <T>(name: string): T => JSON.parse(readFileSync(join(config, name), "utf8")) as T;

const parts = partsOf();
const { tokenizer, dispose } = await parts.openTokenizer(tinyModel);
let trainer: Trainer;
let asked: Asked;
before(async () => {
  trainer = parts.startTrainer();
  // Gradients are compared to a thousandth.
  await trainer.open({ path: tinyModel, threads: 1, memoryBytes: 0, precision: "fp32" });
  await trainer.createAdapter("own", { rank: 4, alpha: 8, seed: 3, targets: ["attn_q", "ffn_down"] });
  asked = { trainer, adapter: null, tokenizer, turn: async () => {} };
});
after(async () => {
  await trainer.close();
  await dispose();
});

/** Moves the adapter away from the base. */
async function teach(): Promise<void> {
  const tokens = Int32Array.from({ length: 24 }, (_, at) => (7 * at) % tokenizer.vocabulary);
  const weights = new Float32Array(24).fill(1);
  weights[0] = 0;
  for (let step = 0; step < 3; step++) {
    await trainer.forwardBackward("own", { tokens, rowLengths: Int32Array.of(24), weights });
    const adam = { beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0, gradClipNorm: 0 };
    await trainer.optimStep("own", { learningRate: 0.02, ...adam });
  }
}

test("the suites are large enough, and an item has one right answer", () => {
  assert.ok(guards.retention.length >= 500);
  assert.ok(guards.general.length >= 60);
  assert.ok(guards.format.length >= 60);
  assert.ok(guards.refusals.length >= 20);
  // Some 1.3 tokens a word: 20,000 tokens and more.
  assert.ok(guards.prose.join(" ").split(/\s+/).length >= 15_500);
  for (const { choices, ask } of [...guards.general, ...guards.retention.flatMap((item) => item.wordings)])
    assert.equal(new Set(choices).size, 4, ask);
  for (const suite of [guards.retention.map((item) => item.id), guards.general, guards.format, guards.refusals])
    assert.equal(new Set(suite.map((item) => (typeof item === "string" ? item : item.ask))).size, suite.length);
});

test("what is replayed is not what the guards ask", () => {
  const questions = [
    ...guards.retention.flatMap((item) => item.wordings.map((wording) => wording.ask)),
    ...[...guards.general, ...guards.format, ...guards.refusals].map((item) => item.ask),
  ];
  const rows = json<string[]>("replay-prompts.json").map((content) => ({
    messages: [{ role: "user" as const, content }],
  }));
  const { items } = findOverlap(questions, rows);
  assert.deepEqual(
    items.map(({ question, row }) => [questions[question], rows[row]!.messages[0]!.content]),
    [],
  );
  for (const opening of json<string[]>("replay-openings.json"))
    assert.ok(!guards.prose.some((paragraph) => paragraph.startsWith(opening)), opening);
});

test("a choice is the one whose log-probs, summed token by token and divided by its characters, are highest", async () => {
  const items = guards.general.slice(0, 12);
  const found = await choose(asked, items);
  for (const [index, { ask, choices }] of items.entries()) {
    const prompt = formatChat(tokenizer, [{ role: "user", content: ask }]);
    const scores: number[] = [];
    for (const choice of choices) {
      const tokens = Int32Array.from([...prompt, ...tokenizer.encode(choice, false)]);
      const weights = Float32Array.from(tokens, (_, at) => (at < prompt.length ? 0 : 1));
      const { loss } = await trainer.forward(null, { tokens, rowLengths: Int32Array.of(tokens.length), weights });
      scores.push(-loss / [...choice].length);
    }
    assert.equal(found[index], Math.max(...scores) === scores[0], ask);
  }
  // The same question with its answers turned round is answered the other way.
  const turned = await choose(
    asked,
    items.map((item) => ({ ...item, choices: item.choices.toReversed() })),
  );
  assert.ok(found.some((right, index) => right !== turned[index]));
});

test("an instruction counts as followed when its pattern is in the greedy answer", async () => {
  const ask = "Say something.";
  const [all, none] = await follow(asked, [
    { ask, matches: /^/u },
    { ask, matches: /(?!)/u },
  ]);
  assert.deepEqual([all, none], [true, false]);
});

test("drift of an adapter that is the base is nothing, and of another the KL over the whole vocabulary", async () => {
  const prose = guards.prose.slice(0, 2);
  const said = await proseSaid(asked, prose);
  const same = await divergence({ ...asked, adapter: "own" }, said);
  assert.ok(Math.abs(same.kl) < 1e-5 && Math.abs(same.perplexity_rise) < 1e-3, JSON.stringify(same));
  await teach();
  const moved = await divergence({ ...asked, adapter: "own" }, said);
  const exact = await exactKl(prose);
  assert.equal(moved.tokens, exact.tokens);
  // The likeliest tokens and the rest as one can only lose some of it.
  assert.ok(moved.kl > 0 && moved.kl <= exact.kl + 1e-6, `${moved.kl} ${exact.kl}`);
  assert.ok(moved.kl > 0.3 * exact.kl, `${moved.kl} ${exact.kl}`);
  assert.ok(moved.covered > 0 && moved.covered <= 1);
});

/** From every token's log-prob under both. */
async function exactKl(prose: readonly string[]): Promise<{ kl: number; tokens: number }> {
  const all = tokenizer.vocabulary;
  let sum = 0;
  let count = 0;
  for (const text of prose) {
    const tokens = Int32Array.from(tokenizer.encode(text, false).slice(0, 256));
    const weights = Float32Array.from(tokens, (_, at) => (at === 0 ? 0 : 1));
    const rows = { tokens, rowLengths: Int32Array.of(tokens.length), weights };
    const [base, own] = [await trainer.forward(null, rows, all), await trainer.forward("own", rows, all)];
    for (let t = 1; t < tokens.length; t++) {
      const ours = new Map<number, number>();
      for (let k = 0; k < all; k++) ours.set(own.top.tokens[t * all + k]!, own.top.logprobs[t * all + k]!);
      for (let k = 0; k < all; k++) {
        const lp = base.top.logprobs[t * all + k]!;
        sum += Math.exp(lp) * (lp - ours.get(base.top.tokens[t * all + k]!)!);
      }
      count++;
    }
  }
  return { kl: sum / count, tokens: count };
}

test("grouping makes a KL smaller, never larger, and exact where nothing is grouped", () => {
  const p = [0.5, 0.25, 0.2, 0.05];
  const q = [0.25, 0.25, 0.25, 0.25];
  const logs = (values: number[]): number[] => values.map(Math.log);
  const whole = p.reduce((sum, value, at) => sum + value * Math.log(value / q[at]!), 0);
  assert.ok(Math.abs(groupedKl(logs(p), logs(q)) - whole) < 1e-9);
  const grouped = groupedKl(logs(p.slice(0, 2)), logs(q.slice(0, 2)));
  assert.ok(Math.abs(grouped - (0.5 * Math.log(2) + 0 + 0.25 * Math.log(0.25 / 0.5))) < 1e-12);
  assert.ok(grouped < whole - 0.01, `${grouped} ${whole}`);
});

for (const named of [3, 1024])
  test(`what the base says is a target whose gradient vanishes on the base, with ${named} likeliest tokens and the rest as one`, async () => {
    const shape = { rank: 4, alpha: 8, seed: 5, targets: ["attn_q", "ffn_down"] as const };
    const tokens = Int32Array.from(tokenizer.encode(guards.prose[0]!, false).slice(0, 64));
    const weights = Float32Array.from(tokens, (_, at) => (at === 0 ? 0 : 1 / 63));
    const rows = { tokens, rowLengths: Int32Array.of(tokens.length), weights };
    const topK = Math.min(named, tokenizer.vocabulary);
    const step = { learningRate: 1e-6, beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0, gradClipNorm: 0 };
    const soft = withSoftTargets(rows, await askTeacher(trainer, rows, topK));
    for (let t = 1; t < tokens.length; t++) {
      const places = soft.soft!.weights.subarray(t * (topK + 1), (t + 1) * (topK + 1));
      const sum = places.reduce((total, value) => total + value, 0);
      assert.ok(Math.abs(sum - 1 / 63) < 1e-5);
    }
    const gradientOf = async (asked: WeightedRows): Promise<number> => {
      await trainer.createAdapter("fresh", { ...shape, targets: [...shape.targets] });
      await trainer.forwardBackward("fresh", asked);
      const { gradNorm } = await trainer.optimStep("fresh", step);
      await trainer.dropAdapter("fresh");
      return gradNorm;
    };
    const [towardsItself, towardsText] = [await gradientOf(soft), await gradientOf(rows)];
    assert.ok(towardsItself < 1e-3 * towardsText, `${towardsItself} ${towardsText}`);
  });

test("a penalty counts what is lost beyond the limits, and nothing else", () => {
  const still = { tokens: 1, base_perplexity: 9, perplexity: 9, perplexity_rise: 0, kl: 0, covered: 1 };
  const limits = { retained_items: 1, max_loss: 3, max_kl: 0.05, max_perplexity_rise: 3 };
  const suite = (aligned: number) => ({
    name: "general" as const,
    n: 10,
    base: 80,
    aligned,
    gates: true,
    lost: [],
    gained: [],
  });
  assert.equal(penaltyOf({ suites: [suite(77), suite(95)], drift: still }, limits), 0);
  assert.equal(penaltyOf({ suites: [suite(70)], drift: still }, limits), 7);
  assert.equal(penaltyOf({ suites: [{ ...suite(70), gates: false }], drift: still }, limits), 0);
  const far = { ...still, kl: 0.08, perplexity_rise: 5 };
  assert.ok(Math.abs(penaltyOf({ suites: [suite(80)], drift: far }, limits) - 1.25) < 1e-9);
});

test("who keeps within the limits is preferred, unless answers are given up for it beyond chance", () => {
  /** Of 40 questions, each about a fact of its own or as `clusterOf` says, the first `right` answered right. */
  const examined = (right: number, penalty: number, clusterOf: (at: number) => string = String): Examined => ({
    candidate: { step: 1, repaired: false, scale: 1, dev: (100 * right) / 40, guards: null, penalty },
    answers: Array.from({ length: 40 }, (_, at) => ({
      item: { sample_num: at, instruction: "", response: "", aliases: [], cluster: clusterOf(at), competitors: [] },
      answer: "",
      correct: at < right,
    })),
  });
  // Both keep or both break: points count.
  assert.ok(isPreferred(examined(30, 0), examined(29, 0)) && !isPreferred(examined(29, 0), examined(30, 0)));
  assert.ok(isPreferred(examined(30, 1), examined(30, 2)));
  // Five answers lost and none gained: 2 · 0.5^5 = 0.0625 of chance. Six: 0.031.
  assert.ok(isPreferred(examined(25, 0), examined(30, 0.5)) && !isPreferred(examined(30, 0.5), examined(25, 0)));
  assert.ok(!isPreferred(examined(24, 0), examined(30, 0.5)) && isPreferred(examined(30, 0.5), examined(24, 0)));
  // Six of one fact are one that went wrong.
  const ofTen = (at: number): string => String(Math.floor(at / 10));
  assert.ok(isPreferred(examined(24, 0, ofTen), examined(30, 0.5, ofTen)));
  // Without a benchmark there is nothing to give up.
  const bare = (penalty: number): Examined => ({ ...examined(30, penalty), answers: [] });
  assert.ok(isPreferred(bare(0), bare(1)) && !isPreferred(bare(1), bare(0)));
});

test("a file of guards that is missing or is no JSON is named, with what to do", async () => {
  const folder = mkdtempSync(join(tmpdir(), "guards-"));
  const refused = (name: string, why: RegExp) =>
    assert.rejects(readGuards(folder), (error: Error & { code: string; hint: string }) => {
      assert.equal(error.code, "installation_damaged");
      assert.ok(error.message.startsWith(`${join(folder, name)}: `), error.message);
      assert.match(error.message, why);
      return /Install this version of plumbline again/.test(error.hint);
    });
  cpSync(join(config, "guards"), folder, { recursive: true });
  writeFileSync(join(folder, "general.jsonl"), "{");
  await refused("general.jsonl", /JSON/);
  rmSync(join(folder, "prose.txt"));
  await refused("prose.txt", /: does not exist$/);
  rmSync(folder, { recursive: true });
});
