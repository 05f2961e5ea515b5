// Every example that the API page shows is one that the API would take or give.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { failures } from "../../src/base/errors.ts";
import type { Endpoint } from "../../src/contract/endpoint.ts";
import { contract, interfaceVersion } from "../../src/contract/index.ts";
import { compile } from "../../src/contract/validate.ts";
import { renderDocs } from "../../src/http/docs.ts";
import { renderOpenApi } from "../../src/http/openapi.ts";
import { type TestHouse, testHouse } from "../helpers/house.ts";

// biome-ignore lint/suspicious/noExplicitAny: a document of foreign shape.
type Json = any;
const document: Json = JSON.parse(JSON.stringify(renderOpenApi(contract, interfaceVersion)));
const resolved = (schema: Json): Json =>
  schema.$ref ? document.components.schemas[schema.$ref.split("/").at(-1)] : schema;

function assertFits(schema: Json, example: unknown, what: string): void {
  assert.notEqual(example, undefined, `${what} has no example`);
  // Within an object: a default at the root of a schema is none.
  const within = { type: "object", properties: { example: resolved(schema) } };
  const check = (compile as (schema: Json) => (value: unknown) => { ok: boolean; details?: unknown })(within);
  const result = check(structuredClone({ example }));
  assert.ok(result.ok, `${what}: ${JSON.stringify(example)} ${JSON.stringify(result.details)}`);
}

for (const [name, endpoint] of Object.entries<Endpoint>(contract))
  describe(name, () => {
    const operation = document.paths[endpoint.path][endpoint.method.toLowerCase()];

    test("its parameters", () => {
      for (const parameter of operation.parameters ?? [])
        if (parameter.in !== "header" || "example" in parameter)
          assertFits(parameter.schema, parameter.example, parameter.name);
    });

    test("its body", () => {
      const body = operation.requestBody?.content["application/json"];
      if (body) assertFits(body.schema, body.example, "body");
    });

    test("its answers: one of success, and one for each way to fail", () => {
      const codes = new Set<string>();
      for (const [status, response] of Object.entries<Json>(operation.responses))
        for (const [type, content] of Object.entries<Json>(response.content)) {
          if (status.startsWith("2")) {
            if (type === "application/json") assertFits(content.schema, content.example, status);
            continue;
          }
          for (const [code, { value }] of Object.entries<Json>(content.examples)) {
            assertFits(content.schema, value, code);
            assert.equal(value.error.code, code);
            assert.equal(String(failures[code as keyof typeof failures].status), status);
            codes.add(code);
          }
        }
      for (const code of endpoint.errors) assert.ok(codes.has(code), `${code} has no example`);
    });
  });

describe("an example that does not fit", () => {
  test("is found", () => {
    const schema = { type: "object", required: ["a"], properties: { a: { type: "integer" } } };
    assert.throws(() => assertFits(schema, { a: "1" }, "planted"));
    assert.throws(() => assertFits(schema, undefined, "planted"));
  });
});

describe("the API page", () => {
  let it: TestHouse;
  before(async () => {
    it = await testHouse();
  });
  after(() => it.close());

  test("is served to anyone, and has every path, field and error", async () => {
    const response = await fetch(`${it.url}/docs`);
    assert.equal(response.status, 200);
    assert.match(response.headers.get("content-type") ?? "", /^text\/html/);
    const page = await response.text();
    const shown = (text: string) => page.includes(text.replaceAll("&", "&amp;").replaceAll('"', "&quot;"));
    for (const [name, { path, method, aliases = [], errors, body }] of Object.entries<Endpoint>(contract)) {
      assert.ok(shown(`${method} ${path}`), name);
      for (const alias of aliases) assert.ok(shown(alias), alias);
      for (const code of errors)
        assert.ok(shown(`<code>${code}</code>`) || page.includes(`<code>${code}</code>`), code);
      for (const field of Object.keys((body as Json)?.properties ?? {}))
        assert.ok(page.includes(`<td><code>${field}</code></td>`), `${name} ${field}`);
    }
    assert.ok(page.includes(interfaceVersion));
    assert.equal((await fetch(`${it.url}/docs`, { method: "POST" })).status, 405);
  });

  test("takes nothing from elsewhere and runs nothing", async () => {
    const response = await fetch(`${it.url}/docs`);
    const page = await response.text();
    assert.doesNotMatch(page, /<script|<link|<img|<iframe|\son\w+=|src=|@import|url\(/i);
    const targets = [...page.matchAll(/href="([^"]*)"/g)].map((match) => match[1]!);
    for (const target of targets) assert.match(target, /^(#[a-z_]+|\/openapi\.json)$/);
    for (const target of targets.filter((one) => one.startsWith("#")))
      assert.ok(page.includes(`id="${target.slice(1)}"`), target);
    assert.match(response.headers.get("content-security-policy") ?? "", /default-src 'none'/);
  });

  test("shows what looks like markup as text", () => {
    const planted = structuredClone(document);
    planted.info.description = "<script>alert(1)</script>";
    planted.paths["/healthz"].get.summary = '"><img src=x>';
    const page = renderDocs(planted);
    assert.doesNotMatch(page, /<script>|<img/);
    assert.match(page, /&lt;script&gt;/);
  });
});
