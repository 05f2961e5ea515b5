import { having, rules, text, textPart, timestamp, whenever, where } from "./common.ts";
import { endpoint } from "./endpoint.ts";
import { forwardingErrors, inferenceHeaders, inferencePaths, optionalModel } from "./inference-common.ts";

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
    completion_tokens_details: {
      type: "object",
      additionalProperties: false,
      properties: { reasoning_tokens: { type: "integer" } },
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
      required: ["calibrated", "n", "reason", "date", "drift", "least_certain"],
      properties: {
        calibrated: { type: "boolean" },
        n: { type: "integer", description: "Graded answers that it was calibrated on; 0 where it was not." },
        reason: { type: ["string", "null"], description: "Why it is not calibrated." },
        date: { anyOf: [timestamp, { type: "null" }], description: "When it was calibrated." },
        drift: {
          type: "object",
          additionalProperties: false,
          required: ["p_value", "reason"],
          properties: {
            p_value: {
              type: ["number", "null"],
              minimum: 0,
              maximum: 1,
              description: "Share of the benchmark's questions at least as unlike the documents as this one.",
            },
            reason: { type: ["string", "null"], description: "Why it is not known." },
          },
        },
        least_certain: {
          anyOf: [
            { type: "null" },
            {
              type: "object",
              additionalProperties: false,
              required: ["text", "start", "end", "probability"],
              description: "The word around the token the model was least sure of.",
              properties: {
                text: { type: "string" },
                start: { type: "integer", description: "Code points of the text as it was generated before the word." },
                end: { type: "integer" },
                probability: { type: "number", minimum: 0, maximum: 1 },
              },
            },
          ],
        },
      },
    },
  ],
} as const;

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

const penalty = { type: ["number", "null"], minimum: -2, maximum: 2, default: 0 } as const;
/** How the next token is drawn, of completions and chats alike. */
const drawing = {
  top_p: { type: ["number", "null"], exclusiveMinimum: 0, maximum: 1 },
  top_k: { type: ["integer", "null"], minimum: -1, maximum: 1_000_000, description: "Over 64 counts as 64." },
  min_p: { type: ["number", "null"], minimum: 0, maximum: 1 },
  seed,
  stop,
  presence_penalty: penalty,
  frequency_penalty: penalty,
  repetition_penalty: {
    type: ["number", "null"],
    exclusiveMinimum: 0,
    maximum: 10,
    default: 1,
    description: "Divides the logits of tokens seen, those of the prompt too; 1 is none.",
  },
  logit_bias: {
    type: ["object", "null"],
    description: "Token id → what is added to its logit.",
    maxProperties: 1024,
    propertyNames: { pattern: "^\\d{1,10}$" },
    additionalProperties: { type: "number", minimum: -100, maximum: 100 },
  },
  ignore_eos: { type: ["boolean", "null"], default: false, description: "Go on past the model's end of an answer." },
  user: { type: ["string", "null"], maxLength: 512, description: "Accepted; not used." },
} as const;
const choiceCount = { type: ["integer", "null"], minimum: 1, maximum: 16, default: 1 } as const;

const common = { id: { type: "string" }, created: { type: "integer" }, model: { type: "string" } } as const;
const tokenIds = { type: "array", minItems: 1, items: { type: "integer", minimum: 0, maximum: 2147483647 } } as const;

export const completionBody = {
  type: "object",
  required: ["prompt"],
  properties: {
    model: optionalModel,
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
    n: { ...choiceCount, description: "Choices of each prompt; prompts times n are at most 128." },
    logprobs: {
      type: ["integer", "null"],
      minimum: 0,
      maximum: 20,
      description: "ln p of each token, before temperature and penalties, and of so many of the most probable ones.",
    },
    echo: {
      type: ["boolean", "null"],
      default: false,
      description: "The prompt before the answer, with its log-probs.",
    },
    best_of: { type: "null", description: "Not served: ask for n, and choose." },
    suffix: { type: "null", description: "Not served: no model here fills a gap." },
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
      description: "Text, or parts that are texts; null only beside an assistant's tool_calls.",
      anyOf: [
        { type: ["string", "null"], pattern: text.pattern },
        { type: "array", maxItems: 1000, items: textPart },
      ],
    },
    name: { type: ["string", "null"], maxLength: 200 },
    tool_calls: {
      type: ["array", "null"],
      description: "Of an assistant: what it called.",
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
    tool_call_id: { type: ["string", "null"], maxLength: 200, description: "Of a tool: which call it answers." },
    reasoning_content: {
      type: ["string", "null"],
      description: "Of an assistant: what it thought; templates may use it.",
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

/** A function must be called. */
const mustCall = {
  type: "object",
  required: ["tool_choice"],
  properties: { tool_choice: { anyOf: [{ const: "required" }, { type: "object" }] } },
} as const;

/** A grammar rules the words of an answer. */
const isFormatted = {
  type: "object",
  required: ["response_format"],
  properties: { response_format: where("type", "json_object", "json_schema") },
} as const;

export const chatBody = {
  type: "object",
  required: ["messages"],
  properties: {
    model: optionalModel,
    messages: { type: "array", minItems: 1, maxItems: 2000, items: message },
    max_tokens: { type: ["integer", "null"], minimum: 0, maximum: 1_000_000, default: 2000 },
    max_completion_tokens: {
      type: ["integer", "null"],
      minimum: 0,
      maximum: 1_000_000,
      description: "Another name of max_tokens; counts where both are given.",
    },
    prompt_truncate_len: { type: ["integer", "null"], minimum: 1, maximum: 10_000_000, default: 1500 },
    temperature: { type: ["number", "null"], ...temperature },
    stream: { type: ["boolean", "null"], default: false },
    stream_options: streamOptions,
    tools: { type: ["array", "null"], maxItems: 128, items: tool },
    tool_choice: {
      description: "`required`, or a function by name, is enforced by a grammar of its parameters.",
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
      description: "json_object and json_schema are enforced while the answer is drawn.",
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
              description: "JSON Schema 2020-12, as far as a grammar can hold it; what cannot be enforced is refused.",
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
    top_logprobs: { type: ["integer", "null"], minimum: 0, maximum: 20, description: "Wants logprobs." },
    reasoning: {
      type: ["object", "null"],
      description: "Of models that think. `max_tokens` is kept to; without it, `effort` gives a share of max_tokens.",
      properties: {
        effort: { ...effort, description: "none switches thinking off." },
        max_tokens: { type: ["integer", "null"], minimum: 0, maximum: 1_000_000 },
        exclude: {
          type: ["boolean", "null"],
          default: false,
          description: "Think, and keep the thoughts to yourself.",
        },
        enabled: { type: ["boolean", "null"] },
      },
    },
    reasoning_effort: { enum: [...effort.enum, null], description: "OpenAI's name of reasoning.effort." },
    functions: { type: "null", description: "Not served: use tools." },
    function_call: { type: "null", description: "Not served: use tool_choice." },
  },
  ...rules(
    whenever(
      { type: "object", required: ["top_logprobs"], properties: { top_logprobs: { type: "integer" } } },
      { type: "object", required: ["logprobs"], properties: { logprobs: { const: true } } },
    ),
    whenever(mustCall, { type: "object", required: ["tools"], properties: { tools: { type: "array", minItems: 1 } } }),
    whenever(isFormatted, {
      type: "object",
      properties: { ignore_eos: { not: { const: true }, description: "does not go with response_format" } },
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
            description: "does not go with response_format: set it to none, or to required",
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

/** What a model says may be any text. */
const said = { type: "string" } as const;
const stopReason = {
  type: ["string", "null"],
  description: "The stop string that ended the answer, where one did.",
} as const;
const completionFinish = ["stop", "length"] as const;
const chatFinish = ["stop", "length", "tool_calls"] as const;

const completionLogprobs = {
  anyOf: [
    { type: "null" },
    {
      type: "object",
      description: "The end of an answer, where one was drawn, is its last token.",
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

const tokenLogprob = {
  token: { type: "string", description: "bytes:\\xe2\\x80 and the like where its bytes alone are no text." },
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
          description: "Every token that was drawn or taken, but for the one that ended the answer.",
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

export const inference = {
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
        ...common,
        object: { const: "text_completion" },
        choices: { type: "array", items: completionChoice(completionFinish) },
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
        choices: { type: "array", items: completionChoice([...completionFinish, null]) },
        usage,
        confidence_score: confidenceScore,
        confidence,
      },
    },
    errors: [...forwardingErrors, "template_failed"],
  }),
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
              message: answeredMessage,
              finish_reason: { enum: chatFinish },
              stop_reason: stopReason,
              logprobs: chatLogprobs,
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
              finish_reason: { enum: [...chatFinish, null] },
              stop_reason: stopReason,
              logprobs: chatLogprobs,
              confidence_score: confidenceScore,
            },
          },
        },
        usage,
        confidence_score: confidenceScore,
        confidence,
      },
    },
    errors: [...forwardingErrors, "template_failed"],
  }),
} as const;
