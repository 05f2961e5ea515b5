import { chatBody } from "./chat-body.ts";
import { confidenceScore, ofAnswer } from "./confidence.ts";
import { endpoint } from "./endpoint.ts";
import {
  answerHead,
  forwardingErrors,
  inferenceHeaders,
  inferencePaths,
  said,
  stopReason,
  usage,
} from "./inference-common.ts";

const chatFinish = ["stop", "length", "tool_calls"] as const;

const tokenLogprob = {
  token: { type: "string", description: "Written as bytes:\\xe2\\x80 if its bytes alone are not valid text." },
  logprob: { type: "number" },
  bytes: { type: ["array", "null"], items: { type: "integer" } },
} as const;

const chatLogprobs = {
  anyOf: [
    { type: "null" },
    {
      type: "object",
      additionalProperties: false,
      required: ["content", "refusal"],
      properties: {
        content: {
          type: "array",
          description: "All generated or accepted tokens, except the one that ended the answer.",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["token", "logprob", "bytes", "top_logprobs"],
            properties: {
              ...tokenLogprob,
              top_logprobs: {
                type: "array",
                items: {
                  type: "object",
                  additionalProperties: false,
                  required: ["token", "logprob", "bytes"],
                  properties: tokenLogprob,
                },
              },
            },
          },
        },
        refusal: { type: "null" },
      },
    },
  ],
} as const;

const thoughts = { type: ["string", "null"] } as const;

const answeredMessage = {
  type: "object",
  additionalProperties: false,
  required: ["role", "content"],
  properties: {
    role: { const: "assistant" },
    content: { type: ["string", "null"] },
    refusal: { type: "null" },
    reasoning: thoughts,
    reasoning_content: thoughts,
    tool_calls: {
      type: "array",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["id", "type", "function"],
        properties: {
          id: said,
          type: { const: "function" },
          function: {
            type: "object",
            additionalProperties: false,
            required: ["name", "arguments"],
            properties: { name: said, arguments: said },
          },
        },
      },
    },
  },
} as const;

const delta = {
  type: "object",
  additionalProperties: false,
  properties: {
    role: { const: "assistant" },
    content: { type: ["string", "null"] },
    reasoning: said,
    reasoning_content: said,
    tool_calls: {
      type: "array",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["index", "function"],
        properties: {
          index: { type: "integer" },
          id: said,
          type: { const: "function" },
          function: { type: "object", additionalProperties: false, properties: { name: said, arguments: said } },
        },
      },
    },
  },
} as const;

export const chat = {
  "inference.chat": endpoint({
    method: "POST",
    ...inferencePaths("chat/completions"),
    tag: "inference",
    summary: "Answer a conversation with an aligned or base model.",
    headers: inferenceHeaders,
    forwards: true,
    body: chatBody,
    largeBody: true,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["id", "object", "created", "model", "choices", "usage", "confidence_score"],
      properties: {
        ...answerHead,
        object: { const: "chat.completion" },
        choices: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["index", "message", "finish_reason", "logprobs"],
            properties: {
              index: { type: "integer" },
              message: answeredMessage,
              finish_reason: { enum: chatFinish },
              stop_reason: stopReason,
              logprobs: chatLogprobs,
              confidence_score: confidenceScore,
            },
          },
        },
        usage,
        ...ofAnswer,
      },
    },
    events: {
      type: "object",
      additionalProperties: false,
      required: ["id", "object", "created", "model", "choices"],
      properties: {
        ...answerHead,
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
              finish_reason: { enum: [...chatFinish, null] },
              stop_reason: stopReason,
              logprobs: chatLogprobs,
              confidence_score: confidenceScore,
            },
          },
        },
        usage,
        ...ofAnswer,
      },
    },
    errors: [...forwardingErrors, "template_failed"],
  }),
} as const;
