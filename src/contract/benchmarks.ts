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

/** A row of an uploaded benchmark: JSONL, or CSV with these columns (aliases separated by "|"). */
export const benchmarkRow = {
  type: "object",
  additionalProperties: false,
  required: ["instruction", "response"],
  properties: {
    instruction: { type: "string", minLength: 1, maxLength: 20_000, pattern: "\\S" },
    response: { type: "string", minLength: 1, maxLength: 20_000, pattern: "\\S" },
    aliases: {
      type: "array",
      maxItems: 100,
      items: { type: "string", minLength: 1, maxLength: 20_000, pattern: "\\S" },
    },
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
      "Upload a benchmark: JSONL or CSV rows of instruction, response, and optional aliases, cluster, split, tolerance.",
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
            required: ["sample_num", "instruction", "response", "aliases", "cluster", "split"],
            properties: {
              sample_num: { type: "integer" },
              instruction: { type: "string" },
              response: { type: "string" },
              aliases: { type: "array", items: { type: "string" } },
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
