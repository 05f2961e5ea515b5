// Each gate is shown what it has to drop, planted beside what it has to keep.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readFacts } from "../../src/domain/alignments/examples.ts";
import { type Candidate, candidatesOf } from "../../src/domain/benchmarks/create/candidates.ts";
import { type Checked, checkDrafts, choose, type Scored } from "../../src/domain/benchmarks/create/checks.ts";
import { type Draft, type GateCount, passGates, withoutParaphrases } from "../../src/domain/benchmarks/create/gates.ts";
import { phrased, phrasingOf } from "../../src/domain/benchmarks/create/phrasing.ts";
import { structureOfText } from "../../src/domain/documents/parse.ts";
import { readStructure } from "../../src/domain/documents/structure.ts";

const text =
  "# Orrin Mill\n\nOrrin Mill is managed by Ada Lund.\n\n| Wheel | Weight | Price |\n|---|---|---|\n| Alder wheel | 40 kg | 310 euros |\n| Birch wheel | 52 kg | 290 euros |\n| Cedar wheel | 47 kg | 305 euros |\n| Elm wheel | 61 kg | 345 euros |\n";
const read = (text: string) => ({
  id: "document_mill",
  name: "mill.md",
  media_type: "text/markdown" as const,
  text,
  ...readStructure(text, structureOfText(text, "text/markdown", "mill.md")),
});
const mill = read(text);
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
  ["grounded", "a quote that the chunk does not have", { ...good, chunk: "Ada Lund lives in Orrin." }],
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

test("unique drops a wording in which two things are asked for, and what has no other; of one thing asked twice one is left", () => {
  const about = (attribute: string) => ({ ...good.about, attribute });
  const [first, second] = good.wordings;
  const half = { ...good, wordings: [second!], response: "Lund", cluster: "fact-2", about: about("owner") };
  const { drafts, gates } = passGates([{ ...good, wordings: [second!, first!] }, half], [mill], new Set());
  assert.equal(counts(gates).unique, "2 → 1");
  assert.deepEqual(
    drafts.map(({ question }) => question),
    [first],
  );
  const again = { ...good, cluster: "fact-2", about: { ...about("head"), names: ["Orrin"] } };
  assert.equal(counts(passGates([good, again], [mill], new Set()).gates).duplicate, "2 → 1");
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

test("duplicate knows a question in which one word of ten is another, and not one in which three are", () => {
  const ask = (question: string, cluster: string) => ({ ...good, wordings: [question], cluster });
  const first = ask("To whom on the north bank does everybody at Orrin Mill report each Monday?", "fact-1");
  const near = ask("To whom on the north bank does everybody at Orrin Mill report every Monday?", "fact-2");
  const far = ask("To whom on the other side does everybody at Orrin Mill report every Friday?", "fact-3");
  const { drafts } = passGates([first, near, far], [mill], new Set());
  assert.deepEqual(
    drafts.map(({ cluster }) => cluster),
    ["fact-1", "fact-3"],
  );
});

test("a paraphrase is a question of the same thing in the same document, with the same answer, that the encoder finds alike", async () => {
  const of = (entity: string, more: Partial<Draft> = {}): Draft =>
    draft({ question: `Who heads ${entity}?`, about: { ...good.about, entity, names: [entity] }, ...more });
  const elsewhere = of("Sales", {
    about: { ...good.about, entity: "Sales", names: ["Sales"], document: "document_b" },
  });
  const drafts = [
    of("the Sales department"),
    of("Sales"),
    of("Sales", { question: "What colour are the doors of Sales?" }),
    of("Purchasing"),
    of("Sales", { response: "Ole Berg" }),
    elsewhere,
  ];
  const asked: string[] = [];
  // Questions of who heads are alike (cosine 0.95), any other is at a right angle to them.
  const left = await withoutParaphrases(drafts, async (texts) => {
    asked.push(...texts);
    return texts.map((text) =>
      Float32Array.from(
        !text.startsWith("Who heads") ? [0, 0, 1] : text.includes("the") ? [1, 0, 0] : [0.95, 0.3122, 0],
      ),
    );
  });
  assert.deepEqual(left, [drafts[0], ...drafts.slice(2)]);
  assert.equal(asked.length, 4, "what cannot be a paraphrase is not embedded");
  await withoutParaphrases([drafts[0]!, elsewhere], () => assert.fail("there is nothing to compare"));
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

test("what is said of a thing is in one cluster wherever it is said; another value, or of another thing, is not", () => {
  const clustersOf = (text: string) => {
    const said = { ...read(text), id: `document_${text.length}` };
    const plain = candidatesOf([said], readFacts([said]), 1).filter(({ type }) => type !== "refusal");
    return Object.fromEntries(plain.map(({ about, response, cluster }) => [`${about.entity}: ${response}`, cluster]));
  };
  const prose = clustersOf("# Works\n\nThe manager of Orrin Mill is Ada Lund. The manager of Tarn Mill is Ada Lund.\n");
  const list = clustersOf("# Sites\n\n## Orrin Mill\n\n- Head: Ada Lund\n");
  const changed = clustersOf("# Sites\n\n## Orrin Mill\n\n- Head: Ole Berg\n");
  const [own, ...others] = [
    prose["Orrin Mill: Ada Lund"],
    prose["Tarn Mill: Ada Lund"],
    changed["Orrin Mill: Ole Berg"],
  ];
  assert.ok(own !== undefined && !others.includes(undefined));
  assert.equal(list["Orrin Mill: Ada Lund"], own);
  assert.equal(new Set([own, ...others]).size, 3);
});

test("the head of an e-mail is nothing to ask for", () => {
  const mail = read("# Welcome, Ida Holm\n\n- From: Personnel\n- To: Everybody\n- Extension: 4172\n");
  const asked = candidatesOf([mail], readFacts([mail]), 1).filter(({ type }) => type !== "refusal");
  assert.deepEqual(
    asked.map(({ response }) => response),
    ["4172"],
  );
});

test("a checker gets to see the document's chunks, under their headings and with the head of their table", () => {
  const rows = Array.from({ length: 200 }, (_, at) => `| Wheel W${at} | ${at + 3} kg | ${at + 300} euros |\n`).join("");
  const long = read(`# Orrin Mill\n\n## Stock of wheels\n\n| Wheel | Weight | Price |\n|---|---|---|\n${rows}`);
  assert.ok(long.chunks.length > 1, String(long.chunks.length));
  const weights = candidatesOf([long], readFacts([long]), 1).filter(
    ({ about, type }) => about.attribute === "weight" && type !== "refusal",
  );
  assert.equal(weights.length, 200);
  for (const { chunk, citations } of weights) {
    const { start, end } = citations[0]!;
    const own = long.chunks.find((chunk) => chunk.start <= start! && end! <= chunk.end)!;
    assert.ok(chunk.endsWith(own.text));
    assert.match(chunk, /Orrin Mill\n.*Stock of wheels\n.*\| Wheel \| Weight \| Price \|\n/s);
    assert.ok(chunk.length < own.text.length + 100);
  }
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
      // Twice, as two tokens: the mean counts.
      return rows.map(({ prompt, answer }) =>
        new Float64Array(2).fill(prompt.includes(text.trim()) ? likely[answer]! : -0.8),
      );
    },
    answer: async (questions) => questions.map(() => "Ada Lund, I think"),
    grade: (answer, { response }) => answer.includes(response),
    fits: () => true,
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

test("a choice is guessed where its options alone make the right one likeliest by character", async () => {
  // −3 / 8 = −0.375 for «Ada Lund»; of the others «Ole» gets −0.9 / 3 = −0.3, or −1.2 / 3 = −0.4.
  const guessed = async (ole: number) => {
    const one = draft({ type: "choice", choices: ["Ole", "Ada Lund", "Ida Holm"] });
    const logprobs: Record<string, number> = { "Ada Lund": -3, Ole: ole, "Ida Holm": -9 };
    const [verdict] = await checkDrafts([one], {
      score: async (rows) => rows.map(({ answer }) => Float64Array.of(logprobs[answer]!)),
      answer: async () => [""],
      grade: () => false,
      fits: () => true,
    });
    return verdict!.guessed;
  };
  assert.deepEqual([await guessed(-0.9), await guessed(-1.2)], [false, true]);
});

test("of a chunk that the checker cannot read whole nothing is asked, and no item is made", async () => {
  const long = draft({ chunk: "Orrin Mill. ".repeat(100) });
  const verdicts = await checkDrafts([draft(), long], {
    score: async (rows) => rows.map(({ answer }) => Float64Array.of(answer === "Ada Lund" ? -0.1 : -1)),
    answer: async (questions) => questions.map(() => ""),
    grade: () => false,
    fits: ({ prompt }) => prompt.length < 1000,
  });
  assert.deepEqual(
    verdicts.map(({ margin, tooLong }) => [margin, tooLong]),
    [
      [0.9, false],
      [null, true],
    ],
  );
  const all = [draft(), long].map((draft, at) => ({ draft, verdict: verdicts[at]! }));
  const { chosen, read, answerable } = choose(all, 9);
  assert.deepEqual([chosen.length, read, answerable], [1, 1, 1]);
});

const checked = (n: number, of: Partial<Checked["verdict"]>, type: Draft["type"] = "short"): Checked[] =>
  Array.from({ length: n }, () => ({
    draft: draft({ type, choices: type === "choice" ? ["a", "b", "c", "Ada Lund"] : [] }),
    verdict: { margin: 1, known: false, guessed: type === "choice" ? false : null, tooLong: false, ...of },
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
