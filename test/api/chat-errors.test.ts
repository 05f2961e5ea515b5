// Bad bodies of the four chat endpoints: each is refused with its status and names the client's own fields.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";

const user = { role: "user", content: "Hello." };
const fn = (name: string, parameters: object = { type: "object", properties: {} }) => ({
  type: "function",
  function: { name, parameters },
});
const tool = (name: string, input_schema: object = { type: "object", properties: {} }) => ({ name, input_schema });
const flat = (name: string, parameters: object = { type: "object", properties: {} }) => ({
  type: "function",
  name,
  parameters,
});
const own = { type: "object", properties: { constructor: { type: "string" }, prototype: { type: "object" } } };
const odd = { type: "object", properties: { a: { multipleOf: 3 } } };
const called = (args: string, name = "f") => ({
  role: "assistant",
  content: null,
  tool_calls: [{ id: "a", type: "function", function: { name, arguments: args } }],
});
const use = (name: string, id = "a", input: unknown = {}) => ({ type: "tool_use", id, name, input });
const item = (args: string, name = "f", call_id = "a") => ({ type: "function_call", call_id, name, arguments: args });
const many = (count: number, make: (at: number) => unknown) => Array.from({ length: count }, (_, at) => make(at));
const long = "word ".repeat(900);

/** What is expected: the status, and the fields that are named or the code. */
const rows: [to: keyof typeof plain, name: string, body: Record<string, unknown>, expected: string][] = [
  // chat/completions
  ["chat", "model of a wrong type", { model: 1 }, "422 model"],
  ["chat", "an unknown model", { model: "model_none" }, "404 not_found"],
  ["chat", "messages of a wrong type", { messages: "x" }, "422 messages"],
  ["chat", "no messages", { messages: [] }, "422 messages"],
  ["chat", "max_tokens of a wrong type", { max_tokens: "2" }, "422 max_tokens"],
  ["chat", "max_tokens below", { max_tokens: -1 }, "422 max_tokens"],
  ["chat", "prompt_truncate_len 0", { prompt_truncate_len: 0 }, "422 prompt_truncate_len"],
  ["chat", "temperature above", { temperature: 3 }, "422 temperature"],
  ["chat", "top_p 0", { top_p: 0 }, "422 top_p"],
  ["chat", "top_k below", { top_k: -2 }, "422 top_k"],
  ["chat", "min_p above", { min_p: 2 }, "422 min_p"],
  ["chat", "seed of a wrong type", { seed: "x" }, "422 seed"],
  ["chat", "five stops", { stop: ["a", "b", "c", "d", "e"] }, "422 stop"],
  ["chat", "a bias of an unknown token", { logit_bias: { "4000000000": 1 } }, "422 logit_bias.4000000000"],
  ["chat", "n 17", { n: 17 }, "422 n"],
  ["chat", "stream of a wrong type", { stream: "yes" }, "422 stream"],
  ["chat", "stream_options of a wrong type", { stream_options: 1 }, "422 stream_options"],
  ["chat", "a tool twice", { tools: [fn("f"), fn("g"), fn("f")] }, "422 tools.2.function.name"],
  [
    "chat",
    "a tool twice, of none to be called",
    { tools: [fn("f"), fn("f")], tool_choice: "none" },
    "422 tools.1.function.name",
  ],
  [
    "chat",
    "tool_choice of another tool",
    { tools: [fn("f")], tool_choice: { type: "function", function: { name: "g" } } },
    "422 tool_choice",
  ],
  ["chat", "tool_choice and no tools", { tool_choice: "required" }, "422 tools"],
  ["chat", "tool_choice unknown", { tools: [fn("f")], tool_choice: "some" }, "422 tool_choice"],
  [
    "chat",
    "parameters that no grammar holds",
    { tools: [fn("g"), fn("f", odd)], tool_choice: "required" },
    "422 tools.1.function.parameters.properties.a.multipleOf",
  ],
  [
    "chat",
    "parameters of a wrong type",
    { tools: [{ type: "function", function: { name: "f", parameters: [] } }] },
    "422 tools.0.function.parameters",
  ],
  [
    "chat",
    "a schema that no grammar holds",
    { response_format: { type: "json_schema", json_schema: { name: "a", schema: odd } } },
    "422 response_format.json_schema.schema.properties.a.multipleOf",
  ],
  ["chat", "a schema beside tools", { tools: [fn("f")], response_format: { type: "json_object" } }, "422 tool_choice"],
  [
    "chat",
    "a schema that is huge",
    {
      response_format: {
        type: "json_schema",
        json_schema: { name: "a", schema: { enum: many(30000, (at) => `value ${at}`) } },
      },
    },
    "422 response_format.json_schema.schema",
  ],
  [
    "chat",
    "arguments that are no JSON",
    { messages: [user, called("{}"), { role: "tool", tool_call_id: "a", content: "1" }, called("{")] },
    "422 messages.3.tool_calls.0.function.arguments",
  ],
  [
    "chat",
    "arguments that are a list",
    { messages: [user, called("[]")] },
    "422 messages.1.tool_calls.0.function.arguments",
  ],
  [
    "chat",
    "a call without a name",
    { messages: [user, called("{}", "")] },
    "422 messages.1.tool_calls.0.function.name",
  ],
  ["chat", "thinking of a model that cannot", { reasoning: { enabled: true } }, "422 reasoning.enabled"],
  [
    "chat",
    "reasoning of a wrong type",
    { reasoning: { max_tokens: "x", effort: "much" } },
    "422 reasoning.effort, reasoning.max_tokens",
  ],
  ["chat", "functions of old", { functions: [] }, "422 functions"],
  [
    "chat",
    "a prompt too long",
    { messages: [{ role: "user", content: long }], prompt_truncate_len: 10_000 },
    "422 prompt_too_long",
  ],
  [
    "chat",
    "a system text too long",
    { messages: [{ role: "system", content: long }, user], prompt_truncate_len: 20 },
    "422 prompt_too_long",
  ],
  [
    "chat",
    "a prompt that is huge",
    { messages: [{ role: "user", content: "w".repeat(300_000) }] },
    "422 prompt_too_long",
  ],
  [
    "chat",
    "ignore_eos with a format",
    { ignore_eos: true, response_format: { type: "json_object" } },
    "422 ignore_eos",
  ],
  ["chat", "an unknown field", { unknown_field: 1, max_tokens: 1 }, "200"],
  [
    "chat",
    "fields of a tool and of a schema that objects have by themselves",
    {
      tools: [fn("f", own)],
      tool_choice: "none",
      response_format: { type: "json_schema", json_schema: { name: "a", schema: own } },
    },
    "200",
  ],
  // messages
  ["messages", "model of a wrong type", { model: 1 }, "422 model"],
  ["messages", "an unknown model", { model: "model_none" }, "404 not_found"],
  ["messages", "messages of a wrong type", { messages: { role: "user" } }, "422 messages"],
  ["messages", "no messages", { messages: [] }, "422 messages"],
  ["messages", "an unknown role", { messages: [{ role: "tool", content: "x" }] }, "422 messages.0.role"],
  ["messages", "no max_tokens", { max_tokens: undefined }, "422 max_tokens"],
  ["messages", "max_tokens 0", { max_tokens: 0 }, "422 max_tokens"],
  ["messages", "max_tokens of a wrong type", { max_tokens: "1" }, "422 max_tokens"],
  ["messages", "system of a wrong type", { system: 1 }, "422 system"],
  ["messages", "temperature above", { temperature: 2.5 }, "422 temperature"],
  ["messages", "top_p above", { top_p: 1.5 }, "422 top_p"],
  ["messages", "top_k below", { top_k: -1 }, "422 top_k"],
  ["messages", "an empty stop sequence", { stop_sequences: [""] }, "422 stop_sequences.0"],
  ["messages", "metadata of a wrong type", { metadata: "x" }, "422 metadata"],
  ["messages", "thinking of a wrong type", { thinking: { type: "maybe" } }, "422 thinking.type"],
  ["messages", "a budget of 0", { thinking: { type: "enabled", budget_tokens: 0 } }, "422 thinking.budget_tokens"],
  [
    "messages",
    "thinking of a model that cannot",
    { thinking: { type: "enabled", budget_tokens: 10 } },
    "422 thinking.type",
  ],
  ["messages", "adaptive thinking of a model that cannot", { thinking: { type: "adaptive" } }, "422 thinking.type"],
  ["messages", "a tool twice", { tools: [tool("f"), tool("g"), tool("g")] }, "422 tools.2.name"],
  [
    "messages",
    "tool_choice of another tool",
    { tools: [tool("f")], tool_choice: { type: "tool", name: "g" } },
    "422 tool_choice",
  ],
  ["messages", "tool_choice and no tools", { tool_choice: { type: "tool", name: "g" } }, "422 tools"],
  ["messages", "tool_choice of a wrong type", { tools: [tool("f")], tool_choice: "any" }, "422 tool_choice"],
  [
    "messages",
    "parameters that no grammar holds",
    { tools: [tool("g"), tool("f", odd)], tool_choice: { type: "any" } },
    "422 tools.1.input_schema.properties.a.multipleOf",
  ],
  ["messages", "a tool's name with a space", { tools: [tool("a b")] }, "422 tools.0.name"],
  [
    "messages",
    "a tool of a server",
    { tools: [{ type: "web_search_20250305", name: "web_search" }] },
    "422 tools.0.input_schema, tools.0.type",
  ],
  [
    "messages",
    "calls without names",
    {
      messages: [
        user,
        { role: "assistant", content: [use("", "a"), use("f", "b"), use("", "c")] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "1" }] },
        { role: "assistant", content: [use("")] },
      ],
    },
    "422 messages.1.content.0.name, messages.1.content.2.name, messages.3.content.0.name",
  ],
  [
    "messages",
    "129 calls in a message",
    { system: "Be brief.", messages: [user, { role: "assistant", content: many(129, (at) => use("f", `c${at}`)) }] },
    "422 messages.1",
  ],
  [
    "messages",
    "129 calls in a message, one without a name, and another without",
    {
      messages: [
        user,
        { role: "assistant", content: many(129, (at) => use(at === 3 ? "" : "f", `c${at}`)) },
        { role: "assistant", content: [use("")] },
      ],
    },
    "422 messages.1, messages.1.content.3.name, messages.2.content.0.name",
  ],
  [
    "messages",
    "more results than messages",
    {
      messages: [
        { role: "user", content: many(2001, () => ({ type: "tool_result", tool_use_id: "a", content: "1" })) },
      ],
    },
    "422 messages",
  ],
  [
    "messages",
    "a call's input of a wrong type",
    { messages: [user, { role: "assistant", content: [use("f", "a", "{}")] }] },
    "422 messages.1.content.0.input",
  ],
  [
    "messages",
    "a call of a user",
    { messages: [{ role: "user", content: [use("f")] }] },
    "422 messages.0.content.0.type",
  ],
  ["messages", "a NUL in a text", { messages: [{ role: "user", content: "a\u0000b" }] }, "422 messages.0.content"],
  ["messages", "a prompt too long", { messages: [{ role: "user", content: long }] }, "422 prompt_too_long"],
  [
    "messages",
    "a prompt that is huge",
    { messages: [{ role: "user", content: "w".repeat(300_000) }] },
    "422 prompt_too_long",
  ],
  ["messages", "an unknown field", { unknown_field: 1 }, "200"],
  [
    "messages",
    "a tool twice of an unknown model",
    { model: "model_none", tools: [tool("f"), tool("f")] },
    "422 tools.1.name",
  ],
  // responses
  ["responses", "model of a wrong type", { model: 1 }, "422 model"],
  ["responses", "an unknown model", { model: "model_none" }, "404 not_found"],
  ["responses", "input of a wrong type", { input: 1 }, "422 input"],
  ["responses", "an empty input", { input: [] }, "422 input"],
  [
    "responses",
    "an input of thoughts",
    { input: [{ type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "Hm." }] }] },
    "422 input",
  ],
  ["responses", "instructions of a wrong type", { instructions: ["x"] }, "422 instructions"],
  ["responses", "an unknown previous response", { previous_response_id: "resp_none" }, "404 not_found"],
  ["responses", "max_output_tokens 0", { max_output_tokens: 0 }, "422 max_output_tokens"],
  ["responses", "temperature of a wrong type", { temperature: "hot" }, "422 temperature"],
  ["responses", "top_p 0", { top_p: 0 }, "422 top_p"],
  ["responses", "a tool twice", { tools: [flat("f"), flat("f")] }, "422 tools.1.name"],
  [
    "responses",
    "tool_choice of another tool",
    { tools: [flat("f")], tool_choice: { type: "function", name: "g" } },
    "422 tool_choice",
  ],
  ["responses", "tool_choice and no tools", { tool_choice: "required" }, "422 tools"],
  ["responses", "a tool of a server", { tools: [{ type: "web_search" }] }, "422 tools.0.type"],
  [
    "responses",
    "parameters that no grammar holds",
    { tools: [flat("g"), flat("f", odd)], tool_choice: "required" },
    "422 tools.1.parameters.properties.a.multipleOf",
  ],
  [
    "responses",
    "a schema that no grammar holds",
    { text: { format: { type: "json_schema", name: "a", schema: odd } } },
    "422 text.format.schema.properties.a.multipleOf",
  ],
  [
    "responses",
    "a schema that is huge",
    { text: { format: { type: "json_schema", schema: { enum: many(30000, (at) => `value ${at}`) } } } },
    "422 text.format.schema",
  ],
  [
    "responses",
    "a schema beside tools",
    { tools: [flat("f")], text: { format: { type: "json_schema", name: "a", schema: { type: "object" } } } },
    "422 tool_choice",
  ],
  [
    "responses",
    "an object beside tools, of a choice that is auto",
    { tools: [flat("f")], tool_choice: "auto", text: { format: { type: "json_object" } } },
    "422 tool_choice",
  ],
  [
    "responses",
    "a schema that is missing",
    { text: { format: { type: "json_schema", name: "a" } } },
    "422 text.format.schema",
  ],
  ["responses", "an unknown effort", { reasoning: { effort: "much" } }, "422 reasoning.effort"],
  [
    "responses",
    "arguments that are no JSON",
    { input: [user, item("{}"), item("{", "f", "b")] },
    "422 input.2.arguments",
  ],
  [
    "responses",
    "arguments that are a list, after a text",
    { instructions: "Be brief.", input: [user, { role: "assistant", content: "I call." }, item("[]")] },
    "422 input.2.arguments",
  ],
  [
    "responses",
    "calls without names",
    { input: [user, item("{}", ""), item("{}", "", "b")] },
    "422 input.1.name, input.2.name",
  ],
  [
    "responses",
    "129 calls in a row",
    { input: [user, ...many(129, (at) => item("{}", "f", `c${at}`))] },
    "422 input.1",
  ],
  [
    "responses",
    "a result without its call",
    { input: [{ type: "function_call_output", output: "x" }] },
    "422 input.0.call_id",
  ],
  ["responses", "truncation unknown", { truncation: "some" }, "422 truncation"],
  ["responses", "in the background", { background: true }, "422 background"],
  ["responses", "a prompt too long", { input: long }, "422 prompt_too_long"],
  [
    "responses",
    "a prompt too long to be truncated",
    { instructions: long, input: "Hello.", truncation: "auto" },
    "422 prompt_too_long",
  ],
  ["responses", "a prompt that is huge", { input: "w".repeat(300_000) }, "422 prompt_too_long"],
  ["responses", "an unknown field", { unknown_field: 1 }, "200"],
  // count_tokens
  ["count_tokens", "an unknown model", { model: "model_none" }, "404 not_found"],
  ["count_tokens", "no messages", { messages: [] }, "422 messages"],
  ["count_tokens", "a tool twice", { tools: [tool("f"), tool("f")] }, "422 tools.1.name"],
  [
    "count_tokens",
    "tool_choice of another tool",
    { tools: [tool("f")], tool_choice: { type: "tool", name: "g" } },
    "422 tool_choice",
  ],
  [
    "count_tokens",
    "parameters that no grammar holds",
    { tools: [tool("f", odd)], tool_choice: { type: "any" } },
    "422 tools.0.input_schema.properties.a.multipleOf",
  ],
  [
    "count_tokens",
    "a call without a name",
    { system: "Be brief.", messages: [user, { role: "assistant", content: [{ type: "text", text: "a" }, use("")] }] },
    "422 messages.1.content.1.name",
  ],
  ["count_tokens", "thinking of a model that cannot", { thinking: { type: "enabled" } }, "422 thinking.type"],
  [
    "count_tokens",
    "a prompt that is huge",
    { messages: [{ role: "user", content: "w".repeat(300_000) }] },
    "422 prompt_too_long",
  ],
  ["count_tokens", "a prompt longer than a slot", { messages: [{ role: "user", content: long }] }, "200"],
];

const plain = {
  chat: { messages: [user], max_tokens: 1 },
  messages: { messages: [user], max_tokens: 1 },
  responses: { input: "Hello.", max_output_tokens: 1 },
  count_tokens: { messages: [user] },
};

describe("bad bodies of chats", () => {
  let it: Scripted;
  before(async () => {
    it = await scriptedHouse();
  });
  after(() => it.close());
  const ask = (to: keyof typeof plain, body: Record<string, unknown>) =>
    it.call(`inference.${to}`, { body: { model: it.baseId, ...plain[to], ...body } });
  const told = ({ status, body }: Awaited<ReturnType<typeof ask>>): string => {
    if (status === 200) return "200";
    const { detail } = body as { detail: string | { loc: (string | number)[]; type: string }[] };
    if (typeof detail === "string") return `${status} ${body.error.code}`;
    // By the contract every 422 has a list; an entry about the whole request has the failure's code as its type.
    if (detail[0]!.type === body.error.code) {
      assert.deepEqual(detail, [{ loc: ["body"], msg: body.error.message, type: body.error.code }]);
      return `${status} ${body.error.code}`;
    }
    const fields = detail.map(({ loc }) => loc.slice(1).join("."));
    return `${status} ${[...new Set(fields)].join(", ")}`;
  };

  for (const [to, name, body, expected] of rows)
    test(`${to}: ${name}: ${expected}`, async () => assert.equal(told(await ask(to, body)), expected));

  test("a stored conversation with a call that was cut short cannot be gone on from here", async () => {
    const { id } = (await ask("responses", {})).body;
    const stored = JSON.stringify([user, called('{"a":')]);
    it.store.prepare<string[]>("UPDATE response SET messages_json = ? WHERE id = ?").run(stored, id);
    assert.equal(told(await ask("responses", { previous_response_id: id })), "422 previous_response_id");
  });
});
