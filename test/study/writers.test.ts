// Writers: what the shipped one is trained on and asked with, by a scripted model; and what is read of a teacher's answer.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  type Asked,
  askingPrompt,
  manners,
  notStated,
  readingPrompt,
  spansAnswer,
  spansPrompt,
} from "../../src/study/writers/format.ts";
import { shippedWriter } from "../../src/study/writers/shipped.ts";
import { readLesson, teacherPrompt, teacherWriter } from "../../src/study/writers/teacher.ts";
import type { Speaker } from "../../src/study/writers/writer.ts";
import { documentOf, plainBase, targetsIn } from "../helpers/study.ts";

const ferry: Asked = { title: "Ferry > Crossing", text: "The crossing takes 25 minutes.\nIt costs 6 euros." };
const minutes = { start: 19, end: 29 };

test("the three tasks as the writer sees them", () => {
  const head = "Ferry > Crossing\nThe crossing takes 25 minutes.\nIt costs 6 euros.\n\n";
  assert.equal(
    askingPrompt(ferry, minutes, "In other words"),
    `${head}The crossing takes [[25 minutes]]. It costs 6 euros.\nIn other words:`,
  );
  assert.equal(readingPrompt(ferry, "How long?"), `${head}Question: How long?\nAnswer:`);
  assert.equal(spansPrompt(ferry), `${head}Worth asking:`);
  assert.equal(spansAnswer(["25 minutes", "6 euros"]), "25 minutes\n6 euros");
  // A passage's prompts share their beginning, which is then computed once.
  for (const prompt of [
    ...manners.map((manner) => askingPrompt(ferry, minutes, manner)),
    readingPrompt(ferry, "?"),
    spansPrompt(ferry),
  ])
    assert.ok(prompt.startsWith(head));
});

test("of a long passage the words around the span are shown, whole ones", () => {
  const words = Array.from({ length: 60 }, (_, at) => `word${at}`).join(" ");
  const start = words.indexOf("word30");
  const line = askingPrompt({ title: "T", text: words }, { start, end: start + 6 }, "Question")
    .split("\n")
    .at(-2)!;
  // Sixty characters before it and twenty-four behind it, and what is left of a word.
  assert.equal(line, "word22 word23 word24 word25 word26 word27 word28 word29 [[word30]] word31 word32 word33 word34");
});

test("the span always stands in its prompt, between its marks", () => {
  const text = fc.array(fc.constantFrom("a", "words", "\n", "é", "25 minutes", "😀"), { minLength: 1, maxLength: 60 });
  fc.assert(
    fc.property(text, fc.nat(), fc.nat(), (pieces, a, b) => {
      const whole = pieces.join(" ");
      const [start, end] = [a % whole.length, b % whole.length].sort((x, y) => x - y) as [number, number];
      if (whole.slice(start, end).trim() === "") return;
      const line = askingPrompt({ title: "T", text: whole }, { start, end }, "Question").split("\n\n").at(-1)!;
      assert.equal(/\[\[(.*)\]\]/.exec(line)![1]!.trim(), whole.slice(start, end).replace(/\s+/g, " ").trim());
    }),
  );
});

const document = documentOf(
  "# Ferry\n\n## Crossing\n\nThe crossing takes 25 minutes.\n\nMay I bring a goat? Yes, on a lead.\n",
);
const { targets, passages } = targetsIn([document]);

/** Answers by what a prompt ends with; remembers what it was asked. */
function scripted(answerOf: (prompt: string) => string): Speaker & { asked: string[]; options: unknown[] } {
  const asked: string[] = [];
  const options: unknown[] = [];
  return {
    ...plainBase,
    asked,
    options,
    say: async (prompts, how) => {
      asked.push(...prompts);
      options.push(how);
      return prompts.map(answerOf);
    },
  };
}

test("the shipped writer asks in three manners for each span, and for no more than spans", async () => {
  const speaker = scripted(
    (prompt) => ` ${prompt.includes("[[25 minutes]]") ? `As ${prompt.split("\n").at(-1)}` : "?"} `,
  );
  const writer = shippedWriter(speaker, ["en"], 3);
  const questions = await writer.write(targets);
  assert.deepEqual(questions.length, targets.length);
  assert.deepEqual(questions[targets.findIndex(({ answer }) => answer === "25 minutes")], [
    "As Question:",
    "As In other words:",
    "As Someone asks:",
  ]);
  assert.deepEqual(questions[targets.findIndex(({ kind }) => kind === "asked")], []);
  assert.ok(speaker.options.every((how) => (how as { temperature: number; seed: number }).temperature === 0));
});

test("the shipped writer names spans line by line, and reads nothing where the passage does not say", async () => {
  const speaker = scripted((prompt) => {
    if (prompt.endsWith("Worth asking:")) return " 25 minutes\n on a lead\n";
    return prompt.includes("goat") && prompt.endsWith("How old?\nAnswer:") ? ` ${notStated}` : " 25 minutes ";
  });
  const writer = shippedWriter(speaker, ["en"], 3);
  const [spans] = await writer.propose(passages);
  assert.deepEqual(
    spans!.filter((text) => text !== ""),
    ["25 minutes", "on a lead"],
  );
  assert.deepEqual(
    await writer.read!(["How long?", "How old?"].map((question) => ({ passage: passages[0]!, question }))),
    ["25 minutes", ""],
  );
  assert.deepEqual([writer.name, writer.languages], ["shipped", ["en"]]);
});

test("a teacher is asked in the passage's language, with its headings and text", () => {
  const german = documentOf(
    "# Fähre\n\n## Überfahrt\n\nDie Überfahrt nach Skarvik dauert bei ruhiger See ungefähr fünfundzwanzig Minuten und ist für Kinder frei.\n",
  );
  const [passage] = targetsIn([german]).passages;
  const prompt = teacherPrompt(passage!);
  assert.ok(prompt.includes("Fähre > Überfahrt") && prompt.includes(passage!.text));
  assert.ok(!prompt.includes("{heading}") && !prompt.includes("{text}"));
  assert.notEqual(prompt.split("\n")[0], teacherPrompt(passages[0]!).split("\n")[0]);
  const english = { ...passages[0]!, language: "xx" };
  assert.equal(teacherPrompt(english).split("\n")[0], teacherPrompt({ ...english, language: "en" }).split("\n")[0]);
});

test("of a teacher's answer only lines are read that are sound and quote the passage", () => {
  const passage = { text: "The crossing takes 25 minutes." };
  const sound = { answer: "25 minutes", questions: ["How long?", " ", 7, "What time does it take?"] };
  const read = { asks: [{ answer: "25 minutes", questions: ["How long?", "What time does it take?"] }] };
  const lines = [
    "Here you are:",
    JSON.stringify(sound),
    '{"answer": "an hour", "questions": ["How long?"]}',
    '{"answer": "25 minutes", "questions": []}',
    '{"answer": "25 minutes", "questions": "How long?"}',
    '{"answer": 25, "questions": ["How long?"]}',
    '{"answer": "25 minu',
    "null",
  ];
  assert.deepEqual(readLesson(lines.join("\n"), passage), read);
  assert.deepEqual(readLesson(JSON.stringify([sound]), passage), read);
  assert.deepEqual(readLesson("", passage), { asks: [] });
  const endless = JSON.stringify({ answer: "25 minutes", questions: Array(100).fill("How long?") });
  assert.ok(readLesson(endless, passage).asks[0]!.questions.length <= 8);
});

test("a teacher's questions go to the targets that they answer, and it does not read", async () => {
  const [passage] = passages;
  const lessons = new Map([[passage!.id, { asks: [{ answer: "25 minutes", questions: ["How long?"] }] }]]);
  const writer = teacherWriter("vicuna", lessons);
  assert.deepEqual(
    await writer.propose(passages),
    passages.map((one) => (one === passage ? ["25 minutes"] : [])),
  );
  assert.deepEqual(
    await writer.write(targets),
    targets.map(({ answer }) => (answer === "25 minutes" ? ["How long?"] : [])),
  );
  assert.deepEqual([writer.name, writer.read], ["vicuna", null]);
});
