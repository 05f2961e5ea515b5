// Writers: what the shipped one is trained on and asked with, by a scripted model; and what is read of a teacher's answer.
import assert from "node:assert/strict";
import { test } from "node:test";
import { worthAsking } from "../../src/study/spans.ts";
import { studyTargets } from "../../src/study/targets.ts";
import { askingPrompt } from "../../src/study/writers/format.ts";
import { selfWriter } from "../../src/study/writers/self.ts";
import { shippedWriter } from "../../src/study/writers/shipped.ts";
import {
  furtherPrompt,
  joinedReplies,
  readReply,
  teacherPrompt,
  teacherWriter,
} from "../../src/study/writers/teacher.ts";
import type { Speaker } from "../../src/study/writers/writer.ts";
import { documentOf, plainBase, targetsIn } from "../helpers/study.ts";

test("the writer sees the headings and the clause on one line", () => {
  assert.equal(
    askingPrompt("Ferry > Crossing", "The crossing\ntakes 25 minutes.", "In other words"),
    "Ferry > Crossing\nThe crossing takes 25 minutes.\n\nIn other words:",
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

const shipped = (speaker: Speaker, languages = ["en"]) => shippedWriter(speaker, { languages, seed: 3 });

test("the shipped writer asks in three manners for each clause of its languages, and for nothing else", async () => {
  const speaker = scripted(
    (prompt) => ` ${prompt.includes("\nThe crossing") ? `As ${prompt.split("\n").at(-1)}` : "?"} `,
  );
  const english = targets.map((target) => ({ ...target, passage: { ...target.passage, language: "en" } }));
  const questions = await shipped(speaker).write(english);
  assert.deepEqual(questions.length, targets.length);
  assert.deepEqual(questions[targets.findIndex(({ answer }) => answer.startsWith("The crossing"))], [
    "As Question:",
    "As In other words:",
    "As Someone asks:",
  ]);
  assert.deepEqual(questions[targets.findIndex(({ kind }) => kind === "asked")], []);
  assert.ok(speaker.options.every((how) => (how as { temperature: number; seed: number }).temperature === 0));
  const silent = scripted(() => assert.fail("it does not speak it"));
  assert.deepEqual(
    await shipped(silent, ["fr"]).write(english),
    english.map(() => []),
  );
});

test("the shipped writer weighs a question by its clause and in its own manner, nats a token", async () => {
  const text = "# Ferry\n\nThe crossing takes 25 minutes. In winter the ferry lies in the dock.\n";
  const english = targetsIn([documentOf(text)]).targets.map((target) => ({
    ...target,
    passage: { ...target.passage, language: "en" },
  }));
  const weighed: string[] = [];
  const writer = shipped({
    ...scripted((prompt) => ` ${prompt.split("\n").at(-1)} how long?`),
    score: async (rows) =>
      rows.map(({ prompt, text }) => {
        weighed.push(`${prompt}|${text}`);
        return { ends: [], logprobs: [-1, -2, -6] };
      }),
  });
  const [[, question]] = (await writer.write(english)) as [string[]];
  assert.deepEqual(await writer.fluency!([{ target: english[0]!, question: question! }]), [-3]);
  assert.deepEqual(weighed, ["Ferry\nThe crossing takes 25 minutes.\n\nIn other words:| In other words: how long?"]);
  assert.deepEqual([writer.name, writer.read], ["shipped", null]);
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

test("a teacher is asked again about the facts that it named, and both replies are joined", () => {
  const passage = passages[0]!;
  const ask = (answer: string, ...questions: string[]) => ({ answer, questions });
  const first = { asks: [ask("25 minutes", "How long?"), ask("free", "What does a child pay?")], unfounded: 1 };
  const prompt = furtherPrompt(passage, first);
  assert.ok(prompt.includes(passage.text));
  for (const one of first.asks) assert.ok(prompt.includes(`\n${JSON.stringify(one)}`));
  const more = [ask("25 minutes", "How long?", "Minutes to Skarvik?"), ask("calm sea", "In what sea?")];
  const further = { asks: more, unfounded: 2 };
  assert.deepEqual(joinedReplies(first, further), {
    asks: [
      ask("25 minutes", "How long?", "Minutes to Skarvik?"),
      ask("free", "What does a child pay?"),
      ask("calm sea", "In what sea?"),
    ],
    unfounded: 3,
  });
  assert.deepEqual(joinedReplies(first, { asks: [], unfounded: 0 }), first);
});

test("of a teacher's answer only lines are read that are sound and quote the passage", () => {
  const passage = { text: "The crossing takes 25 minutes." };
  const sound = { answer: "25 minutes", questions: ["How long?", " ", 7, "What time does it take?"] };
  const asks = [{ answer: "25 minutes", questions: ["How long?", "What time does it take?"] }];
  const read = { asks, unfounded: 0 };
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
  assert.deepEqual(readReply(lines.join("\n"), passage), { asks, unfounded: 1 });
  assert.deepEqual(readReply(JSON.stringify([sound]), passage), read);
  assert.deepEqual(readReply("", passage), { asks: [], unfounded: 0 });
  const endless = JSON.stringify({ answer: "25 minutes", questions: Array(100).fill("How long?") });
  assert.ok(readReply(endless, passage).asks[0]!.questions.length <= 8);
});

test("a teacher's objects are read wherever they stand, and its answers in the passage's words", () => {
  const passage = { text: 'The crossing takes 25\nminutes. The pier has {no} kiosk; "Bring Water", it says.' };
  const answers = ["25 minutes.", "the Crossing", '"Bring Water"', "{no}", "5 minutes", "rossing", "roses"];
  const asks = ["25\nminutes", "The crossing", '"Bring Water"', "{no}"].map((answer) => ({
    answer,
    questions: ["So?"],
  }));
  const objects = answers.map((answer) => ({ answer, questions: ["So?"] }));
  const expected = { asks, unfounded: 3 };
  for (const said of [
    `Here you are:\n\`\`\`json\n${JSON.stringify(objects, null, 2)}\n\`\`\`\nAnything {else}?`,
    objects.map((one) => `- ${JSON.stringify(one, null, 1)},`).join("\n\n"),
    objects.map((one) => JSON.stringify(one)).join(""),
    JSON.stringify({ facts: objects }),
  ])
    assert.deepEqual(readReply(said, passage), expected, said);
});

test("an answer is stated by whole words and numbers, and by any words of a script where words are joined", () => {
  const stated: [text: string, answer: string, read: string | null][] = [
    ["It takes 25 minutes.", "25 minutes", "25 minutes"],
    ["It takes 25 minutes.", "5 minutes", null],
    ["It takes 25 minutes. Boarding takes 5 minutes.", "5 minutes", "5 minutes"],
    ["It begins in November.", "No", null],
    ["It begins in November. No dogs.", "No", "No"],
    ["It costs (4,20 €).", "4,20 €)", "4,20 €)"],
    ["Sent on 2026-05-19T07:52:00.000Z.", "2026-05-19", "2026-05-19"],
    ["Paid on the 26th, from pump W4.", "26", "26"],
    ["Paid on the 26th, from pump W4.", "4", null],
    ["Paid on the 26th, from pump W4.", "2", null],
    ["कितना समय", "कि", null],
    ["年假为8小时的十五倍。", "8小时", "8小时"],
    ["年假为18小时的十五倍。", "8小时", null],
    ["年假为十五天。", "十五天", "十五天"],
    ["점검은 25분이 걸린다.", "25분", "25분"],
    ["점검은 125분이 걸린다.", "25분", null],
    ["ရုံးချိန်သည်မနက်ကိုးနာရီဖြစ်သည်။", "မနက်ကိုးနာရီ", "မနက်ကိုးနာရီ"],
    ["ทำงาน ๑๘ ชั่วโมง", "๑๘ ชั่วโมง", "๑๘ ชั่วโมง"],
    ["ทำงาน ๑๘ ชั่วโมง", "๘ ชั่วโมง", null],
  ];
  for (const [text, answer, read] of stated) {
    const { asks, unfounded } = readReply(JSON.stringify({ answer, questions: ["So?"] }), { text });
    assert.deepEqual([asks[0]?.answer ?? null, unfounded], [read, read === null ? 1 : 0], `${answer} in ${text}`);
  }
});

test("a teacher's questions do not go to a clause that has their answer only as a part of a word", async () => {
  const text = "# Complaints\n\nIt is written by the head of the team. It is sent within ten days.\n";
  const { passages, lexicon } = targetsIn([documentOf(text)]);
  const [passage] = passages;
  const reply = { asks: [{ answer: "ten", questions: ["How many days?"] }], unfounded: 0 };
  const writer = teacherWriter("vicuna", new Map([[passage!.id, reply]]));
  const [proposed] = await writer.propose(passages);
  const spans = worthAsking(passage!, proposed!, () => 0, lexicon.tells, { isWhole: true });
  assert.deepEqual(
    spans.map(({ unit }) => unit.text),
    ["It is sent within ten days."],
  );
  const targets = studyTargets(passage!, spans);
  assert.deepEqual(await writer.write(targets), [[], ["How many days?"]]);
});

test("a teacher's questions go to the clause or value that holds their answer, and it does not read", async () => {
  const [passage] = passages;
  const replies = new Map([
    [
      passage!.id,
      {
        asks: [
          { answer: "25 minutes", questions: ["How long?", "How many minutes?"] },
          { answer: "crossing", questions: ["What takes so long?"] },
        ],
        unfounded: 0,
      },
    ],
  ]);
  const writer = teacherWriter("vicuna", replies);
  assert.deepEqual(
    await writer.propose(passages),
    passages.map((one) => (one === passage ? ["25 minutes", "crossing"] : [])),
  );
  assert.deepEqual(
    await writer.write(targets),
    targets.map(({ answer }) =>
      answer.includes("25 minutes") ? ["How long?", "What takes so long?", "How many minutes?"] : [],
    ),
  );
  const crossing = targets.find(({ answer, kind }) => kind === "clause" && answer.includes("25 minutes"))!;
  assert.deepEqual(
    ["How long?", "How far?"].map((question) => writer.answerTo!(crossing, question)),
    ["25 minutes", null],
  );
  assert.deepEqual([writer.name, writer.read], ["vicuna", null]);
});

test("a teacher's questions for any cell of a table are used, the first of a row included", async () => {
  const table = targetsIn([
    documentOf("# Loaves\n\n| Loaf | Price | Baker |\n|---|---|---|\n| Rye | 4.20 | Ada Lund |\n"),
  ]);
  const [passage] = table.passages;
  const asks = passage!.units[0]!.type === "row" ? ["Rye", "4.20"] : [];
  const reply = {
    asks: asks.map((answer) => ({ answer, questions: [`Which is ${answer.length} long?`] })),
    unfounded: 0,
  };
  const written = await teacherWriter("vicuna", new Map([[passage!.id, reply]])).write(table.targets);
  const asked = table.targets.flatMap(({ answer }, at) => (written[at]!.length > 0 ? [answer] : []));
  assert.deepEqual(asked.toSorted(), ["4.20", "Rye"]);
});

/** Answers messages about the crossing with what a capable base would: questions for one, answers for the other. */
function capable(answers: (questions: string) => object[]): Speaker & { asked: string[] } {
  const asked: string[] = [];
  const reply = { answer: "25 minutes", questions: ["How long does the crossing take?", "How dear is a goat?"] };
  return {
    ...plainBase,
    asked,
    chat: async (messages) => {
      asked.push(...messages);
      return messages.map((message) => {
        if (message.includes('"number"'))
          return answers(message)
            .map((one) => JSON.stringify(one))
            .join("\n");
        return message.includes("The crossing takes") ? JSON.stringify(reply) : "";
      });
    },
  };
}

test("the base writes for itself, and a question counts whose answer it finds in the passage again", async () => {
  const speaker = capable(() => [
    { number: 1, answer: "25 minutes" },
    { number: 2, answer: null },
  ]);
  const writer = selfWriter(speaker, { seed: 3 });
  assert.deepEqual(
    await writer.propose(passages),
    passages.map(({ text }) => (text.includes("25 minutes") ? ["25 minutes"] : [])),
  );
  const asked = await writer.write(targets);
  const at = targets.findIndex(({ answer }) => answer.includes("25 minutes"));
  assert.deepEqual(asked[at], ["How long does the crossing take?", "How dear is a goat?"]);
  const written = asked[at]!.map((question) => ({ target: targets[at]!, question }));
  assert.deepEqual(await writer.read!(written), [targets[at]!.answer, ""]);
  assert.deepEqual([writer.name, writer.isTeacher, writer.fluency], ["self", true, null]);
});

test("the base reads a passage for its own questions with what stands before it", async () => {
  const filling = Array.from({ length: 40 }, (_, at) => `word${at}`).join(" ");
  const captain = documentOf(`# Ferry\n\nAda Lund is the captain, ${filling}.\n\nThe crossing takes her 25 minutes.\n`);
  const made = targetsIn([captain]);
  const speaker = capable(() => [{ number: 1, answer: "25 minutes" }]);
  const writer = selfWriter(speaker, { seed: 3 });
  await writer.propose(made.passages);
  const target = made.targets.find(({ answer }) => answer.includes("25 minutes"))!;
  await writer.read!([{ target, question: "How long does Ada Lund need?" }]);
  assert.ok(speaker.asked.at(-1)!.includes(`Ada Lund is the captain, ${filling}.\nThe crossing takes her 25 minutes.`));
});

test("a base that writes nothing of its first passages is asked about no more", async () => {
  const many = Array.from({ length: 40 }, (_, at) => ({ ...passages[0]!, id: `0.${at}`, text: "The ferry lies." }));
  const speaker = capable(() => []);
  const writer = selfWriter(speaker, { seed: 3 });
  for (const from of [0, 16, 32])
    assert.ok((await writer.propose(many.slice(from, from + 16))).every((spans) => spans.length === 0));
  assert.equal(speaker.asked.length, 8);
});
