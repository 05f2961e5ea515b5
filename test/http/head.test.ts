// What the head of a request may be: keys, hosts, targets, methods, queries.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Endpoint } from "../../src/contract/endpoint.ts";
import { contract } from "../../src/contract/index.ts";
import { type TestHouse, testHouse } from "../helpers/house.ts";
import { raw, rawGet } from "../helpers/raw.ts";
import { scriptedHouse } from "../helpers/scripted.ts";

let it: TestHouse;
let host: string;
let key: string;
before(async () => {
  it = await testHouse({ PLUMBLINE_ALLOWED_HOSTS: "plumbline.example" });
  host = `Host: ${new URL(it.url).host}`;
  key = `Authorization: Bearer ${it.key}`;
});
after(() => it.close());

const documents = "/api/v3/documents";

describe("without a key", () => {
  const routes = Object.values(contract as Record<string, Endpoint>).filter((endpoint) => !endpoint.open);
  const cases: [string, string][] = [
    ...routes.map((endpoint): [string, string] => [endpoint.method, endpoint.path]),
    ["GET", "/api"],
    ["GET", "/api/v3/nothing"],
    ["PATCH", "/api/v3/documents"],
    ["OPTIONS", "/api/v3/documents"],
    ["DELETE", "/api/v3/documents"],
    ["GET", "/api/v3/documents?key=pl_x"],
  ];
  for (const [method, path] of cases)
    test(`${method} ${path} is refused with the contract's 422`, async () => {
      // Inference alone takes a key from there.
      const elsewhere = path.includes("/inference/") ? [] : [`X-Api-Key: ${it.key}`];
      const { status, body } = await rawGet(it.url, path, [host, ...elsewhere, `Cookie: key=${it.key}`], method);
      assert.equal(status, 422);
      assert.deepEqual(JSON.parse(body).detail, [
        { loc: ["header", "Authorization"], msg: "field required", type: "missing" },
      ]);
    });
});

describe("keys", () => {
  const wrong = [
    "",
    "Bearer",
    "Bearer ",
    "Basic YTpi",
    "Bearer  two",
    "Bearer\tx",
    "Bearer pl_unknown",
    `Bearer ${"x".repeat(600)}`,
    "pl_x",
  ];
  for (const value of wrong)
    test(`"${value.slice(0, 20)}" is 401`, async () => {
      const { status, head, body } = await rawGet(it.url, documents, [host, `Authorization: ${value}`]);
      assert.equal(status, 401);
      assert.match(head, /www-authenticate: Bearer/i);
      assert.equal(JSON.parse(body).error.code, "unauthorized");
    });

  test("one character changed or cut is 401", async () => {
    for (const value of [
      it.key.slice(0, -1),
      `${it.key.slice(0, -1)}${it.key.endsWith("A") ? "B" : "A"}`,
      `${it.key}x`,
    ])
      assert.equal((await it.call("documents.list", { key: value })).status, 401);
  });

  test("bearer counts in any case", async () => {
    for (const word of ["bearer", "BEARER", "BeArEr"])
      assert.equal((await rawGet(it.url, documents, [host, `Authorization: ${word} ${it.key}`])).status, 200);
  });

  test("two of them are 400, whichever comes first", async () => {
    const bad = "Authorization: Bearer pl_x";
    assert.equal((await rawGet(it.url, documents, [host, key, bad])).status, 400);
    assert.equal((await rawGet(it.url, documents, [host, bad, key])).status, 400);
  });

  test("a revoked one is 401 at once, and others go on", async () => {
    const made = (await it.house.admin("key.create", { user: "carol" })) as { key: string; id: string };
    assert.equal((await it.call("documents.list", { key: made.key })).status, 200);
    await it.house.admin("key.revoke", { id: made.id });
    assert.equal((await it.call("documents.list", { key: made.key })).status, 401);
    assert.equal((await it.call("documents.list")).status, 200);
  });

  test("never reach the log", () => assert.ok(!JSON.stringify(it.log).includes(it.key)));
});

describe("the host", () => {
  const cases: [string, number][] = [
    ["127.0.0.1", 200],
    ["localhost:1", 200],
    ["LOCALHOST", 200],
    ["[::1]:80", 200],
    ["127.9.9.9", 200],
    ["plumbline.example:8642", 200],
    ["evil.test", 421],
    ["localhost.evil.test", 421],
    ["127.0.0.1.evil.test", 421],
    ["a/x?y", 400],
    ["evil.com:fake@localhost", 400],
    ["", 400],
  ];
  for (const [name, status] of cases)
    test(`"${name}" is ${status}, with and without a key`, async () => {
      assert.equal((await rawGet(it.url, documents, [`Host: ${name}`, key])).status, status);
      assert.equal((await rawGet(it.url, "/healthz", [`Host: ${name}`])).status, status);
    });

  test("two or none are 400", async () => {
    assert.equal((await rawGet(it.url, documents, [host, "Host: localhost", key])).status, 400);
    assert.equal((await rawGet(it.url, documents, [key])).status, 400);
  });
});

test("a public address is what clients are given, and its host name is answered to", async () => {
  const behind = await scriptedHouse({ PLUMBLINE_PUBLIC_URL: "https://Align.example/llm/" });
  try {
    assert.equal((await rawGet(behind.url, "/healthz", ["Host: align.example"])).status, 200);
    assert.equal((await rawGet(behind.url, "/healthz", ["Host: plumbline.example"])).status, 421);
    const { body } = await behind.call("agents.create", { body: { name: "helper", base_model: behind.baseId } });
    assert.equal(body.data.endpoint, `https://Align.example/llm/api/v3/agents/${body.data.id}/chat/completions`);
  } finally {
    await behind.close();
  }
});

describe("the coding of a body", () => {
  const body = `{"grace_seconds":0}`;
  const post = (coding: string) =>
    raw(
      it.url,
      [
        "POST /api/v3/keys/key_none/rotate HTTP/1.1",
        ...[host, key, "Content-Type: application/json", `Transfer-Encoding: ${coding}`, "Connection: close", ""],
        ...[body.length.toString(16), body, "0", "", ""],
      ].join("\r\n"),
    );

  test("is chunked alone", async () => {
    for (const coding of ["chunked", "Chunked"]) assert.equal((await post(coding)).status, 404, coding);
    for (const coding of ["gzip, chunked", "identity, chunked", "chunked, chunked", "gzip", "x"]) {
      const { status, body } = await post(coding);
      assert.equal(status, 400, coding);
      assert.ok(JSON.parse(body).detail);
    }
  });
});

describe("targets and methods", () => {
  const cases: [string, string, number][] = [
    ["GET", "//evil.com/api/v3/documents", 404],
    ["GET", "http://evil.com/api/v3/documents", 400],
    ["GET", "/api/v3/%2e%2e/documents", 404],
    ["GET", "/api/v3//documents", 404],
    ["GET", "/api/v3/documents;x", 404],
    ["GET", "/api/v3/documents/", 404],
    ["GET", "/api/v3/documents/a%00b", 404],
    ["GET", "/api/v3/documents/..%2f..%2fetc", 404],
    ["GET", "/api/v3/documents/%zz", 400],
    ["GET", `/api/v3/documents/${"x".repeat(201)}`, 422],
    ["GET", "/API/v3/documents", 404],
    ["GET", "/nothing", 404],
    ["PUT", documents, 405],
    ["TRACE", documents, 405],
    ["OPTIONS", documents, 405],
    ["POST", "/healthz", 405],
    ["HEAD", documents, 405],
    ["HEAD", "/docs", 200],
    ["HEAD", "/openapi.json", 200],
    ["POST", "/docs", 405],
    ["BREW", documents, 400],
  ];
  for (const [method, path, status] of cases)
    test(`${method} ${path.slice(0, 50)} is ${status}`, async () => {
      const answer = await rawGet(it.url, path, [host, key], method);
      assert.equal(answer.status, status);
      if (method === "HEAD") assert.equal(answer.body, "");
      else assert.ok(JSON.parse(answer.body).detail);
      assert.doesNotMatch(answer.head, /access-control/i);
    });

  test("405 says what the path has", async () => {
    for (const [path, allowed] of [
      [documents, "GET"],
      ["/docs", "GET, HEAD"],
    ] as const)
      assert.match((await rawGet(it.url, path, [host, key], "PUT")).head, new RegExp(`^allow: ${allowed}\\r?$`, "im"));
  });

  test("CONNECT and upgrades leave no socket", async () => {
    const upgrade = [host, key, "Upgrade: websocket", "Connection: Upgrade"];
    for (const [method, path, lines, status] of [
      ["CONNECT", "evil.com:80", [host], 405],
      ["GET", documents, upgrade, 200],
    ] as const) {
      const started = performance.now();
      assert.equal((await rawGet(it.url, path, [...lines], method)).status, status);
      // The client itself gives up after five seconds.
      assert.ok(performance.now() - started < 4_000, `${method} left its socket open`);
    }
  });

  test("X-HTTP-Method-Override and forwarded headers change nothing", async () => {
    const lines = [
      host,
      key,
      "X-HTTP-Method-Override: DELETE",
      `X-Forwarded-For: ${", ".repeat(3000)}`,
      "X-Forwarded-Host: evil",
    ];
    assert.equal((await rawGet(it.url, documents, lines)).status, 200);
  });
});

describe("sizes and framing", () => {
  test("more than a hundred headers are 431, even where the key comes last", async () => {
    for (const many of [101, 3000]) {
      const filler = Array.from({ length: many }, (_, i) => `X${i}: 1`);
      assert.equal((await rawGet(it.url, documents, [host, ...filler, key])).status, 431);
    }
  });

  test("17 KB of one header are 431, a 100 KB key is 431", async () => {
    assert.equal((await rawGet(it.url, documents, [host, key, `X: ${"y".repeat(17_000)}`])).status, 431);
    assert.equal((await rawGet(it.url, documents, [host, `Authorization: Bearer ${"y".repeat(100_000)}`])).status, 431);
  });

  const post = `POST /api/v3/documents/upload HTTP/1.1\r\n`;
  const smuggled: [string, string][] = [
    ["both lengths", `Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ["two lengths", `Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc`],
    ["a bad chunk", `Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`],
    ["a folded header", `X: a\r\n b\r\nContent-Length: 0\r\n\r\n`],
    ["a bare line feed", `X: a\nY: b\r\n\r\n`],
  ];
  for (const [what, rest] of smuggled)
    test(`${what} is 400 and the connection is closed`, async () => {
      const { status, body } = await raw(it.url, `${post}${host}\r\n${key}\r\n${rest}`);
      assert.equal(status, 400);
      assert.equal(JSON.parse(body).error.code, "bad_request");
    });

  test("a flood of chunk extensions is 413", async () => {
    const flood = `Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1;${"a=b;".repeat(50_000)}\r\n`;
    assert.equal((await raw(it.url, `${post}${host}\r\n${key}\r\n${flood}`)).status, 413);
  });
});

describe("queries", () => {
  const cases: [string, number][] = [
    ["limit=1", 200],
    ["limit=100", 200],
    ["limit=010", 200],
    ["limit=10&offset=9007199254740991", 200],
    ["offset=0&", 200],
    ["limit=0", 422],
    ["limit=101", 422],
    ["limit=1e2", 422],
    ["limit=0x10", 422],
    ["limit=10abc", 422],
    ["limit=%201", 422],
    ["limit=-1", 422],
    ["limit=1.0", 422],
    ["limit=", 422],
    ["limit", 422],
    ["offset=-1", 422],
    ["offset=9223372036854775808", 422],
    ["order=asc", 422],
    ["__proto__=1", 422],
    ["constructor=1", 422],
    ["limit=1&limit=1", 400],
    ["limit=%zz", 400],
  ];
  for (const [query, status] of cases)
    test(`?${query} is ${status}`, async () => {
      const answer = await it.call("documents.list", { query });
      assert.equal(answer.status, status);
      if (status === 400) assert.equal(answer.body.detail, "Bad request");
      if (status === 422) assert.equal(answer.body.detail[0].loc[0], "query");
    });
});

test("every answer has its own request id, and an error the same one inside", async () => {
  const [a, b] = [
    await it.call("documents.get", { params: { document_id: "document_x" } }),
    await it.call("documents.list"),
  ];
  assert.match(a.headers.get("x-request-id") ?? "", /^req_/);
  assert.notEqual(a.headers.get("x-request-id"), b.headers.get("x-request-id"));
  assert.equal(a.body.error.request_id, a.headers.get("x-request-id"));
  assert.equal(a.headers.get("x-content-type-options"), "nosniff");
});
