// Every field of every body and query, given what it is not: the wrong type, and numbers at and over each edge. Made from the
// contract; what is expected comes from the bounds that it states. Nothing is ever a server error.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type Endpoint, scopes } from "../../src/contract/endpoint.ts";
import { contract } from "../../src/contract/index.ts";
import { exampleOf } from "../../src/http/examples.ts";
import { askField, fields, keepsItsBounds, numeric, refusesWrongTypes, titleOf, typed } from "../helpers/fields.ts";
import { type Ids, ownedBy } from "../helpers/matrix.ts";
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

const asker = () => ({ it, ids, key });

describe("the wrong type names its field", () => {
  for (const given of typed) test(titleOf(given), async () => void (await refusesWrongTypes(asker(), given)));
});

describe("numbers at the edges", () => {
  for (const given of numeric) test(titleOf(given), async () => void (await keepsItsBounds(asker(), given)));
});

describe("names are one line, read in one direction", () => {
  // A rollback names a channel that is there already.
  const names = fields.filter(
    ({ field, part, endpoint }) =>
      part === "body" &&
      /^(\w+_)?name$|^channel$|^organisation$/.test(field) &&
      endpoint !== contract["models.rollback"],
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
        const { status, locs } = await askField(asker(), given, name);
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
    const isClosed = (endpoint.body as { additionalProperties?: boolean }).additionalProperties === false;
    for (const forbidden of ["__proto__", ...(isClosed ? ["constructor"] : [])]) {
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
