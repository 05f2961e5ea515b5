// The Messages endpoint, in the form that Anthropic's clients use.
import { failureBody, having, rules, text, textPart, whenever, where } from "./common.ts";
import { exampleOfAnswer, ofAnswer } from "./confidence.ts";
import { endpoint } from "./endpoint.ts";
import { forwardingErrors, inferenceErrors, inferenceHeaders, inferencePaths, model } from "./inference-common.ts";

/** The body of errors on these routes: Anthropic's envelope, with the contract's `detail` in addition. */
export const messagesFailureBody = {
  type: "object",
  additionalProperties: false,
  required: ["type", "error", "request_id", "detail"],
  properties: {
    type: { const: "error" },
    error: {
      type: "object",
      additionalProperties: false,
      required: ["type", "message", "code", "hint"],
      properties: {
        type: { type: "string" },
        message: { type: "string" },
        code: { type: "string" },
        hint: { type: "string" },
      },
    },
    request_id: { type: "string" },
    detail: failureBody.properties.detail,
  },
} as const;

const blocks = {
  type: "array",
  maxItems: 10_000,
  items: {
    type: "object",
    required: ["type"],
    properties: {
      type: {
        enum: ["text", "tool_use", "tool_result", "thinking", "redacted_thinking"],
        description: "Images, files and documents are not supported.",
      },
      text,
      id: { ...text, maxLength: 200 },
      name: { ...text, maxLength: 128 },
      input: { type: "object" },
      tool_use_id: { ...text, maxLength: 200 },
      is_error: { type: ["boolean", "null"] },
      thinking: text,
      signature: text,
      content: {
        anyOf: [text, { type: "array", maxItems: 1000, items: textPart }],
      },
    },
    ...rules(
      whenever(where("type", "text"), having("text")),
      whenever(where("type", "tool_use"), having("id", "name", "input")),
      whenever(where("type", "tool_result"), having("tool_use_id")),
    ),
  },
} as const;

/** The rule that a message of this role may only contain blocks of these types. */
const blocksOf = (role: string, ...types: string[]) =>
  whenever(where("role", role), {
    type: "object",
    properties: {
      content: {
        type: ["string", "array"],
        // The limit is repeated here because ajv applies rules before properties, and would otherwise check every item.
        maxItems: blocks.maxItems,
        items: {
          type: "object",
          properties: { type: { enum: types, description: `Allowed in messages of role ${role}.` } },
        },
      },
    },
  });

const textBlocks = {
  type: "array",
  maxItems: 1000,
  items: textPart,
} as const;

/** Fields that make up the prompt: the whole body of count_tokens, and most of the body of messages. */
const prompt = {
  model,
  messages: {
    type: "array",
    minItems: 1,
    maxItems: 2000,
    items: {
      type: "object",
      required: ["role", "content"],
      properties: {
        role: { enum: ["user", "assistant", "system"] },
        content: { anyOf: [text, blocks] },
      },
      ...rules(
        blocksOf("user", "text", "tool_result"),
        blocksOf("assistant", "text", "tool_use", "thinking", "redacted_thinking"),
        blocksOf("system", "text"),
      ),
    },
  },
  system: { anyOf: [text, textBlocks, { type: "null" }] },
  tools: {
    type: ["array", "null"],
    maxItems: 128,
    items: {
      type: "object",
      required: ["name", "input_schema"],
      properties: {
        type: { enum: ["custom", null], description: "Tools that the server would run are not supported." },
        name: { type: "string", pattern: "^[A-Za-z0-9_.-]{1,128}$" },
        description: { type: ["string", "null"], maxLength: 20_000 },
        input_schema: { type: "object" },
      },
    },
  },
  tool_choice: {
    type: ["object", "null"],
    required: ["type"],
    properties: {
      type: { enum: ["auto", "any", "tool", "none"] },
      name: { type: "string", maxLength: 128 },
      disable_parallel_tool_use: { type: ["boolean", "null"] },
    },
    ...rules(whenever(where("type", "tool"), having("name"))),
  },
  thinking: {
    type: ["object", "null"],
    description: "For models that reason.",
    required: ["type"],
    properties: {
      type: { enum: ["enabled", "disabled", "adaptive"] },
      budget_tokens: { type: "integer", minimum: 1, maximum: 1_000_000 },
    },
  },
} as const;

/** A tool_choice that requires a tool call needs at least one tool. */
const promptRules = rules(
  whenever(
    { type: "object", required: ["tool_choice"], properties: { tool_choice: where("type", "any", "tool") } },
    { type: "object", required: ["tools"], properties: { tools: { type: "array", minItems: 1 } } },
  ),
);

const usage = {
  type: "object",
  additionalProperties: false,
  required: ["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"],
  properties: {
    input_tokens: { type: "integer", description: "Newly processed tokens, not counting cache_read_input_tokens." },
    output_tokens: { type: "integer" },
    cache_creation_input_tokens: { type: "integer" },
    cache_read_input_tokens: { type: "integer" },
  },
} as const;

const stopReason = {
  enum: ["end_turn", "max_tokens", "stop_sequence", "tool_use", null],
} as const;

const answered = {
  type: "object",
  additionalProperties: false,
  required: ["id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"],
  properties: {
    id: { type: "string" },
    type: { const: "message" },
    role: { const: "assistant" },
    model: { type: "string" },
    content: {
      type: "array",
      items: {
        type: "object",
        required: ["type"],
        properties: {
          type: { enum: ["text", "thinking", "tool_use"] },
          text: { type: "string" },
          thinking: { type: "string" },
          signature: { type: "string" },
          id: { type: "string" },
          name: { type: "string" },
          input: { type: "object" },
        },
      },
    },
    stop_reason: stopReason,
    stop_sequence: { type: ["string", "null"] },
    usage,
    ...ofAnswer,
  },
  examples: [
    {
      id: "msg_req_5h9j3k7m1n6b4v8c2x0z5d9f",
      type: "message",
      role: "assistant",
      model: "model_7x1c5v9b3n8m2k6j4h0g1f5d",
      content: [{ type: "text", text: "Twice a year." }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: { input_tokens: 31, output_tokens: 5, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
      ...exampleOfAnswer,
    },
  ],
} as const;

const messageExample = {
  model: "model_0",
  max_tokens: 256,
  system: "Answer in one sentence.",
  messages: [{ role: "user", content: "How often is the pump serviced?" }],
} as const;

export const messages = {
  "inference.messages": endpoint({
    method: "POST",
    ...inferencePaths("messages/v2", "messages"),
    tag: "inference",
    summary: "Answer a conversation, in Anthropic's Messages format.",
    dialect: "anthropic",
    headers: inferenceHeaders,
    forwards: true,
    body: {
      type: "object",
      required: ["model", "messages", "max_tokens"],
      properties: {
        ...prompt,
        max_tokens: { type: "integer", minimum: 1, maximum: 1_000_000 },
        stop_sequences: {
          type: ["array", "null"],
          maxItems: 4,
          items: { type: "string", minLength: 1, maxLength: 1000 },
        },
        temperature: { type: ["number", "null"], minimum: 0, maximum: 2, default: 1 },
        top_p: { type: ["number", "null"], exclusiveMinimum: 0, maximum: 1 },
        top_k: { type: ["integer", "null"], minimum: 0, maximum: 1_000_000 },
        stream: { type: ["boolean", "null"], default: false },
        metadata: { type: ["object", "null"], description: "Accepted but ignored." },
      },
      ...promptRules,
      examples: [messageExample],
    },
    largeBody: true,
    reply: { ...answered, required: [...answered.required, "confidence_score", "confidence"] },
    events: {
      type: "object",
      required: ["type"],
      properties: {
        type: {
          enum: [
            "message_start",
            "ping",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
            "error",
          ],
        },
        index: { type: "integer" },
        message: answered,
        content_block: { type: "object" },
        delta: { type: "object" },
        usage: { type: "object" },
        ...ofAnswer,
      },
    },
    errors: [...forwardingErrors, "template_failed"],
  }),
  "inference.count_tokens": endpoint({
    method: "POST",
    ...inferencePaths("messages/count_tokens"),
    tag: "inference",
    summary: "Count the tokens of a conversation, with its system text and tools.",
    dialect: "anthropic",
    headers: inferenceHeaders,
    body: {
      type: "object",
      required: ["model", "messages"],
      properties: prompt,
      ...promptRules,
      examples: [{ model: "model_0", messages: messageExample.messages }],
    },
    largeBody: true,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["input_tokens"],
      properties: { input_tokens: { type: "integer" } },
    },
    errors: [...inferenceErrors, "template_failed"],
  }),
} as const;
