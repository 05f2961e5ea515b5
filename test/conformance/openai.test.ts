// OpenAI's own client, pointed at the appliance.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import OpenAI from "openai";
import { deployed, type Served, servedHouse, withoutModel } from "../helpers/served.ts";

describe("the OpenAI client", { skip: withoutModel }, () => {
  let it: Served;
  let client: OpenAI;
  let aligned = "";
  before(async () => {
    it = await servedHouse({ PLUMBLINE_SLOT_CONTEXT: "512" });
    aligned = it.align().modelId;
    await deployed(it, aligned);
    client = new OpenAI({ baseURL: `${it.url}/api/v3/inference`, apiKey: it.key, maxRetries: 0 });
  });
  after(() => it.close());
  const messages = [{ role: "user" as const, content: "Say hello." }];
  /** What the contract adds to OpenAI's forms. */
  const scoreOf = (answer: object): unknown => (answer as { confidence_score?: unknown }).confidence_score;

  test("chats, and reads no confidence on a base", async () => {
    const answer = await client.chat.completions.create({ model: it.baseId, messages, max_tokens: 4 });
    assert.equal(answer.object, "chat.completion");
    assert.equal(answer.choices[0]!.message.role, "assistant");
    assert.equal(answer.usage!.completion_tokens <= 4, true);
    assert.equal(scoreOf(answer), null);
  });

  test("chats with an aligned model, and reads its confidence", async () => {
    const answer = await client.chat.completions.create({ model: aligned, messages, max_tokens: 4 });
    assert.equal(typeof scoreOf(answer), "number");
  });

  test("streams, with usage on request", async () => {
    const stream = await client.chat.completions.create({
      model: aligned,
      messages,
      max_tokens: 4,
      temperature: 0,
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = "";
    let last: OpenAI.ChatCompletionChunk | undefined;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      last = chunk;
    }
    const whole = await client.chat.completions.create({ model: aligned, messages, max_tokens: 4, temperature: 0 });
    assert.equal(text, whole.choices[0]!.message.content);
    assert.deepEqual(last!.choices, []);
    assert(last!.usage!.total_tokens > 0);
    assert.equal(typeof scoreOf(last!), "number");
  });

  test("its stream helper gathers the final answer", async () => {
    const runner = client.chat.completions.stream({ model: it.baseId, messages, max_tokens: 4, n: 2 });
    const final = await runner.finalChatCompletion();
    assert.equal(final.choices.length, 2);
    assert(final.choices.every((choice) => choice.finish_reason === "length" || choice.finish_reason === "stop"));
  });

  test("completes prompts", async () => {
    const answer = await client.completions.create({ model: it.baseId, prompt: ["One two", "Red"], max_tokens: 3 });
    assert.deepEqual(
      answer.choices.map((choice) => choice.index),
      [0, 1],
    );
  });

  const tool = {
    type: "function" as const,
    function: {
      name: "look_up",
      parameters: {
        type: "object",
        properties: { word: { type: "string", maxLength: 5 } },
        required: ["word"],
        additionalProperties: false,
      },
    },
  };

  const colours = {
    type: "object",
    properties: { colour: { enum: ["red", "blue"] }, count: { type: "integer", minimum: 1, maximum: 9 } },
    required: ["colour", "count"],
    additionalProperties: false,
  };

  test("calls a tool, whole and through its stream helper", async () => {
    const body = { model: it.baseId, messages, tools: [tool], tool_choice: "required" as const, max_tokens: 60 };
    const only = { parallel_tool_calls: false, seed: 1 };
    const { message, finish_reason } = (await client.chat.completions.create({ ...body, ...only })).choices[0]!;
    assert.equal(finish_reason, "tool_calls");
    const final = await client.chat.completions.stream({ ...body, ...only }).finalChatCompletion();
    for (const call of [message.tool_calls![0]!, final.choices[0]!.message.tool_calls![0]!]) {
      assert(call.type === "function" && call.id !== "");
      assert.equal(call.function.name, "look_up");
      assert.deepEqual(Object.keys(JSON.parse(call.function.arguments)), ["word"]);
    }
  });

  test("parses structured output", async () => {
    const answer = await client.chat.completions.parse({
      model: it.baseId,
      messages,
      max_tokens: 60,
      // A sample may spend all of its tokens on the spaces that JSON allows; the likeliest tokens do not.
      temperature: 0,
      response_format: { type: "json_schema", json_schema: { name: "colour", strict: true, schema: colours } },
    });
    const parsed = answer.choices[0]!.message.parsed as unknown as { colour: string; count: number };
    assert(["red", "blue"].includes(parsed.colour) && parsed.count >= 1 && parsed.count <= 9);
  });

  test("reads log-probs of chats and completions, and several choices", async () => {
    const chat = await client.chat.completions.create({
      model: it.baseId,
      messages,
      max_tokens: 2,
      n: 2,
      logprobs: true,
      top_logprobs: 2,
    });
    assert.equal(chat.choices.length, 2);
    for (const { logprobs } of chat.choices) assert.equal(logprobs!.content![0]!.top_logprobs.length, 2);
    const { choices } = await client.completions.create({
      model: it.baseId,
      prompt: "One two",
      max_tokens: 2,
      n: 2,
      logprobs: 1,
      echo: true,
    });
    assert.equal(choices.length, 2);
    assert(choices.every(({ text, logprobs }) => text.startsWith("One two") && logprobs!.token_logprobs!.length > 2));
  });

  test("its events come in order, each with its number, and end with what is stored", async () => {
    const stream = await client.responses.create({
      model: it.baseId,
      input: "Say hello.",
      max_output_tokens: 3,
      temperature: 0,
      stream: true,
    });
    const events: OpenAI.Responses.ResponseStreamEvent[] = [];
    for await (const event of stream) events.push(event);
    assert.deepEqual(
      events.map((event) => event.sequence_number),
      [...events.keys()],
    );
    const kinds = events.map((event) => event.type).filter((type) => type !== "response.output_text.delta");
    const last = events.at(-1)!;
    assert(last.type === "response.completed" || last.type === "response.incomplete");
    assert.deepEqual(kinds, [
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      last.type,
    ]);
    const deltas = events.flatMap((event) => (event.type === "response.output_text.delta" ? [event.delta] : []));
    const stored = await client.responses.retrieve(last.response.id);
    assert.equal(deltas.join(""), stored.output_text);
    assert(deltas.length > 1);
    await client.responses.delete(last.response.id);
    await assert.rejects(client.responses.retrieve(last.response.id), OpenAI.NotFoundError);
  });

  for (const path of ["", "/v1"])
    test(`embeds, lists models and gathers a streamed response at ${path || "the root"}`, async () => {
      const there = new OpenAI({ baseURL: `${it.url}/api/v3/inference${path}`, apiKey: it.key, maxRetries: 0 });
      const made = await there.embeddings.create({ model: it.baseId, input: ["One", "Two"] });
      assert.equal(made.data.length, 2);
      assert(Math.abs(Math.hypot(...made.data[1]!.embedding) - 1) < 1e-6);
      const models = (await there.models.list()).data;
      assert.deepEqual(models.map((model) => model.id).toSorted(), [it.baseId, aligned].toSorted());
      assert.equal((await there.models.retrieve(it.baseId)).owned_by, "plumbline");
      await assert.rejects(there.models.retrieve("model_none"), OpenAI.NotFoundError);
      const asked = { model: aligned, input: "Say hello.", max_output_tokens: 3, temperature: 0 };
      const whole = await there.responses.create(asked);
      const final = await there.responses.stream(asked).finalResponse();
      assert.equal(final.output_text, whole.output_text);
      assert.equal(typeof scoreOf(final), "number");
    });

  test("a response calls a tool, goes on with its result, and parses structured output", async () => {
    const asked = { model: it.baseId, input: "Look it up.", max_output_tokens: 60, temperature: 0 };
    const called = await client.responses.create({
      ...asked,
      tools: [{ type: "function", strict: true, ...tool.function }],
      tool_choice: "required",
      parallel_tool_calls: false,
    });
    const call = called.output.find((item) => item.type === "function_call")!;
    assert.equal(call.name, "look_up");
    assert.deepEqual(Object.keys(JSON.parse(call.arguments)), ["word"]);
    const next = await client.responses.create({
      model: it.baseId,
      previous_response_id: called.id,
      input: [{ type: "function_call_output", call_id: call.call_id, output: "A plumb line hangs straight." }],
      max_output_tokens: 2,
    });
    const alone = await client.responses.create({ ...asked, max_output_tokens: 1 });
    assert(next.usage!.input_tokens > alone.usage!.input_tokens + 10);
    const parsed = await client.responses.parse({
      ...asked,
      text: { format: { type: "json_schema", name: "colour", strict: true, schema: colours } },
    });
    assert(["red", "blue"].includes((parsed.output_parsed as unknown as { colour: string }).colour));
  });

  test("gets errors with their class, words and code", async () => {
    const asked = client.chat.completions.create({ model: "model_nobody", messages });
    await assert.rejects(asked, (error: unknown) => {
      assert(error instanceof OpenAI.NotFoundError);
      assert.match(error.message, /Model not found/);
      assert.equal(error.code, "not_found");
      return true;
    });
    const bad = client.chat.completions.create({ model: it.baseId, messages: [] });
    await assert.rejects(
      bad,
      (error: unknown) => error instanceof OpenAI.UnprocessableEntityError && /messages/.test(error.message),
    );
  });
});
