// Cases 1–23: who asks, and the head of what is asked.
import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { type Endpoint, scopeOfTag, scopes } from "../../../src/contract/endpoint.ts";
import { contract } from "../../../src/contract/index.ts";
import { type Case, counted, expects, limits, type Target } from "./target.ts";

const documents = "/api/v3/documents";
const host = "Host: localhost";
const keyOf = (it: Target): string => `Authorization: Bearer ${it.key}`;
const closed = Object.values<Endpoint>(contract).filter(({ open }) => !open);

async function atOnce<T>(count: number, one: (n: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, n) => one(n)));
}

export const head: Case[] = [
  {
    id: 1,
    situation: "no Authorization: every route, unknown methods and paths too",
    expected: "422, loc header Authorization",
    async run(it) {
      const asked = [
        ...closed.map(({ method, path }) => [method, path.replace(/\{\w+\}/g, "x")] as const),
        ["PUT", documents] as const,
        ["GET", "/api/v3/nowhere"] as const,
      ];
      for (const [method, path] of asked) {
        const { status, body } = await it.ask(path, { method, key: null });
        assert.deepEqual([status, body.detail?.[0]?.loc], [422, ["header", "Authorization"]], `${method} ${path}`);
        assert.equal(body.detail[0].msg, "field required");
      }
      return counted(asked.map(() => 422));
    },
  },
  {
    id: 2,
    situation: "Bearer empty, alone, Basic, two spaces, a tab, a trailing word; bearer in any case",
    expected: "401 with WWW-Authenticate; 200",
    async run(it) {
      const forms = [
        "Bearer ",
        "Bearer",
        `Basic ${it.key}`,
        `Bearer  ${it.key}`,
        `Bearer\t${it.key}`,
        `Bearer ${it.key} x`,
      ];
      for (const form of forms) {
        const { status, head } = await it.rawHead(`GET ${documents}`, [host, `Authorization: ${form}`]);
        assert.ok(status === 401 && /www-authenticate: Bearer/i.test(head), `${form}: ${status}`);
      }
      const { status } = await it.rawHead(`GET ${documents}`, [host, `Authorization: bEARER ${it.key}`]);
      assert.equal(status, 200);
      return `401 × ${forms.length}, 200`;
    },
  },
  {
    id: 3,
    situation: "an unknown key; one character changed; the last one cut",
    expected: "401",
    run: (it) =>
      expects([
        ["unknown", () => it.ask(documents, { key: `pl_${"x".repeat(43)}` }), 401],
        ["changed", () => it.ask(documents, { key: it.key.replace(/.$/, (last) => (last === "A" ? "B" : "A")) }), 401],
        ["cut", () => it.ask(documents, { key: it.key.slice(0, -1) }), 401],
      ]),
  },
  {
    id: 4,
    situation: "a key of 600 characters, and of 100 KB",
    expected: "401 unhashed; 431",
    run: (it) =>
      expects([
        ["600", () => it.ask(documents, { key: "x".repeat(600) }), 401],
        ["100 KB", () => it.rawHead(`GET ${documents}`, [host, `Authorization: Bearer ${"y".repeat(100_000)}`]), 431],
      ]),
  },
  {
    id: 5,
    situation: "two Authorization headers, the sound one first, and last",
    expected: "400",
    run(it) {
      const [right, wrong] = [keyOf(it), "Authorization: Bearer x"];
      return expects([
        ["first", () => it.rawHead(`GET ${documents}`, [host, right, wrong]), 400],
        ["last", () => it.rawHead(`GET ${documents}`, [host, wrong, right]), 400],
      ]);
    },
  },
  {
    id: 6,
    situation: "Authorization as header no. 2,999",
    expected: "431",
    run(it) {
      const filler = Array.from({ length: 2998 }, (_, n) => `X${n}: 1`);
      return expects([["it", () => it.rawHead(`GET ${documents}`, [host, ...filler, keyOf(it)]), 431]]);
    },
  },
  {
    id: 7,
    situation: "the key in the query, in a cookie, in the body",
    expected: "422 as 1; not in the log",
    async run(it) {
      const came = await expects([
        ["query", () => it.ask(`${documents}?key=${it.key}`, { key: null }), 422],
        ["cookie", () => it.ask(documents, { key: null, headers: { cookie: `key=${it.key}` } }), 422],
        ["body", () => it.ask("/api/v3/agents", { key: null, json: { authorization: it.key } }), 422],
      ]);
      assert.ok(!it.serving.log().includes(it.key), "the log has the key");
      return `${came}; the log without it`;
    },
  },
  {
    id: 8,
    situation: "a key that is revoked during its stream",
    expected: "the stream goes on to its end, the next request is 401",
    async run(it) {
      const { id, key } = await it.makeKey({ user: "ada" });
      let last = "";
      let events = 0;
      for await (const event of it.stream({ max_tokens: 20 }, { key })) {
        if (++events === 1) await it.call("keys.revoke", { params: { key_id: id } });
        last = event;
      }
      assert.equal(last, "[DONE]");
      return `${events} events to [DONE], then ${await expects([["next", () => it.ask(documents, { key }), 401]])}`;
    },
  },
  {
    id: 9,
    situation: "a rotated key within its grace, and after it",
    expected: "200 with Deprecation; 401",
    async run(it) {
      const { id, key } = await it.makeKey({ user: "ada" });
      await it.call("keys.rotate", { params: { key_id: id }, body: { grace_seconds: 2 } });
      const within = await it.ask(documents, { key });
      assert.match(within.headers.get("deprecation") ?? "", /^@\d+$/);
      await delay(2500);
      const after = await it.ask(documents, { key });
      assert.deepEqual([within.status, after.status], [200, 401]);
      return "200 with Deprecation, 401";
    },
  },
  {
    id: 10,
    situation: "a key of one scope on every route of the others",
    expected: "403",
    async run(it) {
      let asked = 0;
      for (const scope of scopes) {
        const { key } = await it.makeKey({ user: "ada", scopes: [scope] });
        for (const { method, path } of closed.filter(({ tag, anyScope }) => !anyScope && scopeOfTag[tag] !== scope)) {
          const { status } = await it.ask(path.replace(/\{\w+\}/g, "x"), { method, key });
          assert.equal(status, 403, `${scope}: ${method} ${path}`);
          asked++;
        }
      }
      return `403 × ${asked}`;
    },
  },
  {
    id: 11,
    situation: "40 bad keys at once from one address",
    expected: "429 with Retry-After; a right key works meanwhile",
    async run(it) {
      const answers = await atOnce(40, (n) => it.ask(documents, { key: `pl_${n}` }));
      const slowed = answers.filter(({ status }) => status === 429);
      assert.ok(slowed.length > 0 && slowed.every(({ headers }) => headers.get("retry-after")));
      assert.equal((await it.ask(documents)).status, 200);
      return `${counted(answers.map(({ status }) => status))}; the right one 200`;
    },
  },
  {
    id: 12,
    situation: "Host: evil.test, a/x?y, evil.com:fake@x, two, none",
    expected: "421 or 400",
    run(it) {
      const of =
        (...lines: string[]) =>
        () =>
          it.rawHead(`GET ${documents}`, [...lines, keyOf(it)]);
      return expects([
        ["evil", of("Host: evil.test"), 421],
        ["slash", of("Host: a/x?y"), 400],
        ["at", of("Host: evil.com:fake@x"), 400],
        ["two", of(host, "Host: evil.test"), 400],
        ["none", of(), 400],
      ]);
    },
  },
  {
    id: 13,
    situation: "Origin: https://evil.test, and its preflight",
    expected: "no Access-Control header in any answer",
    async run(it) {
      const origin = "Origin: https://evil.test";
      const preflight = await it.rawHead(`OPTIONS ${documents}`, [host, origin, "Access-Control-Request-Method: GET"]);
      const simple = await it.rawHead(`GET ${documents}`, [host, keyOf(it), origin]);
      for (const { head } of [preflight, simple]) assert.doesNotMatch(head, /access-control/i);
      assert.ok(preflight.status >= 400 && simple.status === 200);
      return `${preflight.status} and 200 without`;
    },
  },
  {
    id: 14,
    situation: "X-Forwarded-* of 8 KB commas and spaces",
    expected: "ignored, within a second",
    async run(it) {
      const lines = ["For", "Host", "Proto"].map((name) => `X-Forwarded-${name}: ${", ".repeat(1300)}`);
      const from = performance.now();
      const { status } = await it.rawHead(`GET ${documents}`, [host, keyOf(it), ...lines]);
      const ms = Math.round(performance.now() - from);
      assert.equal(status, 200);
      assert.ok(ms < 1000, `${ms} ms`);
      return `200 in ${ms} ms`;
    },
  },
  {
    id: 15,
    situation: "X-HTTP-Method-Override: DELETE",
    expected: "ignored",
    async run(it) {
      const id = await it.document();
      const path = `${documents}/${id}`;
      const override = { headers: { "x-http-method-override": "DELETE" } };
      return expects([
        ["it", () => it.ask(path, override), 200],
        ["still there", () => it.ask(path), 200],
      ]);
    },
  },
  {
    id: 16,
    situation: "X-Session-ID: another user's; 257 characters; control bytes; two",
    expected: "a session of one's own; 422 or 400",
    async run(it) {
      const session = { headers: { "x-session-id": "shared" } };
      const mine = await it.chat({}, session);
      const theirs = await it.chat({}, { ...session, key: it.otherKey });
      const tokens = ({ body }: typeof mine): number => body.usage.prompt_tokens;
      assert.equal(tokens(mine), tokens(theirs), "the other's conversation is known");
      const body = JSON.stringify({ model: it.languageId, messages: [{ role: "user", content: "a" }], max_tokens: 1 });
      const post = (...lines: string[]) =>
        it.raw(
          [
            "POST /api/v3/inference/chat/completions HTTP/1.1",
            ...[
              host,
              keyOf(it),
              "Content-Type: application/json",
              `Content-Length: ${body.length}`,
              "Connection: close",
            ],
            ...[...lines, "", body],
          ].join("\r\n"),
          { ms: 30_000 },
        );
      return `own, ${await expects([
        ["long", () => post(`X-Session-ID: ${"s".repeat(257)}`), 422],
        ["control", () => post("X-Session-ID: a\u0001b"), 400, 422],
        ["two", () => post("X-Session-ID: a", "X-Session-ID: b"), 400],
      ])}`;
    },
  },
  {
    id: 17,
    situation: "X-Provider: http://169.254.169.254/",
    expected: "422",
    run: (it) => expects([["it", () => it.chat({}, { headers: { "x-provider": "http://169.254.169.254/" } }), 422]]),
  },
  {
    id: 18,
    situation: "targets: absolute, //evil.com, %2e%2e, //, ;x, %00",
    expected: "404 or 400",
    run(it) {
      const of = (target: string) => () => it.rawHead(`GET ${target}`, [host, keyOf(it)]);
      return expects([
        ["absolute", of("http://evil.com/api/v3/documents"), 400],
        ["evil", of("//evil.com/api/v3/documents"), 404],
        ["dots", of("/api/v3/%2e%2e/documents"), 404],
        ["slashes", of("/api/v3//documents"), 404],
        ["semicolon", of("/api/v3/documents;x"), 404],
        ["NUL", of("/api/v3/documents/a%00b"), 404],
      ]);
    },
  },
  {
    id: 19,
    situation: "TRACE, CONNECT, an unknown method; upgrades to websocket and h2c",
    expected: "405 or 400, or the plain answer; no socket left",
    async run(it) {
      const upgrade = (to: string) => () =>
        it.rawHead(`GET ${documents}`, [host, keyOf(it), `Upgrade: ${to}`, "Connection: Upgrade"]);
      return expects([
        ["TRACE", () => it.rawHead(`TRACE ${documents}`, [host, keyOf(it)]), 405],
        ["CONNECT", () => it.rawHead("CONNECT evil.com:80", [host]), 405],
        ["BREW", () => it.rawHead(`BREW ${documents}`, [host, keyOf(it)]), 400],
        ["websocket", upgrade("websocket"), 200, 400],
        ["h2c", upgrade("h2c"), 200, 400],
      ]);
    },
  },
  {
    id: 20,
    situation: "300 heads and 300 bodies that stand still",
    expected: "408, others served",
    async run(it) {
      const ms = 1000 * (limits.headSeconds + limits.bodySeconds) + 30_000;
      const body = `POST /api/v3/agents HTTP/1.1\r\n${host}\r\n${keyOf(it)}\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{`;
      const slow = atOnce(300, async (n) => [
        await it.raw(`GET ${documents} HTTP/1.1\r\n${host}\r\nX${n}: `, { ms }),
        await it.raw(body, { ms }),
      ]);
      const others: number[] = [];
      let isOver = false;
      const served = (async () => {
        for (; !isOver; await delay(200)) others.push((await it.ask(documents)).status);
      })();
      const statuses = (await slow).flat().map(({ status }) => status);
      isOver = true;
      await served;
      assert.ok(
        statuses.every((status) => status === 408),
        counted(statuses),
      );
      assert.ok(
        others.every((status) => status === 200),
        counted(others),
      );
      return `${counted(statuses)}; meanwhile ${counted(others)}`;
    },
  },
  {
    id: 21,
    situation: "two lengths, length and chunks, a bad chunk, 200 KB of chunk extensions, a bare line feed",
    expected: "400 or 413, closed",
    run(it) {
      const of = (rest: string) => () =>
        it.raw(`POST /api/v3/agents HTTP/1.1\r\n${host}\r\n${keyOf(it)}\r\nContent-Type: application/json\r\n${rest}`);
      return expects([
        ["both", of("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400],
        ["two", of("Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc"), 400],
        ["bad chunk", of("Transfer-Encoding: chunked\r\n\r\nzz\r\n"), 400],
        ["extensions", of(`Transfer-Encoding: chunked\r\n\r\n1;${"a=b;".repeat(50_000)}\r\n`), 413],
        ["line feed", of("X: a\nY: b\r\n\r\n"), 400],
      ]);
    },
  },
  {
    id: 22,
    situation: "Expect: 100-continue, then silence",
    expected: "408",
    async run(it) {
      const lines = [host, keyOf(it), "Content-Type: application/json", "Content-Length: 9", "Expect: 100-continue"];
      const { head, body } = await it.raw(["POST /api/v3/agents HTTP/1.1", ...lines, "", ""].join("\r\n"), {
        ms: 60_000,
      });
      assert.match(head + body, /HTTP\/1\.1 408/);
      return "408";
    },
  },
  {
    id: 23,
    situation: "a header of 17 KB",
    expected: "431",
    run: (it) =>
      expects([["it", () => it.rawHead(`GET ${documents}`, [host, keyOf(it), `X: ${"y".repeat(17_000)}`]), 431]]),
  },
];
