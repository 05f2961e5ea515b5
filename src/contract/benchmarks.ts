import {
  deletion,
  having,
  id,
  idempotencyHeaders,
  idParam,
  name,
  pageQuery,
  progressDetail,
  rules,
  timestamp,
  warnings,
  whenever,
} from "./common.ts";
import { endpoint } from "./endpoint.ts";

export const splits = ["dev", "sealed", "retention"] as const;

/** A schema of objects that have one field with the schema `of` for each split. A split without items has no field. */
export const bySplit = <const Of>(of: Of) =>
  ({ type: "object", additionalProperties: false, properties: { dev: of, sealed: of, retention: of } }) as const;

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
    "version",
    "previous_id",
    "struck",
    "generation",
    "warnings",
    "progress_detail",
    "error",
    "created_at",
    "updated_at",
  ],
  properties: {
    benchmark_id: { type: "string" },
    name,
    document_ids: { type: "array", items: { type: "string" } },
    status: { enum: ["PROCESSING", "READY", "FAILED", "STOPPED"] },
    n_samples: { type: "integer", minimum: 0, description: "0 until it is READY" },
    splits: { ...bySplit({ type: "integer" }), required: splits },
    sha256: { type: ["string", "null"], description: "SHA-256 of the items; null until it is READY." },
    version: { type: "integer", minimum: 1 },
    previous_id: {
      type: ["string", "null"],
      description: "The previous version; null for the first version, and if the previous version was deleted.",
    },
    struck: {
      type: ["object", "null"],
      additionalProperties: false,
      required: ["items", "reason"],
      properties: { items: { type: "array", items: { type: "integer" } }, reason: { type: "string" } },
      description: "Items of the previous version that this version leaves out.",
    },
    generation: {
      type: ["object", "null"],
      additionalProperties: false,
      required: ["wanted", "model_id", "generator", "seed", "checker", "gates", "categories"],
      properties: {
        wanted: { type: "integer" },
        model_id: { type: "string", description: "The model that checked the items." },
        generator: {
          type: ["object", "null"],
          additionalProperties: false,
          required: ["model", "provider"],
          properties: { model: { type: "string" }, provider: { type: ["string", "null"] } },
          description: "The model that wrote the questions; null if they were made from fixed templates.",
        },
        seed: { type: "integer" },
        checker: { type: "string", description: "How answers were checked against their chunk." },
        gates: {
          type: "array",
          description:
            "How many items entered and passed each gate, in order. The gates up to paraphrase are rules on the text. verified compares the answer of a reader that saw only the passages. unique drops questions with two answers.",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["gate", "in", "out"],
            properties: {
              gate: { type: "string" },
              in: { type: "integer" },
              out: { type: "integer" },
              skipped: { type: "string", description: "Why this gate was skipped; absent if it was not." },
            },
          },
        },
        categories: { type: "object", additionalProperties: { type: "integer" } },
      },
      description: "How it was made from documents; null if it was uploaded.",
    },
    warnings,
    progress_detail: { anyOf: [progressDetail, { type: "null" }] },
    error: { type: ["string", "null"] },
    created_at: timestamp,
    updated_at: timestamp,
  },
} as const;

/** How an item is answered and graded. */
export const itemTypes = ["short", "numeric", "choice", "long", "refusal"] as const;

const text = { type: "string", minLength: 1, maxLength: 20_000, pattern: "\\S" } as const;
const offset = { type: ["integer", "null"], minimum: 0 } as const;

/** One point that a long answer has to make. */
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

/** Where the answer is found: offsets in the document's clean text, and the quoted text. */
export const citation = {
  type: "object",
  additionalProperties: false,
  required: ["document", "quote"],
  properties: {
    document: { ...text, maxLength: 1000, description: "The document's id, or its name if it is not a document here." },
    page: { type: ["integer", "null"], minimum: 1 },
    start: offset,
    end: offset,
    quote: text,
  },
} as const;

/**
 * A row of an uploaded benchmark: JSONL, or CSV with these columns (aliases and choices separated by "|", rubric and citations
 * as JSON). A missing type is inferred from the other fields.
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
    tolerance: { type: "number", minimum: 0, description: "Numbers within this absolute distance count as correct." },
  },
} as const;

export const benchmarks = {
  "benchmarks.upload": endpoint({
    method: "POST",
    path: "/api/v3/benchmarks/upload",
    tag: "benchmarks",
    summary:
      "Upload a benchmark: JSONL or CSV rows of instruction and response, with optional aliases, type, choices, rubric, citations, cluster, split and tolerance.",
    headers: idempotencyHeaders,
    upload: { many: false },
    reply: benchmarkRecord,
    errors: [
      "benchmark_invalid",
      "document_limit",
      "too_large",
      "disk_full",
      "document_type",
      "unsupported_media_type",
    ],
  }),
  "benchmarks.create": endpoint({
    method: "POST",
    path: "/api/v3/benchmarks/create",
    tag: "benchmarks",
    summary:
      "Create a benchmark from documents. A model writes questions about their passages; a second pass checks that each item follows from its passage and is not already known to the model. This takes long: follow its progress with GET.",
    headers: idempotencyHeaders,
    body: {
      type: "object",
      additionalProperties: false,
      required: ["document_ids"],
      properties: {
        benchmark_name: name,
        document_ids: { type: "array", minItems: 1, maxItems: 10_000, uniqueItems: true, items: id },
        model: {
          ...id,
          description:
            "The base or aligned model that checks the items. May be omitted if only one base model is installed.",
        },
        generator_model: {
          ...id,
          description:
            "The model that writes the questions: a base model, a deployed aligned model, or a model of the upstream. Without it, questions about tables and key-value lines are made from fixed templates.",
        },
        generator_provider: {
          ...id,
          description: "A configured upstream. Without it, the generator is a model of this appliance.",
        },
        n_samples: { type: "integer", minimum: 1, maximum: 5000, default: 100 },
        seed: { type: "integer", minimum: 0, maximum: 4_294_967_295, default: 1 },
      },
      ...rules(whenever(having("generator_provider"), having("generator_model"))),
    },
    reply: benchmarkRecord,
    errors: ["not_found"],
    generates: true,
  }),
  "benchmarks.stop": endpoint({
    method: "POST",
    path: "/api/v3/benchmarks/{benchmark_id}/stop",
    tag: "benchmarks",
    summary: "Stop creating a benchmark; nothing of it is kept.",
    params: idParam("benchmark_id"),
    reply: benchmarkRecord,
    errors: ["not_found", "conflict"],
  }),
  "benchmarks.strike": endpoint({
    method: "POST",
    path: "/api/v3/benchmarks/{benchmark_id}/strike",
    tag: "benchmarks",
    summary: "Create a new version without some items. The old version and its results are kept.",
    params: idParam("benchmark_id"),
    headers: idempotencyHeaders,
    body: {
      type: "object",
      additionalProperties: false,
      required: ["items", "reason"],
      properties: {
        items: {
          type: "array",
          minItems: 1,
          maxItems: 100_000,
          uniqueItems: true,
          items: { type: "integer", minimum: 1, maximum: 100_000, description: "sample_num" },
        },
        reason: text,
      },
    },
    reply: benchmarkRecord,
    errors: ["not_found", "conflict", "no_item_left"],
  }),
  "benchmarks.list": endpoint({
    method: "GET",
    path: "/api/v3/benchmarks",
    tag: "benchmarks",
    summary: "List your benchmarks, newest first.",
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
    summary: "Get the identity, status and splits of a benchmark.",
    params: idParam("benchmark_id"),
    reply: benchmarkRecord,
    errors: ["not_found"],
  }),
  "benchmarks.delete": endpoint({
    method: "DELETE",
    path: "/api/v3/benchmarks/{benchmark_id}",
    tag: "benchmarks",
    summary:
      "Delete a benchmark permanently, with the uploaded file. Its other versions and the alignments that used it are kept.",
    params: idParam("benchmark_id"),
    query: {
      type: "object",
      additionalProperties: false,
      properties: {
        evaluations: {
          type: "boolean",
          default: false,
          description:
            "Also delete the finished evaluations on it. Without this, deletion is refused while there are any.",
        },
      },
    },
    reply: deletion("benchmark_id"),
    errors: ["not_found", "under_way", "in_use"],
  }),
  "benchmarks.data": endpoint({
    method: "GET",
    path: "/api/v3/benchmarks/{benchmark_id}/data",
    tag: "benchmarks",
    summary: "Get the samples of a benchmark.",
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
    errors: ["not_found", "conflict"],
  }),
} as const;
