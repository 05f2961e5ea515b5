// Each gate drops what it should and nothing else, and counts it; one question with two answers is qualified, then dropped.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { normalised } from "../../src/base/text.ts";
import { passGates, sameAnswer, withoutContradictions } from "../../src/study/gates.ts";
import { worthAsking } from "../../src/study/spans.ts";
import { targetsOf } from "../../src/study/targets.ts";
import type { Speaker, Writer, Written } from "../../src/study/writers/writer.ts";
import { documentOf, targetsIn } from "../helpers/study.ts";

const { passages, lexicon } = targetsIn([
  documentOf(
    [
      "# Ferry",
      "## Crossing",
      "The crossing to Skarvik takes 25 minutes and costs 6.40 euros.",
      "## Winter",
      "In winter the ferry to Skarvik lies in the dock of Tarnby.",
      "## Ticket",
      "A ticket to Skarvik can be bought from Ada Lund.",
      "",
    ].join("\n\n"),
  ),
]);
const targets = passages.flatMap((passage) =>
  targetsOf(
    passage,
    worthAsking(passage, [], () => 100, lexicon.tells),
  ),
);
const [minutes] = targets.filter(({ answer }) => answer === "25 minutes");

/** Of a good question the reader says the answer, its words are likely, and the passage is needed. */
const reader: Writer["read"] = async (asked) =>
  asked.map(({ question }) => (question.includes("misread") ? "6.40 euros" : "takes 25 minutes"));
const base: Speaker = {
  say: async () => assert.fail("gates ask nothing to be said"),
  chat: async () => assert.fail("gates ask nothing to be said"),
  score: async (rows) =>
    rows.map(({ prompt, text }) => {
      const tokens = text.trim().split(" ").length;
      // The answer is worth 1 nat a token with the passage in view, and 2.5 without.
      const known = prompt.includes("familiar") ? 0.1 : 1;
      const nats = prompt.startsWith("The crossing") || /guessed|familiar/.test(prompt) ? known : 2.5;
      return { ends: [], logprobs: Array<number>(tokens).fill(-nats) };
    }),
};
/** A token of a sentence costs a tenth of a nat, of gibberish 7. */
const fluency: Writer["fluency"] = async (written) =>
  written.map(({ question }) => (question.includes("zqx") ? -7 : -0.1));
const pass = (
  questions: string[],
  read: Writer["read"] = reader,
  isTeacher = false,
  answerTo: Writer["answerTo"] = null,
) =>
  passGates(
    questions.map((question): Written => ({ target: minutes!, question })),
    { lexicon, writer: { fluency: isTeacher ? null : fluency, read, isTeacher, answerTo }, base },
  );

const gates = [
  "readable",
  "hides_answer",
  "stands_alone",
  "unlike_siblings",
  "fluent",
  "knows_names",
  "answered_in_view",
  "needs_passage",
];

test("a request is a question without its mark", async () => {
  assert.equal((await pass(["Say how long the crossing to Skarvik takes."])).kept.length, 1);
});

test("a question in a script without spaces is read by its words, and is compared and finds its passage by them", async () => {
  const chinese = targetsIn([
    documentOf("# 规定\n\n## 年假\n\n公司的员工每年有十五天的年假。\n\n## 病假\n\n病假需要医生的证明。\n"),
  ]);
  const target = chinese.targets.find(({ answer }) => answer.includes("十五"))!;
  const written = [
    "公司的年假有多少天？",
    "公司的年假每年有多少天？",
    "公司的员工是不是每年有十五天的年假？",
    "年假？",
    "病假需要证明吗？",
  ].map((question): Written => ({ target, question }));
  const writer = { fluency: null, read: null, isTeacher: false, answerTo: () => "十五天" };
  const { counts } = await passGates(written, { lexicon: chinese.lexicon, writer, base });
  assert.deepEqual(counts.slice(0, 4), [
    { gate: "readable", in: 5, out: 4 },
    { gate: "hides_answer", in: 4, out: 3 },
    { gate: "stands_alone", in: 3, out: 2 },
    { gate: "unlike_siblings", in: 2, out: 1 },
  ]);
});

test("a good question passes all gates, and each says so", async () => {
  const { kept, counts } = await pass(["How long does the crossing to Skarvik take?"]);
  assert.equal(kept.length, 1);
  assert.deepEqual(
    counts,
    gates.map((gate) => ({ gate, in: 1, out: 1 })),
  );
});

const dropped: [gate: string, why: string, question: string][] = [
  ["readable", "two lines", "How long does\nthe crossing to Skarvik take?"],
  ["readable", "two words", "Crossing when?"],
  ["readable", "too long", `How long ${"and how long ".repeat(15)}does the crossing to Skarvik take?`],
  ["hides_answer", "says its answer", "Does the crossing to Skarvik take 25 minutes?"],
  ["stands_alone", "finds another passage", "How long is the winter in Tarnby?"],
  ["stands_alone", "finds none", "How much time must one allow?"],
  ["answered_in_view", "read otherwise", "How long does the misread crossing to Skarvik take?"],
  ["fluent", "no sentence", "zqx crossing zqx Skarvik takes zqx?"],
  ["knows_names", "a garbled name", "How long does the crossing to Skarvikvik take?"],
  ["knows_names", "another figure", "How long does the crossing to Skarvik take for 7 euros?"],
  ["needs_passage", "known anyway", "How long does a guessed crossing to Skarvik take?"],
];
for (const [gate, why, question] of dropped)
  test(`${gate}: ${why}`, async () => {
    const { kept, counts } = await pass([question]);
    assert.deepEqual(kept, []);
    assert.deepEqual(
      counts.map(({ gate, in: came, out }) => [gate, came, out]),
      gates.map((name) => [
        name,
        gates.indexOf(name) <= gates.indexOf(gate) ? 1 : 0,
        gates.indexOf(name) < gates.indexOf(gate) ? 1 : 0,
      ]),
    );
  });

test("hides_answer: a question that says its writer's own answer is dropped", async () => {
  const answerTo: Writer["answerTo"] = (_, question) => (question.startsWith("What") ? "Skarvik" : null);
  const questions = ["How long does the crossing to Skarvik take?", "What does the crossing to Skarvik lead to?"];
  const { kept, counts } = await pass(questions, null, true, answerTo);
  assert.deepEqual(
    kept.map(({ question }) => question),
    questions.slice(0, 1),
  );
  assert.deepEqual(counts[1], { gate: "hides_answer", in: 2, out: 1 });
});

test("unlike_siblings: of two alike the first stays, in their order; another target's may be alike", async () => {
  const questions = [
    "How long does the crossing to Skarvik take?",
    "How long does this crossing to Skarvik take?",
    "What is the duration of a crossing over to Skarvik?",
  ];
  const { kept, counts } = await pass(questions);
  assert.deepEqual(
    kept.map(({ question }) => question),
    [questions[0], questions[2]],
  );
  assert.deepEqual(counts[3], { gate: "unlike_siblings", in: 3, out: 2 });
  const price = targets.find(({ answer }) => answer === "6.40 euros")!;
  const both = [minutes!, price].map((target): Written => ({ target, question: questions[0]! }));
  const writer = { fluency: null, read: null, isTeacher: false, answerTo: null };
  assert.equal((await passGates(both, { lexicon, writer, base })).kept.length, 2);
});

test("unlike_siblings: questions for two facts of one clause may be alike", async () => {
  const questions = ["How long does the crossing to Skarvik take?", "How far does the crossing to Skarvik take?"];
  const factOf: Writer["answerTo"] = (_, question) => (question.includes("long") ? "25 minutes" : "6.40 euros");
  assert.equal((await pass(questions, null, true, factOf)).kept.length, 2);
  assert.equal((await pass(questions, null, true)).kept.length, 1);
});

test("needs_passage: a teacher's question is dropped only if the base is likelier to know the answer than not", async () => {
  const questions = ["How long does a guessed crossing to Skarvik take?", "Minutes of the familiar Skarvik crossing?"];
  const kept = await Promise.all(questions.map(async (one) => (await pass([one], null, true)).kept.length));
  assert.deepEqual(kept, [1, 0]);
});

test("a writer that does not read is not asked to, and that gate is not counted", async () => {
  const { kept, counts } = await pass(["How long does the misread crossing to Skarvik take?"], null);
  assert.equal(kept.length, 1);
  assert.deepEqual(
    counts.map(({ gate }) => gate),
    gates.filter((gate) => gate !== "answered_in_view"),
  );
});

test("a teacher's words need not be the passage's, and are taken for sentences; they may not lead elsewhere", async () => {
  const { kept, counts } = await pass(
    ["zqx crossing zqx Skarvik takes zqx?", "How much time must one allow?"],
    null,
    true,
  );
  assert.deepEqual(
    kept.map(({ question }) => question),
    ["zqx crossing zqx Skarvik takes zqx?"],
  );
  assert.deepEqual(
    counts.map(({ gate }) => gate),
    gates.filter((gate) => gate !== "answered_in_view" && !["fluent", "knows_names"].includes(gate)),
  );
});

test("nothing written, nothing asked, all gates counted", async () => {
  const { kept, counts } = await pass([]);
  assert.deepEqual([kept, counts.map(({ in: came, out }) => came + out)], [[], gates.map(() => 0)]);
});

test("the same answer: the same words, or a little more around them", () => {
  const same: [said: string, gold: string][] = [
    ["25 minutes", "25 Minutes."],
    ["the 25 minutes", "25 minutes"],
    ["by Ada Lund", "Ada Lund"],
    ["Lund", "Ada Lund"],
    ["有十五天", "十五天"],
    ["25분이다", "25분"],
  ];
  const other: typeof same = [
    ["", "25 minutes"],
    ["25", "26"],
    ["on the north side by the old dock of Tarnby", "Tarnby"],
    ["5 minutes", "25 minutes"],
    ["In winter, Ada Lund sells it there", "Ada Lund"],
    ["员工每年有十五天的年假", "十五天"],
    ["๑๘ ชั่วโมง", "๘ ชั่วโมง"],
  ];
  for (const [said, gold] of same) assert.ok(sameAnswer(said, gold), `${said} | ${gold}`);
  for (const [said, gold] of other) assert.ok(!sameAnswer(said, gold), `${said} | ${gold}`);
});

interface Row {
  question: string;
  answer: string;
  heading: string;
}
const under = (row: Row): Row => ({ ...row, question: `${row.heading}: ${row.question}` });

test("a question with two answers is asked under its headings; one that still has two is dropped", () => {
  const rows: Row[] = [
    { heading: "Winter", question: "When does it open?", answer: "9:00" },
    { heading: "Summer", question: "When does it open?", answer: "8:00" },
    { heading: "Fees", question: "How much?", answer: "5 euros" },
    { heading: "Fees", question: "how much", answer: "7 euros" },
    { heading: "Keys", question: "Who has them?", answer: "Ada Lund." },
    { heading: "Locks", question: "Who has them?", answer: "Ada Lund" },
  ];
  const { kept, qualified, dropped } = withoutContradictions(rows, under);
  assert.deepEqual(
    kept.map(({ question, answer }) => [question, answer]),
    [
      ["Winter: When does it open?", "9:00"],
      ["Summer: When does it open?", "8:00"],
      ["Who has them?", "Ada Lund."],
      ["Who has them?", "Ada Lund"],
    ],
  );
  assert.deepEqual([qualified, dropped], [2, 2]);
});

test("no question of what is kept has two answers, and every row is kept or counted", () => {
  const word = fc.constantFrom("who", "when", "gate", "ferry");
  const row = fc.record({
    heading: fc.constantFrom("A", "B"),
    question: fc.array(word, { minLength: 1, maxLength: 2 }).map((words) => words.join(" ")),
    answer: fc.constantFrom("one", "two", "One."),
  });
  fc.assert(
    fc.property(fc.array(row, { maxLength: 20 }), (rows) => {
      const { kept, dropped } = withoutContradictions(rows, under);
      const answers = new Map<string, string>();
      for (const { question, answer } of kept) {
        const known = answers.get(normalised(question)) ?? normalised(answer);
        assert.equal(normalised(answer), known);
        answers.set(normalised(question), known);
      }
      assert.equal(kept.length + dropped, rows.length);
    }),
  );
});
