// Chats and completions over a real model in a listening house.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { createLog } from "../../src/base/log.ts";
import type { Contract } from "../../src/contract/index.ts";
import { openTokenizer } from "../../src/engine/serve/generator.ts";
import { base, createEngine, starterModel } from "../engine/engine-fixture.ts";
import { eventually } from "../helpers/house.ts";
import { deployed, type Served, servedHouse, withoutModel } from "../helpers/served.ts";

const chat = "inference.chat";
const complete = "inference.completions";
const messages = [{ role: "user", content: "Say hello." }];

interface CompletionChunk {
  choices: {
    index: number;
    text: string;
    logprobs: { tokens: string[]; text_offset: number[] } | null;
    finish_reason: string | null;
  }[];
}

/** Values of completions that are refused, and the field that the answer must name. */
function refusedCompletions() {
  const values: [string, unknown, string[]][] = [
    ["best_of", 2, ["best_of"]],
    ["suffix", "end", ["suffix"]],
    ["n", 0, ["n"]],
    ["n", 17, ["n"]],
    ["n", "2", ["n"]],
    ["logprobs", 21, ["logprobs"]],
    ["logprobs", true, ["logprobs"]],
    ["echo", "yes", ["echo"]],
    ["stop", ["a", "b", "c", "d", "e"], ["stop"]],
    ["stop", "", ["stop"]],
    ["seed", -1, ["seed"]],
    ["presence_penalty", 2.1, ["presence_penalty"]],
    ["frequency_penalty", -2.1, ["frequency_penalty"]],
    ["repetition_penalty", 0, ["repetition_penalty"]],
    ["min_p", 1.5, ["min_p"]],
    ["logit_bias", { "5": 101 }, ["logit_bias", "5"]],
    ["logit_bias", { five: 1 }, ["logit_bias"]],
    ["logit_bias", { "49152": 1 }, ["logit_bias", "49152"]],
    ["ignore_eos", 1, ["ignore_eos"]],
    ["user", 5, ["user"]],
    ["stream_options", { include_usage: "yes" }, ["stream_options", "include_usage"]],
  ];
  return values.map(([field, value, at]) => ({
    name: `${field} ${JSON.stringify(value)}`,
    endpoint: complete,
    body: { [field]: value },
    status: 422,
    loc: ["body", ...at.map((part) => (part === "0" ? 0 : /^\d+$/.test(part) ? Number(part) : part))],
  })) as { name: string; endpoint: typeof complete; body: Record<string, unknown>; status: number; loc: string[] }[];
}

const eventsOf = (text: string): unknown[] => {
  const data = text
    .split("\n\n")
    .filter((part) => part.startsWith("data: "))
    .map((part) => part.slice(6));
  assert.equal(data.pop(), "[DONE]");
  return data.map((part) => JSON.parse(part));
};

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
    { name: "no model by null", endpoint: chat, body: { model: null }, status: 422, loc: ["body", "model"] },
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
    {
      name: "a tool",
      endpoint: chat,
      body: { tools: [{ type: "function" }] },
      status: 422,
      loc: ["body", "tools", 0, "function"],
    },
    ...refusedCompletions(),
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

  describe("completions", () => {
    const ask = async (body: object) => (await it.call(complete, { body: { model: it.baseId, ...body } })).body;
    const streamed = async (body: object) =>
      eventsOf(await (await stream("/api/v3/inference/completions", body)).text()) as CompletionChunk[];
    const ids = async (text: string): Promise<number[]> => {
      const { tokenizer, dispose } = await openTokenizer(starterModel, createLog("error"));
      const tokens = tokenizer.encode(text, false);
      await dispose();
      return tokens;
    };

    test("n choices of each prompt, in order of prompts; the prompts are read and counted once", async () => {
      const prompt = ["The sky over the harbour was grey that morning, and nobody had slept.", "Red"];
      const one = await ask({ prompt, max_tokens: 4, seed: 3 });
      const two = await ask({ prompt, max_tokens: 4, seed: 3, n: 2 });
      assert.deepEqual(
        two.choices.map((choice: { index: number }) => choice.index),
        [0, 1, 2, 3],
      );
      assert.equal(two.usage.prompt_tokens, one.usage.prompt_tokens);
      assert.equal(two.usage.completion_tokens, 16);
      assert.notEqual(two.choices[0].text, two.choices[1].text);
      const many = await it.call(complete, { body: { model: it.baseId, prompt: new Array(65).fill("a"), n: 2 } });
      assert.deepEqual(many.body.detail[0].loc, ["body", "n"]);
    });

    test("stop strings, one or several, end the text before them", async () => {
      const body = { prompt: "1 2 3 4 5 6", max_tokens: 16, temperature: 0 };
      const { text } = (await ask(body)).choices[0];
      const stop = text.slice(3, 6);
      for (const stops of [stop, ["never", stop]]) {
        const [choice] = (await ask({ ...body, stop: stops })).choices;
        assert.equal(choice.text, text.slice(0, text.indexOf(stop)));
        assert.deepEqual([choice.finish_reason, choice.stop_reason], ["stop", stop]);
      }
    });

    test("biases and penalties rule the draw", async () => {
      const body = { prompt: "Say it:", max_tokens: 24, temperature: 0 };
      const [zebra] = await ids(" zebra");
      const biased = await ask({ ...body, logit_bias: { [zebra!]: 100 } });
      assert.equal(biased.choices[0].text, " zebra".repeat(24));
      const penalised = await ask({ ...body, logit_bias: { [zebra!]: 30 }, presence_penalty: 2, frequency_penalty: 2 });
      assert.notEqual(penalised.choices[0].text, " zebra".repeat(24));
      const repeated = await ask({ prompt: "a a a a a a a a", max_tokens: 8, temperature: 0 });
      const varied = await ask({ prompt: "a a a a a a a a", max_tokens: 8, temperature: 0, repetition_penalty: 5 });
      assert.notEqual(varied.choices[0].text, repeated.choices[0].text);
    });

    test("the end of the model's answer can be ignored", async () => {
      const prompt = [1, ...(await ids("user\nWhat is 1 + 1? Answer with the number only.")), 2];
      const body = { prompt, max_tokens: 60, temperature: 0 };
      const plain = await ask(body);
      const ignored = await ask({ ...body, ignore_eos: true });
      assert.equal(plain.choices[0].finish_reason, "stop");
      assert.deepEqual([ignored.choices[0].finish_reason, ignored.usage.completion_tokens], ["length", 60]);
    });

    test("log-probs: of each token and of the best ones, in order, the token always among them", async () => {
      const body = { prompt: "The capital of France is", max_tokens: 4, seed: 5 };
      const plain = (await ask(body)).choices[0];
      const { text, logprobs } = (await ask({ ...body, logprobs: 3 })).choices[0];
      assert.equal(plain.logprobs, null);
      assert.equal(text, plain.text);
      assert.equal(logprobs.tokens.join(""), text);
      for (const [at, token] of logprobs.tokens.entries()) {
        const top = logprobs.top_logprobs[at];
        assert.equal(top[token], logprobs.token_logprobs[at]);
        const values = Object.values(top) as number[];
        assert.ok(values.length === 3 || values.length === 4);
        assert.ok(values.every((value) => value <= 0));
        assert.ok(values.reduce((sum, value) => sum + Math.exp(value), 0) <= 1.0001);
        assert.equal([...text].slice(logprobs.text_offset[at]).join("").startsWith(token), true);
      }
      const none = (await ask({ ...body, logprobs: 0 })).choices[0].logprobs;
      assert.deepEqual(
        none.top_logprobs.map((top: object) => Object.keys(top).length),
        [1, 1, 1, 1],
      );
    });

    test("echo gives the prompt before the answer, by text and by ids", async () => {
      const text = "The capital of France is";
      const body = { max_tokens: 2, temperature: 0, echo: true };
      const byText = (await ask({ ...body, prompt: text })).choices[0].text;
      assert.ok(byText.startsWith(text) && byText.length > text.length);
      assert.equal((await ask({ ...body, prompt: await ids(text) })).choices[0].text, byText);
      const none = await ask({ ...body, prompt: text, max_tokens: 0 });
      assert.equal(none.choices[0].text, text);
      assert.equal(none.usage.completion_tokens, 0);
    });

    test("echoed log-probs are those of the scorer, the first null, the answer's token last, as lm-eval reads them", async () => {
      const context = await ids("The capital of France is");
      const continuation = await ids(" Paris, and of Spain");
      const prompts = [[...context, ...continuation], context];
      const answer = await ask({ prompt: prompts, max_tokens: 1, temperature: 0, logprobs: 1, echo: true });
      const { generator } = createEngine({ slots: 2, slotContext: 256 });
      await generator.pool.lease(base, "work");
      const rows = prompts.map((tokens) => ({ tokens, promptLength: 1 }));
      const expected = await generator.score(base, rows, new AbortController().signal);
      await generator.dispose();
      for (const [index, prompt] of prompts.entries()) {
        const { tokens, token_logprobs, top_logprobs } = answer.choices[index].logprobs;
        assert.deepEqual([tokens.length, token_logprobs.length], [prompt.length + 1, prompt.length + 1]);
        assert.deepEqual([token_logprobs[0], top_logprobs[0]], [null, null]);
        for (const [at, value] of expected[index]!.entries())
          assert.ok(Math.abs(token_logprobs[at + 1] - value) < 2e-2, `${index}, ${at}`);
      }
      const nothing = await ask({ prompt: context, max_tokens: 0, logprobs: 1, echo: true });
      assert.equal(nothing.choices[0].logprobs.tokens.length, context.length);
      assert.equal(nothing.usage.completion_tokens, 0);
    });

    test("a stream gives the same texts and log-probs, the prompt's first", async () => {
      const body = {
        prompt: ["One two three", "Ein, zwei, drei: 日本"],
        max_tokens: 6,
        seed: 9,
        n: 2,
        logprobs: 2,
        echo: true,
      };
      const whole = await ask(body);
      const chunks = (await streamed(body)).flatMap((chunk) => chunk.choices);
      for (const { index, text, logprobs, finish_reason } of whole.choices) {
        const mine = chunks.filter((choice) => choice.index === index);
        assert.equal(mine.map((choice) => choice.text).join(""), text);
        assert.equal(mine.at(-1)!.finish_reason, finish_reason);
        for (const key of ["tokens", "text_offset"] as const)
          assert.deepEqual(
            mine.flatMap((choice) => (choice.logprobs?.[key] as unknown[]) ?? []),
            logprobs[key],
          );
      }
    });
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
    const { least_certain: least, ...behind } = whole.confidence;
    const drift = { p_value: null, reason: "No encoder is installed" };
    const date = "2026-01-01T00:00:00.000Z";
    assert.deepEqual(behind, { calibrated: true, n: 120, reason: null, date, drift, sources: null });
    const said = whole.choices.map((choice: { message: { content: string } }) => choice.message.content);
    assert(said.some((text: string) => text.slice(least.start, least.end) === least.text && least.text !== ""));
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
    const whole = await it.call(chat, { body: { ...body, prompt_truncate_len: 1000 } });
    assert.equal(whole.status, 422);
    assert.equal(whole.body.error.code, "prompt_too_long");
  });

  for (const isStream of [true, false])
    test(`a client that leaves frees its slots: ${isStream ? "streaming" : "not streaming"}`, async () => {
      const before = outcomes().length;
      const client = new AbortController();
      // All slots at once, with as many words as they hold.
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

  test("a request that leaves while it waits for a slot draws nothing", async () => {
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

describe("what is taken away under a running stream", { skip: withoutModel }, () => {
  let it: Served;
  before(async () => {
    it = await servedHouse();
  });
  after(() => it.close());

  /** Begins a long answer of `model`, takes the model away, and reads to the end. */
  async function finished(model: string, takeAway: () => Promise<unknown>): Promise<Record<string, unknown>[]> {
    const body = { model, prompt: "Count: 1, 2,", max_tokens: 150, ignore_eos: true, temperature: 0, stream: true };
    const response = await it.get("/api/v3/inference/completions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const reader = response.body!.getReader();
    const decoder = new TextDecoder();
    let text = decoder.decode((await reader.read()).value, { stream: true });
    await takeAway();
    for (let next = await reader.read(); !next.done; next = await reader.read())
      text += decoder.decode(next.value, { stream: true });
    assert.ok(text.endsWith("data: [DONE]\n\n"), text.slice(-300));
    return eventsOf(text) as Record<string, unknown>[];
  }
  const next = (model: string) => it.call("inference.completions", { body: { model, prompt: "One", max_tokens: 1 } });

  test("an aligned model finishes it and refuses the next", async () => {
    const { modelId } = it.align();
    assert.equal(await deployed(it, modelId), "READY");
    const chunks = await finished(modelId, () => it.call("models.undeploy", { params: { model_id: modelId } }));
    assert.equal((chunks.at(-1)!.usage as { completion_tokens: number }).completion_tokens, 150);
    assert.equal((await next(modelId)).status, 409);
  });

  test("so does a base, whose file is gone", async () => {
    const path = join(it.data, "copy.gguf");
    // A file of its own: one bit of its last weight differs.
    const bytes = readFileSync(starterModel);
    bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1);
    writeFileSync(path, bytes);
    const { model_id: model } = (await it.house.admin("model.import", { path })) as { model_id: string };
    const chunks = await finished(model, () => it.house.admin("model.remove", { id: model }));
    assert.equal((chunks.at(-1)!.usage as { completion_tokens: number }).completion_tokens, 150);
    assert.equal((await next(model)).status, 404);
  });
});
