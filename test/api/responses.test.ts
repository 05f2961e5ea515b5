// The Responses endpoint through a whole house, by hand.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { deployed, type Served, servedHouse, withoutModel } from "../helpers/served.ts";

describe("responses", { skip: withoutModel }, () => {
  let it: Served;
  let aligned = "";
  before(async () => {
    it = await servedHouse();
    aligned = it.align().modelId;
    await deployed(it, aligned);
  });
  after(() => it.close());
  const endpoint = "inference.responses";

  const part = (type: string) => [{ role: "user", content: [{ type, image_url: "x", text: "y" }] }];
  const cases: {
    name: string;
    body: object;
    status: number;
    loc?: (string | number)[];
    words?: RegExp;
    key?: "other" | "none";
    model?: () => string;
  }[] = [
    { name: "without a key", body: {}, status: 422, key: "none" },
    { name: "another user's model", body: {}, status: 404, key: "other", model: () => aligned },
    { name: "no input", body: { input: undefined }, status: 422, loc: ["body", "input"] },
    { name: "an empty input", body: { input: [] }, status: 422, loc: ["body", "input"] },
    {
      name: "an image",
      body: { input: part("input_image") },
      status: 422,
      loc: ["body", "input", 0, "content", 0, "type"],
      words: /Images, files and documents are not supported/,
    },
    {
      name: "a file",
      body: { input: part("input_file") },
      status: 422,
      words: /Images, files and documents are not supported/,
    },
    {
      name: "an item reference",
      body: { input: [{ type: "item_reference", id: "a" }] },
      status: 422,
      loc: ["body", "input", 0, "type"],
    },
    {
      name: "a message without a role",
      body: { input: [{ content: "a" }] },
      status: 422,
      loc: ["body", "input", 0, "role"],
    },
    {
      name: "a call without a name",
      body: { input: [{ type: "function_call", call_id: "a", arguments: "{}" }] },
      status: 422,
      loc: ["body", "input", 0, "name"],
    },
    { name: "a call of no tools", body: { tool_choice: "required" }, status: 422, loc: ["body", "tools"] },
    {
      name: "a schema that no grammar holds",
      body: { text: { format: { type: "json_schema", name: "f", schema: { properties: { a: { multipleOf: 3 } } } } } },
      status: 422,
      loc: ["body", "text", "format", "schema", "properties", "a", "multipleOf"],
    },
    {
      name: "arguments that are no JSON",
      body: { input: [{ type: "function_call", call_id: "a", name: "f", arguments: "{" }] },
      status: 422,
      loc: ["body", "input", 0, "arguments"],
      words: /^body\.input\.0\.arguments: must be the JSON text of an object/,
    },
    {
      name: "arguments that are no JSON, of a call that is one message with others and the text before",
      body: {
        instructions: "Be brief.",
        input: [
          { role: "user", content: "Go." },
          { type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "Hm." }] },
          { role: "assistant", content: "I call." },
          { type: "function_call", call_id: "a", name: "f", arguments: "{}" },
          { type: "function_call", call_id: "b", name: "f", arguments: "[]" },
          { type: "function_call_output", call_id: "a", output: "1" },
        ],
      },
      status: 422,
      loc: ["body", "input", 4, "arguments"],
    },
    {
      name: "a call whose name is empty",
      body: {
        input: [
          { role: "user", content: "Go." },
          { type: "function_call", call_id: "a", name: "", arguments: "{}" },
        ],
      },
      status: 422,
      loc: ["body", "input", 1, "name"],
    },
    {
      name: "an input of thoughts alone",
      body: { input: [{ type: "reasoning", summary: [] }] },
      status: 422,
      loc: ["body", "input"],
    },
    { name: "a web search", body: { tools: [{ type: "web_search" }] }, status: 422, loc: ["body", "tools", 0, "type"] },
    { name: "a background response", body: { background: true }, status: 422, loc: ["body", "background"] },
    { name: "an unknown previous response", body: { previous_response_id: "resp_none" }, status: 404 },
    {
      name: "a schema that is missing",
      body: { text: { format: { type: "json_schema", name: "a" } } },
      status: 422,
      loc: ["body", "text", "format", "schema"],
    },
    { name: "max_output_tokens 0", body: { max_output_tokens: 0 }, status: 422, loc: ["body", "max_output_tokens"] },
    { name: "a prompt too long", body: { input: "word ".repeat(300) }, status: 422, words: /tokens/ },
    {
      name: "truncation auto, and more tokens of an answer than a slot holds",
      body: { truncation: "auto", max_output_tokens: 256 },
      status: 200,
    },
    { name: "no model", body: { model: undefined }, status: 422, loc: ["body", "model"] },
    {
      name: "nulls",
      body: { instructions: null, tools: null, text: null, reasoning: null, metadata: null, truncation: null },
      status: 200,
    },
  ];
  for (const one of cases)
    test(`${one.name}: ${one.status}`, async () => {
      const key = one.key === "other" ? { key: it.otherKey } : one.key === "none" ? { key: null } : {};
      const body = { model: one.model?.() ?? it.baseId, input: "Say hello.", max_output_tokens: 2, ...one.body };
      const reply = await it.call(endpoint, { body, ...key });
      assert.equal(reply.status, one.status, JSON.stringify(reply.body).slice(0, 500));
      if (one.loc) assert.deepEqual(reply.body.detail[0].loc, one.loc);
      if (one.words) assert.match(reply.body.error.message, one.words);
    });

  test("says what a chat says, and counts as it counts", async () => {
    const chat = await it.call("inference.chat", {
      body: {
        model: aligned,
        messages: [
          { role: "system", content: "Be brief." },
          { role: "user", content: "Say hello." },
        ],
        max_tokens: 4,
        temperature: 0,
      },
    });
    const body = {
      model: aligned,
      instructions: "Be brief.",
      input: "Say hello.",
      max_output_tokens: 4,
      temperature: 0,
    };
    const { body: answer } = await it.call(endpoint, { body });
    assert.equal(answer.output[0].content[0].text, chat.body.choices[0].message.content);
    assert.equal(answer.usage.input_tokens, chat.body.usage.prompt_tokens);
    assert.equal(answer.usage.output_tokens, chat.body.usage.completion_tokens);
    assert.equal(answer.confidence_score, chat.body.confidence_score);
    const isCut = chat.body.choices[0].finish_reason === "length";
    assert.equal(answer.status, isCut ? "incomplete" : "completed");
    assert.deepEqual(answer.incomplete_details, isCut ? { reason: "max_output_tokens" } : null);
  });

  test("a stored response is gone on from, read and deleted, by its owner alone", async () => {
    const ask = async (body: object) =>
      (await it.call(endpoint, { body: { model: it.baseId, max_output_tokens: 3, temperature: 0, ...body } })).body;
    const first = await ask({ input: "Say hello.", instructions: "Only of the first." });
    const next = await ask({ input: "Now say goodbye.", previous_response_id: first.id });
    const whole = await ask({
      input: [
        { role: "user", content: "Say hello." },
        first.output[0],
        { role: "user", content: [{ type: "input_text", text: "Now say goodbye." }] },
      ],
    });
    assert.equal(next.usage.input_tokens, whole.usage.input_tokens);
    assert.equal(next.output[0].content[0].text, whole.output[0].content[0].text);
    assert.equal(next.previous_response_id, first.id);

    const params = { response_id: first.id };
    assert.deepEqual((await it.call("inference.response", { params })).body, first);
    assert.equal((await it.call("inference.response", { params, key: it.otherKey })).status, 404);
    assert.equal((await it.call("inference.delete_response", { params, key: it.otherKey })).status, 404);
    const stolen = await it.call(endpoint, {
      body: { model: it.baseId, input: "a", previous_response_id: first.id },
      key: it.otherKey,
    });
    assert.equal(stolen.status, 404);
    assert.deepEqual((await it.call("inference.delete_response", { params })).body, {
      id: first.id,
      object: "response",
      deleted: true,
    });
    assert.equal((await it.call("inference.response", { params })).status, 404);
    const after = await ask({ input: "Once more.", previous_response_id: next.id });
    assert(after.usage.input_tokens > next.usage.input_tokens);
  });

  test("what is wrong with a stored conversation is wrong with the response that is gone on from", async () => {
    const ask = (body: object) => it.call(endpoint, { body: { model: it.baseId, max_output_tokens: 1, ...body } });
    const { id } = (await ask({ input: "Say hello." })).body;
    const many = JSON.stringify(Array.from({ length: 3 }, () => ({ role: "user", content: 1 })));
    it.store.prepare<string[]>("UPDATE response SET messages_json = ? WHERE id = ?").run(many, id);
    const { status, body } = await ask({ input: "Once more.", previous_response_id: id, instructions: "Be brief." });
    assert.equal(status, 422);
    assert.deepEqual(body.detail[0].loc, ["body", "previous_response_id"]);
  });

  test("one that is not stored is not there", async () => {
    const body = { model: it.baseId, input: "Say hello.", store: false, max_output_tokens: 2 };
    const { id, store } = (await it.call(endpoint, { body })).body;
    assert.equal(store, false);
    assert.equal((await it.call("inference.response", { params: { response_id: id } })).status, 404);
  });

  test("too long an input is refused, and with truncation auto cut visibly", async () => {
    const long = [...Array(30)].flatMap((_, at) => [
      { role: "user", content: `Question ${at}` },
      { role: "assistant", content: `Answer ${at}` },
    ]);
    const body = { model: it.baseId, input: [...long, { role: "user", content: "Now?" }], max_output_tokens: 1 };
    assert.equal((await it.call(endpoint, { body })).body.error.code, "prompt_too_long");
    const cut = await it.call(endpoint, { body: { ...body, truncation: "auto" } });
    const { input_tokens, input_tokens_details } = cut.body.usage;
    assert(input_tokens <= 255 && input_tokens_details.truncated_tokens > 0);
    assert.equal(cut.headers.get("x-plumbline-truncated-tokens"), String(input_tokens_details.truncated_tokens));
  });
});
