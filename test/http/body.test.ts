// What a JSON body may be.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { Failure } from "../../src/base/errors.ts";
import { endpoint } from "../../src/contract/endpoint.ts";
import { readJson } from "../../src/http/json.ts";
import { type Floor, testFloor, testKey } from "../helpers/floor.ts";
import { processorMs } from "../helpers/processor.ts";
import { raw } from "../helpers/raw.ts";

const any = { type: "object" } as const;
const endpoints = {
  any: endpoint({ method: "POST", path: "/api/any", tag: "t", summary: "", body: any, reply: any, errors: [] }),
  large: endpoint({
    method: "POST",
    path: "/api/large",
    tag: "t",
    summary: "",
    body: any,
    reply: any,
    errors: [],
    largeBody: true,
  }),
  typed: endpoint({
    method: "POST",
    path: "/api/typed",
    tag: "t",
    summary: "",
    reply: any,
    errors: [],
    headers: {
      type: "object",
      properties: { "x-session-id": { type: "string", maxLength: 4, pattern: "^[\\x21-\\x7e]*$" } },
    },
    body: {
      type: "object",
      additionalProperties: false,
      required: ["name"],
      properties: {
        name: { type: "string", maxLength: 5 },
        count: { type: "integer", minimum: 0, maximum: 10, default: 3 },
        list: { type: "array", items: { type: "object", required: ["a"], properties: { a: { type: "number" } } } },
      },
    },
  }),
  bug: endpoint({ method: "GET", path: "/api/bug", tag: "t", summary: "", reply: any, errors: [] }),
};

let floor: Floor;
before(async () => {
  const echo = async ({ body }: { body: unknown }) => ({ got: body });
  floor = await testFloor(
    endpoints,
    {
      any: echo,
      large: async () => ({}),
      typed: async ({ body, headers }: { body: unknown; headers: unknown }) => ({ got: body, headers }),
      bug: async () => {
        throw new Error("at /secret/place");
      },
    } as never,
    { bodyBytes: 64 << 10 },
  );
});
after(() => floor.close());

const authorization = `Bearer ${testKey}`;
async function post(path: string, body: string | Uint8Array, headers: Record<string, string> = {}) {
  const response = await fetch(floor.url + path, {
    method: "POST",
    headers: { authorization, "content-type": "application/json", ...headers },
    body: body as string,
  });
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they are.
  return { status: response.status, body: (await response.json()) as any };
}

describe("refused as 422, in the contract's form", () => {
  const bytes = (...values: number[]) => Uint8Array.from([...Buffer.from('{"a":"'), ...values, ...Buffer.from('"}')]);
  const cases: [string, string | Uint8Array][] = [
    ["null", "null"],
    ["an array", "[]"],
    ["a string", '"x"'],
    ["NaN", "NaN"],
    ["NaN inside", '{"a":NaN}'],
    ["a trailing comma", '{"a":1,}'],
    ["a trailing comma in a list", '{"a":[1,]}'],
    ["a comma too few", '{"a":1 "b":2}'],
    ["a key without quotes", "{a:1}"],
    ["single quotes", "{'a':1}"],
    ["a comment", '{"a":1/**/}'],
    ["two documents", "{}{}"],
    ["cut off", '{"a":'],
    ["an open string", '{"a":"'],
    ["only space", "  "],
    ["a leading zero", '{"a":01}'],
    ["a plus sign", '{"a":+1}'],
    ["a lone minus", '{"a":-}'],
    ["a dot without digits", '{"a":1.}'],
    ["hexadecimal", '{"a":0x10}'],
    ["a control character in a string", '{"a":"\n"}'],
    ["an unknown escape", '{"a":"\\x41"}'],
    ["1e400", '{"a":1e400}'],
    ["-1e400", '{"a":-1e400}'],
    ["2^53 + 1", '{"a":9007199254740993}'],
    ["-2^63", '{"a":-9223372036854775808}'],
    ["a lone high surrogate", '{"a":"\\ud800"}'],
    ["a lone low surrogate", '{"a":"\\udc00x"}'],
    ["a lone surrogate in a key", '{"\\ud800":1}'],
    ["NUL", '{"a":"\\u0000"}'],
    ["a key twice", '{"model":"a","model":"b"}'],
    ["a key twice, once escaped", '{"a":1,"\\u0061":2}'],
    ["__proto__", '{"__proto__":{"admin":true}}'],
    ["__proto__, escaped", '{"\\u005f_proto__":{"admin":true}}'],
    ["invalid UTF-8", bytes(0xff)],
    ["overlong UTF-8", bytes(0xc0, 0xaf)],
    ["an encoded surrogate", bytes(0xed, 0xa0, 0x80)],
    ["a cut sequence", bytes(0xe2, 0x82)],
    ["a byte order mark", Uint8Array.from([0xef, 0xbb, 0xbf, ...Buffer.from("{}")])],
    ["UTF-16", Buffer.from("{}", "utf16le")],
    ["65 levels", `${'{"a":'.repeat(65)}1${"}".repeat(65)}`],
    ["60,000 levels", "[".repeat(60_000)],
  ];
  for (const [what, body] of cases)
    test(what, async () => {
      const answer = await post("/api/any", body);
      assert.equal(answer.status, 422, JSON.stringify(answer.body));
      assert.equal(answer.body.detail[0].loc[0], "body");
      assert.equal(answer.body.error.code, "validation");
      assert.equal(({} as Record<string, unknown>).admin, undefined);
    });

  test("depth and breadth cost no time worth speaking of", () => {
    for (const text of ["[".repeat(10 << 20), `{${Array.from({ length: 500_000 }, (_, i) => `"k${i}":1`).join()}}`]) {
      const ms = processorMs(() => assert.throws(() => readJson(Buffer.from(text)), Failure));
      assert.ok(ms < 2_000, `${ms} ms`);
    }
  });

  test("more values than the longest list of token ids has are refused where they become too many", () => {
    for (const value of ["{}", "1"]) {
      const text = `{"prompt":[${Array(3_000_000).fill(value).join()}]}`;
      assert.throws(() => readJson(Buffer.from(text)), /has more than 2000000 values; send them in several requests/);
    }
    const tokens = `[${Array(1_700_000).fill("12345").join()}]`;
    assert.equal((readJson(Buffer.from(tokens)) as number[]).length, 1_700_000);
  });

  test("an empty body says that it is missing", async () => {
    assert.deepEqual((await post("/api/any", "")).body.detail, [
      { loc: ["body"], msg: "field required", type: "missing" },
    ]);
    const bare = await fetch(`${floor.url}/api/any`, { method: "POST", headers: { authorization } });
    assert.equal(bare.status, 422);
  });
});

describe("taken as it is", () => {
  const cases = [
    "{}",
    ' {\t"a" :\r\n [ ] } ',
    '{"a":[true,false,null,0,-0.5,1e3,1E-2,9007199254740991]}',
    '{"a":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00"}',
    '{"":1}',
    '{"constructor":{"prototype":{"toString":1}},"a":[{"prototype":[]}]}',
    '{"a\\\\":"\\\\\\\\","b":"\\\\\\""}',
    `${'{"a":'.repeat(63)}1${"}".repeat(63)}`,
  ];
  for (const text of cases)
    test(text.slice(0, 60), async () => {
      const answer = await post("/api/any", text);
      assert.equal(answer.status, 200, JSON.stringify(answer.body));
      assert.deepEqual(answer.body.got, JSON.parse(text));
    });

  test("whatever JSON.stringify writes is read back the same", () => {
    const forbidden = /__proto__/;
    fc.assert(
      fc.property(fc.json({ stringUnit: "binary-ascii" }), (text) => {
        if (forbidden.test(text) || text.includes("\\u0000")) return;
        const expected = JSON.parse(text) as unknown;
        let got: unknown;
        try {
          got = readJson(Buffer.from(text));
        } catch (error) {
          // Only numbers that a double cannot hold may be refused here.
          assert.ok(error instanceof Failure && /number/.test(error.message), `${text}: ${error}`);
          return;
        }
        assert.deepEqual(got, expected);
      }),
      { numRuns: 500 },
    );
  });

  test("whatever JSON.parse refuses is refused", () => {
    fc.assert(
      fc.property(fc.json(), fc.nat(), fc.constantFrom("", ",", "]", "}", '"', "0", "x", ":"), (text, at, put) => {
        const broken = text.slice(0, at % (text.length + 1)) + put + text.slice((at % (text.length + 1)) + 1);
        try {
          JSON.parse(broken);
        } catch {
          assert.throws(() => readJson(Buffer.from(broken)), Failure);
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("limits", () => {
  const head = `POST /api/any HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${authorization}\r\nContent-Type: application/json\r\n`;

  test("too large by length, and by chunks", async () => {
    const much = JSON.stringify({ a: "x".repeat(70_000) });
    assert.equal((await post("/api/any", much)).status, 413);
    const chunks = new ReadableStream({
      start(controller) {
        for (let i = 0; i < 80; i++) controller.enqueue(Buffer.from("[".repeat(1000)));
        controller.close();
      },
    });
    const request = {
      method: "POST",
      body: chunks,
      duplex: "half",
      headers: { authorization, "content-type": "application/json" },
    };
    assert.equal((await fetch(`${floor.url}/api/any`, request as RequestInit)).status, 413);
  });

  test("inference may send ten times that", async () => {
    const much = JSON.stringify({ a: "x".repeat(600_000) });
    assert.equal((await post("/api/large", much)).status, 200);
    assert.equal((await post("/api/large", JSON.stringify({ a: "x".repeat(660_000) }))).status, 413);
  });

  test("a length shorter than what comes is 400", async () => {
    assert.equal((await raw(floor.url, `${head}Content-Length: 2\r\n\r\n{}GARBAGE\r\n\r\n`)).status, 400);
  });

  test("compressed bodies are 415 by their head, so a bomb costs nothing", async () => {
    const bomb = gzipSync(Buffer.alloc(10 << 20, 0x20));
    assert.equal((await post("/api/any", bomb, { "content-encoding": "gzip" })).status, 415);
    const unsent = `Content-Encoding: gzip\r\nContent-Length: ${bomb.length}\r\n\r\n`;
    assert.equal((await raw(floor.url, head + unsent)).status, 415);
  });

  for (const type of [
    "text/plain",
    "application/x-www-form-urlencoded",
    "application/json; charset=utf-16",
    "application/jsonx",
    "",
  ])
    test(`content type "${type}" is 415`, async () => {
      assert.equal((await post("/api/any", "{}", { "content-type": type })).status, 415);
    });

  test("charset=utf-8 is fine", async () => {
    for (const type of ["application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"'])
      assert.equal((await post("/api/any", "{}", { "content-type": type })).status, 200);
  });
});

describe("the contract", () => {
  const cases: [string, unknown, (string | number)[]][] = [
    ["missing", {}, ["body", "name"]],
    ["unknown", { name: "a", other: 1 }, ["body", "other"]],
    ["wrong type", { name: 1 }, ["body", "name"]],
    ["a number as text", { name: "a", count: "1" }, ["body", "count"]],
    ["out of range", { name: "a", count: 11 }, ["body", "count"]],
    ["not whole", { name: "a", count: 1.5 }, ["body", "count"]],
    ["deep", { name: "a", list: [{ a: 1 }, {}] }, ["body", "list", 1, "a"]],
  ];
  for (const [what, body, loc] of cases)
    test(`${what} names ${loc.join(".")}`, async () => {
      const answer = await post("/api/typed", JSON.stringify(body));
      assert.equal(answer.status, 422);
      assert.deepEqual(answer.body.detail[0].loc, loc);
      assert.equal(answer.body.error.param, loc.slice(1).join("."));
    });

  test("defaults are filled in", async () => {
    assert.deepEqual((await post("/api/typed", '{"name":"a"}')).body.got, { name: "a", count: 3 });
  });

  test("headers are checked where the contract names them", async () => {
    const send = (value: string) => post("/api/typed", '{"name":"a"}', { "x-session-id": value });
    assert.deepEqual((await send("abcd")).body.headers, { "x-session-id": "abcd" });
    for (const value of ["abcde", "a b", "é"]) {
      const answer = await send(value);
      assert.equal(answer.status, 422);
      assert.deepEqual(answer.body.detail[0].loc, ["header", "x-session-id"]);
    }
  });

  test("every wrong item is not a thousand lines", async () => {
    const answer = await post("/api/typed", JSON.stringify({ name: "a", list: Array(5000).fill({}) }));
    assert.equal(answer.status, 422);
    assert.ok(answer.body.detail.length <= 50);
    assert.ok(answer.body.error.message.length < 1000);
  });
});

test("a bug tells the client its request id and nothing else, and the log everything", async () => {
  const response = await fetch(`${floor.url}/api/bug`, { headers: { authorization } });
  const text = await response.text();
  assert.equal(response.status, 500);
  assert.doesNotMatch(text, /secret|at |\.ts/);
  const id = response.headers.get("x-request-id");
  const line = floor.log.find((entry) => entry.requestId === id && entry.level === "error");
  assert.match(JSON.stringify(line), /secret/);
});
