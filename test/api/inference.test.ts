// Chats and completions over a real model in a listening house.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Contract } from "../../src/contract/index.ts";
import { eventually } from "../helpers/house.ts";
import { deployed, type Served, servedHouse, withoutModel } from "../helpers/served.ts";

const chat = "inference.chat";
const complete = "inference.completions";
const messages = [{ role: "user", content: "Say hello." }];

describe("inference", { skip: withoutModel }, () => {
  let it: Served;
  let undeployed = "";
  let aligned = "";
  before(async () => {
    it = await servedHouse();
    undeployed = it.align().modelId;
    aligned = it.align().modelId;
    assert.equal(await deployed(it, aligned), "READY");
  });
  after(() => it.close());

  interface Case {
    name: string;
    endpoint: keyof Contract & `inference.${string}`;
    /** Over a body that is fine; undefined leaves the field out. */
    body?: Record<string, unknown>;
    headers?: Record<string, string>;
    key?: "other";
    model?: () => string;
    status: number;
    /** Of the first detail. */
    loc?: (string | number)[];
  }

  const cases: Case[] = [
    { name: "no model", endpoint: chat, body: { model: undefined }, status: 422, loc: ["body", "model"] },
    { name: "an unknown model", endpoint: chat, body: { model: "model_nobody" }, status: 404 },
    { name: "a path as model", endpoint: chat, body: { model: "../../etc/passwd" }, status: 404 },
    { name: "a file as model", endpoint: complete, body: { model: "/abs/x.gguf" }, status: 404 },
    { name: "an address as model", endpoint: complete, body: { model: "hf://a/b" }, status: 404 },
    {
      name: "a very long name",
      endpoint: chat,
      body: { model: "m".repeat(10_000) },
      status: 422,
      loc: ["body", "model"],
    },
    { name: "an undeployed model", endpoint: chat, model: () => undeployed, status: 409 },
    { name: "another user's model", endpoint: chat, model: () => aligned, key: "other", status: 404 },
    { name: "no prompts", endpoint: complete, body: { prompt: [] }, status: 422 },
    { name: "a prompt of no ids", endpoint: complete, body: { prompt: [[]] }, status: 422 },
    { name: "mixed prompts", endpoint: complete, body: { prompt: ["a", 1] }, status: 422 },
    { name: "an empty text", endpoint: complete, body: { prompt: "", max_tokens: 1 }, status: 200 },
    { name: "a negative id", endpoint: complete, body: { prompt: [-1] }, status: 422 },
    {
      name: "an id past the last",
      endpoint: complete,
      body: { prompt: [1, 49_152] },
      status: 422,
      loc: ["body", "prompt", 1],
    },
    { name: "a special id", endpoint: complete, body: { prompt: [1], max_tokens: 1 }, status: 200 },
    { name: "half an id", endpoint: complete, body: { prompt: [1.5] }, status: 422 },
    { name: "129 prompts", endpoint: complete, body: { prompt: new Array(129).fill("a") }, status: 422 },
    { name: "max_tokens 0", endpoint: complete, body: { max_tokens: 0 }, status: 200 },
    { name: "max_tokens −1", endpoint: complete, body: { max_tokens: -1 }, status: 422, loc: ["body", "max_tokens"] },
    { name: "max_tokens over the context", endpoint: complete, body: { max_tokens: 256 }, status: 422 },
    { name: "max_tokens 10^12", endpoint: complete, body: { max_tokens: 1e12 }, status: 422 },
    { name: "temperature 2", endpoint: complete, body: { temperature: 2 }, status: 200 },
    { name: "temperature −0", endpoint: chat, body: { temperature: -0 }, status: 200 },
    {
      name: "temperature over 2",
      endpoint: chat,
      body: { temperature: 2.0000001 },
      status: 422,
      loc: ["body", "temperature"],
    },
    {
      name: "temperature as text",
      endpoint: chat,
      body: { temperature: "1" },
      status: 422,
      loc: ["body", "temperature"],
    },
    { name: "n 0", endpoint: chat, body: { n: 0 }, status: 422, loc: ["body", "n"] },
    { name: "n 10^6", endpoint: chat, body: { n: 1e6 }, status: 422, loc: ["body", "n"] },
    { name: "top_k −1", endpoint: chat, body: { top_k: -1 }, status: 200 },
    { name: "top_k −2", endpoint: chat, body: { top_k: -2 }, status: 422, loc: ["body", "top_k"] },
    { name: "top_p 0", endpoint: chat, body: { top_p: 0 }, status: 422, loc: ["body", "top_p"] },
    { name: "top_p over 1", endpoint: chat, body: { top_p: 1.1 }, status: 422, loc: ["body", "top_p"] },
    { name: "prompt_truncate_len 0", endpoint: chat, body: { prompt_truncate_len: 0 }, status: 422 },
    { name: "no messages", endpoint: chat, body: { messages: [] }, status: 422, loc: ["body", "messages"] },
    { name: "an unknown role", endpoint: chat, body: { messages: [{ role: "tool", content: "" }] }, status: 422 },
    { name: "a null content", endpoint: chat, body: { messages: [{ role: "user", content: null }] }, status: 422 },
    { name: "a tool", endpoint: chat, body: { tools: [{ type: "function" }] }, status: 422, loc: ["body", "tools"] },
    {
      name: "nulls",
      endpoint: chat,
      body: {
        top_p: null,
        top_k: null,
        n: null,
        seed: null,
        stop: null,
        stream: null,
        temperature: null,
        tools: null,
        prompt_truncate_len: null,
      },
      status: 200,
    },
    {
      name: "fields of other servers",
      endpoint: chat,
      body: { grammar: "x", lora_path: "/etc/passwd", chat_template: "x" },
      status: 200,
    },
    {
      name: "X-Provider",
      endpoint: chat,
      headers: { "x-provider": "http://169.254.169.254/" },
      status: 422,
      loc: ["header", "X-Provider"],
    },
    { name: "a long X-Session-ID", endpoint: chat, headers: { "x-session-id": "s".repeat(257) }, status: 422 },
    { name: "X-Session-ID", endpoint: chat, headers: { "x-session-id": "mine" }, status: 200 },
  ];

  for (const one of cases)
    test(`${one.name}: ${one.status}`, async () => {
      const plain = one.endpoint === chat ? { messages, max_tokens: 2 } : { prompt: "One two", max_tokens: 2 };
      const body = { model: one.model?.() ?? it.baseId, ...plain, ...one.body };
      const key = one.key ? { key: it.otherKey } : {};
      const reply = await it.call(one.endpoint, { body, ...key, ...(one.headers ? { headers: one.headers } : {}) });
      assert.equal(reply.status, one.status, JSON.stringify(reply.body));
      if (one.loc) assert.deepEqual(reply.body.detail[0].loc, one.loc);
      if (one.status === 200) assert.equal(reply.body.confidence_score, null);
      else assert(reply.body.detail && reply.body.error.message);
    });

  const stream = async (path: string, body: object, init: RequestInit = {}): Promise<Response> =>
    it.get(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: it.baseId, stream: true, ...body }),
      ...init,
    });
  const eventsOf = (text: string): unknown[] => {
    const data = text
      .split("\n\n")
      .filter((part) => part.startsWith("data: "))
      .map((part) => part.slice(6));
    assert.equal(data.pop(), "[DONE]");
    return data.map((part) => JSON.parse(part));
  };
  const outcomes = (): string[] =>
    it.store
      .prepare<[], { outcome: string }>("SELECT outcome FROM usage ORDER BY created_at")
      .all()
      .map((row) => row.outcome);

  for (const sampling of [{ temperature: 0 }, { temperature: 1.5, seed: 7 }])
    test(`a stream says what a whole answer says: ${JSON.stringify(sampling)}`, async () => {
      const body = { messages, max_tokens: 16, ...sampling };
      const whole = await it.call(chat, { body: { model: it.baseId, ...body } });
      const chunks = eventsOf(await (await stream("/api/v3/inference/chat/completions", body)).text()) as {
        choices: { delta: { content?: string } }[];
      }[];
      const text = chunks.map((chunk) => chunk.choices[0]!.delta.content ?? "").join("");
      assert.equal(text, whole.body.choices[0].message.content);
      assert(text.length > 0 && text.isWellFormed());
    });

  test("completions of several prompts stream side by side, and end with one usage", async () => {
    const body = { prompt: ["One two three", "Red green"], max_tokens: 4, temperature: 0 };
    const whole = await it.call(complete, { body: { model: it.baseId, ...body } });
    const chunks = eventsOf(await (await stream("/api/v3/inference/completions", body)).text()) as {
      choices: { text: string; index: number }[];
      usage?: { total_tokens: number };
    }[];
    for (const index of [0, 1]) {
      const text = chunks
        .flatMap((chunk) => chunk.choices)
        .filter((choice) => choice.index === index)
        .map((choice) => choice.text);
      assert.equal(text.join(""), whole.body.choices[index].text);
    }
    assert.deepEqual(chunks.map((chunk) => "usage" in chunk).indexOf(true), chunks.length - 1);
    assert.equal(chunks.at(-1)!.usage!.total_tokens, whole.body.usage.total_tokens);
  });

  test("an aligned model answers with a confidence, by id and by alias, whole and streamed", async () => {
    const body = { model: aligned, messages, max_tokens: 4, temperature: 0, n: 2 };
    const whole = (await it.call(chat, { body })).body;
    const scores = whole.choices.map((choice: { confidence_score: number }) => choice.confidence_score);
    assert(scores.every((score: unknown) => typeof score === "number"));
    assert.equal(whole.confidence_score, Math.min(...scores));
    assert.deepEqual(whole.confidence, { calibrated: true, n: 120, reason: null });
    const empty = (await it.call(chat, { body: { ...body, max_tokens: 0 } })).body;
    assert.equal(empty.confidence_score, 0);
    const chunks = eventsOf(await (await stream("/api/v3/inference/chat/completions", { ...body, n: 1 })).text()) as {
      confidence_score?: number;
    }[];
    assert.equal(typeof chunks.at(-1)!.confidence_score, "number");
    assert(chunks.slice(0, -1).every((chunk) => !("confidence_score" in chunk)));
  });

  test("a long conversation is cut, and the cut is visible", async () => {
    const long = [...Array(30)].flatMap((_, at) => [
      { role: "user", content: `Question ${at}` },
      { role: "assistant", content: `Answer ${at}` },
    ]);
    const body = { model: it.baseId, messages: [...long, ...messages], max_tokens: 1, prompt_truncate_len: 60 };
    const reply = await it.call(chat, { body });
    const { prompt_tokens, prompt_tokens_details } = reply.body.usage;
    assert(prompt_tokens <= 60 && prompt_tokens_details.truncated_tokens > 0);
    assert.equal(reply.headers.get("x-plumbline-truncated-tokens"), String(prompt_tokens_details.truncated_tokens));
    const whole = await it.call(chat, { body: { ...body, prompt_truncate_len: 1500 } });
    assert.equal(whole.status, 422);
    assert.equal(whole.body.error.code, "prompt_too_long");
  });

  for (const isStream of [true, false])
    test(`a client that leaves frees its seats: ${isStream ? "streaming" : "not streaming"}`, async () => {
      const before = outcomes().length;
      const client = new AbortController();
      // All seats at once, with as many words as they hold.
      const body = { prompt: ["Count: 1", "Count: 2"], max_tokens: 240, temperature: 1, stream: isStream, seed: 3 };
      const asked = stream("/api/v3/inference/completions", body, { signal: client.signal });
      asked.catch(() => {});
      if (isStream) await (await asked).body!.getReader().read();
      else await eventually(() => outcomes().length > before);
      client.abort();
      await eventually(() => outcomes().at(-1) === "aborted", 10_000);
      const next = await it.call(complete, { body: { model: it.baseId, prompt: "One", max_tokens: 1 } });
      assert.equal(next.status, 200);
    });

  test("a request that leaves while it waits for a seat draws nothing", async () => {
    const clients = [new AbortController(), new AbortController()];
    const before = outcomes().length;
    const asks = clients.map(({ signal }, at) =>
      stream(
        "/api/v3/inference/completions",
        { prompt: [`A ${at}`, `B ${at}`], max_tokens: 240, seed: at },
        { signal },
      ),
    );
    for (const ask of asks) ask.catch(() => {});
    await eventually(() => outcomes().length === before + 2, 10_000);
    clients[1]!.abort();
    await eventually(() => outcomes().includes("aborted", before), 10_000);
    const rows = it.store
      .prepare<[], { outcome: string; completion_tokens: number }>(
        "SELECT outcome, completion_tokens FROM usage ORDER BY created_at",
      )
      .all()
      .slice(before);
    assert.deepEqual(
      rows.map((row) => row.outcome),
      ["open", "aborted"],
    );
    assert.equal(rows[1]!.completion_tokens, 0);
    clients[0]!.abort();
    await eventually(() => !outcomes().includes("open"), 10_000);
  });

  test("every request that was admitted has one row, and none is open", () => {
    const all = outcomes();
    assert(all.length > 0 && all.every((outcome) => outcome === "done" || outcome === "aborted"), all.join());
  });
});
