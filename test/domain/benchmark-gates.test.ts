// Each gate is shown what it has to drop, planted beside what it has to keep.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Checked,
  checkDrafts,
  choose,
  type Scored,
  uncoveredFirst,
} from "../../src/domain/benchmarks/create/checks.ts";
import { type Draft, type GateCount, passGates, withoutParaphrases } from "../../src/domain/benchmarks/create/gates.ts";
import type { ItemCandidate, Wording } from "../../src/study/items/candidates.ts";

const text =
  "# Orrin Mill\n\nOrrin Mill is managed by Ada Lund.\n\n| Wheel | Weight |\n|---|---|\n| Alder wheel | 40 kg |\n";
const mill = { id: "document_mill", text };
const quote = "Orrin Mill is managed by Ada Lund.";
const start = text.indexOf(quote);

const wording = (question: string, more: Partial<Wording> = {}): Wording => ({
  question,
  rank: 1,
  leaks: false,
  verified: true,
  ...more,
});
const good: ItemCandidate = {
  category: "fact",
  type: "short",
  wordings: [wording("Who runs Orrin Mill?"), wording("Whose orders count at Orrin Mill?")],
  response: "Ada Lund",
  aliases: [],
  choices: [],
  citations: [{ document: mill.id, page: null, start, end: start + quote.length, quote }],
  chunk: `Orrin Mill\n${quote}`,
  rivals: [],
  siblings: [],
  cluster: "fact-1",
  document: mill.id,
  passage: "0.0",
  subject: "Orrin Mill",
  isWritten: true,
};
const other = (more: Partial<ItemCandidate>): ItemCandidate => ({
  ...good,
  wordings: [wording("Which person has the keys of Orrin Mill?")],
  cluster: "fact-2",
  ...more,
});
const counts = (gates: GateCount[]): Record<string, string> =>
  Object.fromEntries(gates.map((gate) => [gate.gate, `${gate.in} → ${gate.out}`]));

const cited = (part: string) => {
  const at = text.indexOf(part);
  return [{ document: mill.id, page: null, start: at, end: at + part.length, quote: part }];
};
const asking = (question: string, more: Partial<Wording> = {}) => ({ wordings: [wording(question, more)] });

const planted: [gate: string, what: string, bad: Partial<ItemCandidate>][] = [
  ["phrased", "what is no question", asking("Orrin Mill is run by somebody.")],
  ["phrased", "more than one line", asking("Sure!\nWho runs Orrin Mill?")],
  ["phrased", "a sign alone", asking("?")],
  ["phrased", "what nobody would read to its end", asking(`${"Who of them ".repeat(40)}runs Orrin Mill?`)],
  ["verified", "what a reader of the passage answers otherwise", asking("Who owns Orrin Mill?", { verified: false })],
  ["grounded", "a quote that is not the document's", { citations: [{ ...good.citations[0]!, quote: `${quote} ` }] }],
  ["grounded", "an answer that the passage does not have", { response: "Ole Lund" }],
  ["grounded", "half a name", { response: "Ada Lun" }],
  ["grounded", "half a number", { response: "4", citations: cited("40 kg"), chunk: "Alder wheel | 40 kg" }],
  ["grounded", "an answer that stands elsewhere than in its quote", { citations: cited("40 kg") }],
  ["grounded", "no citation", { citations: [] }],
  ["stand_alone", "a question that leads to other passages", asking("Who runs it, and since when?", { rank: 3 })],
  ["stand_alone", "its own answer", asking("Is Ada Lund at the head of Orrin Mill?")],
  ["no_leak", "what training asks", asking("Orrin Mill who runs?", { leaks: true })],
];
for (const [gate, what, bad] of planted)
  test(`${gate} drops ${what}`, () => {
    const { drafts, gates } = passGates([good, other(bad)], [mill], null);
    assert.equal(counts(gates)[gate], "2 → 1", JSON.stringify(counts(gates)));
    assert.deepEqual(
      drafts.map(({ cluster }) => cluster),
      ["fact-1"],
    );
  });

test("a question may end with the mark of its script", () => {
  for (const question of ["谁管理奥林磨坊？", "من يدير الطاحونة؟"]) {
    const { gates } = passGates([{ ...good, ...asking(question) }], [mill], null);
    assert.equal(counts(gates).phrased, "1 → 1", question);
  }
});

test("an answer between marks is grounded, and so is a cell between commas", () => {
  const marked = { id: "document_marked", text: "The fee is **14** euros a *month*.\n7,40,300\n" };
  const of = (quote: string, response: string, chunk: string) => {
    const at = marked.text.indexOf(quote);
    return other({
      response,
      chunk,
      citations: [{ document: marked.id, page: null, start: at, end: at + quote.length, quote }],
    });
  };
  const sentence = of("The fee is **14** euros a *month*.", "14 euros a month", "The fee is 14 euros a month.");
  const cell = of("7,40,300", "40", "7 | 40 | 300");
  for (const one of [sentence, cell])
    assert.equal(counts(passGates([one], [marked], null).gates).grounded, "1 → 1", one.response);
});

test("where no model wrote, its gates stand open and say why", () => {
  const { gates } = passGates([good], [mill], "Nobody wrote");
  assert.deepEqual(
    gates.filter(({ skipped }) => skipped !== undefined).map(({ gate, skipped }) => [gate, skipped]),
    [
      ["phrased", "Nobody wrote"],
      ["verified", "Nobody wrote"],
    ],
  );
});

test("stand_alone drops a plain question that is too long because a cell in it is a whole text", () => {
  const long = other(asking(`Looking up ${"one wheel and another ".repeat(20)}: what stands under Weight?`));
  const { drafts, gates } = passGates([good, long], [mill], "Nobody wrote");
  assert.equal(counts(gates).stand_alone, "2 → 1");
  assert.deepEqual(
    drafts.map(({ cluster }) => cluster),
    [good.cluster],
  );
});

test("an answer within a clause of a script without spaces is grounded, and a number before a letter", () => {
  const texts: [text: string, response: string, passed: number][] = [
    ["员工的工作时间为8小时的班次。", "8小时", 1],
    ["员工的工作时间为18小时的班次。", "8小时", 0],
    ["Date: 2026-05-19T07:52:00.000Z", "2026-05-19", 1],
    ["Date: 2026-05-19T07:52:00.000Z", "2026-05-1", 0],
  ];
  for (const [text, response, passed] of texts) {
    const citations = [{ document: "document_a", page: null, start: 0, end: text.length, quote: text }];
    const { gates } = passGates([other({ response, chunk: text, citations })], [{ id: "document_a", text }], null);
    assert.equal(counts(gates).grounded, `1 → ${passed}`, `${response} in ${text}`);
  }
});

test("stand_alone drops a question in a script without spaces that says its answer", () => {
  const text = "公司的员工每年有十五天的年假。";
  const citations = [{ document: "document_a", page: null, start: 0, end: text.length, quote: text }];
  const of = (question: string) => other({ ...asking(question), response: "十五天", chunk: text, citations });
  const all = [of("公司的年假有多少天？"), of("公司的员工是不是每年有十五天的年假？")];
  const { drafts, gates } = passGates(all, [{ id: "document_a", text }], null);
  assert.equal(counts(gates).stand_alone, "2 → 1");
  assert.deepEqual(
    drafts.map(({ question }) => question),
    ["公司的年假有多少天？"],
  );
});

test("grounded drops an answer that is too long for a quote, as a picture in a cell is", () => {
  const picture = "x".repeat(40_000);
  const text = `Picture: ${picture}`;
  const citations = [{ document: "document_a", page: null, start: 0, end: text.length, quote: text }];
  const { gates } = passGates(
    [other({ response: picture, chunk: text, citations })],
    [{ id: "document_a", text }],
    null,
  );
  assert.equal(counts(gates).grounded, "1 → 0");
});

test("unique drops a question with two answers, and asks in another wording where there is one", () => {
  const [, second] = good.wordings;
  const half = other({ wordings: [second!], response: "Lund" });
  const { drafts, gates } = passGates([{ ...good, wordings: [second!, good.wordings[0]!] }, half], [mill], null);
  assert.equal(counts(gates).unique, "2 → 1");
  assert.deepEqual(
    drafts.map(({ question }) => question),
    ["Who runs Orrin Mill?"],
  );
});

test("a question that is answered is not also one that nothing answers", () => {
  const declined = other({
    type: "refusal",
    category: "unanswerable",
    citations: [],
    response: "The documents do not say.",
  });
  const same = { ...declined, wordings: [good.wordings[0]!] };
  assert.equal(
    counts(passGates([{ ...good, wordings: [good.wordings[0]!] }, same], [mill], null).gates).unique,
    "2 → 0",
  );
  assert.equal(counts(passGates([good, declined], [mill], null).gates).unique, "2 → 2");
});

test("duplicate knows a question in which one word of ten is another, and not one in which three are", () => {
  const ask = (question: string, passage: string) => ({ ...good, wordings: [wording(question)], passage });
  const first = ask("To whom on the north bank does everybody at Orrin Mill report each Monday?", "0.1");
  const near = ask("To whom on the north bank does everybody at Orrin Mill report every Monday?", "0.2");
  const far = ask("To whom on the other side does everybody at Orrin Mill report every Friday?", "0.3");
  const kept = ({ drafts }: { drafts: Draft[] }) => drafts.map(({ passage }) => passage);
  assert.deepEqual(kept(passGates([first, near, far], [mill], null)), ["0.1", "0.3"]);
  // Rows of a table ask alike, and are of other clusters.
  assert.deepEqual(kept(passGates([first, { ...near, cluster: "fact-2" }], [mill], null)), ["0.1", "0.2"]);
});

test("drafts come one of every passage before a second of any, what a model wrote before plain forms, kinds by their shares", () => {
  const of = (passage: string, category: ItemCandidate["category"], isWritten = true): ItemCandidate => ({
    ...good,
    passage,
    category,
    isWritten,
    cluster: `${passage} ${category}`,
    wordings: [wording(`Who ${category} ${passage} ${isWritten}?`)],
  });
  const { drafts } = passGates(
    [
      of("0.0", "fact", false),
      of("0.0", "fact"),
      of("0.0", "numeric"),
      of("0.1", "unanswerable"),
      of("0.1", "step"),
      of("0.2", "definition"),
      of("0.2", "numeric"),
      of("0.3", "fact", false),
    ],
    [mill],
    null,
  );
  // Of 100 items 30 are to be facts, 15 numeric, 10 steps, 5 definitions, and not one of the first nine declined.
  assert.deepEqual(
    drafts.map(({ passage, category, isWritten }) => `${passage} ${category}${isWritten ? "" : " plain"}`),
    [
      "0.0 fact",
      "0.1 step",
      "0.2 numeric",
      "0.3 fact plain",
      "0.0 numeric",
      "0.1 unanswerable",
      "0.2 definition",
      "0.0 fact plain",
    ],
  );
});

test("a paraphrase is a question of the same thing in the same document, with the same answer, that the encoder finds alike", async () => {
  const of = (subject: string, more: Partial<Draft> = {}): Draft =>
    draft({ question: `Who heads ${subject}?`, subject, ...more });
  const elsewhere = of("Sales", { document: "document_b" });
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

test("choices drops a choice without one right answer, and stand_alone one whose question names a choice", () => {
  const choice: ItemCandidate = { ...good, type: "choice", choices: ["Ada Lund", "Ole Berg", "Ida Holm"] };
  const bad = other({ type: "choice", choices: ["Ada Lund", "ada lund", "Ida Holm"] });
  const told = other({ type: "choice", choices: ["Ada Lund", "Orrin Mill", "Ida Holm"] });
  assert.equal(counts(passGates([choice, bad], [mill], null).gates).choices, "2 → 1");
  assert.equal(counts(passGates([choice, told], [mill], null).gates).stand_alone, "2 → 1");
});

const draft = (more: Partial<Draft> = {}): Draft => {
  const { wordings, ...rest } = good;
  return { ...rest, question: wordings[0]!.question, rivals: ["Ole Berg"], ...more };
};

test("a draft is answerable where the chunk makes the right answer likelier than every wrong one", async () => {
  const likely: Record<string, number> = { "Ada Lund": -0.5, "Ole Berg": -0.7, "Ida Holm": -0.4 };
  const asked: Scored[] = [];
  const verdicts = await checkDrafts([draft(), draft({ rivals: ["Ole Berg", "Ida Holm"] }), draft({ rivals: [] })], {
    score: async (rows) => {
      asked.push(...rows);
      // Twice, as two tokens: the mean counts.
      return rows.map(({ prompt, answer }) =>
        new Float64Array(2).fill(prompt.includes(good.chunk) ? likely[answer]! : -0.8),
      );
    },
    answer: async (questions) => questions.map(() => "Ada Lund, I think"),
    grade: (answer, { response }) => answer.includes(response),
    fits: () => true,
    onDraft: () => {},
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
      onDraft: () => {},
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
    onDraft: () => {},
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

test("each draft is told of once, when the last of its rows is scored; one without rows at once", async () => {
  const told: number[] = [];
  let row = 0;
  await checkDrafts([draft(), draft({ type: "refusal" }), draft({ rivals: ["Ole Berg", "Ida Holm"] })], {
    score: async (rows, onRow) => {
      for (; row < rows.length; row++) onRow(row);
      return rows.map(() => Float64Array.of(-1));
    },
    answer: async (questions) => questions.map(() => ""),
    grade: () => false,
    fits: () => true,
    onDraft: () => void told.push(row),
  });
  // Two rows of the first, three of the last.
  assert.deepEqual(told, [0, 1, 4]);
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

test("of what is to be declined at most one in five is kept", () => {
  const { chosen, shared } = choose([...checked(30, { margin: null }, "refusal"), ...checked(40, {})], 200);
  assert.equal(chosen.filter(({ draft }) => draft.type === "refusal").length, 10);
  assert.equal(shared, 50);
});

test("choices that the options give away are thinned until chance explains the rest", () => {
  const { chosen, fair } = choose([...checked(40, { guessed: true }, "choice"), ...checked(60, {}, "choice")], 200);
  const guessed = chosen.filter(({ verdict }) => verdict.guessed).length;
  assert.equal(chosen.length, fair);
  assert.ok(guessed <= fair / 4 + Math.sqrt((fair * 3) / 16), `${guessed} of ${fair}`);
  assert.equal(fair - guessed, 60);
});

test("a passage without an item has its next draft checked before a passage that has one", () => {
  const of = (passage: string, more: Partial<Draft> = {}): { draft: Draft } => ({ draft: draft({ passage, ...more }) });
  const left = ["a", "b", "c", "d", "b", "c"].map((passage) => of(passage));
  const done = (one: { draft: Draft }, margin: number | null): Checked => ({
    ...one,
    verdict: { margin, known: false, guessed: null, tooLong: false },
  });
  const before = [done(of("a"), 1), done(of("b"), -0.1), done(of("c", { type: "refusal" }), null)];
  const order = uncoveredFirst(left, before).map(({ draft: { passage } }) => passage);
  assert.deepEqual(order, ["b", "c", "d", "b", "c", "a"]);
});

test("what is not answerable is never chosen", () => {
  assert.equal(
    choose([...checked(3, { margin: -0.1 }), ...checked(2, {}), ...checked(1, { margin: null })], 9).chosen.length,
    3,
  );
});
