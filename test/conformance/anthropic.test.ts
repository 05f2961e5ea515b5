// Anthropic's own client, pointed at the appliance.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { eventually } from "../helpers/house.ts";
import { deployed, type Served, servedHouse, withoutModel } from "../helpers/served.ts";

describe("the Anthropic client", { skip: withoutModel }, () => {
  let it: Served;
  let client: Anthropic;
  let aligned = "";
  before(async () => {
    it = await servedHouse();
    aligned = it.align().modelId;
    await deployed(it, aligned);
    client = new Anthropic({ baseURL: `${it.url}/api/v3/inference`, apiKey: it.key, maxRetries: 0 });
  });
  after(() => it.close());
  const endpoint = "inference.messages";
  const messages = [{ role: "user" as const, content: "Say hello." }];
  const outcomes = (): string[] =>
    it.store
      .prepare<[], { outcome: string }>("SELECT outcome FROM usage ORDER BY created_at")
      .all()
      .map((row) => row.outcome);

  test("a client that leaves ends the work", async () => {
    const before = outcomes().length;
    const gone = new AbortController();
    // An answer so long that it cannot have ended before the client leaves.
    const counting = [{ role: "user" as const, content: "Count from one to five hundred, in words." }];
    const long = { model: it.baseId, max_tokens: 200, temperature: 0, messages: counting };
    const asked = client.messages.create(long, { signal: gone.signal });
    asked.catch(() => {});
    await eventually(() => outcomes().length > before, 10_000);
    gone.abort();
    await eventually(() => !outcomes().includes("open"), 10_000);
    assert.equal(outcomes().at(-1), "aborted");
  });

  test("answers and streams", async () => {
    const asked = { model: aligned, max_tokens: 4, messages };
    const answer = await client.messages.create(asked);
    assert.equal(answer.type, "message");
    assert.equal(typeof (answer as { confidence_score?: unknown }).confidence_score, "number");
    const stream = client.messages.stream(asked);
    const kinds: string[] = [];
    let text = "";
    stream.on("streamEvent", (event) => kinds.push(event.type));
    stream.on("text", (piece) => {
      text += piece;
    });
    const final = await stream.finalMessage();
    const [said] = final.content;
    assert(said?.type === "text" && said.text.length > 0);
    assert.equal(text, said.text);
    assert(final.usage.output_tokens > 0 && final.usage.input_tokens + final.usage.cache_read_input_tokens! > 5);
    assert.equal(kinds[0], "message_start");
    assert.deepEqual(kinds.slice(-3), ["content_block_stop", "message_delta", "message_stop"]);
  });

  test("takes a bearer too, counts tokens and lists models", async () => {
    const bearer = new Anthropic({
      baseURL: `${it.url}/api/v3/inference`,
      authToken: it.key,
      apiKey: null,
      maxRetries: 0,
    });
    const { input_tokens } = await bearer.messages.countTokens({ model: it.baseId, messages });
    assert(input_tokens > 5);
    const listed = await bearer.models.list();
    assert.deepEqual(listed.data.map((model) => model.id).toSorted(), [it.baseId, aligned].toSorted());
  });

  test("gets errors with their class and words", async () => {
    await assert.rejects(client.messages.create({ model: "model_none", max_tokens: 1, messages }), (error: unknown) => {
      assert(error instanceof Anthropic.NotFoundError);
      assert.match(error.message, /Model not found/);
      assert(error.requestID?.startsWith("req_"));
      return true;
    });
    const wrongKey = new Anthropic({ baseURL: `${it.url}/api/v3/inference`, apiKey: "pl_wrong", maxRetries: 0 });
    await assert.rejects(
      wrongKey.messages.create({ model: it.baseId, max_tokens: 1, messages }),
      Anthropic.AuthenticationError,
    );
  });

  test("has a tool called, sends its result, and meets a stop sequence", async () => {
    const tools: Anthropic.Tool[] = [
      {
        name: "weather",
        input_schema: {
          type: "object",
          properties: { city: { type: "string", enum: ["Oslo", "Bergen"] } },
          required: ["city"],
          additionalProperties: false,
        },
      },
    ];
    const asked = [{ role: "user" as const, content: "Weather in Oslo?" }];
    // A sample may spend all of its tokens on the spaces that JSON allows; the likeliest tokens do not.
    const more = { model: it.baseId, max_tokens: 60, temperature: 0, tools, messages: asked };
    const stream = client.messages.stream({ ...more, tool_choice: { type: "any", disable_parallel_tool_use: true } });
    const answer = await stream.finalMessage();
    const call = answer.content.find((block) => block.type === "tool_use")!;
    assert.equal(answer.stop_reason, "tool_use");
    assert.equal(call.name, "weather");
    assert(["Oslo", "Bergen"].includes((call.input as { city: string }).city));
    const next = await client.messages.create({
      ...more,
      max_tokens: 2,
      messages: [
        ...asked,
        { role: "assistant", content: [call] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "Rain, 8 degrees" }] },
      ],
      tool_choice: { type: "none" },
    });
    assert(next.usage.output_tokens > 0);
    const { body: whole } = await it.call(endpoint, {
      body: { model: it.baseId, max_tokens: 4, temperature: 0, messages },
    });
    const stop = whole.content[0].text.trim().slice(0, 3) as string;
    const cut = await it.call(endpoint, {
      body: { model: it.baseId, max_tokens: 4, temperature: 0, messages, stop_sequences: [stop] },
    });
    assert.deepEqual([cut.body.stop_reason, cut.body.stop_sequence], ["stop_sequence", stop]);
  });
});
