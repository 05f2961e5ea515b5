import { idParam, name, pageQuery, timestamp } from "./common.ts";
import { endpoint } from "./endpoint.ts";

export const splits = ["dev", "sealed", "retention"] as const;

export const benchmarkRecord = {
  type: "object",
  additionalProperties: false,
  required: [
    "benchmark_id",
    "name",
    "document_ids",
    "status",
    "n_samples",
    "splits",
    "sha256",
    "created_at",
    "updated_at",
  ],
  properties: {
    benchmark_id: { type: "string" },
    name,
    document_ids: { type: "array", items: { type: "string" } },
    status: { enum: ["READY"] },
    n_samples: { type: "integer", minimum: 1 },
    splits: {
      type: "object",
      additionalProperties: false,
      required: ["dev", "sealed", "retention"],
      properties: { dev: { type: "integer" }, sealed: { type: "integer" }, retention: { type: "integer" } },
    },
    sha256: { type: "string" },
    created_at: timestamp,
    updated_at: timestamp,
  },
} as const;

/** How an item is answered and graded. */
export const itemTypes = ["short", "numeric", "choice", "long", "refusal"] as const;

const text = { type: "string", minLength: 1, maxLength: 20_000, pattern: "\\S" } as const;
const offset = { type: ["integer", "null"], minimum: 0 } as const;

/** What a long answer has to say, point by point. */
export const rubricPoint = {
  type: "object",
  additionalProperties: false,
  required: ["text"],
  properties: {
    id: { type: "string", minLength: 1, maxLength: 200 },
    text,
    weight: { type: "number", exclusiveMinimum: 0, maximum: 1000, default: 1 },
    level: { enum: ["essential", "important", "optional"], default: "important" },
  },
} as const;

/** Where the answer stands: characters of the document's clean text, and those characters. */
export const citation = {
  type: "object",
  additionalProperties: false,
  required: ["document", "quote"],
  properties: {
    document: { ...text, maxLength: 1000, description: "Its id, or its name where it is no document here." },
    page: { type: ["integer", "null"], minimum: 1 },
    start: offset,
    end: offset,
    quote: text,
  },
} as const;

/**
 * A row of an uploaded benchmark: JSONL, or CSV with these columns (aliases and choices separated by "|", rubric and citations
 * as JSON). Without a type it is told by what else is there.
 */
export const benchmarkRow = {
  type: "object",
  additionalProperties: false,
  required: ["instruction", "response"],
  properties: {
    instruction: text,
    response: text,
    aliases: { type: "array", maxItems: 100, items: text },
    type: { enum: itemTypes },
    choices: { type: "array", minItems: 2, maxItems: 26, uniqueItems: true, items: text },
    rubric: { type: "array", maxItems: 50, items: rubricPoint },
    citations: { type: "array", maxItems: 50, items: citation },
    cluster: { type: "string", minLength: 1, maxLength: 200 },
    split: { enum: splits },
    tolerance: { type: "number", minimum: 0, description: "Numbers within this absolute distance are right." },
  },
} as const;

export const benchmarks = {
  "benchmarks.upload": endpoint({
    method: "POST",
    path: "/api/v3/benchmarks/upload",
    tag: "benchmarks",
    summary:
      "Upload a benchmark: JSONL or CSV rows of instruction, response, and optional aliases, type, choices, rubric, citations, cluster, split, tolerance.",
    upload: { many: false },
    reply: benchmarkRecord,
    errors: ["benchmark_invalid", "document_limit", "too_large", "disk_full", "unsupported_media_type"],
  }),
  "benchmarks.list": endpoint({
    method: "GET",
    path: "/api/v3/benchmarks",
    tag: "benchmarks",
    summary: "Your benchmarks, newest first.",
    query: pageQuery,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["benchmarks", "total"],
      properties: { benchmarks: { type: "array", items: benchmarkRecord }, total: { type: "integer" } },
    },
    errors: [],
  }),
  "benchmarks.get": endpoint({
    method: "GET",
    path: "/api/v3/benchmarks/{benchmark_id}",
    tag: "benchmarks",
    summary: "Identity, status and splits of a benchmark.",
    params: idParam("benchmark_id"),
    reply: benchmarkRecord,
    errors: ["not_found"],
  }),
  "benchmarks.data": endpoint({
    method: "GET",
    path: "/api/v3/benchmarks/{benchmark_id}/data",
    tag: "benchmarks",
    summary: "The samples of a benchmark.",
    params: idParam("benchmark_id"),
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["benchmark_id", "document_ids", "samples", "metadata"],
      properties: {
        benchmark_id: { type: "string" },
        document_ids: { type: "array", items: { type: "string" } },
        samples: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: [
              "sample_num",
              "instruction",
              "response",
              "aliases",
              "type",
              "choices",
              "rubric",
              "citations",
              "cluster",
              "split",
            ],
            properties: {
              sample_num: { type: "integer" },
              instruction: { type: "string" },
              response: { type: "string" },
              aliases: { type: "array", items: { type: "string" } },
              type: { enum: itemTypes },
              choices: { type: "array", items: { type: "string" } },
              rubric: { type: "array", items: rubricPoint },
              citations: { type: "array", items: citation },
              cluster: { type: "string" },
              split: { enum: splits },
              tolerance: { type: ["number", "null"] },
            },
          },
        },
        metadata: { type: "object" },
        error: { type: "string" },
      },
    },
    errors: ["not_found"],
  }),
} as const;
