// Every field of every body and query, given what it is not: the wrong type, and numbers at and over each edge. Made from the
// contract; what is expected comes from the bounds that it states. Nothing is ever a server error.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type Endpoint, scopes } from "../../src/contract/endpoint.ts";
import { contract } from "../../src/contract/index.ts";
import { exampleOf } from "../../src/http/examples.ts";
import { type Ids, ownedBy, RawNumber, request, type Schema } from "../helpers/matrix.ts";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";

let it: Scripted;
let ids: Ids;
/** May everything: what is refused is refused for its value. */
let key: string;
before(async () => {
  it = await scriptedHouse();
  ids = await ownedBy(it, "ada", it.key);
  key = ((await it.house.admin("key.create", { user: "ada", scopes })) as { key: string }).key;
});
after(() => it.close());

interface Given {
  endpoint: Endpoint;
  part: "body" | "query";
  field: string;
  schema: Schema;
}

const typesOf = (schema: Schema): string[] => [schema.type ?? []].flat();

/** The fields of one type alone: what is in range is then known from its bounds. */
const fields: Given[] = Object.values<Endpoint>(contract)
  .filter(({ open }) => !open)
  .flatMap((endpoint) =>
    (["body", "query"] as const).flatMap((part) =>
      Object.entries(((endpoint[part] ?? {}) as Schema).properties ?? {}).map(([field, schema]) => ({
        endpoint,
        part,
        field,
        schema,
      })),
    ),
  );

/** What the model that is asked can do bounds these further, and says so with the same field. */
const boundByModel = new Set(["POST /api/v3/inference/embeddings body.dimensions"]);

const titleOf = ({ endpoint, part, field }: Given): string => `${endpoint.method} ${endpoint.path} ${part}.${field}`;

async function ask({ endpoint, part, field }: Given, value: unknown): Promise<{ status: number; locs: string[] }> {
  // Whatever else there is, must be in order.
  const response = await request(it, endpoint, ids, ids, key, { [field]: value });
  const text = await response.text();
  assert.ok(response.status < 500, `${response.status} for ${JSON.stringify(value)}: ${text}`);
  const detail = response.status === 422 ? (JSON.parse(text) as { detail: { loc?: unknown[] }[] | string }).detail : [];
  const locs = typeof detail === "string" ? [] : detail.map(({ loc }) => (loc ?? []).join("."));
  return { status: response.status, locs: locs.filter((loc) => loc.startsWith(`${part}.${field}`)) };
}

describe("the wrong type names its field", () => {
  const values: [type: string, value: unknown][] = [
    ["string", "text"],
    ["number", 5],
    ["boolean", true],
    ["null", null],
    ["array", []],
    ["object", {}],
  ];
  // Of a query everything is text.
  const typed = fields.filter(({ schema, part }) => part === "body" && (schema.type || schema.enum));
  for (const given of typed)
    test(titleOf(given), async () => {
      const { schema } = given;
      for (const [type, value] of values) {
        const types = typesOf(schema);
        const fits = types.includes(type) || (type === "number" && types.includes("integer"));
        const isListed = schema.enum?.includes(value) === true;
        if (fits || isListed || (type === "null" && schema.enum?.includes(null))) continue;
        const { status, locs } = await ask(given, value);
        assert.equal(status, 422, `${type} instead of ${types.join("|")}`);
        assert.ok(locs.length > 0, `${JSON.stringify(value)}: the field is not named`);
      }
    });
});

describe("numbers at the edges", () => {
  const numeric = fields.filter(({ schema }) =>
    typesOf(schema).some((type) => type === "integer" || type === "number"),
  );

  const edgesOf = ({ minimum, maximum, exclusiveMinimum }: Schema): string[] => {
    const own = [minimum, maximum, exclusiveMinimum].filter((one) => one !== undefined);
    const around = own.flatMap((edge) => [edge - 1, edge, edge + 1]).map(String);
    return [...around, "0", "-0", "1", "1.5", "-1", "2147483648", "-9223372036854775808", "9007199254740993", "1e400"];
  };

  const fits = (text: string, { minimum, maximum, exclusiveMinimum, ...schema }: Schema): boolean => {
    const value = Number(text);
    const isWhole = typesOf(schema).includes("number") || Number.isInteger(value);
    // What no double holds exactly would not be what was sent.
    const isKept = Number.isFinite(value) && (/[.e]/.test(text) || Number.isSafeInteger(value));
    const isIn = value >= (minimum ?? -Infinity) && value <= (maximum ?? Infinity);
    return isWhole && isKept && isIn && value > (exclusiveMinimum ?? -Infinity);
  };

  for (const given of numeric)
    test(titleOf(given), async () => {
      for (const text of new Set(edgesOf(given.schema))) {
        // Query numbers are written in digits.
        const isFit = fits(text, given.schema) && (given.part === "body" || /^\d+$/.test(text));
        const { status, locs } = await ask(given, given.part === "body" ? new RawNumber(text) : text);
        if (isFit && boundByModel.has(titleOf(given))) continue;
        if (isFit) assert.deepEqual(locs, [], `${text} is in range`);
        else assert.ok(status === 422 && locs.length > 0, `${text} is out of range and answered ${status}`);
      }
    });
});

describe("names are one line, read in one direction", () => {
  // A rollback names a line that is there already.
  const names = fields.filter(
    ({ field, part, endpoint }) =>
      part === "body" && /^(\w+_)?name$|^line$|^organisation$/.test(field) && endpoint !== contract["models.rollback"],
  );
  assert.ok(names.length > 6);
  for (const given of names)
    test(titleOf(given), async () => {
      for (const name of [
        "a\u001b[31mb",
        "a\r\nb",
        "a\tb",
        "a\u0085b",
        "a\u009b2J",
        "a\u202etxt.exe",
        "a\u2066b",
        "\u200f",
      ]) {
        const { status, locs } = await ask(given, name);
        assert.deepEqual([status, locs], [422, [`body.${given.field}`]], JSON.stringify(name));
      }
    });
});

test("every endpoint with a body refuses what is no object, and fields that are not its own are no way in", async () => {
  for (const [name, endpoint] of Object.entries<Endpoint>(contract).filter(([, one]) => one.body && !one.open)) {
    const path = endpoint.path.replace(/\{(\w+)\}/g, (_, param: keyof Ids) => ids[param]);
    for (const body of ["null", "[]", '"x"', "5", "NaN", "{,}", "{}{}", '{"a":1,}', "\ufeff{}", '{"\\ud800":1}', ""]) {
      const response = await it.get(path, {
        method: endpoint.method,
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body,
      });
      assert.equal(response.status, 422, `${name}: ${body}`);
      await response.text();
    }
    const example = exampleOf(endpoint.body, false) as object;
    for (const forbidden of ["__proto__", "constructor"]) {
      const response = await it.get(path, {
        method: endpoint.method,
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: `${JSON.stringify(example).slice(0, -1)}${Object.keys(example).length > 0 ? "," : ""}"${forbidden}":{"admin":true}}`,
      });
      assert.equal(response.status, 422, `${name}: ${forbidden}`);
      await response.text();
    }
  }
  assert.equal(({} as { admin?: boolean }).admin, undefined);
});
