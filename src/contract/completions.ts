import { text } from "./common.ts";
import { confidenceScore, ofAnswer } from "./confidence.ts";
import { endpoint } from "./endpoint.ts";
import {
  answerHead,
  forwardingErrors,
  inferenceHeaders,
  inferencePaths,
  model,
  said,
  stopReason,
  tokenIds,
  usage,
} from "./inference-common.ts";
import { choiceCount, drawing, streamOptions, temperature } from "./sampling.ts";

const completionBody = {
  type: "object",
  required: ["model", "prompt"],
  properties: {
    model,
    prompt: {
      anyOf: [
        text,
        { type: "array", minItems: 1, maxItems: 128, items: text },
        tokenIds,
        { type: "array", minItems: 1, maxItems: 128, items: tokenIds },
      ],
    },
    max_tokens: { type: "integer", minimum: 0, maximum: 1_000_000, default: 16 },
    temperature: { type: "number", ...temperature },
    stream: { type: "boolean", default: false },
    stream_options: streamOptions,
    ...drawing,
    n: { ...choiceCount, description: "Choices per prompt; prompts times n must not exceed 128." },
    logprobs: {
      type: ["integer", "null"],
      minimum: 0,
      maximum: 20,
      description:
        "Log-probability of each token, before temperature and penalties, and of this many most probable tokens.",
    },
    echo: {
      type: ["boolean", "null"],
      default: false,
      description: "Return the prompt before the answer, with its log-probs.",
    },
    best_of: { type: "null", description: "Not supported: use n, and choose." },
    suffix: { type: "null", description: "Not supported: no model here fills in the middle." },
  },
  examples: [
    { model: "model_0", prompt: "The capital of France is", max_tokens: 8, temperature: 0 },
    {
      model: "model_0",
      prompt: [
        [504, 3575],
        [1, 2],
      ],
      max_tokens: 1,
      temperature: 0,
      logprobs: 1,
      echo: true,
    },
  ],
} as const;

const completionFinish = ["stop", "length"] as const;

const completionLogprobs = {
  anyOf: [
    { type: "null" },
    {
      type: "object",
      description: "If the answer ended with an end token, that is its last token.",
      additionalProperties: false,
      required: ["tokens", "token_logprobs", "top_logprobs", "text_offset"],
      properties: {
        tokens: { type: "array", items: said },
        token_logprobs: { type: "array", items: { type: ["number", "null"] } },
        top_logprobs: {
          type: "array",
          items: { type: ["object", "null"], additionalProperties: { type: "number" } },
        },
        text_offset: { type: "array", items: { type: "integer" }, description: "In code points." },
      },
    },
  ],
} as const;

const completionChoice = <const F extends readonly (string | null)[]>(finish: F) =>
  ({
    type: "object",
    additionalProperties: false,
    required: ["text", "index", "finish_reason", "logprobs"],
    properties: {
      text: said,
      index: { type: "integer" },
      finish_reason: { enum: finish },
      stop_reason: stopReason,
      logprobs: completionLogprobs,
      confidence_score: confidenceScore,
    },
  }) as const;

export const completions = {
  "inference.completions": endpoint({
    method: "POST",
    ...inferencePaths("completions"),
    tag: "inference",
    summary: "Complete a prompt with an aligned or base model.",
    headers: inferenceHeaders,
    forwards: true,
    body: completionBody,
    largeBody: true,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["id", "object", "created", "model", "choices", "usage", "confidence_score"],
      properties: {
        ...answerHead,
        object: { const: "text_completion" },
        choices: { type: "array", items: completionChoice(completionFinish) },
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
        object: { const: "text_completion" },
        choices: { type: "array", items: completionChoice([...completionFinish, null]) },
        usage,
        ...ofAnswer,
      },
    },
    errors: [...forwardingErrors, "template_failed"],
  }),
} as const;
