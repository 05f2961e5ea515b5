// What a request may hold of many: every list has a length at which it is refused before its items are looked at.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Endpoint } from "../../src/contract/endpoint.ts";
import { contract } from "../../src/contract/index.ts";

// biome-ignore lint/suspicious/noExplicitAny: schemas of whatever form.
type Schema = any;

const inner = ["items", "additionalProperties", "propertyNames", "not", "if", "then", "else", "contains"];

/** Every schema in it; `isRule` within rules between fields, which are checked before the fields themselves. */
function* schemasIn(
  schema: Schema,
  at: string,
  isRule = false,
): Generator<{ at: string; schema: Schema; isRule: boolean }> {
  if (typeof schema !== "object" || schema === null) return;
  yield { at, schema, isRule };
  for (const [name, one] of Object.entries(schema.properties ?? {})) yield* schemasIn(one, `${at}.${name}`, isRule);
  for (const name of inner)
    yield* schemasIn(schema[name], `${at}/${name}`, isRule || ["if", "then", "else", "not"].includes(name));
  for (const name of ["anyOf", "oneOf", "allOf"])
    for (const [index, one] of (schema[name] ?? []).entries())
      yield* schemasIn(one, `${at}/${name}/${index}`, isRule || name === "allOf");
}

const all = Object.entries<Endpoint>(contract).flatMap(([name, endpoint]) =>
  (["params", "query", "headers", "body"] as const).flatMap((part) => [
    ...schemasIn(endpoint[part], `${name} ${part}`),
  ]),
);

describe("of every list in a request", () => {
  test("the contract says how long it may be", () => {
    const endless = all.filter(({ schema, isRule }) => {
      const looksAtItems = schema.items !== undefined || schema.uniqueItems === true;
      const mayBeList = [schema.type ?? []].flat().includes("array");
      return (looksAtItems || (mayBeList && !isRule)) && schema.maxItems === undefined;
    });
    assert.deepEqual(
      endless.map(({ at }) => at),
      [],
    );
  });

  test("items that must differ have a type of one value, by which they are told apart in one pass", () => {
    const compared = all.filter(
      ({ schema }) => schema.uniqueItems && !["string", "integer"].includes(schema.items?.type),
    );
    assert.deepEqual(
      compared.map(({ at }) => at),
      [],
    );
  });

  test("more different ones than there can be are not allowed", () => {
    const wide = all.filter(({ schema }) => schema.uniqueItems && schema.items?.enum?.length < schema.maxItems);
    assert.deepEqual(
      wide.map(({ at }) => at),
      [],
    );
  });
});
