// Plain forms: every question is made of the document's own words, hides its answer, and finds its passage.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { installation } from "../../src/base/config.ts";
import { seeded } from "../../src/base/statistics/random.ts";
import { containsWords, wordsOf } from "../../src/base/text.ts";
import { type FormKind, formOf, formsFor, recallOf } from "../../src/study/forms.ts";
import { headingOf } from "../../src/study/heading.ts";
import { filled, interrogatives, languageOf } from "../../src/study/languages.ts";
import type { Target } from "../../src/study/targets.ts";
import { documentOf, targetsIn } from "../helpers/study.ts";

const kinds: FormKind[] = ["keywords", "fragment", "in_place", "gap", "cell", "reverse", "pair", "asked"];

const text = [
  "# Orchard",
  "",
  "## Visits",
  "",
  "The gate is open from 8.30 to 18.30. A guided walk for schools lasts 90 minutes and costs 4.20 euros. Ivar Moe and Ada Lund lead it.",
  "",
  "May I bring a dog? Yes, on a lead.",
  "",
  "## Trees",
  "",
  "| Tree | Planted | Harvest |",
  "|---|---|---|",
  "| Quince | 1931 | October |",
  "| Medlar | 1987 | November |",
  "| Damson | 1931 | August |",
  "",
  "- Ladder: from the barn",
  "- Baskets: 40 pieces",
  "",
].join("\n");
const orchard = targetsIn([documentOf(text)]);

function ask(answer: string, kind: FormKind, seed = 1, language = "en"): string | null {
  const target = orchard.targets.find((one) => one.answer === answer && formsFor(one).includes(kind))!;
  return formOf(target, kind, languageOf(language), orchard.lexicon, seeded(seed))?.question ?? null;
}
/** What a form says over many draws. */
const draws = (answer: string, kind: FormKind, language = "en"): Set<string | null> =>
  new Set(Array.from({ length: 200 }, (_, seed) => ask(answer, kind, seed, language)));

const walk = "A guided walk for schools lasts 90 minutes and costs 4.20 euros.";

test("each form as a person sees it", () => {
  const expected: [answer: string, kind: FormKind, among: string[]][] = [
    [walk, "gap", ["Fill the gap: Visits: A guided walk for schools lasts ____ and costs 4.20 euros."]],
    [walk, "in_place", ["Visits: A guided walk for schools lasts how much and costs 4.20 euros?"]],
    [
      "from the barn",
      "pair",
      ["Visits: What is the Ladder?", "Trees: What is the Ladder?", "Trees: Which Ladder is given?"],
    ],
    ["1987", "cell", ["What is the Planted of Medlar?", "Trees: Medlar, November: what Planted?"]],
    ["Medlar", "reverse", ["Where is the Planted 1987, November?", "To what does the Harvest November, 1987 belong?"]],
    ["Yes, on a lead.", "asked", ["May I bring a dog?"]],
  ];
  for (const [answer, kind, among] of expected) {
    const said = draws(answer, kind);
    assert.ok(
      among.some((question) => said.has(question)),
      `${kind}: ${[...said].join("\n")}`,
    );
  }
});

test("a fragment asks by neighbouring words as they stand, and by a few others of the sentence and its headings", () => {
  const own = new Set(wordsOf(`Orchard Visits ${text}`));
  const { ask: interrogative, about } = languageOf("en");
  const asks = new Set([...Object.values(interrogative).flat(), ...about].flatMap(wordsOf));
  const said = [...draws(walk, "fragment")].filter((question) => question !== null);
  assert.ok(said.length > 20);
  for (const question of said)
    for (const one of wordsOf(question)) assert.ok(own.has(one) || asks.has(one), `${one}: ${question}`);
  assert.ok(
    said.some((question) => question.includes("walk for schools")),
    said.join("\n"),
  );
});

test("every sentence in a script without spaces is asked for in its own place and with a gap", () => {
  const sentences = {
    zh: [
      "员工每年享有20天的带薪年假。",
      "出差补贴为每天300元。",
      "新员工的试用期为三个月。",
      "病假需要提供医院的证明。",
    ],
    ja: [
      "社員は年に20日の有給休暇を取得できます。",
      "交通費は3000円まで支給されます。",
      "会議室の鍵は受付にあります。",
    ],
  };
  for (const [code, said] of Object.entries(sentences)) {
    const { targets, lexicon } = targetsIn([documentOf(`# 规定\n\n${said.join("")}\n`)]);
    assert.deepEqual(
      targets.map(({ answer }) => answer),
      said,
    );
    for (const target of targets)
      for (const kind of ["in_place", "gap"] as const) {
        const drawn = Array.from({ length: 50 }, (_, seed) =>
          formOf(target, kind, languageOf(code), lexicon, seeded(seed)),
        ).flatMap((form) => (form === null ? [] : [form.question]));
        assert.ok(new Set(drawn).size > 1, `${kind}: ${target.answer}`);
        for (const question of drawn) {
          assert.ok(question !== "规定: ____", target.answer);
          assert.ok(!question.includes("。?"), question);
        }
      }
  }
});

test("nobody asks how many for a figure without a unit, which may be the number of a section", () => {
  const said =
    "The warranty ends at once by the terms of sections 15 and 16.\n\nThe lamp of the old pilot weighs 90 grams.";
  const { targets, lexicon } = targetsIn([documentOf(`# Lamps\n\n${said}\n`)]);
  const asked = (kind: FormKind, answer: string): string[] => {
    const target = targets.find((one) => one.answer.startsWith(answer))!;
    return Array.from({ length: 300 }, (_, seed) => formOf(target, kind, languageOf("en"), lexicon, seeded(seed)))
      .filter((form) => form !== null)
      .map(({ question }) => question);
  };
  for (const kind of ["in_place", "keywords"] as const) {
    const counts = (answer: string): number =>
      asked(kind, answer).filter((question) => /how m|what figure/.test(question)).length;
    assert.equal(counts("The warranty"), 0, kind);
    assert.ok(counts("The lamp") > 0, kind);
  }
});

test("a row is told from the others of its table by as many of its names as that takes", () => {
  const twins =
    "| Name | Kind | Price |\n|---|---|---|\n| Moss | small jar | 4 |\n| Moss | large jar | 6 |\n| Fern | large jar | 9 |\n";
  const { targets, lexicon } = targetsIn([documentOf(twins)]);
  const price = targets.find(({ answer }) => answer === "6")!;
  for (let seed = 0; seed < 50; seed++) {
    const { question } = formOf(price, "cell", languageOf("en"), lexicon, seeded(seed))!;
    assert.ok(question.includes("Moss") && question.includes("large jar"), question);
  }
});

/** Every form that 30 seeds make of the rows of a document. */
function rowForms(
  text: string,
): { kind: FormKind; question: string; answer: string; cells: string[]; target: Target }[] {
  const { targets, lexicon } = targetsIn([documentOf(text)]);
  return targets.flatMap((target) =>
    (["cell", "keywords", "reverse"] as const).flatMap((kind) =>
      Array.from({ length: 30 }, (_, seed) => formOf(target, kind, languageOf("en"), lexicon, seeded(seed))).flatMap(
        (form) => (form === null || target.unit.type !== "row" ? [] : [{ ...form, cells: target.unit.cells, target }]),
      ),
    ),
  );
}

test("a row is told from all rows of its table, also from those in other passages", () => {
  const days = ["Monday", "Tuesday", "Wednesday"];
  const guides = ["Ada Lund", "Ole Berg", "Ivar Moe", "Kari Aas", "Lars Dahl"];
  const rows = Array.from(
    { length: 30 },
    (_, at) => `| ${days[at % 3]} | ${guides[at % 5]} | ${100 + 10 * at} | with lamp and rope ${at} |`,
  );
  const text = `# Tours\n\n| Day | Guide | Room | Kit |\n|---|---|---|---|\n${rows.slice(0, 15).join("\n")}\n`;
  assert.ok(targetsIn([documentOf(text)]).passages.length > 2);
  const forms = rowForms(text);
  const ofRooms = forms.filter(({ kind, target }) => kind !== "reverse" && target.before.endsWith("Room"));
  assert.ok(new Set(ofRooms.map(({ answer }) => answer)).size === 15);
  for (const { kind, question, cells } of ofRooms) {
    const others = rows.slice(0, 15).map((row) => row.slice(2, -2).split(" | "));
    const words = wordsOf(question);
    const fits = others.filter((row) =>
      [0, 1, 3].every((column) => {
        const own = wordsOf(cells[column]!);
        const named =
          kind === "cell" ? containsWords(question, cells[column]!) : own.some((word) => words.includes(word));
        return (
          !named || own.filter((word) => words.includes(word)).every((word) => wordsOf(row[column]!).includes(word))
        );
      }),
    );
    assert.equal(fits.length, 1, question);
  }
});

test("a row with one cell beside its name is also asked for by its name alone, one with more never", () => {
  const asksColumn = ({ question }: { question: string }): boolean => wordsOf(question).includes("meaning");
  const glossary = rowForms(
    "# Glossary\n\n| Term | Meaning |\n|---|---|\n| Tun | cask of oak |\n| Kip | hide of a calf |\n",
  );
  const cells = glossary.filter(({ target }) => target.kind === "cell");
  assert.ok(cells.some(asksColumn) && !cells.every(asksColumn));
  assert.ok(
    cells.every(({ question, answer }) => wordsOf(question).includes(answer.startsWith("cask") ? "tun" : "kip")),
  );
  const wide = rowForms(
    "# Glossary\n\n| Term | Meaning | Since |\n|---|---|---|\n| Tun | cask of oak | 1640 |\n| Kip | hide of a calf | 1702 |\n",
  ).filter(({ target, answer }) => target.kind === "cell" && !/\d/.test(answer));
  assert.ok(wide.length > 0 && wide.every(asksColumn));
});

test("rows that their names do not tell apart are not asked for", () => {
  const rows = "| Monday | 100 |\n| Monday | 110 |\n| Friday | 120 |\n";
  const forms = rowForms(`# Tours\n\n| Day | Room |\n|---|---|\n${rows}`);
  assert.deepEqual([...new Set(forms.map(({ answer }) => answer))], ["120"]);
});

test("rows of two tables with the same columns are told apart by their headings", () => {
  const table = (price: number) => `| Part | Price |\n|---|---|\n| Wheel | ${price} |\n| Hinge | ${price + 7} |\n`;
  const forms = rowForms(`# Parts\n\n## Old mill\n\n${table(300)}\n## New mill\n\n${table(500)}`);
  const cells = forms.filter(({ kind }) => kind === "cell");
  assert.equal(new Set(cells.map(({ answer }) => answer)).size, 4);
  for (const { question, target } of cells) assert.ok(question.includes(target.passage.path.at(-1)!), question);
});

test("a row without a name is not asked for by its column alone", () => {
  const rows = "| Sea Star | 4 | north |\n| | 8 | south |\n| Sea Gull | 6 | west |\n";
  const forms = rowForms(`# Harbour\n\n| Ship | Berth | Quay |\n|---|---|---|\n${rows}`);
  assert.ok(forms.length > 0);
  for (const { question, cells } of forms)
    assert.ok(
      cells.some((cell) => wordsOf(cell).some((word) => wordsOf(question).includes(word))),
      question,
    );
});

test("of two cells that say the same each is asked by its own column; a row that says one thing thrice is not asked for", () => {
  const { targets, lexicon } = targetsIn([documentOf("| Loaf | Price | Deposit |\n|---|---|---|\n| Rye | 5 | 5 |\n")]);
  const asked = targets
    .filter(({ kind }) => kind === "cell")
    .map((target) => formOf(target, "cell", languageOf("en"), lexicon, seeded(3))!.question);
  assert.ok(asked[0]!.includes("Price") && asked[1]!.includes("Deposit"), asked.join());
  const same = targetsIn([documentOf("| A | B | C |\n|---|---|---|\n| yes | yes | yes |\n")]);
  for (const target of same.targets)
    for (const kind of kinds) assert.equal(formOf(target, kind, languageOf("en"), same.lexicon, seeded(1)), null);
});

test("a language without a file is asked by signs alone: no word that the document does not have", () => {
  const own = new Set(wordsOf(text));
  for (const target of orchard.targets)
    for (const kind of formsFor(target))
      for (let seed = 0; seed < 20; seed++) {
        const form = formOf(target, kind, languageOf("xx"), orchard.lexicon, seeded(seed));
        if (form !== null)
          for (const word of wordsOf(form.question)) assert.ok(own.has(word), `${word}: ${form.question}`);
      }
});

test("every language file has what the forms ask for, and nothing more", () => {
  const folder = join(installation, "config/study");
  const holds = (prompts: string[], names: string[], where: string): void => {
    for (const prompt of prompts) {
      const found = [...prompt.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      assert.deepEqual(found.sort(), [...names].sort(), `${where}: ${prompt}`);
    }
  };
  const places: Record<string, string[]> = {
    cell: ["row", "column"],
    row: ["row"],
    reverse: ["column", "value"],
    pair: ["key"],
    about: ["words"],
    gap: ["text"],
    recall: ["heading"],
  };
  for (const file of readdirSync(folder)) {
    const language = JSON.parse(readFileSync(join(folder, file), "utf8"));
    const { item, teach, teach_further, teach_before, quiz, verify, not_stated, judge, ...needed } = language;
    assert.deepEqual(Object.keys(needed).sort(), ["ask", ...Object.keys(places)].sort(), file);
    assert.deepEqual(Object.keys(item).sort(), ["cell", "pair"], file);
    holds(item.cell, ["row", "column"], file);
    holds(item.pair, ["heading", "key"], file);
    // English stands in where these are missing.
    assert.ok(file !== "en.json" || (teach && teach_further && teach_before && quiz && verify && not_stated && judge));
    assert.equal(teach_further !== undefined, teach !== undefined, file);
    assert.equal(teach_before !== undefined, teach !== undefined, file);
    if (teach) holds([teach], ["before", "heading", "text"], file);
    if (teach_further) holds([teach_further], ["before", "heading", "text", "asks"], file);
    if (teach_before) holds([teach_before], ["before"], file);
    if (quiz) holds([quiz], ["passages", "spans"], file);
    if (verify) holds([verify], ["passages", "questions"], file);
    if (judge) {
      holds([judge.ask], ["question", "answer", "criterion"], file);
      assert.deepEqual(Object.keys(judge).sort(), ["ask", "no", "yes"], file);
    }
    assert.deepEqual(Object.keys(language.ask).sort(), ["any", "name", "number", "time"], file);
    for (const words of Object.values<string[]>(language.ask)) assert.ok(words.length > 0, file);
    for (const [key, names] of Object.entries(places)) holds([language[key]].flat(), names, `${file} ${key}`);
  }
});

test("interrogatives fit what is asked for; places that are not given stay", () => {
  const english = languageOf("en");
  assert.ok(interrogatives(english, "number").includes("how many"));
  assert.ok(interrogatives(english, "time").includes("when"));
  assert.deepEqual(interrogatives(english, "quote"), interrogatives(english, "part"));
  assert.equal(filled("{a} and {b}", { a: "1" }), "1 and {b}");
});

const word = fc.constantFrom(
  ..."mill river gate rope boot lamp kite silo crane vault moss fern dusk barley".split(" "),
);
const clause = fc.array(word, { minLength: 2, maxLength: 6 }).map((words) => words.join(" "));
const figure = fc.integer({ min: 2, max: 99_999 });
const prose = fc
  .tuple(clause, figure, clause, fc.constantFrom("Ada Lund", "Tarnby", "Ivar Moe"), clause)
  .map(([a, n, b, name, c]) => `The ${a} ${n} ${b}, by ${name} ${c}.`);
const line = fc.tuple(word, clause).map(([key, value]) => `- ${key}: ${value}`);
const row = fc.tuple(word, figure, clause).map(([key, n, value]) => `| ${key} | ${n} | ${value} |`);
const table = fc
  .array(row, { minLength: 1, maxLength: 4 })
  .map((rows) => ["| Name | Size | Note |", "|---|---|---|", ...rows].join("\n"));
const documents = fc
  .array(
    fc.oneof(
      prose,
      table,
      fc.array(line, { minLength: 1, maxLength: 3 }).map((lines) => lines.join("\n")),
    ),
    {
      minLength: 2,
      maxLength: 8,
    },
  )
  .map((blocks) => documentOf(blocks.map((block, at) => `# Part${at}\n\n${block}\n`).join("\n")));
const codes = fc.constantFrom("en", "de", "es", "fr", "xx");

test("no form says its answer; its answer is the target's; a seed draws the same again", () => {
  fc.assert(
    fc.property(documents, codes, fc.integer({ min: 0, max: 1e6 }), (document, code, seed) => {
      const { targets, lexicon } = targetsIn([document]);
      for (const target of targets)
        for (const kind of kinds) {
          const form = formOf(target, kind, languageOf(code), lexicon, seeded(seed));
          assert.deepEqual(formOf(target, kind, languageOf(code), lexicon, seeded(seed)), form);
          if (form === null) continue;
          assert.equal(form.answer, target.answer);
          assert.ok(!containsWords(form.question, form.answer), `${form.question} → ${form.answer}`);
          assert.ok(form.question.trim() !== "" && !form.question.includes("\n"));
        }
    }),
    { numRuns: 60 },
  );
});

test("keywords find their passage where its words and headings can", () => {
  fc.assert(
    fc.property(documents, fc.integer({ min: 0, max: 1e6 }), (document, seed) => {
      const { targets, lexicon } = targetsIn([document]);
      for (const target of targets) {
        const form = formOf(target, "keywords", languageOf("en"), lexicon, seeded(seed));
        if (form === null) continue;
        // The answer's words may not be said: what is left of the passage must be enough.
        const rest = `${headingOf(target.passage)} ${target.before} ${target.after} ${target.earlier}`;
        const answer = new Set(wordsOf(target.answer));
        const sayable = wordsOf(rest)
          .filter((one) => !answer.has(one) && lexicon.tells(one))
          .join(" ");
        if (lexicon.rankOf(sayable, target.passage) === 1)
          assert.ok(lexicon.rankOf(form.question, target.passage) <= 2, form.question);
      }
    }),
    { numRuns: 60 },
  );
});

test("a word of a heading that also stands in the text is not lost on the way into the question", () => {
  const document = documentOf(
    "# Kilns\n\n## Old Kiln\n\nThe old kiln reached 900 degrees.\n\n## New Kiln\n\nThe new kiln reached 950 degrees.\n",
  );
  const { targets, lexicon } = targetsIn([document]);
  for (const target of targets)
    for (let seed = 0; seed < 100; seed++) {
      const form = formOf(target, "keywords", languageOf("en"), lexicon, seeded(seed));
      if (form !== null) assert.equal(lexicon.rankOf(form.question, target.passage), 1, form.question);
    }
});

test("a passage is recalled from its headings and a few of its words", () => {
  const [visits] = orchard.passages;
  const { question, answer } = recallOf(visits!, languageOf("de"), orchard.lexicon, seeded(5));
  assert.equal(answer, visits!.text);
  assert.match(question, /^Was steht unter Orchard > Visits \(.+\)\?$/);
});
