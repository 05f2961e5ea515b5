// Sources by hand, over three passages of two documents and a question of which the second has the most.
import assert from "node:assert/strict";
import { test } from "node:test";
import { mostWords } from "../../src/confidence/grounding.ts";
import { type SourceReference, sourceReference, sourceSpace } from "../../src/confidence/sources.ts";

const passages = [
  { document: "document_lamps", start: 0, end: 24, text: "The lamp costs 40 euros." },
  { document: "document_lamps", start: 25, end: 46, text: "The lamp weighs 7 kg." },
  { document: "document_hours", start: 0, end: 37, text: "Open for 40 weeks, from 1,200.5 on." },
];
const reference = JSON.parse(JSON.stringify(sourceReference(passages))) as SourceReference;
const space = sourceSpace(reference);
const question = "What weighs the lamp?";
const second = { document: "document_lamps", start: 25, end: 46 };

// As in grounding.test.ts: the passages hold 0.133135, 0.410969 and nothing of the question.
const rows: [what: string, answer: string, expected: object[]][] = [
  ["an answer that stands in the passage that the question is about", "7 kg", [{ ...second, grounding: 1 }]],
  ["one that says it in the question's words", "The lamp weighs 7 kg.", [{ ...second, grounding: 1 }]],
  ["one that stands there in part", "It is 7 kg or 9 stones.", []],
  ["one of which the greater part stands there", "7 kg, and 40", [{ ...second, grounding: 0.81 }]],
  ["one that stands where the question does not", "weeks", []],
  ["one that stands where a third of the question does", "40 euros", []],
  ["one that stands nowhere", "nine stones", []],
  ["the question's words beside others that stand nowhere", "The lamp weighs nine stones", []],
  ["one without words", "…", []],
  ["an empty one", "", []],
];
for (const [what, answer, expected] of rows)
  test(what, () => {
    assert.deepEqual(space.of(question, answer), expected);
  });

test("a question of words that no passage has is about none", () => {
  assert.deepEqual(space.of("Who?", "7 kg"), []);
});

test("three at most, the best first, and of equal ones the first in the documents", () => {
  const alike = ["The lamp is red.", "The red lamp of Oslo.", "A red lamp.", "A lamp is a lamp.", "The lamp: red."];
  const others = Array.from({ length: 20 }, (_, at) => `Boat number ${at} has a mast.`);
  const many = [...alike, ...others].map((text, at) => ({ document: `document_${at}`, start: 0, end: 9, text }));
  const found = sourceSpace(sourceReference(many)).of("What colour has the lamp of Oslo?", "Red");
  assert.deepEqual(
    found.map(({ document }) => document),
    ["document_1"],
  );
  const plain = sourceSpace(sourceReference(many)).of("What colour has the lamp?", "Red");
  assert.deepEqual(
    plain.map(({ document, grounding }) => [document, grounding]),
    [0, 1, 2].map((at) => [`document_${at}`, 1]),
  );
});

test("places and hashes are kept, and no text; of many passages as many as grounding keeps, evenly", () => {
  assert.deepEqual(reference.documents, ["document_lamps", "document_hours"]);
  assert.deepEqual(Object.keys(reference.passages[0]!), ["document", "start", "end", "words"]);
  assert.ok(!/lamp [a-z]|kg|euros|weeks/.test(JSON.stringify(reference)));
  const many = Array.from({ length: 4000 }, (_, at) => ({
    document: `document_${Math.floor(at / 10)}`,
    start: at,
    end: at + 1,
    text: Array.from({ length: 90 }, (_, word) => `word${at}x${word}`).join(" "),
  }));
  const kept = sourceReference(many);
  assert.equal(kept.passages.length, mostWords / 90);
  assert.ok(
    kept.passages.every(({ document, start }) => kept.documents[document] === `document_${Math.floor(start / 10)}`),
  );
  const [last] = sourceSpace(kept).of("word3998x1", "word3998x2");
  assert.deepEqual(last, { document: "document_399", start: 3998, end: 3999, grounding: 1 });
});

test("no passages name no source; another format is refused", () => {
  assert.deepEqual(sourceSpace(sourceReference([])).of(question, "7 kg"), []);
  assert.throws(() => sourceSpace({ ...reference, format: 2 } as never), /format 2 are not supported/);
});
