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
    it = await servedHouse();
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
