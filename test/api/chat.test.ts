// What chats have beyond words: tools, structured output, log-probs, several choices, thinking. Over the real small model.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import { deployed, type Served, servedHouse, withoutModel } from "../helpers/served.ts";

const chat = "inference.chat";
const messages = [{ role: "user", content: "What is the weather in Oslo?" }];
const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather of a city",
    parameters: {
      type: "object",
      properties: { city: { enum: ["Oslo", "Rome"] }, unit: { enum: ["celsius", "fahrenheit"] } },
      required: ["city", "unit"],
      additionalProperties: false,
    },
  },
};
const clock = { type: "function", function: { name: "clock" } };
const sighting = {
  type: "object",
  properties: { bird: { enum: ["owl", "crow"] }, count: { type: "integer", minimum: 1, maximum: 40 } },
  required: ["bird", "count"],
  additionalProperties: false,
};
const formatOf = (schema: unknown) => ({ type: "json_schema", json_schema: { name: "it", schema } });
const ajv = new Ajv2020({ strict: false });

interface Delta {
  role?: string;
  content?: string;
  tool_calls?: { index: number; id?: string; type?: string; function: { name?: string; arguments?: string } }[];
}
interface Chunk {
  choices: { index: number; delta: Delta; finish_reason: string | null; logprobs: { content: unknown[] } | null }[];
  usage?: { completion_tokens: number };
}

describe("chats", { skip: withoutModel }, () => {
  let it: Served;
  before(async () => {
    it = await servedHouse({ PLUMBLINE_SLOTS: "3", PLUMBLINE_SLOT_CONTEXT: "768" });
  });
  after(() => it.close());

  const ask = (body: object) => it.call(chat, { body: { model: it.baseId, messages, ...body } });
  const answer = async (body: object) => {
    const reply = await ask(body);
    assert.equal(reply.status, 200, JSON.stringify(reply.body));
    return reply.body;
  };
  const streamed = async (body: object): Promise<Chunk[]> => {
    const response = await it.get("/api/v3/inference/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: it.baseId, messages, stream: true, ...body }),
    });
    const data = (await response.text()).split("\n\n").filter((part) => part.startsWith("data: "));
    assert.equal(data.pop(), "data: [DONE]");
    return data.map((part) => JSON.parse(part.slice(6)) as Chunk);
  };
  /** The deltas of a choice, put together. */
  const joined = (chunks: Chunk[], index = 0) => {
    const calls: { id: string; name: string; arguments: string }[] = [];
    let content = "";
    for (const { delta } of chunks.flatMap(({ choices }) => choices).filter((choice) => choice.index === index)) {
      content += delta.content ?? "";
      for (const { index: at, id, function: piece } of delta.tool_calls ?? []) {
        if (id !== undefined) calls[at] = { id, name: piece.name!, arguments: "" };
        calls[at]!.arguments += piece.arguments ?? "";
      }
    }
    return { content, calls };
  };

  describe("refusals", () => {
    const at = (...path: (string | number)[]) => ["body", ...path];
    const rows: [name: string, body: object, loc: (string | number)[]][] = [
      ["a tool of another type", { tools: [{ type: "retrieval", function: { name: "f" } }] }, at("tools", 0, "type")],
      ["a tool without a name", { tools: [{ type: "function", function: {} }] }, at("tools", 0, "function", "name")],
      [
        "a name with spaces",
        { tools: [{ type: "function", function: { name: "a b" } }] },
        at("tools", 0, "function", "name"),
      ],
      ["two tools of one name", { tools: [clock, clock] }, at("tools", 1, "function", "name")],
      [
        "a choice of no tool",
        { tools: [clock], tool_choice: { type: "function", function: { name: "x" } } },
        at("tool_choice"),
      ],
      ["required of none", { tool_choice: "required" }, at("tools")],
      ["an unknown choice", { tools: [clock], tool_choice: "maybe" }, at("tool_choice")],
      [
        "parameters that no grammar holds",
        {
          tools: [
            {
              type: "function",
              function: { name: "f", parameters: { type: "object", properties: { a: { multipleOf: 3 } } } },
            },
          ],
          tool_choice: "required",
        },
        at("tools", 0, "function", "parameters", "properties", "a", "multipleOf"),
      ],
      ["functions of old", { functions: [{ name: "f" }] }, at("functions")],
      ["an unknown format", { response_format: { type: "xml" } }, at("response_format", "type")],
      ["a schema that is missing", { response_format: { type: "json_schema" } }, at("response_format", "json_schema")],
      [
        "an unsupported keyword",
        { response_format: formatOf({ properties: { a: { not: {} } } }) },
        at("response_format", "json_schema", "schema", "properties", "a", "not"),
      ],
      [
        "a schema beside tools that may be called",
        { tools: [clock], response_format: { type: "json_object" } },
        at("tool_choice"),
      ],
      ["a schema and no end", { ignore_eos: true, response_format: { type: "json_object" } }, at("ignore_eos")],
      ["top_logprobs alone", { top_logprobs: 2 }, at("logprobs")],
      ["top_logprobs 21", { logprobs: true, top_logprobs: 21 }, at("top_logprobs")],
      ["logprobs by number", { logprobs: 1 }, at("logprobs")],
      ["max_completion_tokens −1", { max_completion_tokens: -1 }, at("max_completion_tokens")],
      ["an unknown effort", { reasoning: { effort: "much" } }, at("reasoning", "effort")],
      ["an unknown effort by its other name", { reasoning_effort: "much" }, at("reasoning_effort")],
      ["thinking of a model that cannot", { reasoning: { enabled: true } }, at("reasoning", "enabled")],
      ["an unknown role", { messages: [{ role: "wizard", content: "x" }] }, at("messages", 0, "role")],
      ["no content", { messages: [{ role: "user" }] }, at("messages", 0, "content")],
      [
        "an assistant that says and calls nothing",
        { messages: [{ role: "assistant", content: null }] },
        at("messages", 0, "content"),
      ],
      ["a result of no call", { messages: [{ role: "tool", content: "x" }] }, at("messages", 0, "tool_call_id")],
      [
        "arguments that are no JSON",
        {
          messages: [
            ...messages,
            { role: "assistant", tool_calls: [{ id: "a", type: "function", function: { name: "f", arguments: "{" } }] },
          ],
        },
        at("messages", 1, "tool_calls", 0, "function", "arguments"),
      ],
    ];
    for (const [name, body, loc] of rows)
      test(name, async () => {
        const reply = await ask({ max_tokens: 1, ...body });
        assert.equal(reply.status, 422, JSON.stringify(reply.body));
        assert.deepEqual(reply.body.detail[0].loc, loc);
      });

    test("an image", async () => {
      const content = [{ type: "image_url", image_url: { url: "data:," } }];
      const reply = await ask({ messages: [{ role: "user", content }] });
      assert.equal(reply.status, 422);
      assert.ok(
        reply.body.detail.some(({ loc }: { loc: unknown[] }) => loc.join(".").startsWith("body.messages.0.content")),
      );
    });
  });

  test("content in parts, developers, and the other name of max_tokens", async () => {
    const body = { max_completion_tokens: 3, max_tokens: 9, temperature: 0 };
    const parts = [
      { type: "text", text: "Say" },
      { type: "text", text: "hello." },
    ];
    const system = { content: "Be short." };
    const one = await answer({
      ...body,
      messages: [
        { role: "developer", ...system },
        { role: "user", content: parts },
      ],
    });
    const other = await answer({
      ...body,
      messages: [
        { role: "system", ...system },
        { role: "user", content: "Say\nhello." },
      ],
    });
    assert.equal(one.choices[0].message.content, other.choices[0].message.content);
    assert.equal(one.usage.completion_tokens, 3);
  });

  test("n choices of one prompt differ, and are the same under one seed, streamed or not", async () => {
    const body = { n: 3, seed: 11, max_tokens: 3, temperature: 1.8 };
    const whole = await answer(body);
    const texts = whole.choices.map((choice: { message: { content: string } }) => choice.message.content);
    assert.equal(new Set(texts).size, 3);
    const chunks = await streamed(body);
    assert.deepEqual(
      [0, 1, 2].map((index) => joined(chunks, index).content),
      texts,
    );
  });

  test("log-probs of every token, with the best ones, streamed or not", async () => {
    const body = { max_tokens: 3, seed: 4, logprobs: true, top_logprobs: 3 };
    const [choice] = (await answer(body)).choices;
    const { content } = choice.logprobs;
    assert.equal(content.map(({ token }: { token: string }) => token).join(""), choice.message.content);
    for (const { logprob, bytes, token, top_logprobs } of content) {
      assert.ok(logprob <= 0);
      assert.equal(Buffer.from(bytes).toString(), token);
      const best = top_logprobs.map((top: { logprob: number }) => top.logprob);
      assert.equal(best.length, 3);
      assert.ok(best[0] >= best[1] && best[1] >= best[2] && best[0] >= logprob);
    }
    const chunks = await streamed(body);
    const streamedTokens = chunks.flatMap(({ choices }) => choices[0]!.logprobs?.content ?? []);
    assert.deepEqual(
      streamedTokens.map((entry) => (entry as { token: string }).token),
      content.map(({ token }: { token: string }) => token),
    );
    assert.equal((await answer({ max_tokens: 1 })).choices[0].logprobs, null);
  });

  describe("structured output", () => {
    for (const temperature of [0, 1.3])
      test(`keeps to its schema at temperature ${temperature}, streamed or not`, async () => {
        const body = { response_format: formatOf(sighting), max_tokens: 60, temperature, seed: 5 };
        const [choice] = (await answer(body)).choices;
        assert.equal(choice.finish_reason, "stop");
        const validate = ajv.compile(sighting);
        assert.ok(validate(JSON.parse(choice.message.content)), choice.message.content);
        assert.equal(joined(await streamed(body)).content, choice.message.content);
      });

    test("json_object is an object", async () => {
      const body = {
        response_format: { type: "json_object" },
        max_tokens: 400,
        temperature: 0,
        logit_bias: { 109: 12 },
      };
      const [choice] = (await answer(body)).choices;
      assert.match(choice.message.content, /^\{/);
      if (choice.finish_reason === "stop") assert.equal(typeof JSON.parse(choice.message.content), "object");
    });

    test("an answer that its limit cuts short says so under a schema too", async () => {
      const body = { response_format: formatOf({ type: "string", minLength: 200 }), max_tokens: 4 };
      assert.equal((await answer(body)).choices[0].finish_reason, "length");
    });

    test("an aligned model has its confidence under a grammar too", async () => {
      const { modelId } = it.align();
      assert.equal(await deployed(it, modelId), "READY");
      const reply = await answer({
        model: modelId,
        response_format: formatOf({ enum: ["rain", "sun"] }),
        max_tokens: 20,
      });
      assert.match(reply.choices[0].message.content, /^"(rain|sun)"$/);
      assert.equal(typeof reply.confidence_score, "number");
    });
  });

  describe("tools", () => {
    const isCall = (call: { id: string; type: string; function: { name: string; arguments: string } }): void => {
      assert.match(call.id, /^call_\w+$/);
      assert.equal(call.type, "function");
      if (call.function.name !== "get_weather") return;
      const validate = ajv.compile(weather.function.parameters);
      assert.ok(validate(JSON.parse(call.function.arguments)), call.function.arguments);
    };

    for (const [name, choice] of [
      ["required", "required"],
      ["by name", { type: "function", function: { name: "get_weather" } }],
    ] as const)
      test(`${name}: a call that fits, streamed as it is made`, async () => {
        const body = {
          tools: [clock, weather],
          tool_choice: choice,
          parallel_tool_calls: false,
          max_tokens: 200,
          seed: 3,
        };
        const [whole] = (await answer(body)).choices;
        assert.equal(whole.finish_reason, "tool_calls");
        assert.equal(whole.message.content, null);
        assert.equal(whole.message.tool_calls.length, 1);
        whole.message.tool_calls.forEach(isCall);
        if (name === "by name") assert.equal(whole.message.tool_calls[0].function.name, "get_weather");
        const chunks = await streamed(body);
        const { calls, content } = joined(chunks);
        assert.equal(content, "");
        // Not the same one: a prompt found in the cache is read in another batch, and its last digits differ.
        assert.equal(calls.length, 1);
        for (const { id, name: called, arguments: given } of calls)
          isCall({ id, type: "function", function: { name: called, arguments: given } });
        const deltas = chunks.flatMap(({ choices }) => choices.flatMap(({ delta }) => delta.tool_calls ?? []));
        assert.deepEqual([deltas[0]!.index, deltas[0]!.type, deltas[0]!.function.arguments], [0, "function", ""]);
        assert.ok(deltas.slice(1).every((delta) => delta.id === undefined && delta.function.name === undefined));
        assert.ok(name !== "by name" || deltas.length > 4, "the arguments came in one piece");
        assert.equal(chunks.at(-1)!.choices[0]!.finish_reason, "tool_calls");
      });

    test("several at once, each fitting", async () => {
      const body = { tools: [weather], tool_choice: "required", max_tokens: 40, temperature: 1.5, n: 2, seed: 21 };
      for (const choice of (await answer(body)).choices) {
        assert.ok(choice.message.tool_calls.length >= 1);
        if (choice.finish_reason === "tool_calls") choice.message.tool_calls.forEach(isCall);
        else assert.equal(choice.finish_reason, "length");
      }
    });

    test("a call that was cut short says so", async () => {
      const body = { tools: [weather], tool_choice: "required", max_tokens: 18, temperature: 0 };
      const [choice] = (await answer(body)).choices;
      assert.equal(choice.finish_reason, "length");
    });

    test("none: the tools are not told of, and nothing is called", async () => {
      const body = { max_tokens: 4, temperature: 0 };
      const plain = await answer(body);
      const none = await answer({ ...body, tools: [weather], tool_choice: "none" });
      assert.equal(none.usage.prompt_tokens, plain.usage.prompt_tokens);
      assert.equal(none.choices[0].message.tool_calls, undefined);
    });

    test("a conversation with calls and results goes on", async () => {
      const said = {
        id: "call_1",
        type: "function",
        function: { name: "get_weather", arguments: '{"city":"Oslo","unit":"celsius"}' },
      };
      const reply = await answer({
        tools: [weather],
        messages: [
          ...messages,
          { role: "assistant", content: null, tool_calls: [said] },
          { role: "tool", tool_call_id: "call_1", content: "It rains." },
        ],
        max_tokens: 8,
      });
      assert.ok(reply.usage.prompt_tokens > 100);
    });
  });

  test("a model that does not think says so when it is hinted at, and answers", async () => {
    for (const body of [
      { reasoning: { effort: "low" } },
      { reasoning: { max_tokens: 10 } },
      { reasoning_effort: "high" },
    ]) {
      const reply = await ask({ max_tokens: 2, ...body });
      assert.equal(reply.status, 200);
      assert.equal(reply.headers.get("x-plumbline-reasoning"), "unsupported");
      assert.equal(reply.body.usage.completion_tokens_details.reasoning_tokens, 0);
      assert.equal(reply.body.choices[0].message.reasoning_content, undefined);
    }
    for (const body of [{}, { reasoning: { effort: "none" } }, { reasoning: { enabled: false } }])
      assert.equal((await ask({ max_tokens: 1, ...body })).headers.get("x-plumbline-reasoning"), null);
  });
});
