// The Responses endpoint, in the form that OpenAI's newer clients use.
import { having, rules, text, whenever, where } from "./common.ts";
import { exampleOfAnswer, ofAnswer } from "./confidence.ts";
import { endpoint } from "./endpoint.ts";
import { forwardingErrors, inferenceHeaders, inferencePaths, model } from "./inference-common.ts";

const nullableText = { type: ["string", "null"] } as const;

const parts = {
  type: "array",
  maxItems: 1000,
  items: {
    type: "object",
    required: ["type"],
    properties: {
      type: {
        enum: ["input_text", "output_text", "text", "reasoning_text"],
        description: "Images, files and documents are not supported.",
      },
      text,
    },
  },
} as const;

const inputItem = {
  type: "object",
  properties: {
    type: {
      enum: ["message", "function_call", "function_call_output", "reasoning", null],
      description: "Default: message.",
    },
    id: { type: ["string", "null"], maxLength: 200 },
    status: nullableText,
    role: { enum: ["user", "assistant", "system", "developer"] },
    content: { anyOf: [text, parts, { type: "null" }] },
    call_id: { ...text, maxLength: 200 },
    name: { ...text, maxLength: 128 },
    arguments: text,
    output: { anyOf: [text, parts] },
    summary: { type: "array", maxItems: 1000 },
    encrypted_content: nullableText,
  },
  ...rules(
    whenever(
      { type: "object", properties: { type: { enum: ["message", null] } } },
      {
        type: "object",
        required: ["role", "content"],
        properties: { content: { type: ["string", "array"] } },
      },
    ),
    whenever(where("type", "function_call"), having("call_id", "name", "arguments")),
    whenever(where("type", "function_call_output"), having("call_id", "output")),
  ),
} as const;

const functionTool = {
  type: "object",
  required: ["type"],
  properties: {
    type: { const: "function", description: "Tools that the server would run are not supported." },
    name: { type: "string", pattern: "^[A-Za-z0-9_.-]{1,128}$" },
    description: { type: ["string", "null"], maxLength: 20_000 },
    parameters: { type: ["object", "null"] },
    strict: { type: ["boolean", "null"] },
  },
  ...rules(whenever(where("type", "function"), having("name"))),
} as const;

const effort = { enum: ["none", "minimal", "low", "medium", "high", "xhigh", null] } as const;

const responseBody = {
  type: "object",
  required: ["model", "input"],
  properties: {
    model,
    input: { anyOf: [text, { type: "array", minItems: 1, maxItems: 2000, items: inputItem }] },
    instructions: {
      type: ["string", "null"],
      pattern: text.pattern,
      description: "The system text, for this response only.",
    },
    previous_response_id: { type: ["string", "null"], maxLength: 200, description: "Continue from a stored response." },
    store: {
      type: ["boolean", "null"],
      default: true,
      description: "Store the response, so that it can be read and continued later.",
    },
    stream: { type: ["boolean", "null"], default: false },
    max_output_tokens: { type: ["integer", "null"], minimum: 1, maximum: 1_000_000 },
    temperature: { type: ["number", "null"], minimum: 0, maximum: 2, default: 1 },
    top_p: { type: ["number", "null"], exclusiveMinimum: 0, maximum: 1 },
    tools: { type: ["array", "null"], maxItems: 128, items: functionTool },
    tool_choice: {
      anyOf: [
        { enum: ["auto", "none", "required", null] },
        {
          type: "object",
          required: ["type", "name"],
          properties: { type: { const: "function" }, name: { type: "string", maxLength: 128 } },
        },
      ],
    },
    parallel_tool_calls: { type: ["boolean", "null"], default: true },
    text: {
      type: ["object", "null"],
      properties: {
        format: {
          type: ["object", "null"],
          required: ["type"],
          properties: {
            type: { enum: ["text", "json_object", "json_schema"] },
            name: { type: "string", maxLength: 200 },
            description: { type: ["string", "null"], maxLength: 20_000 },
            schema: { type: "object" },
            strict: { type: ["boolean", "null"] },
          },
          ...rules(whenever(where("type", "json_schema"), having("schema"))),
        },
      },
    },
    reasoning: {
      type: ["object", "null"],
      description: "For models that reason.",
      properties: { effort, summary: nullableText },
    },
    truncation: {
      enum: ["auto", "disabled", null],
      default: "disabled",
      description:
        "auto: if the prompt and the answer do not fit, the oldest messages are dropped, then the oldest text of the last turn.",
    },
    metadata: {
      type: ["object", "null"],
      maxProperties: 16,
      propertyNames: { maxLength: 64 },
      additionalProperties: { type: "string", maxLength: 512 },
    },
    user: { type: ["string", "null"], maxLength: 512, description: "Accepted but ignored." },
    background: { enum: [false, null], description: "Not supported: use streaming instead." },
    conversation: { type: "null", description: "Not supported: use previous_response_id." },
    prompt: { type: "null", description: "Not supported: send the input itself." },
  },
  ...rules(
    whenever(
      {
        type: "object",
        required: ["tool_choice"],
        properties: { tool_choice: { anyOf: [{ const: "required" }, { type: "object" }] } },
      },
      { type: "object", required: ["tools"], properties: { tools: { type: "array", minItems: 1 } } },
    ),
  ),
  examples: [{ model: "model_0", input: "How often is the pump serviced?" }],
} as const;

const usage = {
  anyOf: [
    { type: "null" },
    {
      type: "object",
      additionalProperties: false,
      required: ["input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details", "total_tokens"],
      properties: {
        input_tokens: { type: "integer" },
        input_tokens_details: {
          type: "object",
          additionalProperties: false,
          required: ["cached_tokens", "truncated_tokens"],
          properties: { cached_tokens: { type: "integer" }, truncated_tokens: { type: "integer" } },
        },
        output_tokens: { type: "integer" },
        output_tokens_details: {
          type: "object",
          additionalProperties: false,
          required: ["reasoning_tokens"],
          properties: { reasoning_tokens: { type: "integer" } },
        },
        total_tokens: { type: "integer" },
      },
    },
  ],
} as const;

const outputItem = {
  type: "object",
  required: ["id", "type"],
  properties: {
    id: { type: "string" },
    type: { enum: ["message", "function_call", "reasoning"] },
    status: { enum: ["in_progress", "completed", "incomplete"] },
    role: { const: "assistant" },
    content: {
      type: "array",
      items: {
        type: "object",
        required: ["type"],
        properties: { type: { enum: ["output_text", "reasoning_text"] }, text: { type: "string" } },
      },
    },
    summary: { type: "array" },
    call_id: { type: "string" },
    name: { type: "string" },
    arguments: { type: "string" },
  },
} as const;

const response = {
  type: "object",
  required: ["id", "object", "created_at", "status", "model", "output", "usage", "confidence_score", "confidence"],
  properties: {
    id: { type: "string" },
    object: { const: "response" },
    created_at: { type: "integer" },
    status: { enum: ["in_progress", "completed", "incomplete", "failed"] },
    error: {
      anyOf: [
        { type: "null" },
        {
          type: "object",
          required: ["code", "message"],
          properties: { code: { type: "string" }, message: { type: "string" } },
        },
      ],
    },
    incomplete_details: {
      anyOf: [
        { type: "null" },
        { type: "object", required: ["reason"], properties: { reason: { const: "max_output_tokens" } } },
      ],
    },
    model: { type: "string" },
    output: { type: "array", items: outputItem },
    previous_response_id: nullableText,
    usage,
    ...ofAnswer,
  },
  examples: [
    {
      id: "resp_5h9j3k7m1n6b4v8c2x0z5d9f",
      object: "response",
      created_at: 1777896000,
      status: "completed",
      error: null,
      incomplete_details: null,
      model: "model_7x1c5v9b3n8m2k6j4h0g1f5d",
      output: [
        {
          id: "msg_0_resp_5h9j3k7m1n6b4v8c2x0z5d9f",
          type: "message",
          status: "completed",
          role: "assistant",
          content: [{ type: "output_text", text: "Twice a year.", annotations: [], logprobs: [] }],
        },
      ],
      previous_response_id: null,
      usage: {
        input_tokens: 31,
        input_tokens_details: { cached_tokens: 0, truncated_tokens: 0 },
        output_tokens: 5,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 36,
      },
      ...exampleOfAnswer,
    },
  ],
} as const;

const responseId = {
  type: "object",
  additionalProperties: false,
  required: ["response_id"],
  properties: { response_id: { type: "string", minLength: 1, maxLength: 200 } },
} as const;

export const responses = {
  "inference.responses": endpoint({
    method: "POST",
    ...inferencePaths("responses"),
    tag: "inference",
    summary: "Answer an input, in OpenAI's Responses format. The response is stored unless `store` is false.",
    headers: inferenceHeaders,
    forwards: true,
    body: responseBody,
    largeBody: true,
    reply: response,
    events: {
      type: "object",
      required: ["type", "sequence_number"],
      properties: { type: { type: "string" }, sequence_number: { type: "integer" } },
    },
    errors: [...forwardingErrors, "template_failed"],
  }),
  "inference.response": endpoint({
    method: "GET",
    ...inferencePaths("responses/{response_id}"),
    tag: "inference",
    summary: "Get one of your stored responses.",
    params: responseId,
    headers: inferenceHeaders,
    reply: response,
    errors: ["not_found"],
  }),
  "inference.delete_response": endpoint({
    method: "DELETE",
    ...inferencePaths("responses/{response_id}"),
    tag: "inference",
    summary: "Delete a stored response. Responses that continued from it keep its content.",
    params: responseId,
    headers: inferenceHeaders,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["id", "object", "deleted"],
      properties: { id: { type: "string" }, object: { const: "response" }, deleted: { const: true } },
    },
    errors: ["not_found"],
  }),
} as const;
