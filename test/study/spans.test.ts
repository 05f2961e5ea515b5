// What a passage is asked about: figures with what belongs to them, hours, names, quotations and parts, by the signs of a text alone.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Passage, passagesOf } from "../../src/study/passages.ts";
import { type SpanKind, spansOf, worthAsking } from "../../src/study/spans.ts";
import { documentOf } from "../helpers/study.ts";

/** Words that hold these samples together, as a lexicon of long documents would find. */
const joining = new Set(
  "of to and in is at by for on with or der die das den und zum im bis la el los las y en se".split(" "),
);
const tells = (word: string): boolean => !joining.has(word);

const passage = (text: string): Passage => passagesOf([documentOf(text, "text/plain")])[0]!;

/** Spans of these kinds in the text's only unit. */
function found(text: string, ...kinds: SpanKind[]): string[] {
  const { text: whole, units } = passage(text);
  return spansOf(units[0]!, tells)
    .filter(({ kind }) => kinds.includes(kind))
    .map(({ start, end }) => whole.slice(start, end));
}

const figures: [text: string, ...answers: string[]][] = [
  ["It holds 240 litres of milk and weighs 3,5 kg.", "240 litres", "3,5 kg"],
  ["Entry costs 4.20 euros, children pay 41 pence.", "4.20 euros", "41 pence"],
  ["Repairs take 12 working days.", "12 working days"],
  ["The fee is €12.50 a month, or $ 9 for members.", "€12.50", "$ 9"],
  ["A discount of 15 % applies from 5 to 9 people.", "15 %", "5 to 9 people"],
  ["Call 0471 55 12 30 at once.", "0471 55 12 30"],
  ["The plan covers 1,200,000 people.", "1,200,000 people"],
  ["It stays at -4 °C.", "-4 °C"],
  ["We need 2 of the keys.", "2"],
  ["Das Brot kostet 4,20 €, für Kinder 2,10 €.", "4,20 €", "2,10 €"],
  ["Am 3. Mai bleibt der Laden zu.", "3. Mai"],
  ["La entrada cuesta 6,50 euros para adultos y 3 euros para todos.", "6,50 euros", "3 euros"],
  ["Orders with code TW-210 go to room C9."],
  ["员工每年享有20天年假，补贴300元。", "20", "300"],
  ["社員は年に20日休めて、交通費は¥3,000まで出ます。", "20", "¥3,000"],
  ["พนักงานลาได้ปีละ๒๐วัน", "๒๐"],
  ["型号C9和TW-210放在二〇号房。"],
];
for (const [text, ...answers] of figures)
  test(`figures with what they count: ${text}`, () => assert.deepEqual(found(text, "number", "value"), answers));

const times: typeof figures = [
  ["The pool opens at 8:30 and closes at 18:45.", "8:30", "18:45"],
  ["It is open from 8.30 to 18.30 on feast days.", "8.30 to 18.30"],
  ["The bridge was opened on 12 March 2025 by Ada Lund.", "12 March 2025"],
  ["Geöffnet ist von 8.30 bis 18.00 Uhr.", "8.30 bis 18.00"],
  ["Der Hof wurde am 12. März 1931 gegründet.", "12. März 1931"],
  ["Since 1987 it keeps the rules of ISO.1-2017.", "1987"],
  ["El museo abrió el 12 de marzo de 1987 a las 9:15.", "12 de marzo de 1987", "9:15"],
];
for (const [text, ...answers] of times)
  test(`hours and days: ${text}`, () => assert.deepEqual(found(text, "time"), answers));

const names: typeof figures = [
  ["Orders with code TW-210 go to the firm Moe and Sons.", "TW-210", "Moe and Sons"],
  ["Der Hof liegt bei Neuhausen und gehört Ada Lund.", "Hof", "Neuhausen", "Ada Lund"],
  ["Lo fundó Marta Ibáñez con ayuda de Tomás.", "Marta Ibáñez", "Tomás"],
  // A word that joins is no name, whatever its case.
  ["Ask Ada Lund, For she has the keys.", "Ada Lund"],
];
for (const [text, ...answers] of names) test(`names: ${text}`, () => assert.deepEqual(found(text, "name"), answers));

const quotes: typeof figures = [
  ['The sign says "mind the goose" in red.', "mind the goose"],
  ["Sie nennt es „Nachtbrot“ und backt es seit Jahren.", "Nachtbrot"],
  ["Según «el libro azul» no se puede.", "el libro azul"],
];
for (const [text, ...answers] of quotes)
  test(`quotations: ${text}`, () => assert.deepEqual(found(text, "quote"), answers));

test("parts: condition, consequence and exception, each by itself", () => {
  assert.deepEqual(
    found("If it rains, the walk is moved to the barn; otherwise (unless Ivar is ill) we leave at nine.", "part"),
    ["If it rains", "the walk is moved to the barn", "otherwise", "unless Ivar is ill", "we leave at nine"],
  );
  assert.deepEqual(found("Si llueve, el paseo se hace en el granero.", "part"), [
    "Si llueve",
    "el paseo se hace en el granero",
  ]);
});

test("a sentence without any sign is asked for its end", () => {
  assert.deepEqual(found("The meeting point for walkers is the north gate.", "part"), ["north gate"]);
  assert.deepEqual(found("El guarda vive en la casa azul.", "part"), ["casa azul"]);
});

test("a sentence in a script without spaces is asked for its last words that say something", () => {
  const particles = new Set(["の", "は", "ます"]);
  const ends: [text: string, end: string][] = [
    ["公司的员工每年有十五天的年假。", "十五天的年假"],
    ["พนักงานทำงานวันละแปดชั่วโมง", "วันละแปดชั่วโมง"],
    ["港は毎朝六時に開きます。", "毎朝六時に開き"],
  ];
  for (const [text, end] of ends) {
    const [unit] = passage(text).units;
    const spans = spansOf(unit!, (word) => !particles.has(word));
    assert.deepEqual(
      spans.map(({ start, end }) => text.slice(start, end)),
      [end],
    );
  }
});

test("a line of key and value is asked for its value; a row of a table and code are not read for spans", () => {
  assert.deepEqual(found("Notice period: 90 days", "value"), ["90 days"]);
  assert.deepEqual(found("Notice period: 90 days.", "value"), ["90 days"]);
  const units = passagesOf([documentOf("| a | b |\n|---|---|\n| Ada | 5 kg |\n\n```\nrun 5 times\n```\n")])[0]!.units;
  assert.deepEqual(
    units.map((unit) => [unit.type, spansOf(unit, tells)]),
    [
      ["row", []],
      ["code", []],
    ],
  );
});

test("an answer lies in its unit, begins and ends with what is said, and has nine words at most", () => {
  const piece = fc.constantFrom(
    "5",
    "kg",
    ",",
    "(",
    ")",
    "–",
    "Ada",
    "“",
    "”",
    "12.30",
    "€",
    "the",
    ":",
    "und",
    "é",
    "%",
  );
  fc.assert(
    fc.property(fc.array(piece, { minLength: 1, maxLength: 25 }), (pieces) => {
      for (const { text, units } of passagesOf([documentOf(pieces.join(" "), "text/plain")]))
        for (const unit of units)
          for (const { start, end } of spansOf(unit, tells)) {
            assert.ok(start >= unit.at && end <= unit.at + unit.text.length && start < end);
            const answer = text.slice(start, end);
            assert.equal(answer.trim(), answer);
            assert.ok(answer.split(/\s+/).length <= 9, answer);
          }
    }),
    { numRuns: 300 },
  );
});

const oven = passage("The oven of hall 7 was built by Ada Lund in 1931 and holds 240 litres of dough, or 90 loaves.");
const asked = (proposed: string[], nats: Record<string, number>): [string, SpanKind][] =>
  worthAsking(oven, proposed, ({ start, end }) => nats[oven.text.slice(start, end)] ?? 0, tells).map(({ span }) => [
    oven.text.slice(span.start, span.end),
    span.kind,
  ]);

test("asked is what surprises: a span that the base would have guessed is not", () => {
  assert.deepEqual(asked([], {}), []);
  assert.deepEqual(asked([], { "1931": 20, "Ada Lund": 1 }), [["1931", "time"]]);
});

test("what a writer proposes goes first, three spans a unit, none over another, in the order of the text", () => {
  const nats = { "Ada Lund": 19, "1931": 19, "240 litres": 19, "240 litres of dough": 15, "90 loaves": 12 };
  assert.deepEqual(asked(["240 litres of dough", "not there", ""], nats), [
    ["Ada Lund", "name"],
    ["1931", "time"],
    ["240 litres of dough", "proposed"],
  ]);
});

test("figures behind many points are found in a time that grows with the text", () => {
  const text = `a.${"1.".repeat(200_000)} It holds 240 litres.`;
  const began = performance.now();
  const units = [{ type: "sentence" as const, text, start: 0, end: text.length }];
  assert.ok(spansOf(units[0] as never, tells).some(({ kind }) => kind === "number"));
  assert.ok(performance.now() - began < 5000);
});
