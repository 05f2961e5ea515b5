// Support by hand, in a plane where every cosine is known: the question is at (0.6, 0.8), passages lie on the axes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { seeded } from "../../src/base/statistics/random.ts";
import { mostPassages, supportFeatureNames, supportReference, supportSpace } from "../../src/engine/support.ts";
import { packVectors, unpackVectors } from "../../src/engine/unit-vectors.ts";

const passages = [
  { text: "The lamp costs 40 euros.", vector: Float32Array.of(1, 0) },
  { text: "The lamp weighs 7 kg.", vector: Float32Array.of(0, 1) },
  { text: "Open for 40 weeks, from 1,200.5 on.", vector: Float32Array.of(-1, 0) },
];
const question = { text: "How heavy is the lamp?", vector: Float32Array.of(0.6, 0.8) };

/** Cosines 0.6, 0.8 and −0.6: the second passage is the nearest. */
const supportOf = supportSpace(JSON.parse(JSON.stringify(supportReference(passages)))).about(question);

// Of three passages "40" stands in two, "kg" in one: ln(4 / 2.5) = 0.470004 and ln(4 / 1.5) = 0.980829, of 1.450833 together.
const half = 0.980829 / 1.450833;
const rows: [string, string, [share: number, gap: number, nearest: number]][] = [
  ["the nearest passage holds it", "7 kg", [1, 0, 1]],
  ["another one holds it: 0.6 less 0.8", "40 euros", [1, -0.2, 0]],
  ["the farthest holds it: −0.6 less 0.8 is less than none", "weeks", [1, -1, 0]],
  ["none holds it", "nine stones", [0, -1, 0]],
  ["the nearest holds the rarer word of two, another the other", "40 kg", [half, half - 1, half]],
  ["function words and those of the question are no part of it", "It is a lamp of 7 kg", [1, 0, 1]],
  ["an answer in nothing but the question's words is looked for as it is", "The lamp", [1, 0, 1]],
  ["width, case and punctuation do not matter", "«７ KG»!", [1, 0, 1]],
  ["a figure is one word", "1,200", [0, -1, 0]],
  ["nor is anything said without words", "…", [0, -1, 0]],
];
for (const [name, answer, expected] of rows)
  test(name, () => {
    for (const [at, value] of supportOf(answer).entries())
      assert.ok(Math.abs(value - expected[at]!) < 1e-5, `${supportFeatureNames[at]} ${value}, not ${expected[at]}`);
  });

test("an answer longer than any passage counts by the share that a near one holds", () => {
  const [short] = supportOf("7 kg and not 9") as [number];
  const [longer] = supportOf("7 kg and not 9, as Otto and his aunt say") as [number];
  assert.ok(1 > short && short > longer && longer > 0);
});

test("of many passages so many are kept, evenly; of their text nothing, and it is small", () => {
  const random = seeded(3);
  const vocabulary = Array.from({ length: 8000 }, (_, at) => `unforeseeable${at}`);
  const many = Array.from({ length: 3 * mostPassages }, (_, at) => ({
    // Some 90 words are what 600 characters have.
    text: [`nr${at}`, ...Array.from({ length: 90 }, () => vocabulary[Math.floor(8000 * random() ** 3)])].join(" "),
    vector: Float32Array.from({ length: 384 }, () => random() - 0.5),
  }));
  const reference = supportReference(many)!;
  assert.equal(reference.words.length, mostPassages);
  const text = JSON.stringify(reference);
  assert.ok(text.length < 1_100_000, `${text.length}`);
  assert.ok(!text.includes("unforeseeable"));
  const about = supportSpace(reference).about({ text: "?", vector: many[3]!.vector });
  assert.equal(about("nr3")[0], 1);
  assert.equal(about("nr4")[0], 0);
  assert.equal(supportReference([]), null);
});

test("packed vectors come back with their direction, and of unit length", () => {
  const [there, zero] = unpackVectors(packVectors([Float32Array.of(0.3, -0.4), Float32Array.of(0, 0)]), 2);
  assert.ok(Math.abs(there![0]! - 0.6) < 0.005 && Math.abs(there![1]! + 0.8) < 0.005);
  assert.deepEqual([...zero!], [0, 0]);
});
