// The built-in verifiers but for numbers: what each pays, what it cannot judge, and what would take one forever.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { declines } from "../../../src/domain/evaluations/declines.ts";
import { optionsIn } from "../../../src/run/rewards/choice.ts";
import type { RewardItem } from "../../../src/run/rewards/item.ts";
import { makeBuiltin, parseVerifier } from "../../../src/run/rewards/verifiers.ts";
import { occurrences } from "../../../src/run/rewards/words.ts";
import { itemOf, paid, timed } from "./items.ts";

function pays(verifier: string, more: Partial<RewardItem>, answers: Record<string, number | null>): void {
  for (const [answer, reward] of Object.entries(answers))
    assert.equal(paid(verifier, answer, more), reward, `${verifier}: ${answer}`);
}

test("exact: case, articles, punctuation and Unicode form do not count; signs and further words do", () => {
  pays(
    "builtin:exact",
    { reference: "The Hague", aliases: ["Den Haag"] },
    {
      "the hague.": 1,
      Hague: 1,
      "**Den  Haag**": 1,
      "ＴＨＥ Hague": 1,
      "It is the Hague": 0,
      "": 0,
    },
  );
  pays("builtin:exact", { reference: "-5 °C" }, { "−5 °C": 1, "5 °C": 0 });
  pays("builtin:exact", { reference: "C++" }, { "c++": 1, C: 0, "C#": 0 });
  pays("builtin:exact", { reference: "C" }, { "C#": 0, "C++": 0, c: 1 });
  pays("builtin:exact", { reference: "A" }, { a: 1, "A.": 1, the: 0 });
  pays("builtin:exact", { reference: "10 km" }, { "10km": 1, "1.0 km": 0 });
  pays("builtin:exact", { reference: "::" }, { "::": 1, ";": 0 });
  pays("builtin:exact", {}, { anything: null });
  pays("builtin:exact", { reference: " ", aliases: [""] }, { "": null });
  const decomposed = "Cafe\u0301";
  assert.equal(paid("builtin:exact", decomposed, { reference: "café" }), 1);
});

test("exact: an answer that declines is paid what its option says, a wrong one nothing, a right one all", () => {
  const reference = "The Hague";
  const declining = "I do not know.";
  pays("builtin:exact?declined=0.5", { reference }, { "the hague": 1, Rome: 0, [declining]: 0.5 });
  pays("builtin:exact", { reference }, { [declining]: 0 });
  pays("builtin:exact?declined=0.5", { reference: declining }, { [declining]: 1 });
  for (const wrong of ["1.1", "-1", "half", ""])
    assert.throws(() => parseVerifier(`builtin:exact?declined=${wrong}`), /declined must be/, wrong);
});

const anyText = fc.string({ unit: "grapheme" }).filter((text) => text.trim() !== "");

test("exact: every text is its own reference", () => {
  fc.assert(fc.property(anyText, (text) => paid("builtin:exact", text, { reference: text }) === 1));
});

test("choice: in a script without spaces an option is found within a sentence, with a long mark and beside Latin letters", () => {
  const choices = ["コーヒー", "お茶"];
  pays(
    "builtin:choice",
    { choices, reference: "コーヒー" },
    { "飲み物はコーヒーです。": 1, USBコーヒーメーカー: 1, "お茶です。": 0, コーヒーとお茶: 0 },
  );
});

test("choice: one option by its letter or in its words, and no other", () => {
  const choices = ["New York", "New York City", "The Hague", "Vitamin C"];
  pays(
    "builtin:choice",
    { choices, reference: "New York City" },
    {
      B: 1,
      b: 1,
      "(B)": 1,
      "b) because": 1,
      "The answer is **B**.": 1,
      "new york city": 1,
      "B: New York City": 1,
      "New York": 0,
      "New York City, not New York": 0,
      "B or C": 0,
      "A. New York City": 0,
      "": 0,
    },
  );
  pays("builtin:choice", { choices, reference: "C" }, { "It is Hague": 1, C: 1 });
  pays("builtin:choice", { choices, reference: "Vitamin C" }, { "Vitamin C": 1, D: 1 });
  pays("builtin:choice", { choices, reference: "Paris" }, { A: null });
  pays("builtin:choice", { choices: ["?", "no"], reference: "" }, { A: null });
  pays("builtin:choice", { choices: ["yes", "no"], reference: "E" }, { E: null });
});

test("choice: the options are read from a question that lists them from A, line by line", () => {
  const lists = ["A) red\nB) blue ", "(A) red\r\n(B) blue", "  A. red\n\n  B. blue\n", "A: red\nB: blue\nWhich?"];
  for (const list of lists) assert.deepEqual(optionsIn(`Which colour?\n${list}`), ["red", "blue"], list);
  for (const none of ["Which colour?", "A) red", "B) red\nC) blue", "A) red\nC) blue", "A) red, B) blue", "A)\nB)"])
    assert.deepEqual(optionsIn(none), [], none);
  const long = `A) x${" ".repeat(100_000)}y\nB) z`;
  assert.ok(timed(() => optionsIn(long)) < 1000);
});

test("regex: RE2's meaning, found anywhere unless it is anchored", () => {
  pays("builtin:regex?pattern=^\\d{4}-\\d{2}$", {}, { "2024-05": 1, "on 2024-05": 0 });
  pays("builtin:regex?pattern=(?i)\\bERR-\\d+\\b", {}, { "see err-42.": 1, "err-4x": 0 });
  pays("builtin:regex?pattern=a+b", {}, { aab: 1, "a b": 0 });
  pays("builtin:regex?pattern=^100%25%26$", {}, { "100%&": 1 });
  pays("builtin:regex?pattern=^.$", {}, { "😀": 1 });
});

// From the literature on backtracking: each takes a backtracking engine longer than the universe is old.
const catastrophic = ["(a+)+$", "(a|aa)+$", "(a|a?)+$", "(.*a){12}$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(x+x+)+y"];
test("regex: expressions that backtrack forever take linear time here", () => {
  for (const pattern of catastrophic)
    for (const text of ["a", "x"]) {
      const answer = `${text.repeat(100_000)}!`;
      assert.ok(timed(() => paid(`builtin:regex?pattern=${pattern}`, answer)) < 5000, pattern);
    }
});

test("regex: what RE2 has not is refused before any answer is read", () => {
  for (const pattern of [
    "(?=a)",
    "(?<!a)b",
    "(a)\\1",
    "(",
    "a{1001}",
    "(?>a)",
    "a{1000}b{1000}c{1000}d{1000}e{1000}",
    "a".repeat(2001),
  ])
    assert.throws(() => parseVerifier(`builtin:regex?pattern=${pattern}`), /RE2|at most/, pattern);
  assert.throws(() => parseVerifier("builtin:regex"), /needs the option pattern/);
});

const invoice = {
  type: "object",
  required: ["id", "total"],
  properties: { id: { type: "string", pattern: "^[A-Z]+$" }, total: { type: "number" }, paid: { default: true } },
  additionalProperties: false,
};
test("json_schema: the answer parses and fits, bare or as a fenced block", () => {
  pays(
    `builtin:json_schema?schema=${JSON.stringify(invoice)}`,
    {},
    {
      '{"id": "A", "total": 3}': 1,
      '```json\n{"id": "A", "total": 3}\n```': 1,
      '\n```\n{"id": "A", "total": 3}\n```\n': 1,
      'Here it is:\n```json\n{"id": "A", "total": 3}\n```': 0,
      '{"id": "a", "total": 3}': 0,
      '{"id": "A"}': 0,
      '{"id": "A", "total": 3, "more": 1}': 0,
      '{"id": "A", "total": 3': 0,
      "": 0,
    },
  );
});

test("json_schema: each pattern is its own", () => {
  const schema = { properties: { a: { pattern: "^\\d$" }, b: { pattern: "^\\u0041$" } } };
  pays(
    `builtin:json_schema?schema=${JSON.stringify(schema)}`,
    {},
    {
      '{"a": "1", "b": "A"}': 1,
      '{"a": "A", "b": "A"}': 0,
      '{"a": "1", "b": "1"}': 0,
    },
  );
});

test("json_schema: a default is the schema's word, not the answer's", () => {
  const schema = { type: "object", required: ["a"], properties: { a: { default: 1 } } };
  pays(`builtin:json_schema?schema=${JSON.stringify(schema)}`, {}, { "{}": 0, '{"a": 2}': 1 });
});

test("json_schema: uniqueItems compares as JSON schema does, in linear time", () => {
  const schema = `builtin:json_schema?schema=${JSON.stringify({ type: "array", uniqueItems: true })}`;
  pays(
    schema,
    {},
    {
      '[1, "1", true, null]': 1,
      "[1, 1.0]": 0,
      '[{"a": 1, "b": 2}, {"b": 2, "a": 1}]': 0,
      "[[1, 2], [2, 1]]": 1,
      "[]": 1,
    },
  );
  const many = JSON.stringify(Array.from({ length: 20_000 }, (_, n) => [n]));
  assert.ok(timed(() => assert.equal(paid(schema, many), 1)) < 3000);
});

test("json_schema: answers and schemas that would hold up a run", () => {
  const nested = { $ref: "#/$defs/n", $defs: { n: { type: "array", items: { $ref: "#/$defs/n" } } } };
  const schema = `builtin:json_schema?schema=${JSON.stringify(nested)}`;
  const deep = (levels: number) => "[".repeat(levels) + "]".repeat(levels);
  pays(schema, {}, { [deep(200)]: 1, [deep(201)]: null, [deep(50_000)]: null, ["[".repeat(100_000)]: 0, '["[[["]': 0 });
  const pattern = `builtin:json_schema?schema=${JSON.stringify({ type: "string", pattern: "^(a+)+$" })}`;
  assert.ok(timed(() => assert.equal(paid(pattern, JSON.stringify(`${"a".repeat(100_000)}!`)), 0)) < 3000);
  assert.ok(timed(() => paid(schema, "```".repeat(33_000))) < 3000);
  for (const wrong of ["{", '{"type": "text"}', '{"$ref": "http://example.org/s"}', '{"$async": true}', '{"foo": 1}'])
    assert.throws(() => parseVerifier(`builtin:json_schema?schema=${wrong}`), /schema cannot be used/, wrong);
  assert.throws(() => parseVerifier(`builtin:json_schema?schema={"pattern": "(?=a)"}`), /RE2/);
});

test("citation: the share of quotations that stand in the passage", () => {
  const passage = "Returns are accepted within 30 days. The “buyer” pays for shipping, unless the goods were faulty.";
  pays(
    "builtin:citation",
    { passage },
    {
      'It says "accepted within 30 days".': 1,
      "It says „the buyer pays for shipping“.": 1,
      "> Returns are accepted\n> within 30 days.": 1,
      "«returns … within 30 days»": 1,
      "“within 30 days … returns are accepted”": 0,
      'It says "within 30 days" and "within 60 days".': 0.5,
      "Returns are accepted within 30 days.": 0,
      'The "buyer" pays.': 0,
      '"accepted within 3 days"': 0,
      "": 0,
    },
  );
  pays("builtin:citation?min_words=1", { passage }, { 'The "buyer" pays.': 1 });
  pays("builtin:citation", {}, { '"accepted within 30 days"': null });
});

test("citation: any run of a passage's words is found in it", () => {
  const words = fc.array(fc.constantFrom("ab", "cd", "ef", "12"), { minLength: 3, maxLength: 40 });
  fc.assert(
    fc.property(words, fc.nat(), fc.nat(), (text, from, length) => {
      const start = from % (text.length - 2);
      const quote = text.slice(start, start + 3 + (length % (text.length - start)));
      assert.equal(paid("builtin:citation", `"${quote.join(" ")}"`, { passage: text.join(" ") }), 1);
    }),
  );
});

test("words are found wherever a plain search finds them", () => {
  const words = (most: number) => fc.array(fc.constantFrom("a", "b"), { maxLength: most });
  fc.assert(
    fc.property(words(30), words(4), (text, wanted) => {
      const plain = [...text.keys()].filter(
        (at) => wanted.length > 0 && wanted.every((one, i) => text[at + i] === one),
      );
      assert.deepEqual(occurrences(text, wanted), plain);
    }),
  );
});

test("refusal: declines where nothing answers, and only there", () => {
  const refusal = parseVerifier("builtin:refusal");
  assert.ok(refusal.kind === "builtin");
  const verify = makeBuiltin(refusal, declines);
  assert.equal(verify("I do not know.", itemOf({ answerable: false })), 1);
  assert.equal(verify("30 days.", itemOf({ answerable: false })), 0);
  assert.equal(verify("I do not know.", itemOf()), 0);
  assert.equal(verify("30 days.", itemOf()), 1);
});

test("100 kB of anything are judged in a moment, within 0 and 1", () => {
  const n = 100_000;
  const passage = "a ".repeat(n / 2);
  const item = { reference: "a", choices: ["a a a b", "a", "b c"], passage };
  const pieces = [
    "a ",
    '"a a a ',
    "“",
    "„a b c",
    "«",
    "「",
    "> a a a\n",
    "\n",
    "``` ",
    "(b) ",
    "…",
    "' ",
    "́",
    "{",
    '\\"',
  ];
  const verifiers = ["exact", "choice", "citation", "refusal", "json_schema?schema={}"];
  for (const verifier of verifiers)
    for (const piece of pieces) {
      const answer = piece.repeat(Math.ceil(n / piece.length));
      let reward: number | null = null;
      const took = timed(() => {
        reward = paid(`builtin:${verifier}`, answer, item);
      });
      assert.ok(took < 5000, `${verifier}: ${JSON.stringify(piece)} took ${took} ms`);
      assert.ok(reward === null || (reward >= 0 && reward <= 1));
    }
});

test("a reference that is not understood is refused, and says what is known", () => {
  const refusals: [string, RegExp][] = [
    ["exact", /builtin:NAME or program:NAME.*exact, numeric, choice, regex, json_schema, citation, refusal/],
    ["builtin:fuzzy", /built-in ones are exact, numeric/],
    ["builtin:constructor", /built-in ones are/],
    ["builtin:exact?x=1", /the options declined, not x=1/],
    ["builtin:choice?x=1", /no options/],
    ["builtin:numeric?tol=1", /tolerance, relative, read, decimal/],
    ["builtin:numeric?tolerance=-1", /not below 0/],
    ["builtin:numeric?tolerance=x", /not below 0/],
    ["builtin:numeric?read=first", /last, only/],
    ["builtin:numeric?tolerance=1&tolerance=2", /twice/],
    ["builtin:regex?pattern=5%", /%25/],
    ["program:units?x=1", /no options/],
  ];
  for (const [reference, message] of refusals) assert.throws(() => parseVerifier(reference), message, reference);
  assert.deepEqual(parseVerifier("builtin:numeric?read=only"), {
    kind: "builtin",
    verifier: "numeric",
    options: { tolerance: "", relative: "0", read: "only", decimal: "" },
  });
});
