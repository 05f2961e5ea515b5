// The description of the API says what is served, and all of it.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type FailureCode, failures } from "../../src/base/errors.ts";
import { failureBody } from "../../src/contract/common.ts";
import type { Endpoint } from "../../src/contract/endpoint.ts";
import { contract, interfaceVersion } from "../../src/contract/index.ts";
import { compile } from "../../src/contract/validate.ts";
import { type TestHouse, testHouse } from "../helpers/house.ts";

const endpoints = Object.entries(contract as Record<string, Endpoint>);
// biome-ignore lint/suspicious/noExplicitAny: a document of foreign shape.
let document: any;
let it: TestHouse;
before(async () => {
  it = await testHouse();
  document = await (await fetch(`${it.url}/openapi.json`)).json();
});
after(() => it.close());

describe("every endpoint of the contract", () => {
  for (const [name, endpoint] of endpoints) {
    test(`${name} is served`, async () => {
      const path = endpoint.path.replace(/\{\w+\}/g, "x");
      const response = await it.get(path, { method: endpoint.method });
      assert.ok(response.headers.get("x-request-id"));
      assert.notEqual(response.status, 405);
      assert.ok(response.status < 500, `${response.status}`);
      const isText = endpoint.text !== undefined && response.ok;
      if (isText) assert.ok((await response.text()).length > 0);
      const answer = isText ? {} : ((await response.json()) as { detail?: unknown });
      // Not there for lack of such a thing, not for lack of such a route.
      if (response.status === 404) assert.ok(answer.detail);
    });

    test(`${name} is described`, () => {
      const operation = document.paths[endpoint.path]?.[endpoint.method.toLowerCase()];
      assert.ok(operation);
      assert.equal(operation.summary, endpoint.summary);
      const ways = endpoint.tag === "inference" ? [{ key: [] }, { apiKey: [] }] : [{ key: [] }];
      const elsewhere = endpoint.open === "key_elsewhere" ? [{ key: [] }, {}] : [];
      assert.deepEqual(operation.security, endpoint.open ? elsewhere : ways);
      const type = endpoint.download?.[0] ?? endpoint.text ?? "application/json";
      assert.deepEqual(operation.responses[String(endpoint.status ?? 200)].content[type].schema, plain(endpoint.reply));
      for (const code of endpoint.errors) {
        const response = operation.responses[String(failures[code].status)];
        assert.ok(response?.description.includes(`\`${code}\``), `${code} is not described`);
      }
      const named = [...endpoint.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
      const given = (operation.parameters ?? []).filter((parameter: { in: string }) => parameter.in === "path");
      assert.deepEqual(
        given.map((parameter: { name: string }) => parameter.name),
        named,
      );
      assert.equal(operation.requestBody !== undefined, Boolean(endpoint.body ?? endpoint.upload));
    });
  }

  test("and no other", () => {
    const described = Object.entries(document.paths as Record<string, object>).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    assert.deepEqual(described.sort(), endpoints.map(([, { method, path }]) => `${method} ${path}`).sort());
  });
});

describe("the document", () => {
  test("is OpenAPI 3.1 of this version of the interface", () => {
    assert.match(document.openapi, /^3\.1\./);
    assert.equal(document.info.version, interfaceVersion);
    assert.equal(document.components.securitySchemes.key.scheme, "bearer");
  });

  test("has operation ids that are names and differ", () => {
    const ids = operations().map((operation) => operation.operationId);
    assert.equal(new Set(ids).size, ids.length);
    for (const id of ids) assert.match(id, /^[a-z_]+$/);
  });

  test("refers to nothing that is missing", () => {
    for (const [, name] of JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g))
      assert.ok(document.components.schemas[name!]);
  });

  test("has schemas that compile", () => {
    for (const [name, endpoint] of endpoints)
      for (const schema of [
        endpoint.params,
        endpoint.query,
        endpoint.headers,
        endpoint.body,
        endpoint.reply,
        endpoint.events,
      ])
        if (schema)
          assert.doesNotThrow(() => (compile as (schema: unknown) => (value: unknown) => unknown)(schema)(null), name);
  });

  test("bounds every whole number of a request, whose reader takes none beyond ±(2^53 − 1)", () => {
    const unbounded = (schema: unknown, path: string): string[] => {
      if (typeof schema !== "object" || schema === null) return [];
      const { type, minimum, maximum } = schema as { type?: string | string[]; minimum?: number; maximum?: number };
      const isOpen = [type ?? []].flat().includes("integer") && (minimum === undefined || maximum === undefined);
      return [
        ...(isOpen ? [path] : []),
        ...Object.entries(schema)
          // A condition bounds nothing.
          .filter(([key]) => key !== "if")
          .flatMap(([key, one]) => unbounded(one, `${path}.${key}`)),
      ];
    };
    for (const [name, { query, body }] of endpoints) assert.deepEqual(unbounded({ query, body }, name), []);
  });

  test("tags every operation with a tag it lists", () => {
    const tags = document.tags.map((tag: { name: string }) => tag.name);
    for (const operation of operations()) for (const tag of operation.tags) assert.ok(tags.includes(tag));
  });

  const operations = (): { operationId: string; tags: string[] }[] =>
    Object.values(document.paths as Record<string, object>).flatMap((methods) => Object.values(methods));
});

test("errors have the promised form, whatever the status", async () => {
  const check = compile(failureBody);
  const requests: [string, RequestInit][] = [
    ["/nothing", {}],
    ["/api/v3/nothing", {}],
    ["/api/v3/documents", { method: "PUT" }],
    ["/api/v3/documents?limit=0", {}],
    ["/api/v3/documents/x", {}],
    ["/api/v3/documents", { headers: { authorization: "Bearer wrong" } }],
    ["/api/v3/inference/chat/completions", { method: "POST", body: "{}", headers: { "content-type": "text/plain" } }],
    [
      "/api/v3/inference/chat/completions",
      { method: "POST", body: "{", headers: { "content-type": "application/json" } },
    ],
  ];
  const statuses: number[] = [];
  for (const [path, init] of requests) {
    const response = await it.get(path, init);
    statuses.push(response.status);
    const result = check(await response.json());
    assert.ok(result.ok, `${path}: ${JSON.stringify(result)}`);
  }
  assert.deepEqual(statuses, [404, 404, 405, 422, 404, 401, 415, 422]);
});

test("every failure that a client may see has a message and a hint that are sentences", () => {
  for (const [code, row] of Object.entries(failures) as [FailureCode, { message: string; hint: string }][]) {
    assert.match(row.message, /^[A-Z].*[^.]$/, code);
    assert.match(row.hint, /\.$/, code);
  }
});

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
