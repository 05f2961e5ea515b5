// Embeddings of texts and reranking of documents, in the forms that OpenAI's, Jina's, Cohere's and TEI's clients use.
import { having, mostCount, rules, text, whenever } from "./common.ts";
import { endpoint } from "./endpoint.ts";
import {
  forwardingErrors,
  inferenceErrors,
  inferenceHeaders,
  inferencePaths,
  optionalModel,
  tokenIds,
} from "./inference-common.ts";

const someText = { ...text, minLength: 1 } as const;
const truncate = {
  type: ["boolean", "null"],
  default: false,
  description:
    "Cut texts that are longer than the model can read at their end, and report it, instead of refusing them.",
} as const;

const cutTokens = { type: "integer", description: "Number of tokens cut off, over all texts." } as const;
const vectorUsage = {
  type: "object",
  additionalProperties: false,
  required: ["prompt_tokens", "total_tokens", "truncated_tokens"],
  properties: { prompt_tokens: { type: "integer" }, total_tokens: { type: "integer" }, truncated_tokens: cutTokens },
} as const;

export const rerankMethods = ["cross_encoder", "embedding", "likelihood"] as const;
const method = {
  enum: rerankMethods,
  description:
    "What the scores mean. cross_encoder: the model's own probability of relevance. embedding: (1 + cosine) / 2 of the vectors of query and document. likelihood: the mean probability of the query's tokens, given the document.",
} as const;

const documentsField = {
  type: "array",
  minItems: 1,
  maxItems: 1000,
  items: {
    anyOf: [text, { type: "object", required: ["text"], properties: { text } }],
  },
} as const;
const topN = {
  type: ["integer", "null"],
  minimum: 1,
  maximum: mostCount,
  description: "How many of the best documents to return; default: all.",
} as const;

const jinaResult = {
  type: "object",
  additionalProperties: false,
  required: ["index", "relevance_score"],
  properties: {
    index: { type: "integer" },
    relevance_score: { type: "number" },
    document: {
      type: "object",
      additionalProperties: false,
      required: ["text"],
      properties: { text: { type: "string" } },
    },
  },
} as const;
const teiResult = {
  type: "object",
  additionalProperties: false,
  required: ["index", "score"],
  properties: { index: { type: "integer" }, score: { type: "number" }, text: { type: "string" } },
} as const;

export const vectors = {
  "inference.embeddings": endpoint({
    method: "POST",
    ...inferencePaths("embeddings"),
    tag: "inference",
    summary:
      "Create vectors of unit length, from an embedding model or from the mean of a text model's last hidden states.",
    headers: inferenceHeaders,
    forwards: true,
    body: {
      type: "object",
      required: ["input"],
      properties: {
        model: optionalModel,
        input: {
          anyOf: [
            someText,
            { type: "array", minItems: 1, maxItems: 2048, items: someText },
            tokenIds,
            { type: "array", minItems: 1, maxItems: 2048, items: tokenIds },
          ],
        },
        encoding_format: {
          enum: ["float", "base64", null],
          default: "float",
          description: "base64: little-endian 32-bit floats.",
        },
        dimensions: {
          type: ["integer", "null"],
          minimum: 1,
          maximum: mostCount,
          description:
            "Keep only this many leading values, rescaled to unit length; at most the model's own dimension.",
        },
        truncate,
        user: { type: ["string", "null"], maxLength: 512, description: "Accepted but ignored." },
      },
      examples: [{ model: "model_0", input: ["The cat sits outside.", "A man is playing guitar."] }],
    },
    largeBody: true,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["object", "data", "model", "usage"],
      properties: {
        object: { const: "list" },
        data: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["object", "index", "embedding"],
            properties: {
              object: { const: "embedding" },
              index: { type: "integer" },
              embedding: { anyOf: [{ type: "array", items: { type: "number" } }, { type: "string" }] },
            },
          },
        },
        model: { type: "string" },
        usage: vectorUsage,
      },
    },
    errors: forwardingErrors,
  }),
  "inference.rerank": endpoint({
    method: "POST",
    ...inferencePaths("rerank"),
    tag: "inference",
    summary:
      "Rank documents by their relevance to a query. With `texts` instead of `documents`, the reply has TEI's format.",
    headers: inferenceHeaders,
    body: {
      type: "object",
      required: ["query"],
      properties: {
        model: optionalModel,
        query: someText,
        documents: documentsField,
        texts: { type: "array", minItems: 1, maxItems: 1000, items: text },
        top_n: topN,
        return_documents: { type: ["boolean", "null"], default: false },
        raw_scores: {
          type: ["boolean", "null"],
          default: false,
          description: "With texts: return raw log-odds, cosines or mean log-probs instead of scores from 0 to 1.",
        },
        return_text: { type: ["boolean", "null"], default: false },
        truncate,
      },
      ...rules(
        whenever(
          having("texts"),
          {
            type: "object",
            properties: { documents: { not: {}, description: "cannot be combined with texts; send one of the two" } },
          },
          having("documents"),
        ),
      ),
      examples: [{ model: "model_0", query: "How long is the warranty?", documents: ["Two years.", "It is red."] }],
    },
    largeBody: true,
    reply: {
      anyOf: [
        {
          type: "object",
          additionalProperties: false,
          required: ["model", "method", "results", "usage"],
          properties: {
            model: { type: "string" },
            method,
            results: { type: "array", items: jinaResult },
            usage: vectorUsage,
          },
        },
        { type: "array", items: teiResult },
      ],
    },
    errors: inferenceErrors,
  }),
  "inference.rerank_cohere": endpoint({
    method: "POST",
    ...inferencePaths("v2/rerank"),
    tag: "inference",
    summary: "Rank documents by their relevance to a query, in the format of Cohere's API version 2.",
    headers: inferenceHeaders,
    body: {
      type: "object",
      required: ["query", "documents"],
      properties: {
        model: optionalModel,
        query: someText,
        documents: documentsField,
        top_n: topN,
        max_tokens_per_doc: {
          type: ["integer", "null"],
          minimum: 1,
          maximum: mostCount,
          description: "Accepted but ignored; see truncate.",
        },
        truncate,
      },
      examples: [{ model: "model_0", query: "How long is the warranty?", documents: ["Two years."], top_n: 1 }],
    },
    largeBody: true,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["id", "results", "meta"],
      properties: {
        id: { type: "string" },
        results: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["index", "relevance_score"],
            properties: { index: { type: "integer" }, relevance_score: { type: "number" } },
          },
        },
        meta: {
          type: "object",
          additionalProperties: false,
          required: ["api_version", "billed_units", "tokens", "method", "truncated_tokens"],
          properties: {
            api_version: {
              type: "object",
              additionalProperties: false,
              required: ["version"],
              properties: { version: { const: "2" } },
            },
            billed_units: {
              type: "object",
              additionalProperties: false,
              required: ["search_units"],
              properties: { search_units: { type: "integer" } },
            },
            tokens: {
              type: "object",
              additionalProperties: false,
              required: ["input_tokens"],
              properties: { input_tokens: { type: "integer" } },
            },
            method,
            truncated_tokens: cutTokens,
          },
        },
      },
    },
    errors: inferenceErrors,
  }),
} as const;
