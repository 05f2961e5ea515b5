// Keys over the API: what each may do, how much, how long, and what is written down of it.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { readConfig } from "../../src/base/config.ts";
import { createLog } from "../../src/base/log.ts";
import { systemClock } from "../../src/base/time.ts";
import { type Endpoint, scopeOfTag, scopes } from "../../src/contract/endpoint.ts";
import { contract } from "../../src/contract/index.ts";
import { createHouse } from "../../src/main.ts";
import { openStore, type Store } from "../../src/store/open.ts";
import { type TestHouse, type TestReply, testHouse } from "../helpers/house.ts";

let it: TestHouse;
let store: Store;
let adminKey: string;
before(async () => {
  it = await testHouse();
  store = openStore(join(it.data, "plumbline.db"));
  adminKey = (await consoleKey({ user: "root", scopes: [...scopes] })).key;
});
after(async () => {
  store.close();
  await it.close();
});

interface Made {
  id: string;
  key: string;
}
const consoleKey = async (settings: object): Promise<Made> => (await it.house.admin("key.create", settings)) as Made;
const make = async (body: object, key = it.key): Promise<TestReply> => it.call("keys.create", { body, key });
const acts = async (): Promise<{ act: string; subject: string; actor: string; key_id: string | null }[]> =>
  (await it.call("audit.list", { query: "limit=100", key: adminKey })).body.acts;

describe("a new key", () => {
  test("is shown once, with what it may, and opens", async () => {
    const { status, body } = await make({ name: "laptop", scopes: ["documents"] });
    assert.equal(status, 200);
    assert.match(body.key, /^pl_[\w-]{43}$/);
    assert.deepEqual(body.scopes, ["documents"]);
    assert.equal(body.user, "ada");
    assert.equal((await it.call("documents.list", { key: body.key })).status, 200);
    const listed = (await it.call("keys.list")).body.keys;
    assert.ok(listed.some((one: { id: string; name: string }) => one.id === body.id && one.name === "laptop"));
    assert.ok(!JSON.stringify(listed).includes(body.key));
    assert.ok(!JSON.stringify(store.prepare<[], object>("SELECT * FROM api_key").all()).includes(body.key));
  });

  test("may no more than the one that asks", async () => {
    assert.equal((await make({ scopes: ["admin"] })).status, 403);
    assert.equal((await make({ user: "bob" })).status, 403);
    const narrow = (await make({ scopes: ["keys", "documents"] })).body.key;
    assert.equal((await make({ scopes: ["models"] }, narrow)).status, 403);
    assert.deepEqual((await make({}, narrow)).body.scopes, ["keys", "documents"]);
    for (const limited of [
      { requests_per_minute: 100 },
      { tokens_per_day: 5 },
      { expires_at: "2999-01-01T00:00:00Z" },
    ]) {
      const { id, key } = (await make({ ...limited, scopes: ["keys"] })).body;
      assert.equal((await make({ scopes: ["keys"] }, key)).status, 403);
      const other = (await make({ scopes: ["keys"] })).body.id;
      assert.equal((await it.call("keys.rotate", { params: { key_id: other }, body: {}, key })).status, 403);
      assert.equal((await it.call("keys.rotate", { params: { key_id: id }, body: {}, key })).status, 200);
    }
    assert.equal((await make({ user: "bob", scopes: ["documents"] }, adminKey)).body.user, "bob");
  });

  test("is refused with the field that is wrong", async () => {
    const wrong: [object, string][] = [
      [{ scopes: [] }, "scopes"],
      [{ scopes: ["all"] }, "scopes"],
      [{ scopes: ["documents", "documents"] }, "scopes"],
      [{ expires_at: "tomorrow" }, "expires_at"],
      [{ expires_at: "2026-02-31T99:00:00Z" }, "expires_at"],
      [{ expires_at: "2999-02-31T00:00:00Z" }, "expires_at"],
      [{ expires_at: "2001-01-01T00:00:00Z" }, "expires_at"],
      [{ requests_per_minute: 0 }, "requests_per_minute"],
      [{ tokens_per_minute: 1.5 }, "tokens_per_minute"],
      [{ tokens_per_day: "5" }, "tokens_per_day"],
      [{ name: 5 }, "name"],
      [{ user: "a b" }, "user"],
      [{ owner: "x" }, "owner"],
    ];
    for (const [body, field] of wrong) {
      const { status, body: answer } = await make(body, adminKey);
      assert.equal(status, 422, JSON.stringify(body));
      assert.equal(answer.detail[0].loc[1], field);
    }
  });

  test("ends when it says", async () => {
    const soon = new Date(Date.now() + 1200).toISOString();
    const { key } = (await make({ expires_at: soon })).body;
    assert.equal((await it.call("documents.list", { key })).status, 200);
    await new Promise((resolve) => setTimeout(resolve, 1300));
    assert.equal((await it.call("documents.list", { key })).status, 401);
  });
});

describe("scopes", () => {
  test("every endpoint that asks for a key has one", () => {
    for (const [name, endpoint] of Object.entries<Endpoint>(contract))
      if (!endpoint.open && !endpoint.anyScope) assert.ok(scopeOfTag[endpoint.tag], name);
  });

  test("a key of one scope is refused everywhere else, before anything is looked up", async () => {
    for (const scope of scopes) {
      const { key } = await consoleKey({ user: "ada", scopes: [scope] });
      for (const endpoint of Object.values<Endpoint>(contract).filter(({ open }) => !open)) {
        if (endpoint.anyScope || scopeOfTag[endpoint.tag] === scope) continue;
        const response = await fetch(it.url + endpoint.path.replace(/\{\w+\}/g, "x"), {
          method: endpoint.method,
          headers: { authorization: `Bearer ${key}` },
        });
        assert.equal(response.status, 403, `${scope}: ${endpoint.method} ${endpoint.path}`);
        const body = (await response.json()) as { error: { type: string; code: string } };
        assert.deepEqual([body.error.type, body.error.code], ["permission_error", "forbidden"]);
      }
    }
  });
});

describe("rotation", () => {
  test("both open for the grace, and the old one says that it is old", async () => {
    const made = (await make({ name: "r", tokens_per_day: 77 })).body;
    const params = { key_id: made.id };
    const rotated = await it.call("keys.rotate", { params, body: { grace_seconds: 1 } });
    assert.equal(rotated.body.id, made.id);
    assert.equal(rotated.body.tokens_per_day, 77);
    assert.notEqual(rotated.body.key, made.key);
    const old = await it.call("documents.list", { key: made.key });
    assert.equal(old.status, 200);
    assert.match(old.headers.get("deprecation") ?? "", /^@\d+$/);
    assert.ok(Date.parse(old.headers.get("sunset") ?? "") > 0);
    const fresh = await it.call("documents.list", { key: rotated.body.key });
    assert.equal(fresh.headers.get("deprecation"), null);
    await new Promise((resolve) => setTimeout(resolve, 1100));
    assert.equal((await it.call("documents.list", { key: made.key })).status, 401);
    assert.equal((await it.call("documents.list", { key: rotated.body.key })).status, 200);
  });

  test("without grace the old one is shut at once; twice leaves one old one; revoked is a conflict", async () => {
    const made = (await make({})).body;
    const params = { key_id: made.id };
    const second = (await it.call("keys.rotate", { params, body: {} })).body.key;
    const third = (await it.call("keys.rotate", { params, body: { grace_seconds: 0 } })).body.key;
    const statuses = [made.key, second, third].map(async (key) => (await it.call("documents.list", { key })).status);
    assert.deepEqual(await Promise.all(statuses), [401, 401, 200]);
    await it.call("keys.revoke", { params });
    assert.equal((await it.call("documents.list", { key: third })).status, 401);
    assert.equal((await it.call("keys.rotate", { params, body: {} })).status, 409);
    assert.equal((await it.call("keys.revoke", { params })).status, 404);
  });
});

describe("another user's", () => {
  test("keys are not found, usage is refused, and admins see both", async () => {
    const { id } = (await make({})).body;
    const params = { key_id: id };
    assert.equal((await it.call("keys.revoke", { params, key: it.otherKey })).status, 404);
    assert.equal((await it.call("keys.rotate", { params, body: {}, key: it.otherKey })).status, 404);
    for (const name of ["keys.list", "usage.list"] as const) {
      assert.equal((await it.call(name, { query: "user=ada", key: it.otherKey })).status, 403);
      assert.equal((await it.call(name, { query: "user=nobody", key: adminKey })).status, 404);
      assert.equal((await it.call(name, { query: "user=ada", key: adminKey })).status, 200);
    }
    assert.equal((await it.call("keys.revoke", { params, key: adminKey })).status, 200);
    const own = (await it.call("keys.list", { key: adminKey })).body.keys[0].id;
    assert.equal((await it.call("keys.revoke", { params: { key_id: own }, key: adminKey })).status, 409);
    const users = (await it.call("users.list", { key: adminKey })).body.users;
    assert.deepEqual(users.map((user: { name: string }) => user.name).sort(), ["ada", "bob", "root"]);
  });
});

describe("wrong keys", () => {
  test("from one address are slowed down, while right ones work from there too", async () => {
    const own = await testHouse();
    try {
      const statuses: number[] = [];
      let retryAfter: string | null = null;
      for (let i = 0; i < 30; i++) {
        const wrong = await own.call("documents.list", { key: `pl_${"x".repeat(43)}` });
        statuses.push(wrong.status);
        retryAfter = wrong.headers.get("retry-after") ?? retryAfter;
      }
      assert.equal(statuses[0], 401);
      assert.equal(statuses.at(-1), 429);
      assert.ok(Number(retryAfter) >= 1);
      assert.equal((await own.call("documents.list")).status, 200);
      // Nor does a wrong key in another place open a way around.
      const headers = { "x-api-key": "wrong" };
      assert.equal((await own.call("inference.chat", { key: null, headers, body: {} })).status, 429);
    } finally {
      await own.close();
    }
  });
});

describe("x-api-key", () => {
  const chat = { model: "none", messages: [{ role: "user", content: "a" }] };
  test("opens inference, and nothing else", async () => {
    const given = { key: null, headers: { "x-api-key": it.key } };
    assert.equal((await it.call("inference.chat", { ...given, body: chat })).status, 404);
    const elsewhere = await it.call("documents.list", given);
    assert.equal(elsewhere.status, 422);
    assert.deepEqual(elsewhere.body.detail[0].loc, ["header", "Authorization"]);
    const wrong = { key: null, headers: { "x-api-key": "a b" }, body: chat };
    assert.equal((await it.call("inference.chat", wrong)).status, 401);
    assert.equal((await it.call("inference.chat", { key: null, body: chat })).status, 422);
  });
});

describe("limits", () => {
  const chat = { model: "none", messages: [{ role: "user", content: "a" }] };
  const spend = (keyId: string, tokens: number, at = new Date().toISOString()): void => {
    const insert =
      "INSERT INTO usage VALUES(?, (SELECT user_id FROM api_key WHERE id = ?), ?, 'm', ?, 0, 'done', ?, ?)";
    store.prepare<unknown[]>(insert).run(`req_${Math.random()}`, keyId, keyId, tokens, at, at);
  };

  test("requests: the headers count down, then 429 with the time to wait", async () => {
    const { key } = (await make({ requests_per_minute: 3 })).body;
    const left: (string | null)[] = [];
    for (let i = 0; i < 3; i++) {
      const { status, headers } = await it.call("documents.list", { key });
      assert.equal(status, 200);
      assert.equal(headers.get("x-ratelimit-limit-requests"), "3");
      assert.match(headers.get("x-ratelimit-reset-requests") ?? "", /^(\d+m)?\d+s$/);
      left.push(headers.get("x-ratelimit-remaining-requests"));
    }
    assert.deepEqual(left, ["2", "1", "0"]);
    const refused = await it.call("documents.list", { key });
    assert.equal(refused.status, 429);
    assert.equal(refused.body.error.type, "rate_limit_error");
    assert.equal(refused.headers.get("x-ratelimit-remaining-requests"), "0");
    const wait = Number(refused.headers.get("retry-after"));
    assert.ok(wait > 0 && wait <= 20, `${wait}`);
    assert.equal((await it.call("documents.list")).headers.get("x-ratelimit-limit-requests"), null);
  });

  test("tokens a minute: used up means 429 on inference and nowhere else", async () => {
    const { id, key } = (await make({ tokens_per_minute: 100 })).body;
    const ask = () => it.call("inference.chat", { key, body: chat });
    spend(id, 60);
    const open = await ask();
    assert.equal(open.status, 404);
    assert.equal(open.headers.get("x-ratelimit-limit-tokens"), "100");
    assert.equal(open.headers.get("x-ratelimit-remaining-tokens"), "40");
    spend(id, 50, new Date(Date.now() - 30_000).toISOString());
    const refused = await ask();
    assert.equal(refused.status, 429);
    assert.equal(refused.headers.get("x-ratelimit-remaining-tokens"), "0");
    // The older charge leaves the minute first, and its leaving is enough.
    const wait = Number(refused.headers.get("retry-after"));
    assert.ok(wait > 25 && wait <= 30, `${wait}`);
    assert.equal((await it.call("documents.list", { key })).status, 200);
  });

  test("what is long ago counts for the day, what was yesterday for neither; a rotation forgives nothing", async () => {
    const { id, key } = (await make({ tokens_per_minute: 100, tokens_per_day: 1000 })).body;
    spend(id, 5000, new Date(Date.now() - 86_400_000).toISOString());
    const ask = (with_: string) => it.call("inference.chat", { key: with_, body: chat });
    assert.equal((await ask(key)).status, 404);
    const midnight = new Date().toISOString().slice(0, 10);
    spend(id, 1000, `${midnight}T00:00:00.000Z`);
    const refused = await ask(key);
    assert.equal(refused.status, 429);
    assert.equal(refused.headers.get("x-ratelimit-limit-tokens"), "1000");
    assert.ok(Number(refused.headers.get("retry-after")) <= 86_400);
    const rotated = (await it.call("keys.rotate", { params: { key_id: id }, body: {} })).body.key;
    assert.equal((await ask(rotated)).status, 429);
  });

  test("usage tells the day, model and key, and sums", async () => {
    const { id } = (await make({ user: "cleo" }, adminKey)).body;
    spend(id, 5);
    spend(id, 7);
    const { usage, total } = (await it.call("usage.list", { query: "user=cleo", key: adminKey })).body;
    const day = new Date().toISOString().slice(0, 10);
    const sums = { requests: 2, prompt_tokens: 12, completion_tokens: 0 };
    assert.deepEqual(usage, [{ day, model_id: "m", key_id: id, ...sums }]);
    assert.deepEqual(total, sums);
    const none = await it.call("usage.list", { query: "user=cleo&to=2001-01-01", key: adminKey });
    assert.deepEqual(none.body, { usage: [], total: { requests: 0, prompt_tokens: 0, completion_tokens: 0 } });
    assert.equal((await it.call("usage.list", { query: "from=yesterday" })).status, 422);
  });
});

describe("the audit", () => {
  test("has every act with its actor, and no failed one", async () => {
    const before = (await acts()).length;
    const made = (await make({})).body;
    await it.call("keys.rotate", { params: { key_id: made.id }, body: {} });
    await it.call("keys.revoke", { params: { key_id: made.id } });
    await it.call("keys.revoke", { params: { key_id: made.id } });
    await make({ scopes: ["admin"] });
    const own = await consoleKey({ user: "ada" });
    const later = (await acts()).slice(0, (await acts()).length - before);
    assert.deepEqual(
      later.slice(0, 4).map(({ act, subject, actor }) => [act, subject, actor]),
      [
        ["key.create", own.id, "(console)"],
        ["key.revoke", made.id, "ada"],
        ["key.rotate", made.id, "ada"],
        ["key.create", made.id, "ada"],
      ],
    );
    assert.ok(later[1]!.key_id?.startsWith("key_"));
    assert.equal((await it.call("audit.list")).status, 403);
  });

  test("is written with the act or neither is: an act whose row is refused never happened", async () => {
    store.prepare("CREATE TRIGGER no_audit BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'planted'); END").run();
    const keys = store.prepare<[], { n: number }>("SELECT count(*) AS n FROM api_key WHERE revoked_at IS NULL");
    const { n } = keys.get()!;
    try {
      assert.equal((await make({})).status, 500);
      await assert.rejects(consoleKey({ user: "ada" }));
      const { id } = (await it.call("keys.list")).body.keys[0];
      await it.call("keys.revoke", { params: { key_id: id } });
      assert.equal(keys.get()!.n, n);
    } finally {
      store.prepare("DROP TRIGGER no_audit").run();
    }
  });

  test("is append-only", () => {
    assert.throws(() => store.prepare("UPDATE audit SET actor = 'x'").run(), /append-only/);
    assert.throws(() => store.prepare("DELETE FROM audit").run(), /append-only/);
  });
});

describe("the first key", () => {
  test("is not to be had with a token of half an hour ago", async () => {
    let aheadMs = 0;
    const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + aheadMs };
    const data = mkdtempSync(join(tmpdir(), "plumbline-claim-"));
    const config = readConfig({ PLUMBLINE_DATA: data, PLUMBLINE_PORT: "0", PLUMBLINE_STARTER_MODEL: "none.gguf" });
    const house = await createHouse({ config, log: createLog("error", () => {}), clock, ballastBytes: 0 });
    try {
      const url = await house.listen();
      const [, token] = house.claimLink()!.split("#");
      const claim = async (): Promise<number> =>
        (
          await fetch(`${url}/claim`, {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify({ token, user: "ada" }),
          })
        ).status;
      aheadMs = 30 * 60_000 + 1_000;
      assert.equal(await claim(), 410);
      aheadMs = 29 * 60_000;
      assert.equal(await claim(), 200);
    } finally {
      await house.close();
      rmSync(data, { recursive: true });
    }
  });

  test("is claimed once, with the token, through the page that serve names", async () => {
    const data = mkdtempSync(join(tmpdir(), "plumbline-claim-"));
    const config = readConfig({
      PLUMBLINE_DATA: data,
      PLUMBLINE_PORT: "0",
      PLUMBLINE_FREE_DISK: "0",
      PLUMBLINE_STARTER_MODEL: "none.gguf",
      PLUMBLINE_HOST: "0.0.0.0",
    });
    const lines: string[] = [];
    const log = createLog("debug", (line) => void lines.push(line));
    const house = await createHouse({ config, log, ballastBytes: 0 });
    try {
      const url = await house.listen();
      const link = house.claimLink()!;
      assert.ok(link.startsWith(`${url}/first-key#`));
      const page = await fetch(link.split("#")[0]!);
      assert.equal(page.status, 200);
      assert.match(page.headers.get("content-security-policy") ?? "", /default-src 'self'/);
      assert.doesNotMatch(await page.text(), /https?:\/\//);
      const token = link.split("#")[1]!;
      const claim = async (body: object) => {
        const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
        const response = await fetch(`${url}/claim`, init);
        // biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they are.
        return { status: response.status, body: (await response.json()) as any };
      };
      assert.equal((await claim({ token: `${token}x`, user: "eve" })).status, 401);
      assert.equal((await claim({ token, user: "not a name" })).status, 422);
      const [one, two] = await Promise.all([claim({ token, user: "ada" }), claim({ token, user: "eve" })]);
      assert.deepEqual([one.status, two.status].sort(), [200, 409]);
      const { key, scopes: granted } = one.status === 200 ? one.body : two.body;
      assert.deepEqual(granted, [...scopes]);
      assert.equal(house.claimLink(), null);
      const audit = await fetch(`${url}/api/v3/audit`, { headers: { authorization: `Bearer ${key}` } });
      const { acts: written } = (await audit.json()) as { acts: { act: string }[] };
      assert.deepEqual(
        written.map(({ act }) => act),
        ["claim"],
      );
      assert.ok(!lines.join("").includes(token) && !lines.join("").includes(key));
    } finally {
      await house.close();
      rmSync(data, { recursive: true });
    }
  });
});
