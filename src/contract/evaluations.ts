import { id, idParam, name, nullableTimestamp, progressDetail, score, timestamp } from "./common.ts";
import { endpoint } from "./endpoint.ts";

export const evaluationStatuses = ["QUEUED", "PROCESSING", "READY", "FAILED"] as const;

export const evaluationRecord = {
  type: "object",
  additionalProperties: false,
  required: [
    "evaluation_id",
    "status",
    "evaluation_name",
    "model_id",
    "benchmark_id",
    "progress",
    "n_samples_completed",
    "n_samples",
    "avg_time_per_sample",
    "eta_seconds",
    "created_at",
    "completed_at",
    "updated_at",
  ],
  properties: {
    evaluation_id: { type: "string" },
    status: { enum: evaluationStatuses },
    evaluation_name: name,
    model_id: { type: "string" },
    benchmark_id: { type: "string" },
    progress: { type: "number", minimum: 0, maximum: 100 },
    n_samples_completed: { type: "integer" },
    n_samples: { type: "integer" },
    avg_time_per_sample: { type: ["number", "null"] },
    eta_seconds: { type: "null" },
    progress_detail: { anyOf: [progressDetail, { type: "null" }] },
    error: { type: ["string", "null"] },
    created_at: timestamp,
    completed_at: nullableTimestamp,
    updated_at: timestamp,
  },
} as const;

/** `score` and `n` are of the sealed split; the paired comparison is with the base on the same items (McNemar, exact). */
export const evaluationResults = {
  type: "object",
  additionalProperties: false,
  required: [
    "evaluation_id",
    "model_id",
    "benchmark_id",
    "score",
    "low",
    "high",
    "n",
    "splits",
    "paired",
    "settings",
    "items",
  ],
  properties: {
    evaluation_id: { type: "string" },
    model_id: { type: "string" },
    benchmark_id: { type: "string" },
    ...score.properties,
    splits: {
      type: "object",
      additionalProperties: false,
      properties: { dev: score, sealed: score, retention: score },
    },
    paired: {
      anyOf: [
        { type: "null" },
        {
          type: "object",
          additionalProperties: false,
          required: ["compared_with", "evaluation_id", "difference", "gained", "lost", "p_value", "minimum_detectable"],
          properties: {
            compared_with: { type: "string" },
            evaluation_id: { type: "string" },
            difference: { type: "number", description: "Points, this model minus the other." },
            gained: { type: "integer" },
            lost: { type: "integer" },
            p_value: { type: "number" },
            minimum_detectable: { type: "number", description: "Points, two-sided 5 %, power 80 %." },
          },
        },
      ],
    },
    settings: {
      type: "object",
      description: "How the answers were made: greedy, batch shape, limits, prompt template hash.",
    },
    items: {
      type: "array",
      items: {
        type: "object",
        additionalProperties: false,
        required: [
          "sample_num",
          "split",
          "instruction",
          "response",
          "answer",
          "correct",
          "confidence_score",
          "prompt_sha256",
        ],
        properties: {
          sample_num: { type: "integer" },
          split: { enum: ["dev", "sealed", "retention"] },
          instruction: { type: "string" },
          response: { type: "string" },
          answer: { type: "string" },
          correct: { type: "boolean" },
          confidence_score: { type: ["number", "null"] },
          prompt_sha256: { type: "string" },
        },
      },
    },
  },
} as const;

const evaluationId = idParam("evaluation_id");

export const evaluations = {
  "evaluations.create": endpoint({
    method: "POST",
    path: "/api/v3/evaluations/create",
    tag: "evaluations",
    summary: "Evaluate a base or aligned model, deployed or not, against a benchmark.",
    body: {
      type: "object",
      additionalProperties: false,
      required: ["model_id", "benchmark_id"],
      properties: { model_id: id, benchmark_id: id, evaluation_name: name },
    },
    reply: evaluationRecord,
    errors: ["not_found", "disk_full"],
  }),
  "evaluations.get": endpoint({
    method: "GET",
    path: "/api/v3/evaluations/{evaluation_id}",
    tag: "evaluations",
    summary: "Where an evaluation stands.",
    params: evaluationId,
    reply: evaluationRecord,
    errors: ["not_found"],
  }),
  "evaluations.results": endpoint({
    method: "GET",
    path: "/api/v3/evaluations/{evaluation_id}/results",
    tag: "evaluations",
    summary: "Scores with intervals, the paired comparison, and every item; 409 until READY.",
    params: evaluationId,
    reply: evaluationResults,
    errors: ["not_found", "conflict"],
  }),
} as const;
