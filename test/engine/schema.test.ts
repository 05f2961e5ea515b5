// JSON schemas as grammars: whatever a grammar lets through validates, and whatever is valid and small is let through. ajv says
// what is valid, llama.cpp's own grammar what is let through, and texts are drawn from the grammar by a reader of its own.
import assert from "node:assert/strict";
import { isIPv4 } from "node:net";
import { before, describe, test } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { getLlama } from "node-llama-cpp";
import { Failure } from "../../src/base/errors.ts";
import { createSchemaRules, schemaGrammar } from "../../src/engine/grammar/grammar.ts";
import { Gbnf } from "./gbnf.ts";

type Schema = Record<string, unknown> | boolean;
interface Grammar {
  isTextCompatible(text: string): boolean;
}
let parse: (gbnf: string) => Grammar;

before(async () => {
  const llama = await getLlama({ build: "never", skipDownload: true, progressLogs: false, logger: () => {} });
  const { AddonGrammar } = (llama as unknown as { _bindings: { AddonGrammar: new (gbnf: string) => Grammar } })
    ._bindings;
  parse = (gbnf) => new AddonGrammar(gbnf);
});

const ajv = new Ajv2020({ strict: false, allErrors: false });
const realDate = (text: string): boolean => {
  const date = new Date(`${text}T00:00:00Z`);
  return /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
};
const realTime = (text: string): boolean => {
  const match = /^(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:Z|[+-](\d\d):(\d\d))$/.exec(text);
  return match !== null && [24, 60, 60, 24, 60].every((most, at) => Number(match[at + 1] ?? 0) < most);
};
ajv.addFormat("date", realDate);
ajv.addFormat("time", realTime);
ajv.addFormat(
  "date-time",
  (text: string) => realDate(text.slice(0, 10)) && text[10] === "T" && realTime(text.slice(11)),
);
ajv.addFormat("uuid", /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i);
ajv.addFormat("ipv4", (text: string) => isIPv4(text));
// As the package ajv-formats has it.
ajv.addFormat(
  "email",
  /^[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*@(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/i,
);

/** mulberry32 */
const randomOf = (seed: number) => () => {
  seed = (seed + 0x6d2b79f5) | 0;
  let z = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  z = (z + Math.imul(z ^ (z >>> 7), 61 | z)) ^ z;
  return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32;
};

/** Draws texts from the grammar of a schema: each must be JSON that ajv accepts, and that llama.cpp's reading lets through. */
function mustBeSound(schema: Schema, seed: number, draws = 12): void {
  const source = schemaGrammar(schema, []);
  const [gbnf, native] = [new Gbnf(source), parse(source)];
  const validate = ajv.compile(schema);
  const random = randomOf(seed);
  for (let draw = 0; draw < draws; draw++) {
    const text = gbnf.sample(random);
    assert.ok(native.isTextCompatible(text), `the two readers of GBNF differ on ${text}`);
    const value = JSON.parse(text);
    assert.ok(validate(value), `${text} does not validate against ${JSON.stringify(schema)}`);
    assert.ok(createSchemaRules().fits(value, schema, []), `${text} does not fit ${JSON.stringify(schema)}`);
  }
}

/** What ajv says of each value, grammar and check must say too. */
function mustAgree(schema: Schema, values: readonly unknown[]): void {
  const native = parse(schemaGrammar(schema, []));
  const validate = ajv.compile(schema);
  for (const value of values) {
    const isValid = validate(value);
    for (const space of [undefined, 1, 2]) {
      const text = JSON.stringify(value, null, space);
      assert.equal(native.isTextCompatible(text), isValid, `${text} against ${JSON.stringify(schema)}`);
    }
    assert.equal(createSchemaRules().fits(value, schema, []), isValid, `${JSON.stringify(value)} fits`);
  }
}

/** A schema, and values of which many fit it: in its own order of properties. */
interface Case {
  schema: Schema;
  value: fc.Arbitrary<unknown>;
}

const safeText = fc.string({ unit: "grapheme", maxLength: 6 }).filter((text) => text.isWellFormed());
// No backslash: where an object with such a key is known, Node 24's JSON.parse takes its characters for the escapes of another.
const names = fc.uniqueArray(fc.constantFrom("a", "b", "ab", "ä", 'q"', "b/", "x y", "n\n"), { maxLength: 4 });

/** JSON values; not with the keys that make ajv, the judge here, throw when it compares objects. */
const plainValue = fc
  .jsonValue({ maxDepth: 1 })
  .filter((value) => !/"(?:valueOf|toString)":/.test(JSON.stringify(value)));

const scalars: fc.Arbitrary<Case> = fc.oneof(
  fc.constantFrom<Case>(
    { schema: { type: "null" }, value: fc.constant(null) },
    { schema: { type: "boolean" }, value: fc.boolean() },
    { schema: { type: "number" }, value: fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e300, max: 1e300 }) },
    { schema: { type: "integer" }, value: fc.maxSafeInteger() },
    {
      schema: { type: "string", format: "date" },
      value: fc
        .date({ noInvalidDate: true, min: new Date("0001-01-01"), max: new Date("9999-01-01") })
        .map((date) => date.toISOString().slice(0, 10)),
    },
    {
      schema: { type: "string", format: "date-time" },
      value: fc
        .date({ noInvalidDate: true, min: new Date("0001-01-01"), max: new Date("9999-01-01") })
        .map((date) => date.toISOString()),
    },
    { schema: { type: "string", format: "uuid" }, value: fc.uuid() },
    { schema: { type: "string", format: "ipv4" }, value: fc.ipV4() },
    { schema: { type: "string", pattern: "^[a-c]{2,4}$" }, value: fc.stringMatching(/^[a-d]{1,5}$/) },
    {
      schema: { type: "string", pattern: '\\d+-\\w|^x"\\\\[^y]*$' },
      value: fc.oneof(fc.stringMatching(/\d-\w/), fc.stringMatching(/^x"\\[^y]*$/)),
    },
    {
      schema: { type: "string", pattern: "^\\p{Lu}[\\p{Ll}\\-]+$" },
      value: fc.stringMatching(/^[A-ZÄa]?[a-zß-]{1,4}$/),
    },
    { schema: { type: "string", pattern: "a.b", maxLength: 5 }, value: fc.stringMatching(/^[ac\n]{0,2}a.b[c]{0,2}$/) },
  ),
  fc
    .tuple(fc.integer({ min: -1200, max: 1200 }), fc.nat(1500), fc.boolean(), fc.boolean())
    .map(([low, size, lowEx, highEx]) => ({
      schema: {
        type: "integer",
        [lowEx ? "exclusiveMinimum" : "minimum"]: low,
        [highEx ? "exclusiveMaximum" : "maximum"]: low + size + 2,
      },
      value: fc.oneof(
        fc.integer({ min: low - 2, max: low + size + 4 }),
        fc.constantFrom(low, low + 1, low + size + 1, low + size + 2, low + size + 3),
      ),
    })),
  fc
    .tuple(
      fc.integer({ min: -5000, max: 5000 }),
      fc.nat(3000),
      fc.boolean(),
      fc.boolean(),
      fc.constantFrom(1, 10, 1000),
    )
    .map(([low, size, lowEx, highEx, scale]) => ({
      schema: {
        type: "number",
        [lowEx ? "exclusiveMinimum" : "minimum"]: low / scale,
        [highEx ? "exclusiveMaximum" : "maximum"]: (low + size + 1) / scale,
      },
      value: fc.integer({ min: 10 * low - 5, max: 10 * (low + size + 1) + 5 }).map((value) => value / (10 * scale)),
    })),
  fc.tuple(fc.nat(3), fc.nat(4)).map(([least, more]) => ({
    schema: { type: "string", minLength: least, maxLength: least + more },
    value: safeText,
  })),
  fc
    .uniqueArray(plainValue, {
      minLength: 1,
      maxLength: 4,
      comparator: (a, b) => JSON.stringify(a) === JSON.stringify(b),
    })
    .map((values) => ({
      schema: { enum: values },
      value: fc.oneof(fc.constantFrom(...values), plainValue),
    })),
);

const { cases } = fc.letrec<{ cases: Case }>((tie) => ({
  cases: fc.oneof(
    { maxDepth: 2, depthSize: "small" },
    scalars,
    fc.tuple(tie("cases"), fc.nat(2), fc.nat(2)).map(([item, least, more]) => ({
      schema: { type: "array", items: item.schema, minItems: least, maxItems: least + more },
      value: fc.array(item.value, { maxLength: 5 }),
    })),
    fc
      .tuple(fc.array(tie("cases"), { minLength: 1, maxLength: 3 }), fc.boolean(), fc.nat(2))
      .map(([items, open, least]) => ({
        schema: {
          type: "array",
          prefixItems: items.map(({ schema }) => schema),
          minItems: Math.min(least, items.length),
          ...(open ? {} : { items: false }),
        },
        value: fc
          .tuple(
            fc.tuple(...items.map(({ value }) => value)),
            fc.array(fc.constantFrom(1, "x"), { maxLength: 1 }),
            fc.nat(4),
          )
          .map(([head, tail, keep]) => [...head, ...tail].slice(0, keep)),
      })),
    fc
      .tuple(
        names,
        fc.array(tie("cases"), { minLength: 4, maxLength: 4 }),
        fc.nat(15),
        fc.constantFrom(true, false, "string"),
      )
      .map(([keys, members, needed, additional]) => ({
        schema: {
          type: "object",
          properties: Object.fromEntries(keys.map((key, at) => [key, members[at]!.schema])),
          required: keys.filter((_, at) => needed & (1 << at)),
          ...(additional === "string"
            ? { additionalProperties: { type: "string" } }
            : additional
              ? {}
              : { additionalProperties: false }),
        },
        value: fc
          .tuple(
            fc.tuple(
              ...keys.map((key, at) =>
                fc.option(
                  members[at]!.value.map((value) => [key, value] as const),
                  { freq: 5 },
                ),
              ),
            ),
            fc.array(fc.tuple(fc.constantFrom("z", "abc", "", "A"), fc.constantFrom<unknown>("s", 5)), {
              maxLength: 1,
            }),
          )
          .map(([own, more]) => Object.fromEntries([...own.filter((entry) => entry !== null), ...more])),
      })),
    fc.array(tie("cases"), { minLength: 2, maxLength: 3 }).map((ways) => ({
      schema: { anyOf: ways.map(({ schema }) => schema) },
      value: fc.oneof(...ways.map(({ value }) => value)),
    })),
  ),
}));

test("whatever a grammar lets through validates", () => {
  fc.assert(
    fc.property(cases, fc.integer(), ({ schema }, seed) => mustBeSound(schema, seed)),
    { numRuns: 120 },
  );
});

test("a value is let through where it validates, and nowhere else", () => {
  const sampled = cases.chain(({ schema, value }) =>
    fc.array(value, { maxLength: 6 }).map((values) => ({ schema, values })),
  );
  fc.assert(
    fc.property(sampled, ({ schema, values }) => mustAgree(schema, values)),
    { numRuns: 300 },
  );
});

const tree = {
  $ref: "#/$defs/node",
  $defs: {
    node: {
      type: "object",
      properties: { name: { type: "string" }, children: { type: "array", items: { $ref: "#/$defs/node" } } },
      required: ["name"],
      additionalProperties: false,
    },
  },
};

describe("schemas as people write them", () => {
  const rows: [name: string, schema: Schema, values: unknown[]][] = [
    [
      "a recursive tree",
      tree,
      [{ name: "a" }, { name: "a", children: [{ name: "b", children: [] }] }, { name: "a", children: [{}] }, {}],
    ],
    [
      "a reference to the whole",
      { type: "object", properties: { next: { $ref: "#" } }, additionalProperties: false },
      [{}, { next: { next: {} } }, { next: 1 }],
    ],
    [
      "definitions, and escapes in pointers",
      { $ref: "#/definitions/a~1b%20c", definitions: { "a/b c": { type: "integer" } } },
      [1, "1"],
    ],
    ["a type or null", { type: ["string", "null"], maxLength: 2 }, [null, "ab", "abc", 1]],
    ["nullable", { type: "integer", nullable: true, minimum: 3 }, [null, 3, 2]],
    [
      "allOf of objects",
      {
        allOf: [
          { type: "object", properties: { a: { type: "integer" } }, required: ["a"] },
          { properties: { b: { type: "string" } }, required: ["b"] },
        ],
      },
      [{ a: 1, b: "x" }, { a: 1 }, { a: "1", b: "x" }, { a: 1, b: "x", c: 0 }],
    ],
    [
      "allOf that narrows",
      { allOf: [{ type: "number", minimum: 2 }, { type: "integer" }, { maximum: 4 }] },
      [1, 2, 4, 5, 2.5],
    ],
    [
      "a reference with siblings",
      { $ref: "#/$defs/s", minLength: 2, $defs: { s: { type: "string", maxLength: 3 } } },
      ["a", "ab", "abcd"],
    ],
    [
      "anyOf beside what all share",
      {
        type: "object",
        properties: { k: { type: "string" } },
        anyOf: [{ required: ["k"] }, { properties: { n: { type: "integer" } }, required: ["n"] }],
      },
      [{ k: "a" }, { n: 1 }, {}, { k: 1 }],
    ],
    [
      "oneOf told apart by a constant",
      {
        oneOf: [
          { type: "object", properties: { t: { const: "a" }, x: { type: "integer" } }, required: ["t", "x"] },
          { type: "object", properties: { t: { const: "b" } }, required: ["t"] },
        ],
      },
      [{ t: "a", x: 1 }, { t: "b" }, { t: "a" }, { t: "c" }],
    ],
    [
      "oneOf told apart by type",
      { oneOf: [{ type: "integer", maximum: 5 }, { type: "string" }, { type: "number", exclusiveMinimum: 5 }] },
      [1, "x", 5, 5.5, null],
    ],
    ["enum within a type", { type: "string", enum: ["a", 1, "bcd", null], maxLength: 2 }, ["a", 1, "bcd", null, "x"]],
    ["const of an object", { const: { a: [1, null] } }, [{ a: [1, null] }, { a: [1] }]],
    ["no type: what a keyword says of its own", { minLength: 2 }, ["a", "ab", 1, null, [], {}]],
    ["anything", {}, [1, "a", [{ b: [null] }], true]],
    [
      "additional ones beside named ones",
      { type: "object", properties: { a: { type: "integer" } }, additionalProperties: { type: "boolean" } },
      [{ a: 1, b: true }, { a: 1, b: 1 }, { b: true }, { a: true }],
    ],
    [
      "closed by one of two",
      { allOf: [{ properties: { a: {} }, additionalProperties: false }, { properties: { b: {} } }], type: "object" },
      [{ a: 1 }, { b: 1 }],
    ],
    [
      "a property that may not be",
      { type: "object", properties: { a: false, b: { type: "null" } } },
      [{ b: null }, { a: 1 }, { c: 1 }],
    ],
    ["a name that comes from no one", { type: "object", required: ["x"] }, [{ x: 1 }, {}, { y: 1 }]],
    [
      "whole numbers of all sizes",
      { type: "integer", minimum: -9007199254740991, maximum: 9007199254740991 },
      [0, -1, 9007199254740991, -9007199254740991, 9007199254740992],
    ],
    ["bounds that are fractions", { type: "integer", exclusiveMinimum: 1.5, maximum: 3.9 }, [1, 2, 3, 4]],
    ["tiny bounds", { type: "number", exclusiveMinimum: 0, exclusiveMaximum: 0.001 }, [0, 0.0001, 0.001, 0.00099]],
    ["one number", { type: "number", minimum: 2.5, maximum: 2.5 }, [2.5, 2.4, 2.51]],
    ["below zero", { type: "number", maximum: -0.5 }, [-0.5, -0.49, -1, -1000, 0]],
    [
      "many characters",
      { type: "string", minLength: 150, maxLength: 1030 },
      [149, 150, 700, 1030, 1031].map((length) => "x".repeat(length)),
    ],
    [
      "many items",
      { type: "array", items: { type: "integer" }, minItems: 120, maxItems: 250 },
      [119, 120, 249, 250, 251].map((length) => new Array(length).fill(7)),
    ],
    [
      "a pattern, a length and a format at once",
      { type: "string", format: "date", pattern: "^20", maxLength: 10 },
      ["2024-02-29", "2023-02-29", "1999-01-01"],
    ],
    [
      "leap years",
      { type: "string", format: "date" },
      ["2000-02-29", "1900-02-29", "2024-02-29", "2023-02-29", "2023-04-31", "2023-12-31"],
    ],
    ["control characters", { type: "string", pattern: "^[\\s\\S]{3}$" }, ["\u0000\u001f\n", '"\\/', "a\u2028🎉", "ab"]],
    [
      "annotations",
      { type: "integer", title: "t", description: "d", default: 3, examples: [1], $comment: "c", deprecated: true },
      [1, "1"],
    ],
  ];
  for (const [name, schema, values] of rows)
    test(name, () => {
      mustAgree(schema, values);
      mustBeSound(schema, 7);
    });

  test("an email, of the plain kind", () => mustBeSound({ type: "string", format: "email" }, 3));
  test("a time", () => mustBeSound({ type: "string", format: "time" }, 3));

  test("other spellings of a text fit too", () => {
    const native = parse(schemaGrammar({ type: "string", maxLength: 2 }, []));
    for (const text of ['"\\u00e9\\u0041"', '"\\ud83d\\ude00\\/"']) assert.ok(native.isTextCompatible(text), text);
    for (const text of ['"\\ud83d"', '"\\u00e9\\u0041a"', '"\\x41"', '"a\nb"'])
      assert.ok(!native.isTextCompatible(text), text);
  });

  test("recursion ends where it is too deep, and what could only be deeper is nothing", () => {
    const nested = (depth: number): unknown =>
      depth === 0 ? { name: "x" } : { name: "x", children: [nested(depth - 1)] };
    const native = parse(schemaGrammar(tree, []));
    assert.ok(native.isTextCompatible(JSON.stringify(nested(11))));
    assert.ok(!native.isTextCompatible(JSON.stringify(nested(40))));
    const endless = { type: "object", properties: { next: { $ref: "#" } }, required: ["next"] };
    assert.throws(() => schemaGrammar(endless, []), /no value matches/);
  });
});

describe("refusals", () => {
  const rows: [name: string, schema: unknown, at: (string | number)[], message: RegExp][] = [
    ["not", { not: { type: "null" } }, ["not"], /not cannot be enforced/],
    ["if", { properties: { a: { if: {} } } }, ["properties", "a", "if"], /if cannot/],
    ["patternProperties", { patternProperties: {} }, ["patternProperties"], /patternProperties/],
    ["uniqueItems", { items: { uniqueItems: true } }, ["items", "uniqueItems"], /uniqueItems/],
    ["multipleOf", { anyOf: [{ type: "null" }, { multipleOf: 5 }] }, ["anyOf", 1, "multipleOf"], /multipleOf/],
    ["a keyword nobody knows", { type: "object", tpye: 1 }, ["tpye"], /tpye/],
    ["an unknown format", { format: "iri" }, ["format"], /"iri"/],
    ["looking ahead", { pattern: "^(?=a)" }, ["pattern"], /looks ahead/],
    ["a flag in a group", { pattern: "(?i:a)" }, ["pattern"], /flags/],
    ["a backreference", { pattern: "(a)\\1" }, ["pattern"], /\\1/],
    ["a word boundary", { pattern: "\\bfoo" }, ["pattern"], /\\b/],
    ["a broken pattern", { pattern: "(a" }, ["pattern"], /not a regular expression: .*Unterminated group/],
    ["an unknown property of Unicode", { pattern: "\\p{Nothing}" }, ["pattern"], /property name/],
    ["oneOf that overlaps", { oneOf: [{ type: "integer" }, { type: "number" }] }, ["oneOf"], /branches 0 and 1/],
    ["a reference elsewhere", { $ref: "https://example.com/x" }, ["$ref"], /into the schema/],
    ["a reference to nothing", { $ref: "#/$defs/x" }, ["$ref"], /points to nothing/],
    ["a reference to itself", { $ref: "#" }, ["$ref"], /endlessly/],
    [
      "a circle through anyOf",
      { $ref: "#/$defs/a", $defs: { a: { anyOf: [{ $ref: "#/$defs/a" }, { type: "null" }] } } },
      ["$defs", "a", "anyOf", 0, "$ref"],
      /endlessly/,
    ],
    ["a type that is none", { type: "text" }, ["type"], /"text"/],
    ["an inherited name", { $ref: "#/constructor" }, ["$ref"], /points to nothing/],
    ["a wrong bound", { minimum: "1" }, ["minimum"], /a number/],
    ["a negative length", { maxLength: -1 }, ["maxLength"], /whole number/],
    ["a huge length", { maxLength: 1e9 }, ["maxLength"], /100000/],
    ["items as a list", { items: [{}] }, ["items"], /prefixItems/],
    ["nothing that fits", { type: "string", minLength: 3, maxLength: 2 }, [], /no value matches/],
    ["a contradiction", { allOf: [{ type: "string" }, { type: "null" }] }, [], /no value matches/],
  ];
  for (const [name, schema, at, message] of rows)
    test(name, () => {
      assert.throws(
        () => schemaGrammar(schema, ["schema"]),
        (error: unknown) => {
          assert.ok(error instanceof Failure, String(error));
          assert.deepEqual(error.details![0]!.loc, ["schema", ...at]);
          assert.match(error.message, message);
          return true;
        },
      );
    });

  const hostile: [string, unknown][] = [
    [
      "alternatives that multiply",
      {
        allOf: Array.from({ length: 20 }, (_, at) => ({ anyOf: [{ required: [`a${at}`] }, { required: [`b${at}`] }] })),
      },
    ],
    [
      "references that fan out",
      {
        $ref: "#/$defs/d0",
        $defs: Object.fromEntries(
          Array.from({ length: 40 }, (_, at) => [
            `d${at}`,
            at === 39 ? {} : { allOf: [{ $ref: `#/$defs/d${at + 1}` }, { $ref: `#/$defs/d${at + 1}` }] },
          ]),
        ),
      },
    ],
    ["a pattern that explodes", { pattern: "^(a|b)*a(a|b){400}$" }],
    ["repeats of repeats", { pattern: "^((a{1000}){1000}){1000}$" }],
    [
      "patterns that multiply",
      {
        allOf: Array.from({ length: 12 }, (_, at) => ({
          pattern: `^(.{${[2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37][at]}})*$`,
        })),
      },
    ],
    ["branches that multiply", { type: "string", oneOf: [{ pattern: "^(.{59})*$" }, { pattern: "^(.{61})*a$" }] }],
    [
      "many patterns that no value fits",
      {
        properties: Object.fromEntries(
          Array.from({ length: 40 }, (_, at) => {
            const characters = Array.from({ length: 130 }, (_, next) => String.fromCodePoint(0x4e00 + at + next));
            return [`p${at}`, { const: "x", pattern: `^${characters.map((character) => `${character}?`).join("")}$` }];
          }),
        ),
      },
    ],
    ["a long pattern", { pattern: "(".repeat(5000) }],
    ["many properties", { properties: Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`p${at}`, {}])) }],
    [
      "many values",
      {
        type: "array",
        items: { enum: Array.from({ length: 60_000 }, (_, at) => `some value that takes its place ${at}`) },
      },
    ],
  ];
  for (const [name, schema] of hostile)
    test(`${name}: refused, and soon`, () => {
      const start = performance.now();
      assert.throws(() => schemaGrammar(schema, []), Failure);
      assert.ok(performance.now() - start < 3000, `${performance.now() - start} ms`);
    });
});
