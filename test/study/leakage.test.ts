// A benchmark question in the training rows must be found, whole or nearly; what merely speaks of the same thing must not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { hashOf } from "../../src/base/text.ts";
import { findOverlap, marksOf, overlapOf } from "../../src/study/leakage.ts";
import type { StudyRow } from "../../src/study/row.ts";

const row = (question: string, answer = "Yes."): Pick<StudyRow, "messages"> => ({
  messages: [
    { role: "user", content: question },
    { role: "assistant", content: answer },
  ],
});

const long =
  "How many working days may a customer wait before the workshop has to send the repaired clock back to the shop in town?";

const cases: [name: string, question: string, rows: Pick<StudyRow, "messages">[], reasons: string[]][] = [
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
  [
    "a copy inside a longer row, in a script without spaces",
    "公司的年假有多少天？",
    [row("请问公司的年假有多少天？"), row("公司的病假怎么申请？")],
    ["shared_run"],
  ],
  ["a copy with a polite end", "サーバーの保証期間は何年", [row("サーバーの保証期間は何年ですか？")], ["shared_run"]],
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
    found.items.map(({ question, row }) => [question, row]),
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
    findOverlap(questions, rows).items.map(({ question, row }) => [question, row]),
    [[50, 7777]],
  );
  assert.ok(performance.now() - began < 5000);
});

test("leakage: marks of an older version, in which a clause without spaces is one word, still find it", () => {
  const question = "本社の所在地はどこですか";
  const rows = [row(question, "東京です")];
  const salt = "salt";
  const mark = `${hashOf(`${salt}\n${question}`).toString(36)}.${hashOf(`${question}\n${salt}`).toString(36)}`;
  assert.equal(overlapOf({ salt, questions: [{ length: 1, runs: [mark], grams: [mark] }] }, rows).overlap, 1);
  assert.equal(overlapOf(marksOf([question], salt), rows).overlap, 1);
});

test("leakage: marks find what the questions find, say nothing of them, and are others under another salt", () => {
  for (const [, question, rows] of cases)
    assert.deepEqual(overlapOf(marksOf([question], "salt"), rows), findOverlap([question], rows));
  const marks = marksOf(["Who winds the tower clock?"], "salt");
  assert.doesNotMatch(JSON.stringify(marks), /winds|tower|clock/i);
  const other = new Set(
    marksOf(["Who winds the tower clock?"], "pepper").questions.flatMap(({ runs, grams }) => [...runs, ...grams]),
  );
  assert.ok(marks.questions.every(({ runs, grams }) => [...runs, ...grams].every((mark) => !other.has(mark))));
});
