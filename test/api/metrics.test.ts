// GET /metrics: what is counted, in the form that Prometheus reads, and who may read it.
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { installation, places } from "../../src/base/config.ts";
import { eventually } from "../helpers/house.ts";
import { insertBase } from "../helpers/rows.ts";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";

let it: Scripted;
before(async () => {
  it = await scriptedHouse({ PLUMBLINE_HOST: "0.0.0.0" });
});
after(() => it.close());

/** Name with labels → value. Throws on a line that is no sample and no comment. */
async function read(): Promise<Map<string, number>> {
  const response = await fetch(`${it.url}/metrics`);
  assert.equal(response.status, 200);
  assert.match(response.headers.get("content-type") ?? "", /^text\/plain/);
  const samples = new Map<string, number>();
  for (const line of (await response.text()).trim().split("\n")) {
    if (/^# (HELP|TYPE) [a-z_:][a-z0-9_:]* ./.test(line) || line === "") continue;
    const match = /^([a-zA-Z_:][a-zA-Z0-9_:]*(?:\{[^{}]*\})?) (\S+)$/.exec(line);
    assert(match, line);
    samples.set(match[1]!, Number(match[2]));
  }
  return samples;
}

const chat = (body: object) =>
  it.call("inference.chat", {
    body: { model: it.baseId, messages: [{ role: "user", content: "Hello there" }], ...body },
  });

describe("the metrics", () => {
  test("count requests by route and status, tokens, truncations, and time what is drawn", async () => {
    const before = await read();
    const { body } = await chat({});
    assert.equal((await chat({ max_tokens: -1 })).status, 422);
    await fetch(`${it.url}/nowhere`);
    const long = { role: "user", content: "word ".repeat(100) };
    const cut = await chat({ messages: [long, { role: "user", content: "Hi" }], prompt_truncate_len: 40 });
    assert(Number(cut.headers.get("x-plumbline-truncated-tokens")) > 0);
    // What a request used is counted once its answer has gone.
    const increase = (after: Map<string, number>, name: string) => (after.get(name) ?? 0) - (before.get(name) ?? 0);
    const chats = (status: number) => `plumbline_http_requests_total{route="inference.chat",status="${status}"}`;
    await eventually(async () => increase(await read(), chats(200)) === 2);
    const after = await read();
    assert.equal(increase(after, chats(422)), 1);
    assert.equal(increase(after, 'plumbline_http_requests_total{route="none",status="404"}'), 1);
    const [first, second] = [body.usage, cut.body.usage];
    const told = first.prompt_tokens + second.prompt_tokens;
    assert.equal(increase(after, 'plumbline_tokens_total{kind="prompt"}'), told);
    const drawn = first.completion_tokens + second.completion_tokens;
    assert.equal(increase(after, 'plumbline_tokens_total{kind="completion"}'), drawn);
    assert.equal(increase(after, "plumbline_prompt_truncations_total"), 1);
    assert.equal(
      increase(after, "plumbline_prompt_truncated_tokens_total"),
      second.prompt_tokens_details.truncated_tokens,
    );
    assert.equal(increase(after, "plumbline_first_token_seconds_count"), 2);
    assert.equal(increase(after, "plumbline_token_seconds_count"), 2);
    assert(increase(after, "plumbline_first_token_seconds_sum") > 0);
  });

  test("say how full the slots are and what long work there is, as it is now", async () => {
    const base = it.baseId;
    const now = await read();
    assert.equal(now.get(`plumbline_slots{base="${base}"}`), 8);
    assert.equal(now.get(`plumbline_slots_busy{base="${base}"}`), 1);
    assert.equal(now.get(`plumbline_requests_waiting{base="${base}"}`), 2);
    const states = [...now].filter(([name]) => name.startsWith("plumbline_jobs{"));
    const rows = it.store.prepare<[], { n: number }>("SELECT count(*) AS n FROM job").get()!.n;
    assert.equal(
      states.reduce((sum, [, count]) => sum + count, 0),
      rows,
    );
  });

  test("say what memory and disk there is, whether anything is refused, and what runs", async () => {
    const now = await read();
    const [total, granted] = ["plumbline_memory_bytes", "plumbline_memory_granted_bytes"].map((name) =>
      now.get(`${name}{pool="machine"}`),
    );
    assert(total! > 0 && granted! >= 0 && granted! <= total!, `${granted} of ${total}`);
    assert.equal(now.has('plumbline_memory_bytes{pool="gpu"}'), false);
    assert(now.get("plumbline_disk_free_bytes")! > now.get("plumbline_disk_low_bytes")!);
    assert.equal(now.get("plumbline_database_bytes"), statSync(places(it.data).database).size);
    assert.equal(now.get("plumbline_degraded"), 0);
    const { version } = JSON.parse(readFileSync(join(installation, "package.json"), "utf8")) as { version: string };
    assert([...now.keys()].some((name) => name.startsWith(`plumbline_build_info{version="${version}",engine="`)));
  });

  test("have all that the alerts and the dashboard of config/monitoring ask for, and these show all that is ours", async () => {
    const text = await (await fetch(`${it.url}/metrics`)).text();
    const types = new Map([...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, type]) => [name!, type!]));
    const asked = (file: string): string[] => {
      const content = readFileSync(join(installation, "config/monitoring", file), "utf8");
      return [...content.matchAll(/\b(?:plumbline|process|nodejs)_\w+/g)].map(([name]) => name.replace(/_bucket$/, ""));
    };
    const [alerts, dashboard] = [asked("alerts.yaml"), asked("dashboard.json")];
    assert(alerts.length > 10);
    for (const name of [...alerts, ...dashboard]) assert(types.has(name), name);
    for (const [name] of types) if (name.startsWith("plumbline_")) assert(dashboard.includes(name), name);
    const { panels } = JSON.parse(readFileSync(join(installation, "config/monitoring/dashboard.json"), "utf8")) as {
      panels: { id: number; title: string; targets: { expr: string }[] }[];
    };
    assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
    assert(panels.every(({ title, targets }) => title !== "" && targets.every(({ expr }) => expr !== "")));
  });

  test("name no user, key or aligned model", async () => {
    const { modelId } = await it.align();
    await chat({ model: modelId });
    const text = await (await fetch(`${it.url}/metrics`)).text();
    for (const secret of [modelId, it.key.slice(0, 9), "ada"]) assert(!text.includes(secret), secret);
  });

  const outside = Object.values(networkInterfaces())
    .flat()
    .find((one) => one?.family === "IPv4" && !one.internal)?.address;
  test("elsewhere ask for a key with the scope admin", { skip: outside ? false : "only loopback here" }, async () => {
    const url = `http://${outside}:${new URL(it.url).port}/metrics`;
    const ask = async (key: string | null) =>
      (await fetch(url, key === null ? {} : { headers: { authorization: `Bearer ${key}` } })).status;
    const keyOf = async (scopes: string[]) =>
      ((await it.house.admin("key.create", { user: "ops", scopes })) as { key: string }).key;
    assert.equal(await ask(null), 422);
    assert.equal(await ask("pl_wrong"), 401);
    assert.equal(await ask(await keyOf(["inference", "keys"])), 403);
    assert.equal(await ask(await keyOf(["admin"])), 200);
  });
});

describe("a request without a model", () => {
  const messages = [{ role: "user", content: "Hello" }];
  const answering = {
    "inference.chat": { messages },
    "inference.completions": { prompt: "Hello" },
    "inference.messages": { messages, max_tokens: 9 },
    "inference.count_tokens": { messages },
    "inference.responses": { input: "Hello" },
  } as const;
  const reading = {
    "inference.embeddings": { input: "Hello" },
    "inference.rerank": { query: "Hello", documents: ["Hello"] },
    "inference.rerank_cohere": { query: "Hello", documents: ["Hello"] },
    "inference.tokenize": { prompt: "Hello" },
    "inference.detokenize": { tokens: [72] },
  } as const;

  test("is refused where the model answers", async () => {
    for (const [name, body] of Object.entries(answering)) {
      const reply = await it.call(name as keyof typeof answering, { body });
      assert.equal(reply.status, 422, name);
      const missing = { loc: ["body", "model"], msg: "field required", type: "missing" };
      assert.deepEqual(reply.body.detail, [missing], name);
    }
  });

  test("is for the only base where the model only reads, and is asked for a name once there are two", async () => {
    const ask = (name: string) =>
      it.call(name as keyof typeof reading, { body: reading[name as keyof typeof reading] });
    for (const name of Object.keys(reading)) assert.equal((await ask(name)).status, 200, name);
    const other = insertBase(it.store, "other");
    for (const name of Object.keys(reading)) {
      const { status, body } = await ask(name);
      assert.equal(status, 422, name);
      assert.deepEqual(body.detail[0].loc, ["body", "model"], name);
      for (const said of [it.baseId, other, "small", "other"])
        assert(body.detail[0].msg.includes(said), body.detail[0].msg);
    }
  });
});
