import { endpoint } from "./endpoint.ts";

const usage = {
  type: "object",
  additionalProperties: false,
  required: ["prompt_tokens", "completion_tokens", "total_tokens"],
  properties: {
    prompt_tokens: { type: "integer" },
    completion_tokens: { type: "integer" },
    total_tokens: { type: "integer" },
    prompt_tokens_details: {
      type: "object",
      additionalProperties: false,
      properties: { cached_tokens: { type: "integer" }, truncated_tokens: { type: "integer" } },
    },
  },
} as const;

/** 0–100 on aligned models, null on base models; `confidence` says what stands behind the number. */
export const confidenceScore = { type: ["number", "null"], minimum: 0, maximum: 100 } as const;
export const confidence = {
  anyOf: [
    { type: "null" },
    {
      type: "object",
      additionalProperties: false,
      required: ["calibrated", "n", "reason"],
      properties: { calibrated: { type: "boolean" }, n: { type: "integer" }, reason: { type: ["string", "null"] } },
    },
  ],
} as const;

const finishReason = { enum: ["stop", "length"] } as const;
const nullableFinish = { enum: ["stop", "length", null] } as const;
const headers = {
  type: "object",
  properties: {
    "x-session-id": { type: "string", maxLength: 256, pattern: "^[\\x21-\\x7e]*$" },
    "x-provider": { type: "string", maxLength: 256 },
  },
} as const;

const modelName = { type: "string", minLength: 1, maxLength: 200 } as const;
const temperature = { minimum: 0, maximum: 2, default: 1 } as const;
const seed = { type: ["integer", "null"], minimum: 0, maximum: 9007199254740991 } as const;
const stop = {
  anyOf: [
    { type: "null" },
    { type: "string", minLength: 1, maxLength: 1000 },
    { type: "array", maxItems: 4, items: { type: "string", minLength: 1, maxLength: 1000 } },
  ],
} as const;
const streamOptions = {
  type: ["object", "null"],
  properties: { include_usage: { type: "boolean", default: false } },
} as const;

const common = { id: { type: "string" }, created: { type: "integer" }, model: { type: "string" } } as const;
const tokenIds = { type: "array", minItems: 1, items: { type: "integer", minimum: 0, maximum: 2147483647 } } as const;

export const completionBody = {
  type: "object",
  required: ["model", "prompt"],
  properties: {
    model: modelName,
    prompt: {
      anyOf: [
        { type: "string" },
        { type: "array", minItems: 1, maxItems: 128, items: { type: "string" } },
        tokenIds,
        { type: "array", minItems: 1, maxItems: 128, items: tokenIds },
      ],
    },
    max_tokens: { type: "integer", minimum: 0, maximum: 1_000_000, default: 16 },
    temperature: { type: "number", ...temperature },
    stream: { type: "boolean", default: false },
    stream_options: streamOptions,
    top_p: { type: ["number", "null"], exclusiveMinimum: 0, maximum: 1 },
    top_k: { type: ["integer", "null"], minimum: -1, maximum: 1_000_000 },
    seed,
    stop,
  },
} as const;

export const chatBody = {
  type: "object",
  required: ["model", "messages"],
  properties: {
    model: modelName,
    messages: {
      type: "array",
      minItems: 1,
      maxItems: 2000,
      items: {
        type: "object",
        required: ["role", "content"],
        properties: {
          role: { enum: ["system", "user", "assistant"] },
          content: { type: "string" },
          name: { type: "string", maxLength: 200 },
        },
      },
    },
    max_tokens: { type: ["integer", "null"], minimum: 0, maximum: 1_000_000, default: 2000 },
    prompt_truncate_len: { type: ["integer", "null"], minimum: 1, maximum: 10_000_000, default: 1500 },
    temperature: { type: ["number", "null"], ...temperature },
    stream: { type: ["boolean", "null"], default: false },
    stream_options: streamOptions,
    tools: { type: ["array", "null"], maxItems: 0, description: "Not served yet: an empty list or null." },
    tool_choice: { enum: ["auto", "none"] },
    top_p: { type: ["number", "null"], exclusiveMinimum: 0, maximum: 1 },
    top_k: { type: ["integer", "null"], minimum: -1, maximum: 1_000_000 },
    n: { type: ["integer", "null"], minimum: 1, maximum: 16, default: 1 },
    seed,
    stop,
    reasoning: {
      type: ["object", "null"],
      description: "Accepted; the models served now have no reasoning mode.",
      properties: {
        effort: { type: "string" },
        max_tokens: { type: "integer", minimum: 0 },
        exclude: { type: "boolean" },
        enabled: { type: "boolean" },
      },
    },
  },
} as const;

const textChoice = (finish: typeof finishReason | typeof nullableFinish) =>
  ({
    type: "object",
    additionalProperties: false,
    required: ["text", "index", "finish_reason"],
    properties: {
      text: { type: "string" },
      index: { type: "integer" },
      finish_reason: finish,
      confidence_score: confidenceScore,
    },
  }) as const;

const delta = {
  type: "object",
  additionalProperties: false,
  properties: { role: { const: "assistant" }, content: { type: "string" } },
} as const;

export const inference = {
  "inference.completions": endpoint({
    method: "POST",
    path: "/api/v3/inference/completions",
    aliases: ["/api/v3/inference/v1/completions"],
    tag: "inference",
    summary: "Complete a prompt with an aligned or base model.",
    headers,
    body: completionBody,
    largeBody: true,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["id", "object", "created", "model", "choices", "usage", "confidence_score"],
      properties: {
        ...common,
        object: { const: "text_completion" },
        choices: { type: "array", items: textChoice(finishReason) },
        usage,
        confidence_score: confidenceScore,
        confidence,
      },
    },
    events: {
      type: "object",
      additionalProperties: false,
      required: ["id", "object", "created", "model", "choices"],
      properties: {
        ...common,
        object: { const: "text_completion" },
        choices: { type: "array", items: textChoice(nullableFinish) },
        usage,
        confidence_score: confidenceScore,
        confidence,
      },
    },
    errors: ["not_found", "not_deployed", "prompt_too_long", "engine_busy", "out_of_memory"],
  }),
  "inference.chat": endpoint({
    method: "POST",
    path: "/api/v3/inference/chat/completions",
    aliases: ["/api/v3/inference/v1/chat/completions"],
    tag: "inference",
    summary: "Answer a conversation with an aligned or base model.",
    headers,
    body: chatBody,
    largeBody: true,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["id", "object", "created", "model", "choices", "usage", "confidence_score"],
      properties: {
        ...common,
        object: { const: "chat.completion" },
        choices: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["index", "message", "finish_reason", "logprobs"],
            properties: {
              index: { type: "integer" },
              message: {
                type: "object",
                additionalProperties: false,
                required: ["role", "content"],
                properties: { role: { const: "assistant" }, content: { type: "string" }, refusal: { type: "null" } },
              },
              finish_reason: finishReason,
              logprobs: { type: "null" },
              confidence_score: confidenceScore,
            },
          },
        },
        usage,
        confidence_score: confidenceScore,
        confidence,
      },
    },
    events: {
      type: "object",
      additionalProperties: false,
      required: ["id", "object", "created", "model", "choices"],
      properties: {
        ...common,
        object: { const: "chat.completion.chunk" },
        choices: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["index", "delta", "finish_reason", "logprobs"],
            properties: {
              index: { type: "integer" },
              delta,
              finish_reason: nullableFinish,
              logprobs: { type: "null" },
              confidence_score: confidenceScore,
            },
          },
        },
        usage,
        confidence_score: confidenceScore,
        confidence,
      },
    },
    errors: ["not_found", "not_deployed", "prompt_too_long", "engine_busy", "out_of_memory"],
  }),
} as const;
