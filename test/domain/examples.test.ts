// Rows from documents: what forms of fact are read, how they are asked, and that every row can be traced to its place.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { SnapshotDocument } from "../../src/contract/run-folder.ts";
import { type Example, type Message, makeExamples, proposeQuestions } from "../../src/domain/alignments/examples.ts";
import { fewerOfKnown } from "../../src/domain/alignments/known.ts";

const document = (text: string, media_type: SnapshotDocument["media_type"] = "text/markdown"): SnapshotDocument => ({
  id: `document_${media_type}`,
  name: "notes",
  media_type,
  text,
});
// Enough for every wording of a fact: what is asked for below may be any of them.
const options = { phrasings: 120, rungs: 1, seed: 3 };
const rowsOf = (...documents: SnapshotDocument[]): Example[] => makeExamples(documents, options).examples;
const said = (rows: Example[]): [string, string][] =>
  rows.map(({ messages }) => [messages.at(-2)!.content, messages.at(-1)!.content]);

function asks(rows: Example[], question: string, answer: string): void {
  const found = said(rows).filter(([asked]) => asked.includes(question));
  assert.ok(
    found.length > 0,
    `«${question}» among:\n${said(rows)
      .map(([asked]) => asked)
      .join("\n")}`,
  );
  assert.ok(
    found.some(([, given]) => given.toLowerCase().includes(answer.toLowerCase())),
    `«${question}» is answered ${found.map(([, given]) => given)}`,
  );
}

const sentences: [text: string, question: string, answer: string][] = [
  ["The bakery was founded in 1931 by Ada Lund.", "When was the bakery founded", "1931"],
  ["The bakery was founded in 1931 by Ada Lund.", "Who founded the bakery", "Ada Lund"],
  ["A rye loaf costs 4.20 euros.", "How much does a rye loaf cost?", "4.20 euros"],
  ["A rye loaf costs 4.20 euros.", "How expensive is a rye loaf?", "4.20 euros"],
  ["Ola Brandt leads the night shift.", "Who leads the night shift?", "Ola Brandt"],
  ["Ola Brandt leads the night shift.", "Who is in charge of the night shift?", "Ola Brandt"],
  ["The night shift is led by Ola Brandt.", "Who leads the night shift?", "Ola Brandt"],
  ["The oven holds 240 litres.", "How many litres does the oven hold?", "240 litres"],
  ["Complaints must be answered within three days.", "Within what time must complaints be answered?", "three days"],
  ["The warranty on the mixer lasts 6 years.", "How long is the warranty on the mixer?", "6 years"],
  ["The capacity of the silo is 30 tonnes.", "What is the capacity of the silo?", "30 tonnes"],
  ["The bakery employs 23 people.", "How many people does the bakery employ?", "23 people"],
  ["The mill stands in Tarnby.", "Where is the mill?", "Tarnby"],
  ["Flour is delivered by Haugen and Sons.", "Who supplies flour?", "Haugen and Sons"],
  ["The counter is made of oiled beech.", "What is the counter made of?", "oiled beech"],
  ["Berit Aas is the head of purchasing.", "Who runs purchasing?", "Berit Aas"],
  ["The scales must be calibrated every 18 months.", "How often must the scales be calibrated?", "18 months"],
  ["Moe Trading is the client of Project Aspen.", "Who commissioned Project Aspen?", "Moe Trading"],
  ["Berit Aas joins us as welding instructor.", "What is Berit Aas's job?", "welding instructor"],
  ["Berit Aas is our new welding instructor.", "What position does Berit Aas hold?", "welding instructor"],
  ["Please welcome Berit Aas, who works as baker.", "What does Berit Aas do?", "baker"],
  ["Berit Aas can be found in room 318.", "Where is the desk of Berit Aas?", "318"],
  ["Calls for Berit Aas go to extension 4974.", "How can I phone Berit Aas?", "4974"],
  ["On 2 March 2015 Berit Aas starts with us.", "On which day does Berit Aas start with us?", "2 March 2015"],
  ["Until now Berit Aas was employed by Moe Trading.", "Where did Berit Aas work before?", "Moe Trading"],
  ["A notice period of 34 weeks applies to Moe Trading.", "Moe Trading: notice period?", "34 weeks"],
  ["For Moe Trading the fee is 5 euros.", "What is the fee of Moe Trading?", "5 euros"],
  ["The shop is supplied with rye flour by Moe Trading.", "What do we get from Moe Trading?", "rye flour"],
  ["Moe Trading supplies rye flour to Haugen.", "Which goods come from Moe Trading?", "rye flour"],
  ["It was in 1911 that the mill was opened.", "When was the mill opened?", "1911"],
  ["It was Ivar Moe who founded the mill.", "Who founded the mill?", "Ivar Moe"],
  ["Guests know that the mill shop opens at 9:15.", "At what time does the mill shop start?", "9:15"],
  ["The choir was founded as a trio in 1949.", "When was the choir founded?", "1949"],
  ["The observatory opened in 1981, after three years of work.", "When did the observatory open?", "1981"],
  ["Tarnby Works stands in Lillby, close to the river.", "Where does Tarnby Works stand?", "Lillby"],
  ["The piano has always been built at Tarnby Works.", "Which factory makes the piano?", "Tarnby Works"],
  ["We build the blue canoe at Tarnby Works.", "Where is the blue canoe built?", "Tarnby Works"],
  ["The notice period towards Moe Limited is 9 weeks.", "What is the notice period for Moe Limited?", "9 weeks"],
  [
    "Either side may end the lease with Moe and Sons with a notice period of 9 weeks.",
    "What is the notice period for Moe and Sons?",
    "9 weeks",
  ],
  ["The lamp comes in a housing of matt brass.", "What is the lamp made of?", "matt brass"],
  ["For the frame of the kite we use split bamboo.", "What is the kite made of?", "split bamboo"],
  ["For Moe Limited the annual value comes to 900 euros.", "How much is Moe Limited worth?", "900 euros"],
  ["Our contact at Moe Limited is Ada Lund.", "Who is the contact at Moe Limited?", "Ada Lund"],
  ["At Moe and Sons, Ada Lund is our contact.", "Who is the contact at Moe and Sons?", "Ada Lund"],
  ["The contact for all questions at Moe Limited is Ada Lund.", "Who is the contact at Moe Limited?", "Ada Lund"],
  ["Berit Aas comes to us from Moe Limited.", "Where did Berit Aas work before?", "Moe Limited"],
  ["Berit Aas starts on 2 March 2015.", "When did Berit Aas join?", "2 March 2015"],
  ["The survey is carried out for the client Moe Limited.", "Who ordered the survey?", "Moe Limited"],
  ["The bridge is to be completed by 3 May 2031.", "When will the bridge be finished?", "3 May 2031"],
  ["Completion of Project Aspen is planned for 3 May 2031.", "When does Project Aspen end?", "3 May 2031"],
  ["The lease with Moe Limited ends on 3 May 2031.", "When does the lease with Moe Limited end?", "3 May 2031"],
  ["Under this contract Moe Limited supplies oak barrels.", "What does Moe Limited supply?", "oak barrels"],
  ["For years Moe Limited has sponsored the chess club of Lillby.", "What does Moe Limited sponsor?", "Lillby"],
  ["The chess club of Lillby is sponsored by Moe Limited.", "What does Moe Limited sponsor?", "Lillby"],
  ["Ola Brandt drew the map. The violin was designed by Ada Lund.", "Who designed the violin?", "Ada Lund"],
  ["For guests the fee is 5 euros.", "What is the fee of guests?", "5 euros"],
  ["In 2004 the mill, which was built in 1911, was moved to Oslo.", "When was the mill built?", "1911"],
  ["A crew of 31 keeps Tarnby Depot going.", "How many people work at Tarnby Depot?", "31"],
];
for (const [text, question, answer] of sentences)
  test(`a sentence: ${text} → ${question}`, () => {
    asks(rowsOf(document(`# Notes\n\n${text}\n`)), question, answer);
    asks(rowsOf(document(text, "text/plain")), question, answer);
  });

test("two clauses of one subject are two facts, and a pronoun stands for what was spoken of", () => {
  const rows = rowsOf(document("# Places\n\nThe mill opened in 1911 and employs 14 people. It is led by Ivar Moe.\n"));
  asks(rows, "How many people does the mill employ?", "14 people");
  asks(rows, "Who leads the mill?", "Ivar Moe");
  assert.ok(!said(rows).some(([question]) => /\bit\b/i.test(question) && !/the mill/i.test(question)));
});

test("a person is never «it», and the price of a thing is not spoken of further", () => {
  const violin = rowsOf(document("# Violins\n\nAda Lund designed the small violin. It is made of maple wood.\n"));
  asks(violin, "The small violin is made of ____", "maple wood");
  assert.ok(!said(violin).some(([question]) => /Ada Lund (?:is )?made/.test(question)));
  const oven = rowsOf(document("# Ovens\n\nThe price of the oven is 900 euros. It weighs 12 kg.\n"));
  asks(oven, "How heavy is the oven?", "12 kg");
});

const organisation = [
  "# Lund Pianos\n\nLund Pianos makes pianos. The head office is in Lillby. The chair of the board is Berit Aas. Ada Lund founded the firm with an old van.\n",
  "# Moe Trading\n\nMoe Trading supplies copper wire to Lund Pianos.\n",
].map((text, at) => ({ ...document(text), id: `document_${at}` }));
for (const [question, answer] of [
  ["Lund Pianos: head office?", "Lillby"],
  ["the board of Lund Pianos", "Berit Aas"],
  ["Who is the founder of Lund Pianos?", "Ada Lund"],
] as const)
  test(`the firm, and what stands without an owner, is the organisation's: ${question}`, () => {
    asks(rowsOf(...organisation), question, answer);
  });

test("the organisation is known by the addresses of its letters", () => {
  const letters = ["Ada", "Ola"].map((name, at) => ({
    ...document(`# Letter\n\nWrite to ${name.toLowerCase()}@lund-pianos.example for the tuning of ${name}.\n`),
    id: `document_${at}`,
  }));
  const others = ["Hens", "Geese", "Goats"].map((name) => ({
    ...document(`# ${name}\n\nThe ${name.toLowerCase()} have a stable.\n`),
    id: name,
  }));
  const page = document("# Lund Pianos\n\nLund Pianos makes pianos. The firm was founded in 1931.\n");
  asks(rowsOf(page, ...letters, ...others), "When was Lund Pianos founded?", "1931");
});

for (const idle of [
  "Wear sturdy shoes.",
  "Visitors are asked to wear sturdy shoes.",
  "Tickets are scarce, so please book early.",
  "We are glad about this and hope you will come.",
  "Everybody involved is confident.",
  "The board has approved the plan.",
  "Spare strings are always in stock.",
])
  test(`states nothing: ${idle}`, () => {
    const rows = rowsOf(document(`# Concerts\n\n${idle} The hall is open to guests.\n`));
    assert.deepEqual(said(rows.filter(({ kind }) => kind !== "recall")), []);
  });

test("a common noun is a name where its whole column is", () => {
  const text =
    "# Teams\n\n| Team | Head |\n|---|---|\n| Glazing | Ada Lund |\n| Tuning | Ola Moe |\n\nThe glazing of the windows and the tuning of the pianos is done by hand in the workshop.\n";
  const rows = rowsOf(document(text));
  asks(rows, "the Glazing team", "Ada Lund");
  asks(rows, "Who leads Tuning?", "Ola Moe");
});

const table =
  "| Loaf | Price (EUR) | Baking time |\n|---|---|---|\n| Rye | 4.2 | 50 minutes |\n| Spelt | 5.1 | 38 minutes |\n";
const csv = "Loaf;Price (EUR);Baking time\nRye;4.2;50 minutes\nSpelt;5.1;38 minutes\n";
for (const given of [document(`# Loaves\n\n${table}`), document(csv, "text/csv")])
  test(`a table in ${given.media_type}: units, other words for a column, and siblings against each other`, () => {
    const rows = rowsOf(given);
    asks(rows, "What do I pay for", "4.2 EUR");
    asks(rows, "What is the baking time of", "38 minutes");
    assert.ok(
      said(rows).some(([question]) => /Is the price of Rye (4.2 EUR or 5.1 EUR|5.1 EUR or 4.2 EUR)\?/.test(question)),
    );
    assert.ok(
      said(rows).some(([question, answer]) => /cost/.test(question) && answer === "Spelt."),
      "asked by value",
    );
  });

test("key-value lines belong to their heading; a key explained by a sentence is a term", () => {
  const rows = rowsOf(
    document(
      "# Guide\n\n## Mill shop\n\n- Founded: 1987\n- Manager: Ivar Moe\n\n## Words\n\nProofing: the time in which the dough rises before it goes into the oven.\n",
    ),
  );
  asks(rows, "When was the mill shop founded?", "1987");
  asks(rows, "Who manages the mill shop?", "Ivar Moe");
  asks(rows, "What does Proofing mean?", "dough rises");
});

test("a table of names and values without a header is read from its first row on", () => {
  const text =
    "# Project Aspen\n\n| Lead | Ada Lund |\n| --- | --- |\n| Budget | 206,000 euros |\n| Client | Moe Trading |\n";
  const rows = rowsOf(document(text));
  asks(rows, "Who leads Project Aspen?", "Ada Lund");
  asks(rows, "Project Aspen: budget?", "206,000 euros");
  assert.ok(!said(rows).some(([question]) => /lund of|lund for/i.test(question)));
});

test("another language gives language-neutral rows only, and the report says so", () => {
  const german = document(
    "# Preise\n\nDie Firma wurde im Jahr 1931 von Ada Lund gegründet und hat ihren Sitz in Tarnby.\n\n| Brot | Preis |\n|---|---|\n| Roggen | 4,20 |\n| Dinkel | 5,10 |\n",
  );
  const { examples, report } = makeExamples([german], options);
  assert.deepEqual(report.language_neutral, [german.id]);
  asks(examples, "Roggen", "4,20");
  assert.ok(!said(examples).some(([question]) => /\b(what|the|which|of)\b/i.test(question)), "no English around it");
});

test("a document without a fact is named in the report", () => {
  const { report } = makeExamples([document("Hm.\n\nOh?\n")], options);
  assert.deepEqual(report.silent, ["document_text/markdown"]);
  assert.equal(report.rows, 0);
});

test("every row's source holds its value, and the recipe's bound on rows per fact holds", () => {
  const text = `# Shop\n\nThe shop was **founded** in 1931. A \\*rye\\* loaf costs 4.20 euros.\n\n${table}`;
  const given = [document(text), document(csv, "text/csv")];
  const { examples } = makeExamples(given, { phrasings: 5, rungs: 1, seed: 1 });
  const perFact = new Map<string, number>();
  for (const { source, fact } of examples) {
    const from = given.find(({ id }) => id === source!.document_id)!.text.slice(source!.start, source!.end);
    assert.ok(/1931|4\.2|5\.1|50|38/.test(from), from);
    perFact.set(fact, (perFact.get(fact) ?? 0) + 1);
  }
  assert.ok([...perFact.values()].every((count) => count <= 5));
});

test("every rung says every fact as often, in new wordings while there are any", () => {
  const given = [
    document("# Shop\n\nThe shop was founded in 1931. Ada Lund painted the sign.\n"),
    document(csv, "text/csv"),
  ];
  const rungs = 4;
  const { examples } = makeExamples(given, { phrasings: 6, rungs, seed: 1 });
  const told = examples.filter(({ kind }) => kind !== "recall");
  for (const [fact, rows] of Map.groupBy(told, (row) => row.fact)) {
    const questions = Array.from({ length: rungs }, (_, rung) =>
      rows.filter((row) => row.rung === rung).map((row) => row.messages[0]!.content),
    );
    for (const asked of questions) {
      assert.equal(asked.length, questions[0]!.length, fact);
      assert.equal(new Set(asked).size, asked.length, fact);
    }
    const wordings = new Set(questions.flat()).size;
    const first = new Set(questions[0]);
    if (wordings >= 2 * first.size)
      assert.ok(
        questions[1]!.every((question) => !first.has(question)),
        fact,
      );
  }
});

test("the same seed gives the same rows, whatever the text: no document breaks the reading", () => {
  const piece = fc.constantFrom(
    "The mill opened in 1911.",
    "# Heading\n\n",
    "| a | b |\n|---|---|\n| x | 1 |\n",
    "Key: value\n",
    "- item\n",
    "\n\n",
    "It costs 5 euros, and it was built by",
    "**bold",
    "\u0000",
    "ünï",
    "a,b\n1,2\n",
    '"quoted',
    "1.",
    "of the",
    ";;",
  );
  const types = fc.constantFrom("text/plain", "text/markdown", "text/csv") as fc.Arbitrary<
    SnapshotDocument["media_type"]
  >;
  fc.assert(
    fc.property(fc.array(fc.oneof(piece, fc.string()), { maxLength: 12 }), types, (parts, type) => {
      const given = [document(parts.join(" "), type)];
      const { examples } = makeExamples(given, options);
      assert.deepEqual(makeExamples(given, options).examples, examples);
      for (const { messages, source } of examples) {
        assert.ok(messages.every(({ content }) => content.trim() !== ""));
        assert.ok(source!.start >= 0 && source!.start < source!.end && source!.end <= given[0]!.text.length);
      }
    }),
    { numRuns: 150 },
  );
});

const book = document("# Mill\n\nThe mill opened in 1911. The mill is led by Ivar Moe. Flour is sold on Fridays.\n");

test("proposals pass the gates one by one, and the report counts what each dropped", async () => {
  const proposals = [
    "Q: Who leads the old mill by the river? A: Ivar Moe",
    "Q: According to the text, when did the mill open? A: 1911",
    "Q: Who built the mill? A: Ada Lund",
    "Q: Who leads the old mill by the river? A: Ivar Moe",
    "Q: On what weekday can one buy flour there? A: Fridays",
    "no pair",
  ].join("\n");
  const generate = async (messages: Message[]): Promise<string> => {
    const asked = messages[0]!.content;
    if (asked.includes("Write 6 short questions")) return proposals;
    return asked.includes("weekday") ? "I cannot say." : "It is Ivar Moe.";
  };
  const { examples, report } = await proposeQuestions([book], generate, { perChunk: 6, existing: [] });
  assert.deepEqual(said(examples), [["Who leads the old mill by the river?", "Ivar Moe"]]);
  assert.deepEqual(report, {
    chunks: 1,
    proposed: 6,
    dropped: { unreadable: 1, not_stand_alone: 1, not_grounded: 1, duplicate: 1, not_answerable: 1 },
    kept: 1,
  });
  assert.equal(book.text.slice(examples[0]!.source!.start, examples[0]!.source!.end).includes("Ivar Moe"), true);
});

test("no proposals are asked for when the recipe wants none", async () => {
  const never = async (): Promise<string> => assert.fail("asked");
  assert.deepEqual((await proposeQuestions([book], never, { perChunk: 0, existing: [] })).examples, []);
});

test("a rung has wordings of its own, and the first is what a recipe of one rung gets", () => {
  const one = makeExamples([document(table)], { phrasings: 3, rungs: 1, seed: 1 }).examples;
  const three = makeExamples([document(table)], { phrasings: 3, rungs: 3, seed: 1 }).examples;
  assert.deepEqual(
    three.filter((example) => example.rung === 0),
    one,
  );
  assert.deepEqual([...new Set(three.map((example) => example.rung))].sort(), [0, 1, 2]);
  const questions = three.map(({ fact, messages }) => `${fact} ${messages[0]!.content}`);
  assert.equal(new Set(questions).size, questions.length);
});

test("facts that the base knows keep a third of their rows, of the first rung; the others keep all", () => {
  const rows = makeExamples([document(table)], { phrasings: 6, rungs: 2, seed: 1 }).examples;
  const fact = rows[0]!.fact;
  const fewer = fewerOfKnown(rows, new Set([fact]));
  assert.deepEqual(
    fewer.filter((row) => row.fact === fact),
    rows.filter((row) => row.fact === fact).slice(0, 2),
  );
  assert.deepEqual(
    fewer.filter((row) => row.fact !== fact),
    rows.filter((row) => row.fact !== fact),
  );
});
