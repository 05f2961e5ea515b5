// Sampling of tokens, number of answers and stop strings, shared by completions and chats.

export const temperature = { minimum: 0, maximum: 2, default: 1 } as const;

const seed = { type: ["integer", "null"], minimum: 0, maximum: 9007199254740991 } as const;

const stop = {
  anyOf: [
    { type: "null" },
    { type: "string", minLength: 1, maxLength: 1000 },
    { type: "array", maxItems: 4, items: { type: "string", minLength: 1, maxLength: 1000 } },
  ],
} as const;

const penalty = { type: ["number", "null"], minimum: -2, maximum: 2, default: 0 } as const;

export const drawing = {
  top_p: { type: ["number", "null"], exclusiveMinimum: 0, maximum: 1 },
  top_k: { type: ["integer", "null"], minimum: -1, maximum: 1_000_000, description: "Values over 64 count as 64." },
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
    description: "Divides the logits of tokens seen so far, including those of the prompt; 1 has no effect.",
  },
  logit_bias: {
    type: ["object", "null"],
    description: "Token id → value added to its logit.",
    maxProperties: 1024,
    propertyNames: { pattern: "^\\d{1,10}$" },
    additionalProperties: { type: "number", minimum: -100, maximum: 100 },
  },
  ignore_eos: { type: ["boolean", "null"], default: false, description: "Continue after the model ends its answer." },
  user: { type: ["string", "null"], maxLength: 512, description: "Accepted but ignored." },
} as const;

export const choiceCount = { type: ["integer", "null"], minimum: 1, maximum: 16, default: 1 } as const;

export const streamOptions = {
  type: ["object", "null"],
  properties: { include_usage: { type: "boolean", default: false } },
} as const;
