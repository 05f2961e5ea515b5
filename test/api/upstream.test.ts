// X-Provider: requests that go on to another server, which here is one of the test's own.
import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import OpenAI from "openai";
import { readConfig } from "../../src/base/config.ts";
import { contract } from "../../src/contract/index.ts";
import { renderOpenApi } from "../../src/http/openapi.ts";
import { openStore, type Store } from "../../src/store/open.ts";
import { eventually, type TestHouse, testHouse } from "../helpers/house.ts";

const usage = { prompt_tokens: 11, completion_tokens: 4, total_tokens: 15 };
const whole = {
  id: "chatcmpl-up",
  object: "chat.completion",
  created: 1_777_896_000,
  model: "big",
  choices: [
    {
      index: 0,
      message: { role: "assistant", content: "From afar." },
      finish_reason: "stop",
      logprobs: null,
    },
  ],
  usage,
};
const chunk = (choices: object[], more = {}) =>
  `data: ${JSON.stringify({ id: "chatcmpl-up", object: "chat.completion.chunk", created: 1_777_896_000, model: "big", choices, ...more })}\n\n`;
const delta = (content: string) => chunk([{ index: 0, delta: { content }, logprobs: null, finish_reason: null }]);
const finish = chunk([{ index: 0, delta: {}, logprobs: null, finish_reason: "stop" }]);

interface Body extends Record<string, unknown> {
  model: string;
  stream?: boolean;
}

const unsupported = (name: string, more = "") =>
  `Unsupported parameter: '${name}' is not supported with this model.${more}`;

/** What models refuse a body with, by their names; null if they accept it. */
const refusals: Record<string, (body: Body) => string | null> = {
  renames: ({ max_tokens }) =>
    max_tokens === undefined ? null : unsupported("max_tokens", " Use 'max_completion_tokens' instead."),
  "one-temperature": ({ temperature }) => (temperature === undefined ? null : unsupported("temperature")),
  "no-temperature-will-do": () =>
    "It depends on the temperature, which is unknown, as are max_tokens and stream_options",
  "no-options": ({ stream_options }) =>
    stream_options === undefined
      ? null
      : '[{"type":"extra_forbidden","loc":["body","stream_options","include_usage"]}]',
};

describe("upstreams", () => {
  let it: TestHouse;
  let store: Store;
  let upstream: Server;
  /** What the upstream was asked last, and whether that client left. */
  const seen = { path: "", key: "", body: {} as Record<string, unknown>, left: false };
  /** All bodies so far. */
  const bodies: Body[] = [];
  before(async () => {
    upstream = createServer((request: IncomingMessage, response) => {
      let text = "";
      request.on("data", (part) => {
        text += part;
      });
      request.on("end", () => {
        const body = JSON.parse(text) as Body;
        Object.assign(seen, { path: request.url, key: request.headers.authorization ?? "", body, left: false });
        response.on("close", () => {
          seen.left = !response.writableFinished;
        });
        bodies.push(body);
        const refusal = refusals[body.model]?.(body);
        const status = Number(/^status-(\d+)$/.exec(body.model)?.[1] ?? (refusal ? 400 : 200));
        if (status !== 200) {
          response.writeHead(status, { "content-type": "application/json", "retry-after": "7" });
          response.end(JSON.stringify({ error: { message: refusal ?? "because" } }));
        } else if (body.model === "fails-with-200") {
          response.writeHead(200, { "content-type": "application/json" });
          response.end(JSON.stringify({ error: { message: "because" } }));
        } else if (body.stream && body.model !== "whole") {
          response.writeHead(200, { "content-type": "text/event-stream" });
          if (body.model === "fails-first") return response.end('data: {"error":{"message":"because"}}\n\n');
          response.write(delta("From "));
          if (body.model === "hangs") return;
          if (body.model === "breaks-off") return response.end(delta("afar."));
          if (body.model === "fails") return response.end('data: {"error":{"message":"because"}}\n\n');
          if (body.model === "babbles") return response.end("data: because\n\n");
          if (body.model === "no-mark") return response.end(finish);
          // One event in two pieces, as networks cut them.
          const rest = `${delta("afar.")}${finish}${chunk([], { usage })}data: [DONE]\n\n`;
          response.write(rest.slice(0, 40));
          setTimeout(() => response.end(rest.slice(40)), 20);
        } else {
          response.writeHead(200, { "content-type": "application/json" });
          response.end(JSON.stringify(whole));
        }
      });
    });
    await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
    const { port } = upstream.address() as AddressInfo;
    it = await testHouse({
      PLUMBLINE_UPSTREAMS: `far=http://127.0.0.1:${port}/v1/, gone=http://127.0.0.1:1/v1`,
      PLUMBLINE_UPSTREAM_KEYS: "far=sk-of-the-house",
    });
    store = openStore(join(it.data, "plumbline.db"));
  });
  after(async () => {
    store.close();
    await it.close();
    upstream.closeAllConnections();
    await new Promise((resolve) => upstream.close(resolve));
  });
  const messages = [{ role: "user" as const, content: "Say hello." }];
  const headers = { "x-provider": "far" };
  const chat = (body: object, provider = "far") =>
    it.call("inference.chat", { body: { model: "big", messages, ...body }, headers: { "x-provider": provider } });
  const lastUsage = () =>
    store
      .prepare<[], Record<string, unknown>>(
        "SELECT model_id, prompt_tokens, completion_tokens, outcome FROM usage ORDER BY created_at DESC, request_id LIMIT 1",
      )
      .get();
  const countUsage = (): number => store.prepare<[], { n: number }>("SELECT count(*) AS n FROM usage").get()!.n;

  test("the description names the upstreams, and no header where there are none", async () => {
    const document = JSON.parse(await (await fetch(`${it.url}/openapi.json`)).text());
    const { parameters } = document.paths["/api/v3/inference/chat/completions"].post;
    const header = parameters.find((one: { name: string }) => one.name === "x-provider");
    assert.deepEqual(header.schema, { enum: ["far", "gone"] });
    const forwarding = Object.entries(
      document.paths as Record<string, Record<string, { parameters?: typeof parameters }>>,
    )
      .filter(([, methods]) =>
        JSON.stringify(Object.values(methods).map((one) => one.parameters)).includes("x-provider"),
      )
      .map(([path]) => path.replace("/api/v3/inference/", ""));
    assert.deepEqual(forwarding.sort(), ["chat/completions", "completions", "embeddings", "messages/v2", "responses"]);
    assert.doesNotMatch(JSON.stringify(renderOpenApi(contract, "1")), /x-provider/);
  });

  test("an answer comes from there, with the house's key, and is counted once", async () => {
    const before = countUsage();
    const reply = await chat({ temperature: 0.5 });
    assert.equal(reply.status, 200);
    assert.equal(reply.body.choices[0].message.content, "From afar.");
    assert.equal(reply.body.confidence_score, null);
    assert.deepEqual([seen.path, seen.key], ["/v1/chat/completions", "Bearer sk-of-the-house"]);
    assert.deepEqual([seen.body.model, seen.body.temperature], ["big", 0.5]);
    assert.deepEqual(seen.body.messages, messages);
    assert(!("prompt_truncate_len" in seen.body));
    assert.equal(countUsage(), before + 1);
    assert.deepEqual(lastUsage(), { model_id: "far/big", prompt_tokens: 11, completion_tokens: 4, outcome: "done" });
  });

  test("an upstream gets one limit of the answer", async () => {
    const limitsOf = async (body: object) => {
      await chat(body);
      return [seen.body.max_tokens, seen.body.max_completion_tokens];
    };
    assert.deepEqual(await limitsOf({ max_completion_tokens: 5 }), [undefined, 5]);
    assert.deepEqual(await limitsOf({ max_completion_tokens: 5, max_tokens: 6 }), [undefined, 5]);
    assert.deepEqual(await limitsOf({ max_completion_tokens: null, max_tokens: 6 }), [6, undefined]);
  });

  test("an upstream gets only fields that change something", async () => {
    await chat({});
    assert.deepEqual(seen.body, { model: "big", messages, max_tokens: 2000, temperature: 1 });
    const noTools = {
      tools: [],
      tool_choice: "none",
      parallel_tool_calls: false,
      stream_options: { include_usage: true },
    };
    await chat({ ...noTools, n: 1, logprobs: false, presence_penalty: 0, ignore_eos: false });
    assert.deepEqual(seen.body, { model: "big", messages, max_tokens: 2000, temperature: 1 });
    const tools = [{ type: "function", function: { name: "f" } }];
    const changing = { tools, tool_choice: "auto", parallel_tool_calls: false, n: 2, logprobs: true, top_logprobs: 1 };
    const drawn = { presence_penalty: 0.1, frequency_penalty: -0.1, repetition_penalty: 1.1, ignore_eos: true };
    const own = { top_k: 0, min_p: 0, seed: 0, top_p: 1, logit_bias: { 1: 2 }, user: "u" };
    await chat({ ...changing, ...drawn, ...own, temperature: 0, max_tokens: 0 });
    assert.deepEqual(seen.body, {
      ...{ model: "big", messages, ...changing, ...drawn, ...own },
      ...{ temperature: 0, max_tokens: 0 },
    });
    const completion = { model: "big", prompt: "a", logprobs: 0 };
    await it.get("/api/v3/inference/completions", {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(completion),
    });
    assert.deepEqual(seen.body, { ...completion, max_tokens: 16, temperature: 1 });
  });

  test("what a model refuses for its wording is said otherwise, and so from then on", async () => {
    const sentTo = async (model: string, body: object = {}) => {
      bodies.length = 0;
      const reply = await chat({ model, ...body });
      assert.equal(reply.status, 200, JSON.stringify(reply.body));
      return bodies;
    };
    const [, renamed] = await sentTo("renames");
    assert.deepEqual([renamed!.max_tokens, renamed!.max_completion_tokens], [undefined, 2000]);
    assert.equal((await sentTo("renames")).length, 1);
    const [, cold] = await sentTo("one-temperature");
    assert(!("temperature" in cold!));
    assert.equal((await sentTo("one-temperature")).length, 1);
    const refused = await chat({ model: "one-temperature", temperature: 0.5 });
    assert.equal(refused.status, 400, "the client's own temperature is not dropped");
    assert.match(refused.body.error.message, /'temperature' is not supported/);
    bodies.length = 0;
    assert.equal((await chat({ model: "no-temperature-will-do", stream: true })).status, 400);
    assert.equal(bodies.length, 4, "each rewording is tried once");
    const [, plain] = await sentTo("no-options", { stream: true });
    assert(!("stream_options" in plain!));
    assert.equal((await sentTo("no-options", { stream: true })).length, 1);
  });

  test("a whole answer to a request for a stream becomes a stream", async () => {
    const reply = await chat({ model: "whole", stream: true });
    assert.equal(seen.body.stream, true);
    const [first, ...rest] = (reply.body as string).trim().split("\n\n");
    assert.deepEqual(JSON.parse(first!.slice("data: ".length)), {
      ...whole,
      object: "chat.completion.chunk",
      choices: [
        { index: 0, delta: { role: "assistant", content: "From afar." }, finish_reason: "stop", logprobs: null },
      ],
      confidence_score: null,
      confidence: null,
    });
    assert.deepEqual(rest, ["data: [DONE]"]);
    const message = await it.call("inference.messages", {
      body: { model: "whole", max_tokens: 9, messages },
      headers,
    });
    assert.equal(message.body.content[0].text, "From afar.");
    assert.deepEqual([message.body.usage.input_tokens, message.body.usage.output_tokens], [11, 4]);
  });

  test("an error with status 200 is an error", async () => {
    for (const stream of [false, true]) {
      const reply = await chat({ model: "fails-with-200", stream });
      assert.deepEqual([reply.status, reply.body.error.code], [502, "upstream_failed"]);
      assert.match(reply.body.error.message, /The upstream far failed: because/);
      assert.deepEqual([lastUsage()!.model_id, lastUsage()!.outcome], ["far/fails-with-200", "failed"]);
    }
  });

  test("a stream comes as it was sent, with usage on request only, and is counted all the same", async () => {
    const client = new OpenAI({
      baseURL: `${it.url}/api/v3/inference`,
      apiKey: it.key,
      maxRetries: 0,
      defaultHeaders: headers,
    });
    for (const include_usage of [false, true]) {
      const stream = await client.chat.completions.create({
        model: "big",
        messages,
        stream: true,
        stream_options: { include_usage },
      });
      let text = "";
      const chunks: OpenAI.ChatCompletionChunk[] = [];
      for await (const one of stream) {
        chunks.push(one);
        text += one.choices[0]?.delta.content ?? "";
      }
      assert.equal(text, "From afar.");
      assert.deepEqual(chunks.at(-1)!.usage, include_usage ? usage : undefined);
      assert.deepEqual(lastUsage(), { model_id: "far/big", prompt_tokens: 11, completion_tokens: 4, outcome: "done" });
    }
  });

  test("a stream ends as the contract says, whether or not the upstream sends the mark", async () => {
    for (const model of ["big", "no-mark"]) {
      const { body } = await chat({ model, stream: true });
      const events = (body as string)
        .trim()
        .split("\n\n")
        .map((event) => event.slice("data: ".length));
      assert.equal(events.filter((data) => data === "[DONE]").length, 1, model);
      assert.equal(events.pop(), "[DONE]", model);
      const chunks = events.map((data) => JSON.parse(data));
      assert.deepEqual(
        chunks.map(({ confidence_score, choices }) => [confidence_score, choices[0].finish_reason]),
        [...chunks.slice(1).map(() => [undefined, null]), [null, "stop"]],
        model,
      );
      assert.equal(lastUsage()!.outcome, "done");
    }
  });

  test("responses go there too, in their own form", async () => {
    const reply = await it.call("inference.responses", { body: { model: "big", input: "Say hello." }, headers });
    assert.equal(reply.body.output[0].content[0].text, "From afar.");
    assert.deepEqual([reply.body.usage.input_tokens, reply.body.confidence_score], [11, null]);
    const unnamed = await it.call("inference.responses", { body: { input: "Say hello." }, headers });
    assert.deepEqual([unnamed.status, unnamed.body.detail[0].loc], [422, ["body", "model"]]);
  });

  test("messages go there too, in their own form", async () => {
    const reply = await it.call("inference.messages", { body: { model: "big", max_tokens: 9, messages }, headers });
    assert.equal(reply.body.content[0].text, "From afar.");
    assert.deepEqual([reply.body.usage.input_tokens, reply.body.usage.output_tokens], [11, 4]);
    assert.equal(seen.body.max_tokens, 9);
  });

  test("an upstream gets a message as a chat, without the checks for a local model", async () => {
    const tool = { name: "f", description: "F.", input_schema: { type: "object" } };
    const body = {
      model: "big",
      max_tokens: 9,
      system: "Be brief.",
      messages: [
        ...messages,
        { role: "assistant", content: [{ type: "tool_use", id: "a", name: "f", input: { b: 1 } }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "1" }] },
      ],
      tools: [tool, tool],
      tool_choice: { type: "tool", name: "g" },
      thinking: { type: "enabled", budget_tokens: 5 },
      stop_sequences: ["END"],
      top_k: 3,
    };
    const reply = await it.call("inference.messages", { body, headers });
    assert.equal(reply.status, 200, JSON.stringify(reply.body));
    const given = { type: "function", function: { name: "f", description: "F.", parameters: { type: "object" } } };
    const call = { id: "a", type: "function", function: { name: "f", arguments: '{"b":1}' } };
    assert.deepEqual(seen.body, {
      model: "big",
      messages: [
        { role: "system", content: "Be brief." },
        ...messages,
        { role: "assistant", content: null, tool_calls: [call] },
        { role: "tool", tool_call_id: "a", content: "1" },
      ],
      tools: [given, given],
      tool_choice: { type: "function", function: { name: "g" } },
      reasoning: { enabled: true, max_tokens: 5, exclude: false },
      max_tokens: 9,
      temperature: 1,
      top_k: 3,
      stop: ["END"],
      stream: true,
      stream_options: { include_usage: true },
    });
  });

  test("a client that leaves takes the upstream's work along", async () => {
    const gone = new AbortController();
    const response = await it.get("/api/v3/inference/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ model: "hangs", messages, stream: true }),
      signal: gone.signal,
    });
    await response.body!.getReader().read();
    gone.abort();
    await eventually(() => seen.left);
    await eventually(() => lastUsage()?.outcome === "aborted");
    // The upstream has not reported its usage, so it is estimated from the bytes of the prompt and of what has come.
    const prompt_tokens = Math.ceil(JSON.stringify([messages, null, null]).length / 4);
    assert.deepEqual(lastUsage(), { model_id: "far/hangs", prompt_tokens, completion_tokens: 2, outcome: "aborted" });
  });

  test("a stream that breaks off ends with the upstream's words, and is counted as failed", async () => {
    const streamed = (endpoint: string, model: string) =>
      it.get(`/api/v3/inference/${endpoint}`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify({ model, messages, input: "Say hello.", max_tokens: 9, stream: true }),
      });
    const endpoints = ["chat/completions", "messages", "responses"];
    for (const endpoint of endpoints)
      for (const [model, said] of [
        ["fails", "The upstream far failed: because"],
        ["babbles", ""],
        ["breaks-off", "The answer of the upstream far broke off"],
      ] as const) {
        const text = await (await streamed(endpoint, model)).text();
        assert.match(text, /From /);
        assert(text.includes('"code":"upstream_failed"') && text.includes(said), `${endpoint}: ${text}`);
        assert.deepEqual([lastUsage()!.model_id, lastUsage()!.outcome], [`far/${model}`, "failed"]);
      }
    for (const endpoint of endpoints) {
      const response = await streamed(endpoint, "fails-first");
      assert.equal(response.status, 502);
      assert.match(await response.text(), /The upstream far failed: because/);
      assert.deepEqual([lastUsage()!.model_id, lastUsage()!.outcome], ["far/fails-first", "failed"]);
    }
  });

  const failing: [name: string, body: object, provider: string, status: number, code: string][] = [
    ["an unknown name", {}, "http://169.254.169.254/", 422, "validation"],
    ["an upstream that is not there", {}, "gone", 502, "upstream_failed"],
    ["a body it refuses", { model: "status-400" }, "far", 400, "bad_request"],
    ["a key it refuses", { model: "status-401" }, "far", 502, "upstream_failed"],
    ["a right that its key lacks", { model: "status-403" }, "far", 502, "upstream_failed"],
    ["a conflict of its own", { model: "status-409" }, "far", 502, "upstream_failed"],
    ["a model it does not know", { model: "status-404" }, "far", 404, "not_found"],
    ["a limit of its own", { model: "status-429" }, "far", 429, "too_many_requests"],
    ["an error of its own", { model: "status-500" }, "far", 502, "upstream_failed"],
    ["a redirect", { model: "status-302" }, "far", 502, "upstream_failed"],
    ["a stream it refuses", { model: "status-500", stream: true }, "far", 502, "upstream_failed"],
  ];
  for (const [name, body, provider, status, code] of failing)
    test(`${name}: ${status}`, async () => {
      const reply = await chat(body, provider);
      assert.equal(reply.status, status, JSON.stringify(reply.body));
      assert.equal(reply.body.error.code, code);
      if (status === 429) assert.equal(reply.headers.get("retry-after"), "7");
      if (status === 400) assert.match(reply.body.error.message, /because/);
      if (name.includes("key")) assert.match(reply.body.error.message, /refused the key/);
      assert(!JSON.stringify(reply.body).includes("sk-of-the-house"));
      assert(!store.prepare<[], object>("SELECT 1 FROM usage WHERE outcome = 'open'").get());
    });

  test("the key stands in no log line", () => {
    assert(!JSON.stringify(it.log).includes("sk-of-the-house"));
  });

  test("settings that are no pairs, no addresses or twice the same are refused", () => {
    for (const value of ["far", "far=ftp://x", "far=http://a,far=http://b", "=http://a"])
      assert.throws(() => readConfig({ PLUMBLINE_UPSTREAMS: value }), /PLUMBLINE_UPSTREAMS/);
    assert.deepEqual(readConfig({}).upstreams, []);
  });
});
