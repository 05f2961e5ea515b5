// Messages and Responses over a chat that answers by a script: its thoughts, calls and ends in the two other formats.
import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { Failure } from "../../src/base/errors.ts";
import { createLog } from "../../src/base/log.ts";
import { systemClock } from "../../src/base/time.ts";
import { type Caller, EventStream } from "../../src/contract/endpoint.ts";
import { messages } from "../../src/contract/messages.ts";
import { responses } from "../../src/contract/responses.ts";
import { compile } from "../../src/contract/validate.ts";
import type { Confidence } from "../../src/domain/inference/answers.ts";
import type { ChatEnd, ChatEvent, RunChat } from "../../src/domain/inference/chat-events.ts";
import { requestDefaults, uncut } from "../../src/domain/inference/chat-request.ts";
import { createMessages } from "../../src/domain/inference/messages.ts";
import type { Spoken } from "../../src/domain/inference/reader.ts";
import { createResponses } from "../../src/domain/inference/responses.ts";
import { answerByUpstream, upstreamBody } from "../../src/domain/inference/upstream-chat.ts";

const caller: Caller = { userId: "user_1", userName: "ada", keyId: "key_1" } as Caller;
const behind = {
  calibrated: true,
  n: 120,
  reason: null,
  date: "2026-01-01T00:00:00.000Z",
  drift: { p_value: 0.5, reason: null },
  least_certain: null,
  sources: null,
};
const { least_certain: leastCertain, ...basis } = behind;
const confidence: Confidence = { score: 87, ...basis, leastCertain };
const said = (spoken: Spoken): ChatEvent => ({ index: 0, tokens: [], ...spoken });
const end = (more: Partial<ChatEnd> = {}): ChatEvent => ({
  index: 0,
  tokens: [],
  kind: "end",
  end: {
    finishReason: "stop",
    stopString: null,
    usage: { promptTokens: 31, completionTokens: 7, cachedTokens: 16, reasoningTokens: 3, truncatedTokens: 0 },
    confidence,
    ...more,
  },
});
const called: ChatEvent[] = [
  said({ kind: "thought", text: "The user " }),
  said({ kind: "thought", text: "asks." }),
  said({ kind: "words", text: "Let me " }),
  said({ kind: "words", text: "look." }),
  said({ kind: "call", call: 0, id: "call_a", name: "weather" }),
  said({ kind: "arguments", call: 0, text: '{"city":' }),
  said({ kind: "arguments", call: 0, text: '"Oslo"}' }),
  said({ kind: "call", call: 1, id: "call_b", name: "time" }),
  said({ kind: "arguments", call: 1, text: "{}" }),
  end({ finishReason: "tool_calls" }),
];

/** A chat whose events are these; `asked` keeps what it was asked, as an upstream would be. */
function script(events: ChatEvent[], failure?: Failure) {
  const asked: Record<string, unknown>[] = [];
  const run: RunChat = async (request) => {
    asked.push({ ...JSON.parse(JSON.stringify(upstreamBody(request))), truncateTo: request.truncateTo });
    async function* told(): AsyncGenerator<ChatEvent, void, void> {
      yield* events;
      if (failure) throw failure;
    }
    const head = { id: "chatcmpl-req_1", created: 1_777_896_000, model: "model_base" };
    return { head, promptTokens: 31, tokenizer: null, events: told() };
  };
  return { run, asked };
}

const around = { headers: {}, requestId: "req_1", signal: new AbortController().signal, setHeader: () => {} };
/** Of any schema: its type would be too deep for the compiler. */
const compileAny = compile as unknown as (
  schema: object,
) => (value: unknown) => { ok: boolean; value: unknown; details?: unknown };
const input = (schema: object, body: object) => {
  const checked = compileAny(schema)(body);
  assert(checked.ok, JSON.stringify(checked.details));
  return { ...around, params: {}, query: {}, raw: {}, files: [], lastEventId: null, body: checked.value } as never;
};

async function ask(events: ChatEvent[], body: object, failure?: Failure) {
  const { run, asked } = script(events, failure);
  const schema = messages["inference.messages"].body;
  const plain = { model: "m", max_tokens: 100, messages: [{ role: "user", content: "Weather in Oslo?" }], ...body };
  return { answer: await createMessages(run)(input(schema, plain), caller), asked };
}

const rows = new Map<string, { response_json: string; messages_json: string }>();
async function respond(events: ChatEvent[], body: object, failure?: Failure) {
  const { run, asked } = script(events, failure);
  const sql = {
    insert: {
      run: ({ id, response, messages: kept }: { id: string; response: string; messages: string }) =>
        rows.set(id, { response_json: response, messages_json: kept }),
    },
    get: { get: (id: string) => rows.get(id) },
  } as never;
  const log = createLog("error", () => {});
  const handlers = createResponses({ run, sql, hasDocument: () => true, clock: systemClock, log });
  const schema = responses["inference.responses"].body;
  const handler = handlers["inference.responses"];
  return { answer: await handler(input(schema, { model: "m", input: "Weather in Oslo?", ...body }), caller), asked };
}

/** The events of a stream as the client of a fetch that answers with them reads them. */
function fetchOf(stream: EventStream): typeof fetch {
  return async () => {
    let text = "";
    for await (const { event, data } of stream.events) text += `${event ? `event: ${event}\n` : ""}data: ${data}\n\n`;
    return new Response(text, { headers: { "content-type": "text/event-stream" } });
  };
}

const tools = [
  {
    name: "weather",
    description: "Of a city.",
    input_schema: { type: "object", properties: { city: { type: "string" } } },
  },
];

test("a message with thoughts, text and calls", async () => {
  const { answer, asked } = await ask(called, { tools, tool_choice: { type: "any", disable_parallel_tool_use: true } });
  assert.deepEqual(answer, {
    id: "msg_req_1",
    type: "message",
    role: "assistant",
    model: "model_base",
    content: [
      { type: "thinking", thinking: "The user asks.", signature: "" },
      { type: "text", text: "Let me look." },
      { type: "tool_use", id: "call_a", name: "weather", input: { city: "Oslo" } },
      { type: "tool_use", id: "call_b", name: "time", input: {} },
    ],
    stop_reason: "tool_use",
    stop_sequence: null,
    usage: { input_tokens: 15, output_tokens: 7, cache_creation_input_tokens: 0, cache_read_input_tokens: 16 },
    confidence_score: 87,
    confidence: behind,
  });
  const [{ tools: given, tool_choice, parallel_tool_calls, truncateTo } = {}] = asked;
  assert.deepEqual(given, [
    {
      type: "function",
      function: { name: "weather", description: "Of a city.", parameters: tools[0]!.input_schema },
    },
  ]);
  assert.deepEqual([tool_choice, parallel_tool_calls, truncateTo], ["required", false, uncut]);
});

test("Anthropic's client gathers a stream of thoughts, text and calls", async () => {
  const { answer } = await ask(called, { tools, stream: true });
  assert(answer instanceof EventStream);
  const client = new Anthropic({ apiKey: "x", fetch: fetchOf(answer), maxRetries: 0 });
  const final = await client.messages
    .stream({ model: "m", max_tokens: 100, messages: [{ role: "user", content: "Weather in Oslo?" }] })
    .finalMessage();
  assert.deepEqual(
    final.content.map((block) => block.type),
    ["thinking", "text", "tool_use", "tool_use"],
  );
  const [thinking, text, first, second] = final.content;
  assert(thinking?.type === "thinking" && thinking.thinking === "The user asks.");
  assert(text?.type === "text" && text.text === "Let me look.");
  assert(first?.type === "tool_use" && first.id === "call_a");
  assert.deepEqual(first.input, { city: "Oslo" });
  assert(second?.type === "tool_use" && second.name === "time");
  assert.equal(final.stop_reason, "tool_use");
  assert.deepEqual([final.usage.input_tokens, final.usage.output_tokens], [15, 7]);
});

test("a stream's first event tells the tokens of the prompt", async () => {
  const { answer } = await ask([end()], { stream: true });
  assert(answer instanceof EventStream);
  for await (const { data } of answer.events) {
    assert.equal(JSON.parse(data).message.usage.input_tokens, 31);
    break;
  }
});

test("what ends a message", async () => {
  const ends: [Partial<ChatEnd>, string, string | null][] = [
    [{ finishReason: "stop" }, "end_turn", null],
    [{ finishReason: "length" }, "max_tokens", null],
    [{ finishReason: "stop", stopString: "END" }, "stop_sequence", "END"],
  ];
  for (const [more, reason, sequence] of ends) {
    const { answer } = await ask([said({ kind: "words", text: "a" }), end(more)], { stop_sequences: ["END"] });
    assert(!(answer instanceof EventStream));
    assert.deepEqual([answer.stop_reason, answer.stop_sequence], [reason, sequence]);
  }
});

test("a conversation with calls and their results, as a chat has it", async () => {
  const { asked } = await ask([end()], {
    system: [
      { type: "text", text: "One." },
      { type: "text", text: "Two." },
    ],
    tool_choice: { type: "tool", name: "weather" },
    tools,
    thinking: { type: "enabled", budget_tokens: 64 },
    messages: [
      { role: "user", content: "Weather?" },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "Hm.", signature: "x" },
          { type: "text", text: "Looking." },
          { type: "tool_use", id: "call_a", name: "weather", input: { city: "Oslo" } },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "call_a", content: [{ type: "text", text: "Rain" }], is_error: false },
          { type: "text", text: "And tomorrow?" },
        ],
      },
      { role: "assistant", content: [{ type: "tool_use", id: "call_b", name: "weather", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "call_b", content: "no city", is_error: true }] },
    ],
  });
  const [{ messages: told, tool_choice, reasoning } = {}] = asked;
  assert.deepEqual(tool_choice, { type: "function", function: { name: "weather" } });
  assert.deepEqual(reasoning, { enabled: true, max_tokens: 64, exclude: false });
  const call = (id: string, json: string) => [{ id, type: "function", function: { name: "weather", arguments: json } }];
  assert.deepEqual(told, [
    { role: "system", content: "One.\n\nTwo." },
    { role: "user", content: "Weather?" },
    { role: "assistant", content: "Looking.", tool_calls: call("call_a", '{"city":"Oslo"}'), reasoning_content: "Hm." },
    { role: "tool", tool_call_id: "call_a", content: "Rain" },
    { role: "user", content: "And tomorrow?" },
    { role: "assistant", content: null, tool_calls: call("call_b", "{}") },
    { role: "tool", tool_call_id: "call_b", content: "Error: no city" },
  ]);
});

test("a response with thoughts, text and calls, and what goes on from it", async () => {
  const { answer, asked } = await respond(called, {
    instructions: "Be brief.",
    tools: [{ type: "function", name: "weather", parameters: {}, strict: true }],
    tool_choice: { type: "function", name: "weather" },
    text: { format: { type: "json_schema", name: "colour", schema: { type: "object" } } },
    reasoning: { effort: "low" },
    max_output_tokens: 50,
  });
  assert(!(answer instanceof EventStream));
  assert.equal(answer.status, "completed");
  assert.deepEqual(
    answer.output.map(({ type, status, content, call_id, name, arguments: json }) => ({
      type,
      status,
      ...(content ? { text: (content[0] as { text: string }).text } : { call_id, name, json }),
    })),
    [
      { type: "reasoning", status: "completed", text: "The user asks." },
      { type: "message", status: "completed", text: "Let me look." },
      { type: "function_call", status: "completed", call_id: "call_a", name: "weather", json: '{"city":"Oslo"}' },
      { type: "function_call", status: "completed", call_id: "call_b", name: "time", json: "{}" },
    ],
  );
  assert.deepEqual(answer.usage, {
    input_tokens: 31,
    input_tokens_details: { cached_tokens: 16, truncated_tokens: 0 },
    output_tokens: 7,
    output_tokens_details: { reasoning_tokens: 3 },
    total_tokens: 38,
  });
  const [{ response_format, reasoning, tool_choice, max_tokens, messages: told } = {}] = asked;
  assert.deepEqual(response_format, {
    type: "json_schema",
    json_schema: { name: "colour", schema: { type: "object" } },
  });
  assert.deepEqual([reasoning, max_tokens], [{ effort: "low", exclude: false }, 50]);
  assert.deepEqual(tool_choice, { type: "function", function: { name: "weather" } });
  assert.deepEqual((told as { role: string }[])[0], { role: "system", content: "Be brief." });

  const next = await respond([end()], {
    previous_response_id: answer.id,
    input: [
      { type: "function_call_output", call_id: "call_a", output: "Rain" },
      { type: "function_call_output", call_id: "call_b", output: [{ type: "input_text", text: "Noon" }] },
    ],
  });
  assert.deepEqual(next.asked[0]!.messages, [
    { role: "user", content: "Weather in Oslo?" },
    {
      role: "assistant",
      content: "Let me look.",
      reasoning_content: "The user asks.",
      tool_calls: [
        { id: "call_a", type: "function", function: { name: "weather", arguments: '{"city":"Oslo"}' } },
        { id: "call_b", type: "function", function: { name: "time", arguments: "{}" } },
      ],
    },
    { role: "tool", tool_call_id: "call_a", content: "Rain" },
    { role: "tool", tool_call_id: "call_b", content: "Noon" },
  ]);

  // The same, with the items sent back by a client that stores nothing with us.
  const stateless = await respond([end()], {
    store: false,
    input: [
      { role: "user", content: "Weather in Oslo?" },
      ...answer.output,
      { type: "function_call_output", call_id: "call_a", output: "Rain" },
      { type: "function_call_output", call_id: "call_b", output: "Noon" },
    ],
  });
  assert.deepEqual(stateless.asked[0]!.messages, next.asked[0]!.messages);
});

test("OpenAI's client gathers a stream of thoughts, text and calls", async () => {
  const { answer } = await respond(called, { stream: true });
  assert(answer instanceof EventStream);
  const client = new OpenAI({ apiKey: "x", fetch: fetchOf(answer), maxRetries: 0 });
  const stream = client.responses.stream({ model: "m", input: "Weather in Oslo?" });
  const kinds = new Set<string>();
  const numbers: number[] = [];
  stream.on("event", (event) => {
    kinds.add(event.type);
    numbers.push((event as { sequence_number: number }).sequence_number);
  });
  const final = await stream.finalResponse();
  assert.deepEqual(
    final.output.map((item) => item.type),
    ["reasoning", "message", "function_call", "function_call"],
  );
  assert.equal(final.output_text, "Let me look.");
  const call = final.output[2]!;
  assert(call.type === "function_call" && call.arguments === '{"city":"Oslo"}');
  assert.deepEqual(numbers, [...numbers.keys()]);
  for (const kind of ["reasoning_text.delta", "function_call_arguments.delta", "function_call_arguments.done"])
    assert(kinds.has(`response.${kind}`), kind);
});

test("a response that is cut is incomplete, and one that fails says so as its last event", async () => {
  const cut = (await respond([said({ kind: "words", text: "a" }), end({ finishReason: "length" })], {})).answer;
  assert(!(cut instanceof EventStream));
  assert.deepEqual([cut.status, cut.incomplete_details], ["incomplete", { reason: "max_output_tokens" }]);
  assert.equal(cut.output[0]!.status, "incomplete");
  rows.clear();
  const { answer } = await respond(
    [said({ kind: "words", text: "a" })],
    { stream: true },
    new Failure("inference_failed"),
  );
  assert(answer instanceof EventStream);
  let last = { type: "", response: { status: "", error: { code: "" } } };
  for await (const { data } of answer.events) last = JSON.parse(data);
  assert.deepEqual(
    [last.type, last.response.status, last.response.error.code],
    ["response.failed", "failed", "inference_failed"],
  );
  assert.equal(rows.size, 0);
});

/** The answer of an upstream that sends these events, and what it is asked. */
async function askUpstream(events: AsyncGenerator<{ data: string }>) {
  const asked: unknown[] = [];
  const forward = async (path: string, input: { body: object }) => {
    asked.push(path, (input.body as { stream: boolean }).stream);
    return new EventStream(events);
  };
  const place = ["body", "messages"];
  const message = { role: "user" as const, content: "Weather?", at: [...place, 0] };
  const request = { ...requestDefaults, model: "big", messages: [message], messagesAt: place };
  return { answer: await answerByUpstream(forward, request, around, caller), asked };
}

test("an upstream may name a thought otherwise, and end for a reason that the formats do not have", async () => {
  const data = (delta: object, finish_reason: string | null = null) => ({
    data: JSON.stringify({ id: "c", created: 1, model: "big", choices: [{ delta, finish_reason }] }),
  });
  async function* events() {
    yield data({ reasoning: "Hm.", reasoning_content: null });
    yield data({ reasoning: null, reasoning_content: "Hm." });
    yield data({ content: "Well." }, "content_filter");
  }
  const { answer } = await askUpstream(events());
  const told: ChatEvent[] = [];
  for await (const event of answer.events) told.push(event);
  const usage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0, reasoningTokens: 0, truncatedTokens: 0 };
  assert.deepEqual(told, [
    said({ kind: "thought", text: "Hm." }),
    said({ kind: "thought", text: "Hm." }),
    said({ kind: "words", text: "Well." }),
    end({ finishReason: "stop", confidence: null, usage }),
  ]);
});

test("an upstream's chunks become events, whatever number its calls begin with", async () => {
  const chunk = (delta: object, finish_reason: string | null = null, more: object = {}) => ({
    data: JSON.stringify({ id: "c", created: 1, model: "big", choices: [{ delta, finish_reason }], ...more }),
  });
  const call = (index: number, given: string, head: object = {}, name: object = {}) => ({
    tool_calls: [{ index, ...head, function: { ...name, arguments: given } }],
  });
  const details = { prompt_tokens_details: { cached_tokens: 3 }, completion_tokens_details: { reasoning_tokens: 2 } };
  const usage = { prompt_tokens: 11, completion_tokens: 4, ...details };
  async function* events() {
    yield chunk({ role: "assistant", content: "" });
    yield chunk({ reasoning_content: "Hm." });
    yield chunk({ content: "Well." });
    yield chunk(call(1, "", { id: "call_a" }, { name: "weather" }));
    yield chunk(call(1, '{"city":"Oslo"}'));
    yield chunk(call(2, "{}", { id: "call_b" }, { name: "time" }), "tool_calls");
    yield chunk({}, null, { choices: [], usage });
    yield { data: "[DONE]" };
  }
  const { answer, asked } = await askUpstream(events());
  assert.deepEqual([answer.head, answer.promptTokens], [{ id: "c", created: 1, model: "big" }, null]);
  const told: ChatEvent[] = [];
  for await (const event of answer.events) told.push(event);
  assert.deepEqual(told, [
    said({ kind: "thought", text: "Hm." }),
    said({ kind: "words", text: "Well." }),
    said({ kind: "call", call: 0, id: "call_a", name: "weather" }),
    said({ kind: "arguments", call: 0, text: '{"city":"Oslo"}' }),
    said({ kind: "call", call: 1, id: "call_b", name: "time" }),
    said({ kind: "arguments", call: 1, text: "{}" }),
    end({
      finishReason: "tool_calls",
      confidence: null,
      usage: { promptTokens: 11, completionTokens: 4, cachedTokens: 3, reasoningTokens: 2, truncatedTokens: 0 },
    }),
  ]);
  assert.deepEqual(asked, ["chat/completions", true]);
});
