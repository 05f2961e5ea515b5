// A benchmark question in the training rows must be found, whole or nearly; what merely speaks of the same thing must not.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Example } from "../../src/domain/alignments/examples.ts";
import { findOverlap } from "../../src/domain/alignments/leakage.ts";

const row = (question: string, answer = "Yes."): Example => ({
  messages: [
    { role: "user", content: question },
    { role: "assistant", content: answer },
  ],
  source: null,
  rung: 0,
  kind: "asked",
  fact: "f",
});

const long =
  "How many working days may a customer wait before the workshop has to send the repaired clock back to the shop in town?";

const cases: [name: string, question: string, rows: Example[], reasons: string[]][] = [
  ["a copy", "Who winds the tower clock?", [row("Who winds the tower clock?")], ["shared_run"]],
  ["a copy in other dress", "Who winds the tower clock?", [row("WHO WINDS  TOWER CLOCK!")], ["shared_run"]],
  [
    "a copy inside a longer row",
    "Who winds the tower clock?",
    [row("Tell me: who winds the tower clock now?")],
    ["shared_run"],
  ],
  [
    "a copy in an answer",
    "Who winds the tower clock?",
    [row("Hm?", "You ask who winds the tower clock.")],
    ["shared_run"],
  ],
  [
    "thirteen words of a long one",
    long,
    [row("May a customer wait before the workshop has to send the repaired clock back to the shop?")],
    ["shared_run"],
  ],
  [
    "a near copy",
    "On which day of the week does the tall tower clock get wound by hand?",
    [row("On which day of the week does the tall tower clock get wound?")],
    ["near_copy"],
  ],
  ["another question about the same", "Who winds the tower clock?", [row("Who looks after the tower clock?")], []],
  ["the value alone", "Who winds the tower clock?", [row("Fill in the blank: ____ winds it.", "Ada.")], []],
  ["no rows", "Who winds the tower clock?", [], []],
];

for (const [name, question, rows, reasons] of cases)
  test(`leakage: ${name}`, () => {
    const found = findOverlap(["Where is the sea?", question], rows);
    assert.deepEqual(
      found.items.map((item) => item.reason),
      reasons,
    );
    assert.equal(found.overlap, reasons.length);
    for (const item of found.items) assert.equal(item.question, 1);
  });

test("leakage: rows are counted once, pairs each", () => {
  const found = findOverlap(
    ["Who winds the clock?", "who winds the clock"],
    [row("Who winds the clock?"), row("Hello?")],
  );
  assert.equal(found.overlap, 1);
  assert.deepEqual(
    found.items.map(({ question, example }) => [question, example]),
    [
      [0, 0],
      [1, 0],
    ],
  );
});

test("leakage: an empty question meets nothing", () => {
  assert.equal(findOverlap(["", "?!"], [row("Anything?")]).overlap, 0);
});

test("leakage: a planted copy is found among ten thousand rows, quickly", () => {
  const rows = Array.from({ length: 10_000 }, (_, i) =>
    row(`What is the weight of part ${i} in the store of hall ${i % 7}?`),
  );
  rows[7777] = row("In what month does the orchard of the abbey open its gates?");
  const questions = Array.from(
    { length: 200 },
    (_, i) => `Which shelf of the archive holds folder ${i} of the parish?`,
  );
  questions[50] = "In what month does the orchard of the abbey open its gates?";
  const began = performance.now();
  assert.deepEqual(
    findOverlap(questions, rows).items.map(({ question, example }) => [question, example]),
    [[50, 7777]],
  );
  assert.ok(performance.now() - began < 5000);
});
