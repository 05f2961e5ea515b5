// The body of a chat request: messages, tools, format of the answer, reasoning.
import { having, rules, text, textPart, whenever, where } from "./common.ts";
import { model } from "./inference-common.ts";
import { choiceCount, drawing, streamOptions, temperature } from "./sampling.ts";

const calledFunction = {
  type: "object",
  required: ["name", "arguments"],
  properties: { name: { type: "string", minLength: 1, maxLength: 128 }, arguments: text },
} as const;

const message = {
  type: "object",
  required: ["role"],
  properties: {
    role: { enum: ["system", "developer", "user", "assistant", "tool"] },
    content: {
      description: "Text, or an array of text parts; null only if an assistant message has tool_calls.",
      anyOf: [
        { type: ["string", "null"], pattern: text.pattern },
        { type: "array", maxItems: 1000, items: textPart },
      ],
    },
    name: { type: ["string", "null"], maxLength: 200 },
    tool_calls: {
      type: ["array", "null"],
      description: "For assistant messages: the tool calls.",
      maxItems: 128,
      items: {
        type: "object",
        required: ["function"],
        properties: {
          id: { type: ["string", "null"], maxLength: 200 },
          type: { const: "function" },
          function: calledFunction,
        },
      },
    },
    tool_call_id: {
      type: ["string", "null"],
      maxLength: 200,
      description: "For tool messages: the call that this answers.",
    },
    reasoning_content: {
      type: ["string", "null"],
      description: "For assistant messages: the model's reasoning; templates may use it.",
    },
  },
  ...rules(
    whenever(where("role", "tool"), {
      type: "object",
      required: ["tool_call_id"],
      properties: { tool_call_id: { type: "string" } },
    }),
    whenever(
      {
        not: {
          ...where("role", "assistant"),
          required: ["role", "tool_calls"],
          properties: { role: { const: "assistant" }, tool_calls: { type: "array", minItems: 1 } },
        },
      },
      { type: "object", required: ["content"], properties: { content: { type: ["string", "array"] } } },
    ),
  ),
} as const;

const tool = {
  type: "object",
  required: ["type", "function"],
  properties: {
    type: { const: "function" },
    function: {
      type: "object",
      required: ["name"],
      properties: {
        name: { type: "string", pattern: "^[A-Za-z0-9_.-]{1,128}$" },
        description: { type: ["string", "null"], maxLength: 20_000 },
        parameters: { type: ["object", "null"], description: "A JSON schema of the arguments." },
        strict: { type: ["boolean", "null"] },
      },
    },
  },
} as const;

const effort = { enum: ["none", "minimal", "low", "medium", "high", "xhigh"] } as const;

/** Matches requests in which a function must be called. */
const mustCall = {
  type: "object",
  required: ["tool_choice"],
  properties: { tool_choice: { anyOf: [{ const: "required" }, { type: "object" }] } },
} as const;

/** Matches requests whose answer is constrained by a grammar. */
const isFormatted = {
  type: "object",
  required: ["response_format"],
  properties: { response_format: where("type", "json_object", "json_schema") },
} as const;

/** Message for a request with response_format and tools that the model may, but need not, call. */
export const formatWithTools = "cannot be combined with response_format: set it to none or required";

export const chatBody = {
  type: "object",
  required: ["model", "messages"],
  properties: {
    model,
    messages: { type: "array", minItems: 1, maxItems: 2000, items: message },
    max_tokens: { type: ["integer", "null"], minimum: 0, maximum: 1_000_000, default: 2000 },
    max_completion_tokens: {
      type: ["integer", "null"],
      minimum: 0,
      maximum: 1_000_000,
      description: "Same as max_tokens; wins if both are given.",
    },
    prompt_truncate_len: {
      type: ["integer", "null"],
      minimum: 1,
      maximum: 10_000_000,
      default: 1500,
      description:
        "Limit of the prompt, in tokens. The default is lowered if the model's context needs room for the answer.",
    },
    temperature: { type: ["number", "null"], ...temperature },
    stream: { type: ["boolean", "null"], default: false },
    stream_options: streamOptions,
    tools: { type: ["array", "null"], maxItems: 128, items: tool },
    tool_choice: {
      description: "`required` and a function's name are enforced: a grammar of the parameters constrains the answer.",
      anyOf: [
        { enum: ["auto", "none", "required", null] },
        {
          type: "object",
          required: ["type", "function"],
          properties: {
            type: { const: "function" },
            function: { type: "object", required: ["name"], properties: { name: { type: "string", maxLength: 128 } } },
          },
        },
      ],
    },
    parallel_tool_calls: { type: ["boolean", "null"], default: true },
    response_format: {
      type: ["object", "null"],
      description: "json_object and json_schema are enforced during generation.",
      required: ["type"],
      properties: {
        type: { enum: ["text", "json_object", "json_schema"] },
        json_schema: {
          type: "object",
          required: ["schema"],
          properties: {
            name: { type: "string", maxLength: 200 },
            description: { type: ["string", "null"], maxLength: 20_000 },
            schema: {
              type: "object",
              description:
                "JSON Schema 2020-12, as far as a grammar can express it. Schemas that cannot be enforced are refused.",
            },
            strict: { type: ["boolean", "null"] },
          },
        },
      },
      ...rules(whenever(where("type", "json_schema"), having("json_schema"))),
    },
    ...drawing,
    n: choiceCount,
    logprobs: { type: ["boolean", "null"], default: false },
    top_logprobs: { type: ["integer", "null"], minimum: 0, maximum: 20, description: "Requires logprobs." },
    reasoning: {
      type: ["object", "null"],
      description:
        "For models that reason. `max_tokens` limits the reasoning; without it, `effort` sets its share of max_tokens.",
      properties: {
        effort: { ...effort, description: "none turns reasoning off." },
        max_tokens: { type: ["integer", "null"], minimum: 0, maximum: 1_000_000 },
        exclude: {
          type: ["boolean", "null"],
          default: false,
          description: "Let the model reason, but leave the reasoning out of the answer.",
        },
        enabled: { type: ["boolean", "null"] },
      },
    },
    reasoning_effort: { enum: [...effort.enum, null], description: "OpenAI's name for reasoning.effort." },
    functions: { type: "null", description: "Not supported: use tools." },
    function_call: { type: "null", description: "Not supported: use tool_choice." },
  },
  ...rules(
    whenever(
      { type: "object", required: ["top_logprobs"], properties: { top_logprobs: { type: "integer" } } },
      { type: "object", required: ["logprobs"], properties: { logprobs: { const: true } } },
    ),
    whenever(mustCall, { type: "object", required: ["tools"], properties: { tools: { type: "array", minItems: 1 } } }),
    whenever(isFormatted, {
      type: "object",
      properties: { ignore_eos: { not: { const: true }, description: "cannot be combined with response_format" } },
    }),
    whenever(
      {
        ...isFormatted,
        required: ["response_format", "tools"],
        properties: { ...isFormatted.properties, tools: { type: "array", minItems: 1 } },
      },
      {
        type: "object",
        required: ["tool_choice"],
        properties: {
          tool_choice: {
            not: { enum: ["auto", null] },
            description: formatWithTools,
          },
        },
      },
    ),
  ),
  examples: [
    { model: "model_0", messages: [{ role: "user", content: "How often is the pump serviced?" }] },
    {
      model: "model_0",
      messages: [{ role: "user", content: "What is the weather in Oslo?" }],
      tools: [
        {
          type: "function",
          function: {
            name: "weather",
            parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
          },
        },
      ],
      tool_choice: "required",
    },
    {
      model: "model_0",
      messages: [{ role: "user", content: "Name a colour." }],
      response_format: {
        type: "json_schema",
        json_schema: { name: "colour", schema: { type: "object", properties: { colour: { type: "string" } } } },
      },
    },
  ],
} as const;
