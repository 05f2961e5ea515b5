// Endpoints that clients and evaluation tools need besides inference: the list of models, and how a model tokenises text.
import { text } from "./common.ts";
import { endpoint } from "./endpoint.ts";
import { inferenceErrors, inferenceHeaders, inferencePaths, optionalModel, tokenIds } from "./inference-common.ts";

const nullableText = { type: ["string", "null"] } as const;
const nullableId = { type: ["integer", "null"] } as const;

const listedModel = {
  type: "object",
  additionalProperties: false,
  required: ["id", "object", "created", "owned_by", "type", "display_name", "created_at", "kind"],
  properties: {
    id: { type: "string" },
    object: { const: "model" },
    created: { type: "integer" },
    owned_by: { type: "string" },
    type: { const: "model" },
    display_name: { type: "string" },
    created_at: { type: "string" },
    kind: { enum: ["text", "embedding", "rerank"] },
  },
} as const;

export const tokens = {
  "inference.models": endpoint({
    method: "GET",
    ...inferencePaths("models"),
    tag: "inference",
    summary:
      "List the models that answer now: all base models, and your deployed ones. The format works with OpenAI's and Anthropic's clients.",
    headers: inferenceHeaders,
    query: {
      type: "object",
      additionalProperties: false,
      properties: {
        limit: { type: "integer", minimum: 1, maximum: 1000 },
        after_id: { type: "string", maxLength: 200 },
        before_id: { type: "string", maxLength: 200 },
      },
    },
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["object", "data", "has_more", "first_id", "last_id"],
      properties: {
        object: { const: "list" },
        data: { type: "array", items: listedModel },
        has_more: { type: "boolean" },
        first_id: nullableText,
        last_id: nullableText,
      },
    },
    errors: ["not_found"],
  }),
  "inference.model": endpoint({
    method: "GET",
    ...inferencePaths("models/{model_id}"),
    tag: "inference",
    summary: "Get one model that answers now.",
    params: {
      type: "object",
      additionalProperties: false,
      required: ["model_id"],
      properties: { model_id: { type: "string", minLength: 1, maxLength: 200 } },
    },
    headers: inferenceHeaders,
    reply: listedModel,
    errors: ["not_found", "not_deployed"],
  }),
  "inference.tokenizer_info": endpoint({
    method: "GET",
    ...inferencePaths("tokenizer_info"),
    tag: "inference",
    summary: "Get how a model reads text, for evaluation tools.",
    headers: inferenceHeaders,
    query: { type: "object", additionalProperties: false, properties: { model: optionalModel } },
    reply: {
      type: "object",
      additionalProperties: false,
      required: [
        "tokenizer_class",
        "bos_token",
        "eos_token",
        "pad_token",
        "bos_token_id",
        "eos_token_id",
        "add_bos_token",
        "chat_template",
        "model_max_length",
        "vocab_size",
      ],
      properties: {
        tokenizer_class: { type: "string" },
        bos_token: nullableText,
        eos_token: nullableText,
        pad_token: nullableText,
        bos_token_id: nullableId,
        eos_token_id: nullableId,
        add_bos_token: { type: "boolean" },
        chat_template: nullableText,
        model_max_length: { type: "integer", description: "Tokens that fit one slot, prompt and answer together." },
        vocab_size: { type: "integer" },
      },
    },
    errors: inferenceErrors,
  }),
  "inference.tokenize": endpoint({
    method: "POST",
    ...inferencePaths("tokenize"),
    tag: "inference",
    summary: "Convert a text to a model's token ids.",
    headers: inferenceHeaders,
    body: {
      type: "object",
      required: ["prompt"],
      properties: {
        model: optionalModel,
        prompt: text,
        add_special_tokens: {
          type: ["boolean", "null"],
          default: true,
          description: "Begin with the tokens that the model's own texts begin with, if there are any.",
        },
        parse_special: {
          type: ["boolean", "null"],
          default: true,
          description:
            "Convert the names of control tokens to those tokens, as evaluation tools expect. false: read the text like a prompt, in which names never become control tokens.",
        },
      },
      examples: [{ model: "model_0", prompt: "Hello, world", add_special_tokens: false }],
    },
    largeBody: true,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["tokens", "count", "max_model_len"],
      properties: {
        tokens: { type: "array", items: { type: "integer" } },
        count: { type: "integer" },
        max_model_len: { type: "integer" },
      },
    },
    errors: inferenceErrors,
  }),
  "inference.detokenize": endpoint({
    method: "POST",
    ...inferencePaths("detokenize"),
    tag: "inference",
    summary: "Convert token ids to text; control tokens become their names.",
    headers: inferenceHeaders,
    body: {
      type: "object",
      required: ["tokens"],
      properties: {
        model: optionalModel,
        tokens: { ...tokenIds, minItems: 0 },
      },
      examples: [{ model: "model_0", tokens: [19556, 28, 905] }],
    },
    largeBody: true,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["prompt"],
      properties: { prompt: { type: "string" } },
    },
    errors: inferenceErrors,
  }),
} as const;
