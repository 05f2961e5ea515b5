// The Messages endpoint through a whole house, by hand.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { messagesFailureBody } from "../../src/contract/messages.ts";
import { compile } from "../../src/contract/validate.ts";
import { deployed, type Served, servedHouse, withoutModel } from "../helpers/served.ts";

const checkFailure = compile(messagesFailureBody);

describe("messages", { skip: withoutModel }, () => {
  let it: Served;
  let aligned = "";
  before(async () => {
    it = await servedHouse();
    aligned = it.align().modelId;
    await deployed(it, aligned);
  });
  after(() => it.close());
  const endpoint = "inference.messages";
  const messages = [{ role: "user" as const, content: "Say hello." }];
  const outcomes = (): string[] =>
    it.store
      .prepare<[], { outcome: string }>("SELECT outcome FROM usage ORDER BY created_at")
      .all()
      .map((row) => row.outcome);

  const tool = { name: "weather", input_schema: { type: "object", properties: {} } };
  const result = (id: string) => ({ type: "tool_result", tool_use_id: id, content: "42" });
  const block = (type: string, more: object = {}) => [{ role: "user", content: [{ type, ...more }] }];
  const cases: {
    name: string;
    body: object;
    status: number;
    loc?: (string | number)[];
    words?: RegExp;
    key?: "other" | "none";
    model?: () => string;
  }[] = [
    { name: "without a key", body: {}, status: 422, key: "none", loc: ["header", "Authorization"] },
    { name: "another user's model", body: {}, status: 404, key: "other", model: () => aligned },
    { name: "no max_tokens", body: { max_tokens: undefined }, status: 422, loc: ["body", "max_tokens"] },
    { name: "max_tokens 0", body: { max_tokens: 0 }, status: 422, loc: ["body", "max_tokens"] },
    { name: "no messages", body: { messages: [] }, status: 422, loc: ["body", "messages"] },
    {
      name: "an image",
      body: { messages: block("image", { source: { type: "base64", media_type: "image/png", data: "AA==" } }) },
      status: 422,
      loc: ["body", "messages", 0, "content", 0, "type"],
      words: /Images, files and documents are not supported/,
    },
    {
      name: "an image in a tool's result",
      body: { messages: block("tool_result", { tool_use_id: "a", content: [{ type: "image" }] }) },
      status: 422,
      loc: ["body", "messages", 0, "content", 0, "content", 0, "type"],
      words: /Images, files and documents are not supported/,
    },
    {
      name: "a document",
      body: { messages: block("document") },
      status: 422,
      loc: ["body", "messages", 0, "content", 0, "type"],
      words: /Images, files and documents are not supported/,
    },
    {
      name: "a call by the user",
      body: { messages: block("tool_use", { id: "a", name: "b", input: {} }) },
      status: 422,
      words: /Allowed in messages of role user/,
    },
    {
      name: "a text block without text",
      body: { messages: block("text") },
      status: 422,
      loc: ["body", "messages", 0, "content", 0, "text"],
    },
    {
      name: "five stop sequences",
      body: { stop_sequences: ["a", "b", "c", "d", "e"] },
      status: 422,
      loc: ["body", "stop_sequences"],
    },
    { name: "a call of no tools", body: { tool_choice: { type: "any" } }, status: 422, loc: ["body", "tools"] },
    {
      name: "a tool that is not offered",
      body: { tools: [tool], tool_choice: { type: "tool", name: "other" } },
      status: 422,
      loc: ["body", "tool_choice"],
    },
    {
      name: "a tool without its name",
      body: { tools: [tool], tool_choice: { type: "tool" } },
      status: 422,
      loc: ["body", "tool_choice", "name"],
    },
    { name: "a tool twice", body: { tools: [tool, tool] }, status: 422, loc: ["body", "tools", 1, "name"] },
    {
      name: "a schema that no grammar holds",
      body: {
        tools: [{ name: "f", input_schema: { type: "object", properties: { a: { multipleOf: 3 } } } }],
        tool_choice: { type: "any" },
      },
      status: 422,
      loc: ["body", "tools", 0, "input_schema", "properties", "a", "multipleOf"],
    },
    {
      name: "thinking of a model that cannot",
      body: { thinking: { type: "enabled", budget_tokens: 10 } },
      status: 422,
      loc: ["body", "thinking", "type"],
    },
    {
      name: "a call by the system",
      body: { messages: [{ role: "system", content: [{ type: "tool_use", id: "a", name: "b", input: {} }] }] },
      status: 422,
      words: /Allowed in messages of role system/,
    },
    {
      name: "a call without a name, after a system text and results that are messages of their own in a chat",
      body: {
        system: "Be brief.",
        messages: [
          { role: "user", content: [result("a"), result("b"), { type: "text", text: "Go on." }] },
          {
            role: "assistant",
            content: [
              { type: "text", text: "Once more." },
              { type: "tool_use", id: "c", name: "f", input: {} },
              { type: "tool_use", id: "d", name: "", input: {} },
            ],
          },
          { role: "user", content: "And now?" },
        ],
      },
      status: 422,
      loc: ["body", "messages", 1, "content", 2, "name"],
      words: /^body\.messages\.1\.content\.2\.name: /,
    },
    {
      name: "more calls in a message than a chat has",
      body: {
        messages: [
          { role: "user", content: "Go." },
          {
            role: "assistant",
            content: Array.from({ length: 129 }, (_, n) => ({ type: "tool_use", id: `c${n}`, name: "f", input: {} })),
          },
        ],
      },
      status: 422,
      loc: ["body", "messages", 1],
      words: /128 items/,
    },
    {
      name: "more results than a chat has messages",
      body: { messages: [{ role: "user", content: Array.from({ length: 2001 }, () => result("a")) }] },
      status: 422,
      loc: ["body", "messages"],
      words: /2000 items/,
    },
    { name: "temperature over 2", body: { temperature: 2.1 }, status: 422, loc: ["body", "temperature"] },
    {
      name: "a prompt too long",
      body: { messages: [{ role: "user", content: "word ".repeat(300) }] },
      status: 422,
      words: /tokens/,
    },
    {
      name: "system as blocks",
      body: { system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }] },
      status: 200,
    },
    { name: "text blocks", body: { messages: block("text", { text: "Hello" }) }, status: 200 },
    {
      name: "nulls",
      body: { stop_sequences: null, tools: null, thinking: null, system: null, top_p: null },
      status: 200,
    },
  ];
  for (const one of cases)
    test(`${one.name}: ${one.status}`, async () => {
      const key = one.key === "other" ? { key: it.otherKey } : one.key === "none" ? { key: null } : {};
      const body = { model: one.model?.() ?? it.baseId, messages, max_tokens: 2, ...one.body };
      const reply = await it.call(endpoint, { body, ...key });
      assert.equal(reply.status, one.status, JSON.stringify(reply.body).slice(0, 500));
      if (one.status === 200) return;
      assert(checkFailure(reply.body).ok, JSON.stringify(reply.body));
      assert.equal(reply.headers.get("request-id"), reply.body.request_id);
      if (one.loc) assert.deepEqual(reply.body.detail[0].loc, one.loc);
      if (one.words) assert.match(reply.body.error.message, one.words);
    });

  test("says what a chat says, and counts as it counts", async () => {
    const body = { max_tokens: 4, temperature: 0, model: aligned };
    const chat = await it.call("inference.chat", {
      body: { ...body, messages: [{ role: "system", content: "Be brief." }, ...messages] },
    });
    const answer = (await it.call(endpoint, { body: { ...body, system: "Be brief.", messages } })).body;
    assert.equal(answer.content[0].text, chat.body.choices[0].message.content);
    assert.equal(answer.stop_reason, chat.body.choices[0].finish_reason === "length" ? "max_tokens" : "end_turn");
    assert.equal(answer.confidence_score, chat.body.confidence_score);
    const { usage } = answer;
    assert.equal(usage.input_tokens + usage.cache_read_input_tokens, chat.body.usage.prompt_tokens);
    assert.equal(usage.output_tokens, chat.body.usage.completion_tokens);
    const rows = outcomes().length;
    const counted = await it.call("inference.count_tokens", {
      body: { model: aligned, system: "Be brief.", messages },
    });
    assert.deepEqual(counted.body, { input_tokens: chat.body.usage.prompt_tokens });
    assert.equal(outcomes().length, rows, "counting is no usage");
  });

  test("a conversation is read turn by turn", async () => {
    const turns = [
      ...messages,
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "Hm." },
          { type: "text", text: "Hello." },
        ],
      },
      {
        role: "user",
        content: [
          { type: "text", text: "Now say " },
          { type: "text", text: "goodbye." },
        ],
      },
    ];
    const plain = [
      ...messages,
      { role: "assistant", content: "Hello." },
      { role: "user", content: "Now say goodbye." },
    ];
    const body = { model: it.baseId, max_tokens: 3, temperature: 0 };
    const chat = await it.call("inference.chat", { body: { ...body, messages: plain } });
    const answer = await it.call(endpoint, { body: { ...body, messages: turns } });
    assert.equal(answer.body.content[0].text, chat.body.choices[0].message.content);
  });

  test("an error before the stream begins has its own status", async () => {
    const body = { model: "model_none", messages, max_tokens: 4, stream: true };
    const reply = await it.call(endpoint, { body });
    assert.equal(reply.status, 404);
    assert.equal(reply.body.error.type, "not_found_error");
  });
});
