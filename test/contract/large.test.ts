// A large body that is wrong in several fields: each of them is named, and a long list is not looked through for all that is wrong in it.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Endpoint } from "../../src/contract/endpoint.ts";
import { contract } from "../../src/contract/index.ts";
import { compile } from "../../src/contract/validate.ts";

const check = compile({
  type: "object",
  additionalProperties: false,
  required: ["name", "owner"],
  properties: {
    name: { type: "string", maxLength: 5 },
    owner: { type: "string" },
    count: { type: "integer", minimum: 0 },
    list: { type: "array", maxItems: 100_000, items: { type: "integer" }, default: [] },
    other: { type: "array", maxItems: 10, items: { type: "integer" } },
    options: {
      type: "object",
      additionalProperties: false,
      properties: { depth: { type: "integer" }, texts: { type: "array", maxItems: 9_000, items: { type: "string" } } },
    },
  },
} as const);

const wrongPlaces = (value: unknown): string[] => {
  const result = check(value, ["body"]);
  return result.ok ? [] : result.details.map(({ loc, type }) => `${loc.join(".")} ${type}`);
};
const many = (item: unknown): unknown[] => Array(5_000).fill(item);

test("every field that is wrong is named, a long list by its first item", () => {
  assert.deepEqual(
    wrongPlaces({
      name: "too long a name",
      count: -1,
      list: many("x"),
      other: many(1),
      options: { depth: "deep", texts: many(1), more: 1 },
      stranger: 1,
    }),
    [
      "body.owner missing",
      "body.stranger extra_forbidden",
      "body.name maxLength_error",
      "body.count minimum_error",
      "body.list.0 type_error",
      "body.other maxItems_error",
      "body.options.more extra_forbidden",
      "body.options.depth type_error",
      "body.options.texts.0 type_error",
    ],
  );
});

test("a sound one passes, with its defaults", () => {
  assert.deepEqual(wrongPlaces({ name: "a", owner: "b", list: many(1) }), []);
});

test("of very many unknown fields some are named", () => {
  const unknown = Object.fromEntries(Array.from({ length: 50_000 }, (_, index) => [`k${index}`, 0]));
  const places = wrongPlaces({ name: "a", owner: "b", ...unknown });
  assert.equal(places.length, 200);
  assert.ok(places.every((place) => place.endsWith("extra_forbidden")));
});

test("a rule between fields is told where no field is wrong by itself", () => {
  const one = compile({
    type: "object",
    properties: { a: { type: "array", maxItems: 9_000, items: { type: "integer" } }, b: { type: "integer" } },
    if: { required: ["a"] },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema.
    then: { required: ["b"] },
  } as const);
  const result = one({ a: many(1) }, ["body"]);
  assert.deepEqual(result.ok ? [] : result.details.map(({ loc }) => loc), [["body", "b"]]);
});

interface Schema {
  properties?: Record<string, Schema>;
}

/** Large wherever it can be, and wrong everywhere. */
const spoiled = ({ properties }: Schema): unknown =>
  properties === undefined
    ? many({})
    : Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, spoiled(one)]));

test("of every body in the contract each field can be looked at by itself", () => {
  for (const [name, { body }] of Object.entries<Endpoint>(contract)) {
    const { properties = {} } = (body ?? {}) as Schema;
    if (Object.keys(properties).length === 0) continue;
    const result = (compile as (schema: unknown) => typeof check)(body)(spoiled(body as Schema), ["body"]);
    const named = new Set((result.ok ? [] : result.details).map(({ loc }) => loc[1]));
    assert.ok(named.size > 0, name);
    // A field that takes any list or any value takes this one too.
    assert.ok(named.size >= Object.keys(properties).length - 4, `${name}: ${[...named].join(", ")}`);
  }
});
