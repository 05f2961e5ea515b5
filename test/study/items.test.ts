// What a benchmark asks of documents: where, for what, and what would be wrong. The documents are written here, and what holds in them
// is known by reading them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { chatWriter, isToSearch } from "../../src/domain/benchmarks/create/writing.ts";
import { candidatesOf, type ItemCandidate, type WrittenOf } from "../../src/study/items/candidates.ts";
import { type ItemPlan, planOf } from "../../src/study/items/plan.ts";
import { readAnswers, readQuiz, type Verified } from "../../src/study/items/written.ts";
import { lexiconOf } from "../../src/study/lexicon.ts";
import { passagesOf } from "../../src/study/passages.ts";
import { plainRowsOf } from "../../src/study/plain.ts";
import { documentOf } from "../helpers/study.ts";

const mill = documentOf(
  `# Orrin Mill

Orrin Mill was bought by Ada Lund in 1988. Visitors may enter from 9.30 to 16.00, unless the sluice is open.

## Stock of wheels

| Wheel | Weight | Price |
|---|---|---|
| Alder wheel | 40 kg | 310 euros |
| Birch wheel | 52 kg | 290 euros |
| Cedar wheel | 47 kg | 305 euros |
| Elm wheel | 61 kg | 290 euros |

## Opening the sluice

1. Ring the yellow bell twice.
2. Lift the bar with the long hook.

## Contact

- Telephone: 0712 444
- Keeper: Ole Berg
`,
  "text/markdown",
  "mill.md",
);
const workshop = documentOf(
  `# Hausordnung der Werkstatt

Die Werkstatt öffnet um 7.15 Uhr und schließt um 16.45 Uhr. Wer eine Maschine beschädigt, meldet es vor Feierabend dem Meister.

| Maschine | Wartung | Zuständig |
|---|---|---|
| Kreissäge | alle 6 Wochen | Frau Reeh |
| Hobelbank | alle 14 Wochen | Herr Voss |
`,
  "text/markdown",
  "werkstatt.md",
);
const documents = [mill, workshop];
const plans = planOf(documents, { seed: 1, wanted: 20 });
const planWith = (words: string): ItemPlan => plans.find(({ passage }) => passage.text.includes(words))!;
const candidates = (written: WrittenOf[] = [], seed = 1): ItemCandidate[] =>
  candidatesOf({ documents, seed, wanted: 20, written });
const of = (plan: ItemPlan, items: Partial<Verified>[], near: string | null = null): WrittenOf => ({
  passage: plan.passage.id,
  near,
  items: items.map((item) => ({ kind: "fact", question: "?", answer: "", verified: true, ...item })),
});

test("every passage is planned once, for spans that stand in it, of kinds told by its signs", () => {
  assert.deepEqual(
    plans.map(({ passage }) => passage.id).sort(),
    passagesOf(documents)
      .map(({ id }) => id)
      .sort(),
  );
  for (const { passage, spans } of plans)
    for (const { start, end, text } of spans) assert.equal(passage.text.slice(start, end), text);
  const asks = new Map(plans.flatMap(({ spans }) => spans.map(({ text, asks }) => [text, asks])));
  assert.equal(asks.get("1988"), "numeric");
  assert.equal(asks.get("Ada Lund"), "fact");
  assert.equal(asks.get("unless the sluice is open"), "condition");
  assert.equal(asks.get("52 kg"), "numeric");
  assert.equal(asks.get("Herr Voss"), "fact");
  assert.ok(planWith("yellow bell").spans.every((span) => span.asks === "step"));
});

test("sentences in a script without spaces are planned", () => {
  const [plan] = planOf([documentOf("# 规定\n\n公司的员工每年有十五天的年假。\n")], { seed: 1, wanted: 5 });
  assert.deepEqual(
    plan?.spans.map(({ text }) => text),
    ["年假"],
  );
});

test("of few questions wanted, the first passages are of every document, and as many as may be needed", () => {
  const long = (name: string) =>
    documentOf(
      Array.from(
        { length: 40 },
        (_, at) => `## Room ${name}${at}\n\nThe key of room ${name}${at} has the number ${at + 300}.\n`,
      ).join("\n"),
      "text/markdown",
      `${name}.md`,
    );
  const some = planOf([long("A"), long("B")], { seed: 1, wanted: 5 });
  assert.equal(some.length, 20);
  for (const n of [8, 20]) {
    const ofFirst = some.slice(0, n).filter(({ passage }) => passage.document === "document_A.md").length;
    assert.ok(Math.abs(ofFirst - n / 2) <= 1, `${ofFirst} of ${n}`);
  }
  const again = planOf([long("A"), long("B")], { seed: 2, wanted: 5 });
  assert.notDeepEqual(
    again.map(({ passage }) => passage.id),
    some.map(({ passage }) => passage.id),
  );
});

test("what is near a passage shares its rare words", () => {
  assert.equal(planWith("Ada Lund").near?.path.at(-1), "Opening the sluice");
  assert.equal(planWith("Alder wheel").near, null);
});

test("without a writer cells and keys are asked for, each with its own value, and what would be wrong beside it", () => {
  const found = candidates();
  const asked = (row: string, column: string) =>
    found.filter(({ wordings }) => wordings[0]!.question.includes(row) && wordings[0]!.question.includes(column));
  const [birch] = asked("Birch wheel", "Weight");
  assert.equal(birch?.response, "52 kg");
  assert.deepEqual(birch.aliases, birch.type === "choice" ? [] : ["52"]);
  assert.deepEqual(birch.siblings, ["40 kg", "47 kg", "61 kg"]);
  assert.equal(birch.citations[0]!.quote, "| Birch wheel | 52 kg | 290 euros |");
  const [elm] = asked("Elm wheel", "Price");
  assert.equal(elm?.response, "290 euros");
  assert.equal(elm.citations[0]!.quote, "| Elm wheel | 61 kg | 290 euros |");
  assert.equal(asked("Hobelbank", "Wartung")[0]?.response, "alle 14 Wochen");
  assert.equal(asked("Contact", "Keeper")[0]?.response, "Ole Berg");
  assert.ok(!found.some(({ response }) => response === "Ada Lund"), "prose is not asked for without a writer");
  for (const { document, citations } of found)
    for (const { start, end, quote } of citations)
      assert.equal(documents.find(({ id }) => id === document)!.text.slice(start, end), quote);
  for (const { type, choices, response } of found.filter((one) => one.type === "choice")) {
    assert.equal(type, "choice");
    assert.equal(new Set(choices).size, 4);
    assert.ok(choices.includes(response));
  }
  assert.ok(found.some(({ type }) => type === "choice"));
});

test("a number may lack its unit, but not the month of a date or the rest of a range", () => {
  const aliases: [answer: string, aliases: string[]][] = [
    ["52 kg", ["52"]],
    ["1,200 euros", ["1,200", "1200 euros"]],
    ["14 working days", ["14"]],
    ["60 m2", ["60"]],
    ["12 March 2019", []],
    ["12 March", []],
    ["5 to 7 days", []],
    ["3. Mai 2024", []],
    ["3. Mai", []],
  ];
  const lines = aliases.map(([answer], at) => `- Value ${at}: ${answer}\n`);
  const found = candidatesOf({ documents: [documentOf(lines.join(""))], seed: 1, wanted: 99, written: [] });
  assert.deepEqual(new Map(found.map((one) => [one.response, one.aliases])), new Map(aliases));
});

test("a table of keys and values is asked by its keys, and the head of a letter by nothing", () => {
  const text =
    "# The bridge at Tarn\n\n| Engineer | Ida Holm |\n|---|---|\n| Client | Tarn Council |\n| Length | 88 m |\n\n## News\n\n- From: Ole <ole@tarn.example>\n- Fee: 3 euros\n";
  const found = candidatesOf({ documents: [documentOf(text)], seed: 1, wanted: 9, written: [] });
  assert.deepEqual(found.map(({ response }) => response).sort(), ["3 euros", "88 m", "Tarn Council"]);
  for (const { wordings } of found) assert.ok(wordings.every(({ question }) => !question.includes("Ida Holm")));
});

test("a plain question that another document answers otherwise is not asked, however few are wanted", () => {
  const keys = ["Phone", "Fax", "Clerk", "Opens at", "Closes at", "Room"];
  const offices = ["Oslo", "Bergen", "Tromso"].map((town, office) => {
    const lines = keys.map((key, at) => `- ${key}: ${town} ${10 * office + at}\n`);
    return documentOf(`# ${town} office\n\n## Contact\n\n${lines.join("")}`, "text/markdown", `${town}.md`);
  });
  const desk = documentOf("# Desk\n\n## Contact\n\n- Postcode: 0150\n", "text/markdown", "desk.md");
  for (const seed of [1, 2, 3]) {
    const found = candidatesOf({ documents: [...offices, desk], seed, wanted: 2, written: [] });
    assert.deepEqual(
      found.map(({ response }) => response),
      ["0150"],
    );
  }
});

test("no plain question stands in the rows of a study; a question in the document's own words does", () => {
  assert.ok(candidates().every(({ wordings }) => wordings.some(({ leaks }) => !leaks)));
  const plan = planWith("Ada Lund");
  const passages = passagesOf(documents);
  const trained = plainRowsOf(passages, lexiconOf(passages)).find(
    ({ kind, messages }) => kind === "in_place" && messages[1]!.content.includes("1988"),
  )!;
  const questions = [
    { question: trained.messages[0]!.content, answer: "1988" },
    { question: "Since which year has the mill been Mrs Lund's?", answer: "1988" },
  ];
  const [item] = candidates([of(plan, questions)]).filter(({ isWritten }) => isWritten);
  assert.deepEqual(
    item!.wordings.map(({ leaks }) => leaks),
    [true, false],
  );
});

test("rows without a model are those of a study: the same forms of every clause, cell and key", () => {
  const passages = passagesOf(documents);
  const rows = plainRowsOf(passages, lexiconOf(passages));
  const answers = new Set(rows.map(({ messages }) => messages[1]!.content));
  for (const said of ["1988", "Ada Lund", "Herr Voss"])
    assert.ok(
      [...answers].some((answer) => answer.includes(said)),
      said,
    );
  for (const answer of ["52 kg", "0712 444"]) assert.ok(answers.has(answer), answer);
  assert.ok(rows.some(({ kind }) => kind === "cell") && rows.some(({ kind }) => kind === "in_place"));
});

test("what is said once is in one cluster wherever it stands; another value, or of another row, is not", () => {
  const clusterOf = (text: string, asked: string): string => {
    const found = candidatesOf({ documents: [documentOf(text)], seed: 1, wanted: 5, written: [] });
    return found.find(({ wordings }) => wordings[0]!.question.includes(asked))!.cluster;
  };
  const table = (row: string) => `| Office | Head |\n|---|---|\n${row}\n| Stores | Ida Holm |\n`;
  const first = clusterOf(table("| Sales | Ada Lund |"), "Sales");
  assert.equal(clusterOf(`# Offices of 2031\n\n${table("| Sales | Ada Lund |")}`, "Sales"), first);
  assert.notEqual(clusterOf(table("| Sales | Ole Berg |"), "Sales"), first);
  assert.notEqual(clusterOf(table("| Purchasing | Ada Lund |"), "Purchasing"), first);
});

test("a citation of a document with pages names its page", () => {
  const pages = [0, mill.text.indexOf("## Contact")];
  const found = candidatesOf({ documents: [{ ...mill, pages }], seed: 1, wanted: 20, written: [] });
  for (const { citations, response } of found) {
    const onLast = ["0712 444", "Ole Berg"].includes(response);
    assert.equal(citations[0]!.page, onLast ? 2 : 1, response);
  }
});

test("of a model's reply, what is no JSON object, of no kind, or answered by no passage, is dropped", () => {
  const plan = planWith("Ada Lund");
  const said = [
    "Here are the questions:",
    '{"kind": "fact", "question": "Who owns the mill?", "answer": "Ada Lund"}',
    '{"kind": "fact", "question": "Who sold the mill?", "answer": "Ole Berg"}',
    '{"kind": "riddle", "question": "Who is it?", "answer": "Ada Lund"}',
    '{"kind": "numeric", "question": "Since when is it hers?", "answer": "1988"},',
    '{"kind": "numeric", "question": "Since when", "answer": 1988}',
    '{"kind": "multi_hop", "question": "What is rung twice where Ada Lund is the owner?", "answer": "yellow bell"}',
    '{"kind": "condition", "question": "What is rung?", "answer": "yellow bell"}',
    '{"kind": "unanswerable", "question": "What did the mill cost?", "answer": null}',
    '{"kind": "unanswerable", "question": "What is not said?", "answer": "Ada Lund"}',
    '{"kind": "fact", "question": ',
  ].join("\n");
  assert.deepEqual(
    readQuiz(said, plan).map(({ kind, answer }) => [kind, answer]),
    [
      ["fact", "Ada Lund"],
      ["numeric", "1988"],
      ["multi_hop", "yellow bell"],
      ["unanswerable", ""],
    ],
  );
  const answers = '{"number": 2, "answer": null}\n{"number": 1, "answer": "1988"}\n{"number": 9, "answer": "x"}\nno';
  assert.deepEqual(readAnswers(answers, 3), ["1988", null, undefined]);
});

/** Layouts in which models put the JSON objects of a reply. */
const layouts: [name: string, said: (objects: object[]) => string][] = [
  ["an array on one line", (objects) => JSON.stringify(objects)],
  ["an array in a fence", (objects) => `Here you are:\n\`\`\`json\n${JSON.stringify(objects, null, 2)}\n\`\`\``],
  ["objects of many lines", (objects) => objects.map((one) => JSON.stringify(one, null, 2)).join("\n\n")],
  ["a numbered list", (objects) => objects.map((one, at) => `${at + 1}. ${JSON.stringify(one)}`).join("\n")],
  ["bullets with commas", (objects) => objects.map((one) => `- ${JSON.stringify(one)},`).join("\n")],
];

for (const [name, said] of layouts)
  test(`questions and answers are read from ${name}, and an answer is as its passage has it`, () => {
    const quiz = [
      { kind: "fact", question: "Who owns the {mill}?", answer: '"ada  lund".' },
      { kind: "unanswerable", question: "What did the mill cost?", answer: null },
      { kind: "multi_hop", question: "What is rung?", answer: "Yellow\nbell" },
      { kind: "numeric", question: "Since when?", answer: "1988" },
    ];
    assert.deepEqual(readQuiz(said(quiz), planWith("Ada Lund")), [
      { kind: "fact", question: "Who owns the {mill}?", answer: "Ada Lund" },
      { kind: "unanswerable", question: "What did the mill cost?", answer: "" },
      { kind: "multi_hop", question: "What is rung?", answer: "yellow bell" },
      { kind: "numeric", question: "Since when?", answer: "1988" },
    ]);
    const answers = [
      { number: 2, answer: null },
      { number: 1, answer: "1988" },
    ];
    assert.deepEqual(readAnswers(said(answers), 3), ["1988", null, undefined]);
  });

test("a chat model writes, and in messages without its answers reads: a question is kept as verified where both are one", async () => {
  const plan = planWith("Ada Lund");
  const asked: string[] = [];
  const quiz = [
    { kind: "fact", question: "Who bought the mill?", answer: "Ada Lund" },
    { kind: "numeric", question: "When does the mill close?", answer: "1988" },
    { kind: "multi_hop", question: "What is rung at Ada Lund's mill?", answer: "yellow bell" },
    { kind: "multi_hop", question: "What shuts out visitors of the mill with a yellow bell?", answer: "sluice" },
    { kind: "unanswerable", question: "What did Ada Lund pay?", answer: null },
    { kind: "unanswerable", question: "When was the mill bought?", answer: null },
  ];
  const both = ["Ada Lund in 1988", "16.00", "the yellow bell", "the sluice", null, "1988"];
  const lines = (answers: (string | null)[]) =>
    answers.map((answer, at) => JSON.stringify({ number: at + 1, answer })).join("\n");
  const [written] = await chatWriter(async (content) => {
    asked.push(content);
    if (asked.length === 1) return quiz.map((line) => JSON.stringify(line)).join("\n");
    // The bell is named in one passage alone; that it keeps visitors out takes both.
    return asked.length === 2
      ? lines(both)
      : lines([content.includes("yellow bell\n") || content.includes("Ring") ? "yellow bell" : null, null]);
  }).write([plan]);
  assert.deepEqual(
    written!.map(({ question, verified }) => [question, verified]),
    [
      ["Who bought the mill?", true],
      ["When does the mill close?", false],
      ["What shuts out visitors of the mill with a yellow bell?", true],
      ["What did Ada Lund pay?", true],
      ["When was the mill bought?", false],
    ],
  );
  assert.equal(asked.length, 4);
  for (const message of asked.slice(1)) assert.ok(!message.includes('"Ada Lund"'), "the reader is not told the answer");
});

test("an unanswerable question is dropped where a passage that a search finds answers it", async () => {
  const item = { kind: "unanswerable", question: "What did Ada Lund pay?", answer: "", verified: true } as const;
  const [elsewhere] = passagesOf([documentOf("Ada Lund paid 900 crowns.", "text/plain")]);
  const [other] = passagesOf([documentOf("The mill has a bell.", "text/plain")]);
  const reader = chatWriter(async (content) =>
    JSON.stringify({ number: 1, answer: content.includes("900 crowns") ? "900 crowns" : null }),
  );
  assert.equal(isToSearch(item), true);
  const [told, untold, unfound] = [
    await reader.search(item, planWith("Ada Lund"), [elsewhere!]),
    await reader.search(item, planWith("Ada Lund"), [other!]),
    await reader.search(item, planWith("Ada Lund"), []),
  ];
  assert.deepEqual([told.verified, untold.verified, unfound.verified], [false, true, true]);
  assert.deepEqual([told, untold, unfound].map(isToSearch), [false, false, false]);
});

test("what was written is cited where it stands, asked for once an answer, and declined in the passage's language", () => {
  const own = planWith("Ada Lund");
  const german = planWith("Feierabend");
  const bell = planWith("yellow bell");
  const found = candidates([
    of(
      own,
      [
        { question: "Who bought the mill at Orrin?", answer: "Ada Lund" },
        { question: "Whose is Orrin Mill since 1988?", answer: "Ada Lund" },
        { kind: "multi_hop", question: "What is rung at Ada Lund's mill?", answer: "yellow bell" },
      ],
      bell.passage.id,
    ),
    of(german, [{ kind: "unanswerable", question: "Was kostet die Hobelbank der Werkstatt?", answer: "" }]),
  ]).filter(({ isWritten }) => isWritten);
  const [owner, rung, declined] = ["Ada Lund", "yellow bell", "Das steht nicht in den Unterlagen."].map(
    (response) => found.find((one) => one.response === response)!,
  );
  assert.equal(found.length, 3);
  assert.deepEqual(
    owner!.wordings.map(({ question, rank }) => [question, rank]),
    [
      ["Who bought the mill at Orrin?", 1],
      ["Whose is Orrin Mill since 1988?", 1],
    ],
  );
  assert.equal(owner!.citations[0]!.quote, "Orrin Mill was bought by Ada Lund in 1988.");
  assert.equal(rung!.citations.length, 2);
  assert.equal(rung!.citations[1]!.quote, "Ring the yellow bell twice.");
  assert.ok(rung!.chunk.includes("Ada Lund") && rung!.chunk.includes("yellow bell"));
  assert.deepEqual([declined!.type, declined!.citations, declined!.rivals], ["refusal", [], []]);
});
