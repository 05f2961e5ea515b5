// Drift in a made-up space where what is near is known, and with the real encoder on the demo's questions.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { installation } from "../../src/base/config.ts";
import { seeded } from "../../src/base/statistics/random.ts";
import { aurocOf } from "../../src/base/statistics/ranking.ts";
import { driftSpace, fitDrift, leastQuestions } from "../../src/confidence/drift.ts";
import { statementsOf } from "../../src/study/passages.ts";
import { demoMaterial } from "../e2e/prove/material.ts";
import { createEngine } from "../engine/engine-fixture.ts";
import { withoutEncoder, writeEncoder } from "../helpers/encoder.ts";

const dimensions = 32;

/** Unit vectors around a direction: the nearer, the smaller `width`. */
function around(direction: number, width: number, count: number, seed: number): Float32Array[] {
  const random = seeded(seed);
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return Array.from({ length: count }, () => {
    const vector = Float32Array.from({ length: dimensions }, (_, at) => (at === direction ? 1 : 0) + width * normal());
    const length = Math.hypot(...vector);
    return vector.map((value) => value / length);
  });
}

const questionsOf = (vectors: Float32Array[]) => vectors.map((vector, at) => ({ vector, cluster: String(at) }));
const material = {
  encoderSha256: "e",
  passages: around(0, 0.15, 40, 1),
  questions: questionsOf(around(0, 0.15, 150, 2)),
  background: around(5, 0.3, 60, 3),
};

test("a question like the documents' has any p, one unlike them a small one and π near 1", () => {
  const { reference } = fitDrift(material);
  const stored: typeof reference = JSON.parse(JSON.stringify(reference));
  const space = driftSpace(stored);
  assert.equal(driftSpace(stored), space);
  const inside = around(0, 0.15, 400, 4).map(space.measure);
  const outside = around(9, 0.3, 100, 5).map(space.measure);
  // Conformal: under exchangeability P(p ≤ t) ≤ t, up to the chance of 150 and 400 draws.
  for (const limit of [0.05, 0.1, 0.5]) {
    const share = inside.filter(({ pValue }) => pValue <= limit).length / inside.length;
    assert.ok(Math.abs(share - limit) < 0.08, `${share} of p-values are at most ${limit}`);
  }
  assert.ok(outside.every(({ pValue }) => pValue === 1 / 151));
  assert.ok(outside.every(({ outOfDomain }) => outOfDomain > 0.6));
  assert.ok(inside.every(({ outOfDomain }) => outOfDomain < 0.5));
  const distances = [...inside, ...outside].map(({ outOfDomain }) => -outOfDomain);
  assert.ok(aurocOf(distances, [...inside.map(() => true), ...outside.map(() => false)])! > 0.999);
});

test("a held-out question is not compared with those about its own fact", () => {
  const [vector] = around(3, 0.01, 1, 6);
  // Two of one fact, far from all others: each would vouch for the other.
  const twins = [vector!, vector!].map((one) => ({ vector: one, cluster: "twin" }));
  const { outOfDomain, reference } = fitDrift({ ...material, questions: [...twins, ...material.questions] });
  assert.ok(outOfDomain[0]! > 0.5, `${outOfDomain[0]}`);
  assert.ok(reference.distances.at(-1)! > 0.5);
});

test("bytes keep what matters, and few questions are refused", () => {
  const { reference } = fitDrift(material);
  assert.equal(Buffer.from(reference.exemplars, "base64").length, (40 + 150) * dimensions);
  assert.throws(
    () => fitDrift({ ...material, questions: material.questions.slice(0, leastQuestions - 1) }),
    RangeError,
  );
  const { outOfDomain } = fitDrift({ ...material, background: [] });
  assert.ok(outOfDomain.every((value) => value === 0));
});

const demo = join(installation, "config/demo");

test("MiniLM tells the demo's questions from those about anything", { skip: withoutEncoder }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "plumbline-drift-"));
  const it = createEngine();
  try {
    const model = { baseId: "minilm", basePath: join(folder, "minilm.gguf") };
    await writeEncoder(model.basePath);
    await it.generator.pool.lease(model, "work");
    const options = { truncate: true, signal: new AbortController().signal };
    const embed = async (texts: string[]) =>
      (await it.generator.embed(model, texts, options)).map(({ vector }) => vector);
    const items = readFileSync(join(demo, "benchmark.jsonl"), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { instruction: string; cluster: string; split: string });
    const vectors = await embed(items.map(({ instruction }) => instruction));
    const questions = vectors.map((vector, at) => ({ vector, ...items[at]! }));
    const statements = statementsOf(demoMaterial().documents);
    const background = JSON.parse(readFileSync(join(installation, "config/replay-prompts.json"), "utf8")) as string[];
    const { reference } = fitDrift({
      encoderSha256: "",
      passages: await embed(statements),
      questions: questions.filter(({ split }) => split === "dev"),
      background: await embed(background),
    });
    const space = driftSpace(reference);
    const away = await embed(JSON.parse(readFileSync(join(demo, "off-topic.json"), "utf8")) as string[]);
    const own = questions.filter(({ split }) => split === "sealed").map(({ vector }) => space.measure(vector));
    const other = away.map(space.measure);
    const nearness = [...own, ...other].map(({ distance }) => -distance);
    const apart = aurocOf(nearness, [...own.map(() => true), ...other.map(() => false)])!;
    assert.ok(apart >= 0.95, `AUROC ${apart}`);
  } finally {
    await it.generator.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
});
