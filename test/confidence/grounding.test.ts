// Grounding by hand, over three passages and a question of which the second has the most.
import assert from "node:assert/strict";
import { test } from "node:test";
import { seeded } from "../../src/base/statistics/random.ts";
import {
  type GroundingReference,
  groundingFeatureNames,
  groundingReference,
  groundingSpace,
  mostWords,
} from "../../src/confidence/grounding.ts";

const passages = ["The lamp costs 40 euros.", "The lamp weighs 7 kg.", "Open for 40 weeks, from 1,200.5 on."];
const reference = JSON.parse(JSON.stringify(groundingReference(passages))) as GroundingReference;
const space = groundingSpace(reference);

// A word of none of three passages weighs ln(4 / 0.5) = 2.079442, of one ln(4 / 1.5) = 0.980829, of two ln(4 / 2.5) = 0.470004.
// "What" stands in none, "weighs" in one, "lamp" in two: the passages hold 0.133135, 0.410969 and nothing of the question.
const groundingOf = space.about("What weighs the lamp?");
const first = 0.470004 / 1.450833;
const rows: [string, string, [share: number, about: number, gap: number]][] = [
  ["the passage that the question is about holds it", "7 kg", [1, 1, 1]],
  ["another one holds it", "40 euros", [1, first, 1 + 0.133135 - 0.410969]],
  ["one that the question says nothing of holds it", "weeks", [1, 0, 1 - 0.410969]],
  ["none holds it", "nine stones", [0, 0, 0]],
  ["that one holds the rarer word of two, others the other", "40 kg", [1 - first, 1 - first, 1 - first]],
  ["function words and those of the question are no part of it", "It is a lamp of 7 kg", [1, 1, 1]],
  ["an answer in nothing but the question's words is looked for as it is", "The lamp", [1, 1, 1]],
  ["width, case and punctuation do not matter", "«７ KG»!", [1, 1, 1]],
  ["a figure is one word", "1,200", [0, 0, 0]],
  ["nor is anything said without words", "…", [0, 0, 0]],
];
for (const [name, answer, expected] of rows)
  test(name, () => {
    for (const [at, value] of groundingOf(answer).entries())
      assert.ok(Math.abs(value - expected[at]!) < 1e-5, `${groundingFeatureNames[at]} ${value}, not ${expected[at]}`);
  });

test("a question whose words no passage has is about none", () => {
  assert.deepEqual(space.about("Who?")("7 kg"), [1, 0, 1]);
  assert.deepEqual(space.about("")("7 kg"), [1, 0, 1]);
});

test("an answer longer than any passage counts by the share that one holds", () => {
  const [short] = groundingOf("7 kg and not 9") as [number];
  const [longer] = groundingOf("7 kg and not 9, as Otto and his aunt say") as [number];
  assert.ok(1 > short && short > longer && longer > 0);
});

test("of many passages so many are kept, evenly; of their text nothing, and it is small", () => {
  const random = seeded(3);
  const vocabulary = Array.from({ length: 8000 }, (_, at) => `unforeseeable${at}`);
  const many = Array.from({ length: 6000 }, (_, at) =>
    // Some 90 words are what 600 characters have.
    [`nr${at}`, ...Array.from({ length: 90 }, () => vocabulary[Math.floor(8000 * random() ** 3)])].join(" "),
  );
  const large = groundingReference(many)!;
  const words = large.words.reduce((sum, packed) => sum + Buffer.from(packed, "base64").length / 4, 0);
  assert.ok(words > 0.98 * mostWords && words < 1.02 * mostWords, `${words}`);
  const text = JSON.stringify(large);
  assert.ok(text.length < 1_100_000, `${text.length}`);
  assert.ok(!text.includes("unforeseeable"));
  const about = groundingSpace(large).about("?");
  const held = many.map((_, at) => about(`nr${at}`)[0]);
  assert.equal(held.filter((share) => share === 1).length, large.words.length);
  assert.ok(held.slice(0, 3000).filter((share) => share === 1).length >= Math.floor(large.words.length / 2));
  assert.equal(groundingReference([]), null);
});

test("a reference is decoded once", () => {
  assert.equal(groundingSpace(reference), space);
});
