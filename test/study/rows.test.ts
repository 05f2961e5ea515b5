// Rows of targets: as many as asked for, new words in every stage, each traced to its place, and the same again from the same seed.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { normalised } from "../../src/base/text.ts";
import type { StudyRow } from "../../src/study/row.ts";
import { type Phrased, type RowOptions, rowsOf } from "../../src/study/rows.ts";
import { documentOf, targetsIn } from "../helpers/study.ts";

const document = documentOf(
  [
    "# Mill",
    "## Visits",
    "The mill by the old bridge is open from 8.30 to 18.30 on every market day of the year.",
    "A guided walk through the granary lasts 90 minutes and costs 4.20 euros for schools of the valley.",
    "May I bring a dog? Yes, on a lead.",
    "## Flour",
    "| Flour | Price | Sack |\n|---|---|---|\n| Rye | 2.10 euros | brown |\n| Spelt | 3.40 euros | white |",
    "- Delivery: on Fridays\n- Smallest order: 25 kilograms",
    "",
  ].join("\n\n"),
);
const { targets, passages, lexicon } = targetsIn([document]);
const none: ReadonlyMap<string, readonly Phrased[]> = new Map();
const made = (options: Partial<RowOptions> = {}, written = none): StudyRow[] =>
  rowsOf(passages, targets, written, lexicon, { phrasings: 4, stages: 3, seed: 5, ...options }).rows;
const questionOf = ({ messages }: StudyRow): string => messages[0]!.content;
const isOfTarget = ({ kind }: StudyRow): boolean => kind !== "recall";

test("a row is a question and its answer, of one target, with where that stands", () => {
  for (const { messages, source, target, kind } of made()) {
    assert.deepEqual(
      messages.map(({ role }) => role),
      ["user", "assistant"],
    );
    assert.ok(messages.every(({ content }) => content.trim() !== ""));
    assert.equal(source!.document_id, document.id);
    const said = normalised(document.text.slice(source!.start, source!.end));
    const answer = normalised(messages[1]!.content);
    if (kind !== "recall") assert.ok(said.includes(answer), `${answer} in ${said}`);
    assert.ok(passages.some(({ id }) => target.startsWith(id)));
  }
});

test("a target has as many rows in a stage as the recipe says, or as many as it has words for", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 12 }),
      fc.integer({ min: 1, max: 4 }),
      fc.integer(),
      (phrasings, stages, seed) => {
        const rows = made({ phrasings, stages, seed }).filter(isOfTarget);
        for (const [target, own] of Map.groupBy(rows, (row) => `${row.target} ${row.stage}`))
          assert.ok(own.length <= phrasings, target);
      },
    ),
    { numRuns: 40 },
  );
  const sentences = made({ phrasings: 3 }).filter(({ kind, target }) => kind !== "asked" && target.startsWith("0.0:"));
  const counts = new Set(
    [...Map.groupBy(sentences, (row) => `${row.target} ${row.stage}`).values()].map((own) => own.length),
  );
  assert.deepEqual([...counts], [3], "prose has words enough for three");
});

test("a stage asks in new words as long as a target has any, and then in the words used the longest time ago", () => {
  const rows = made({ phrasings: 6, stages: 8 }).filter(isOfTarget);
  let repeated = 0;
  for (const own of Map.groupBy(rows, ({ target }) => target).values()) {
    const stages = [...Map.groupBy(own, ({ stage }) => stage).values()].map((some) =>
      some.map((row) => normalised(questionOf(row))),
    );
    const all = new Set(stages.flat());
    if (own[0]!.kind === "asked") {
      assert.deepEqual([own.length, all.size], [8, 1]);
      continue;
    }
    for (const [stage, questions] of stages.entries()) {
      assert.equal(new Set(questions).size, questions.length, questions.join("\n"));
      const before = stages.slice(0, stage);
      const again = questions.filter((one) => before.flat().includes(one));
      repeated += again.length;
      // Words of the last stage come again only if all others came again, too.
      const rested = [...new Set(before.flat())].filter((one) => !before.at(-1)?.includes(one));
      if (again.some((one) => before.at(-1)!.includes(one))) assert.ok(rested.every((one) => again.includes(one)));
      if (again.length > 0) assert.equal(questions.length, Math.min(6, new Set([...before.flat(), ...questions]).size));
    }
  }
  assert.ok(repeated > 0, "cells have few wordings");
  const clauses = made({ phrasings: 4, stages: 3 }).filter(({ target }) => target.startsWith("0.0:"));
  const wordings = clauses.filter(({ kind }) => kind !== "asked" && kind !== "recall").map(questionOf);
  assert.equal(new Set(wordings).size, wordings.length, "prose has enough words");
});

test("the first stage is what a recipe of one stage gets", () => {
  assert.deepEqual(
    made({ stages: 3 }).filter(({ stage }) => stage === 0),
    made({ stages: 1 }),
  );
});

test("what a passage says in full is said once, in the first stage", () => {
  const whole = made().filter((row) => !isOfTarget(row));
  assert.ok(whole.every(({ stage }) => stage === 0));
  assert.equal(new Set(whole.map(({ target }) => target)).size, whole.length);
  const said = whole.filter(({ kind }) => kind === "recall").map(({ messages }) => messages[1]!.content);
  assert.deepEqual(
    said,
    passages.map(({ text }) => text),
  );
});

test("the same seed makes the same rows, another other ones", () => {
  assert.deepEqual(made(), made());
  assert.notDeepEqual(made({ seed: 6 }), made());
});

const walk = targets.find(({ answer }) => answer.includes("90 minutes"))!;
const writtenFor = (...questions: string[]) =>
  new Map([[walk.id, questions.map((question): Phrased => ({ question, answer: walk.answer }))]]);

test("all rows of a stage but one are in a writer's words, each in its turn; the others are plain forms", () => {
  const rows = made(
    { phrasings: 4, stages: 2 },
    writtenFor("How long is the tour?", "What time does one need for the tour?", "The tour takes how long?"),
  ).filter(({ target }) => target === walk.id);
  assert.deepEqual(
    rows.filter(({ kind }) => kind === "writer").map((row) => [row.stage, questionOf(row)]),
    [
      [0, "How long is the tour?"],
      [0, "What time does one need for the tour?"],
      [0, "The tour takes how long?"],
      [1, "How long is the tour?"],
      [1, "What time does one need for the tour?"],
      [1, "The tour takes how long?"],
    ],
  );
  assert.equal(rows.length, 8);
  const few = made({ phrasings: 2, stages: 2 }, writtenFor("A?", "B?", "C?")).filter(
    ({ target }) => target === walk.id,
  );
  assert.deepEqual(
    few.filter(({ kind }) => kind === "writer").map((row) => [row.stage, questionOf(row)]),
    // Two things in this sentence are worth asking for: so many questions are asked in every stage.
    [
      [0, "A?"],
      [0, "B?"],
      [1, "C?"],
      [1, "A?"],
    ],
  );
  assert.ok(rows.every(({ messages }) => messages[1]!.content === walk.answer));
});

test("each of several facts of one target is asked for by half as many questions as a target has rows, in every stage", () => {
  const facts = ["90 minutes", "at the mill", "in the morning"];
  const asked = (count: number): Phrased[] =>
    Array.from({ length: count }, (_, at) => at).flatMap((at) =>
      facts.map((answer) => ({ question: `Question ${at} for ${answer}?`, answer })),
    );
  const counts = (phrasings: number, count: number): number[][] => {
    const own = made({ phrasings, stages: 2 }, new Map([[walk.id, asked(count)]])).filter(
      ({ target, kind }) => target === walk.id && kind === "writer",
    );
    return [0, 1].map((stage) =>
      facts.map((answer) => own.filter((row) => row.stage === stage && row.messages[1]!.content === answer).length),
    );
  };
  assert.deepEqual(counts(7, 12), [
    [3, 3, 3],
    [3, 3, 3],
  ]);
  assert.deepEqual(counts(4, 12), [
    [2, 2, 2],
    [2, 2, 2],
  ]);
  // With fewer questions than that, all are asked in every stage.
  assert.deepEqual(counts(7, 2), [
    [2, 2, 2],
    [2, 2, 2],
  ]);
});

test("what a writer wrote for one target changes the rows of no other", () => {
  const others = (rows: StudyRow[]): StudyRow[] => rows.filter(({ target }) => target !== walk.id);
  assert.deepEqual(others(made({}, writtenFor("How long is the tour?"))), others(made()));
});

test("a question that two sections answer differently is asked under its headings, and counted", () => {
  const twins = documentOf(
    "# Park\n\n## North gate\n\nWhen may I come? At nine or later.\n\n## South gate\n\nWhen may I come? At eight or later.\n",
  );
  const own = targetsIn([twins]);
  const { rows, contradictions } = rowsOf(own.passages, own.targets, none, own.lexicon, {
    phrasings: 2,
    stages: 1,
    seed: 1,
  });
  assert.deepEqual(
    rows.filter(({ kind }) => kind === "asked").map((row) => [questionOf(row), row.messages[1]!.content]),
    [
      ["Park > North gate: When may I come?", "At nine or later."],
      ["Park > South gate: When may I come?", "At eight or later."],
    ],
  );
  assert.ok(contradictions.qualified >= 2);
});

test("one question never has two answers", () => {
  for (const seed of [1, 2, 3, 4, 5]) {
    const answers = new Map<string, string>();
    for (const { messages } of made({ phrasings: 12, stages: 4, seed })) {
      const [question, answer] = messages.map(({ content }) => normalised(content)) as [string, string];
      assert.equal(answers.get(question) ?? answer, answer, question);
      answers.set(question, answer);
    }
  }
});

test("nothing gives no rows", () => {
  const { rows } = rowsOf([], [], none, lexicon, { phrasings: 4, stages: 2, seed: 1 });
  assert.deepEqual(rows, []);
});
