// Each gate is shown what it has to drop, planted beside what it has to keep.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { SnapshotDocument } from "../../src/contract/run-folder.ts";
import { readFacts } from "../../src/domain/alignments/examples.ts";
import { type Candidate, candidatesOf } from "../../src/domain/benchmarks/create/candidates.ts";
import { type Checked, checkDrafts, choose, type Scored } from "../../src/domain/benchmarks/create/checks.ts";
import { type Draft, type GateCount, passGates } from "../../src/domain/benchmarks/create/gates.ts";
import { phrased, phrasingOf } from "../../src/domain/benchmarks/create/phrasing.ts";

const text =
  "# Orrin Mill\n\nOrrin Mill is managed by Ada Lund.\n\n| Wheel | Weight | Price |\n|---|---|---|\n| Alder wheel | 40 kg | 310 euros |\n| Birch wheel | 52 kg | 290 euros |\n| Cedar wheel | 47 kg | 305 euros |\n| Elm wheel | 61 kg | 345 euros |\n";
const mill: SnapshotDocument = { id: "document_mill", name: "mill.md", media_type: "text/markdown", text };
const quote = "Orrin Mill is managed by Ada Lund.";
const start = text.indexOf(quote);

const good: Candidate = {
  category: "factual",
  type: "short",
  wordings: ["Who is on record as the manager of Orrin Mill?", "Somebody asks about Orrin Mill: who manages it?"],
  response: "Ada Lund",
  aliases: [],
  choices: [],
  citations: [{ document: mill.id, page: null, start, end: start + quote.length, quote }],
  chunk: text,
  rivals: [],
  siblings: [],
  cluster: "fact-1",
  about: { entity: "Orrin Mill", attribute: "manager", document: mill.id, names: ["Orrin Mill"] },
};
const counts = (gates: GateCount[]): Record<string, string> =>
  Object.fromEntries(gates.map((gate) => [gate.gate, `${gate.in} → ${gate.out}`]));

const planted: [gate: string, what: string, bad: Candidate][] = [
  [
    "grounded",
    "a quote that the document does not have",
    { ...good, citations: [{ ...good.citations[0]!, quote: "Orrin Mill is run by Ada Lund." }] },
  ],
  ["grounded", "an answer that the quote does not have", { ...good, response: "Ole Lund" }],
  [
    "grounded",
    "half a number",
    {
      ...good,
      response: "4",
      citations: [
        { document: mill.id, page: null, start: text.indexOf("40 kg"), end: text.indexOf("40 kg") + 5, quote: "40 kg" },
      ],
    },
  ],
  ["grounded", "no citation", { ...good, citations: [] }],
  [
    "stand_alone",
    "a question about the text",
    { ...good, wordings: ["According to the text, who manages Orrin Mill?"] },
  ],
  [
    "stand_alone",
    "a pronoun that stands for nothing",
    { ...good, wordings: ["Who manages it, the place called Orrin Mill?"] },
  ],
  ["stand_alone", "no name of anything", { ...good, wordings: ["Who is on record as the manager?"] }],
  ["stand_alone", "its own answer", { ...good, wordings: ["Is Ada Lund the manager of Orrin Mill?"] }],
];
for (const [gate, what, bad] of planted)
  test(`${gate} drops ${what}`, () => {
    const { drafts, gates } = passGates(
      [good, { ...bad, cluster: "fact-2", about: { ...bad.about, attribute: "owner" } }],
      [mill],
      new Set(),
    );
    assert.equal(counts(gates)[gate], "2 → 1");
    assert.deepEqual(
      drafts.map(({ cluster }) => cluster),
      ["fact-1"],
    );
  });

test("unique drops both of two answers to one question", () => {
  const other = { ...good, response: "Orrin Mill is managed", citations: good.citations, cluster: "fact-2" };
  const { gates } = passGates([good, { ...other, response: "Lund" }], [mill], new Set());
  assert.equal(counts(gates).unique, "2 → 0");
});

test("no_leak asks in the next wording, and drops what has none left", () => {
  const [first, second] = good.wordings;
  const one = passGates([good], [mill], new Set([first!]));
  assert.equal(one.drafts[0]!.question, second);
  assert.equal(counts(passGates([good], [mill], new Set([first!, second!])).gates).no_leak, "1 → 0");
});

test("duplicate keeps one of two questions with one answer, and questions of siblings", () => {
  const again = { ...good, wordings: ["Who is on record as a manager of Orrin Mill?"], cluster: "fact-2" };
  assert.equal(counts(passGates([good, again], [mill], new Set()).gates).duplicate, "2 → 1");
});

test("choices drops a choice without one right answer", () => {
  const choice: Candidate = { ...good, type: "choice", choices: ["Ada Lund", "Ole Berg", "Ida Holm"] };
  const bad = {
    ...choice,
    wordings: ["Somebody asks about Orrin Mill: whose orders count there?"],
    choices: ["Ada Lund", "ada lund", "Ida Holm"],
    cluster: "fact-2",
    about: { ...good.about, attribute: "head" },
  };
  const { gates } = passGates([choice, bad], [mill], new Set());
  assert.equal(counts(gates).choices, "2 → 1");
});

test("candidates of a table ask each sibling's own value, and choices are the siblings' values", () => {
  const candidates = candidatesOf([mill], readFacts([mill]), 1);
  const weights = candidates.filter(({ about, type }) => about.attribute === "weight" && type !== "refusal");
  assert.deepEqual(weights.map(({ response }) => response).sort(), ["40 kg", "47 kg", "52 kg", "61 kg"]);
  for (const { wordings, response, about } of weights) {
    const row = text.split("\n").find((line) => line.includes(response))!;
    assert.ok(row.toLowerCase().includes(about.entity.replace(/^the | wheel$/g, "").toLowerCase()), wordings[0]);
  }
  for (const { choices, response } of candidates.filter(({ type }) => type === "choice")) {
    assert.equal(new Set(choices).size, 4);
    assert.ok(choices.includes(response));
  }
  assert.ok(candidates.some(({ type }) => type === "choice"));
  const nothing = candidates.filter(({ type }) => type === "refusal");
  assert.ok(nothing.length > 0);
  for (const { about } of nothing) assert.ok(!text.includes(about.entity), about.entity);
});

test("the head of an e-mail is nothing to ask for", () => {
  const mail = { ...mill, text: "# Welcome, Ida Holm\n\n- From: Personnel\n- To: Everybody\n- Extension: 4172\n" };
  const asked = candidatesOf([mail], readFacts([mail]), 1).filter(({ type }) => type !== "refusal");
  assert.deepEqual(
    asked.map(({ response }) => response),
    ["4172"],
  );
});

test("a citation of a document with pages names its page", () => {
  const pages = [0, text.indexOf("| Wheel")];
  const cited = candidatesOf([{ ...mill, pages }], readFacts([mill]), 1).flatMap(({ citations }) => citations);
  assert.ok(cited.length > 0);
  for (const { page, start } of cited) assert.equal(page, start! < pages[1]! ? 1 : 2);
});

const draft = (more: Partial<Draft> = {}): Draft => {
  const { wordings, ...rest } = good;
  return { ...rest, question: wordings[0]!, rivals: ["Ole Berg"], ...more };
};

test("a draft is answerable where the chunk makes the right answer likelier than every wrong one", async () => {
  const likely: Record<string, number> = { "Ada Lund": -0.5, "Ole Berg": -0.7, "Ida Holm": -0.4 };
  const asked: Scored[] = [];
  const verdicts = await checkDrafts([draft(), draft({ rivals: ["Ole Berg", "Ida Holm"] }), draft({ rivals: [] })], {
    score: async (rows) => {
      asked.push(...rows);
      return rows.map(({ prompt, answer }) => (prompt.includes(text.trim()) ? likely[answer]! : -0.8));
    },
    answer: async (questions) => questions.map(() => "Ada Lund, I think"),
    grade: (answer, { response }) => answer.includes(response),
  });
  assert.deepEqual(
    verdicts.map(({ margin }) => Number(margin!.toFixed(3))),
    [0.2, -0.1, -0.2],
  );
  assert.ok(verdicts.every(({ known }) => known));
  assert.ok(
    asked.every(({ prompt }) => !prompt.includes("Ole Berg")),
    "the checker is not told what is wrong",
  );
});

const checked = (n: number, of: Partial<Checked["verdict"]>, type: Draft["type"] = "short"): Checked[] =>
  Array.from({ length: n }, () => ({
    draft: draft({ type, choices: type === "choice" ? ["a", "b", "c", "Ada Lund"] : [] }),
    verdict: { margin: 1, known: false, guessed: type === "choice" ? false : null, ...of },
  }));

test("of what is known already at most three in ten are kept", () => {
  const { chosen, needed } = choose([...checked(50, { known: true }), ...checked(70, {})], 200);
  assert.equal(chosen.filter(({ verdict }) => verdict.known).length, 30);
  assert.equal(needed, 100);
  assert.equal(choose(checked(9, { known: true }), 9).chosen.length, 0);
});

test("choices that the options give away are thinned until chance explains the rest", () => {
  const { chosen, fair } = choose([...checked(40, { guessed: true }, "choice"), ...checked(60, {}, "choice")], 200);
  const guessed = chosen.filter(({ verdict }) => verdict.guessed).length;
  assert.equal(chosen.length, fair);
  assert.ok(guessed <= fair / 4 + Math.sqrt((fair * 3) / 16), `${guessed} of ${fair}`);
  assert.equal(fair - guessed, 60);
});

test("what is not answerable is never chosen", () => {
  assert.equal(
    choose([...checked(3, { margin: -0.1 }), ...checked(2, {}), ...checked(1, { margin: null })], 9).chosen.length,
    3,
  );
});

test("a model's wording is taken when it is one question that keeps every name and says nothing more", () => {
  const one = draft({
    question: "What is on record as the room of Ada Lund since 2019?",
    response: "214",
    about: { ...good.about, names: ["Ada Lund"] },
  });
  const cases: [answer: string, taken: string | null][] = [
    ["In which room has Ada Lund been since 2019?", "In which room has Ada Lund been since 2019?"],
    ["«Where has Ada Lund sat since 2019?»", "Where has Ada Lund sat since 2019?"],
    ["Where has Ada sat since 2019?", null],
    ["Where does Ada Lund sit?", null],
    ["Ada Lund sits in a room since 2019.", null],
    ["Does Ada Lund sit in room 214 since 2019?", null],
    ["According to the text, where has Ada Lund sat since 2019?", null],
    ["Sure!\nWhere has Ada Lund sat since 2019?", null],
    [one.question, null],
    [`${"Where ".repeat(60)} has Ada Lund sat since 2019?`, null],
  ];
  for (const [answer, taken] of cases) assert.equal(phrased(answer, one), taken, answer);
  assert.ok(phrasingOf(one).endsWith(one.question));
});
