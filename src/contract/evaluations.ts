import { splits as splitNames } from "./benchmarks.ts";
import {
  deletion,
  id,
  idempotencyHeaders,
  idParam,
  name,
  nullableTimestamp,
  page,
  progressDetail,
  timestamp,
} from "./common.ts";
import { comparisonRecord } from "./comparisons.ts";
import { endpoint } from "./endpoint.ts";
import { evaluationResults } from "./evaluation-results.ts";

const evaluationStatuses = ["QUEUED", "PROCESSING", "READY", "FAILED"] as const;

const evaluationRecord = {
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
    waiting_for: {
      type: ["string", "null"],
      description: "What a queued evaluation is waiting for; null if it is not waiting.",
    },
    error: { type: ["string", "null"] },
    stopped: { type: "boolean", description: "Whether it was stopped on request. Its status is then FAILED." },
    created_at: timestamp,
    completed_at: nullableTimestamp,
    updated_at: timestamp,
  },
} as const;

const evaluationId = idParam("evaluation_id");

export const evaluations = {
  "evaluations.create": endpoint({
    method: "POST",
    path: "/api/v3/evaluations/create",
    tag: "evaluations",
    summary: "Evaluate a base or aligned model, deployed or not, on a benchmark.",
    headers: idempotencyHeaders,
    body: {
      type: "object",
      additionalProperties: false,
      required: ["model_id", "benchmark_id"],
      properties: {
        model_id: id,
        benchmark_id: id,
        evaluation_name: name,
        splits: {
          type: "array",
          minItems: 1,
          maxItems: splitNames.length,
          uniqueItems: true,
          items: { type: "string", enum: splitNames },
          default: splitNames,
          description:
            "While you are still developing a model, use dev only: each use of the sealed split is recorded.",
        },
        judge_model_id: {
          ...id,
          description: "The model that judges long answers by their rubrics; default: the model's base.",
        },
      },
    },
    reply: evaluationRecord,
    errors: ["not_found", "conflict", "disk_full"],
  }),
  "evaluations.compare": endpoint({
    method: "POST",
    path: "/api/v3/evaluations/compare",
    tag: "evaluations",
    summary: "Compare two models item by item on a benchmark, using their latest finished evaluations.",
    body: {
      type: "object",
      additionalProperties: false,
      required: ["model_id", "compared_with", "benchmark_id"],
      properties: { model_id: id, compared_with: id, benchmark_id: id },
    },
    reply: comparisonRecord,
    errors: ["not_found", "conflict"],
  }),
  "evaluations.list": endpoint({
    method: "GET",
    path: "/api/v3/evaluations",
    tag: "evaluations",
    summary: "List your evaluations, newest first.",
    query: {
      type: "object",
      additionalProperties: false,
      properties: { status: { enum: evaluationStatuses }, model_id: id, benchmark_id: id, ...page },
    },
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["evaluations", "total"],
      properties: {
        evaluations: { type: "array", items: evaluationRecord },
        total: { type: "integer", description: "Number of evaluations that match the filters." },
      },
    },
    errors: [],
  }),
  "evaluations.get": endpoint({
    method: "GET",
    path: "/api/v3/evaluations/{evaluation_id}",
    tag: "evaluations",
    summary: "Get the status of an evaluation.",
    params: evaluationId,
    reply: evaluationRecord,
    errors: ["not_found"],
  }),
  "evaluations.stop": endpoint({
    method: "POST",
    path: "/api/v3/evaluations/{evaluation_id}/stop",
    tag: "evaluations",
    summary: "Stop an evaluation that is queued or running. It ends as FAILED, and its answers are not used.",
    params: evaluationId,
    reply: evaluationRecord,
    errors: ["not_found", "conflict"],
  }),
  "evaluations.delete": endpoint({
    method: "DELETE",
    path: "/api/v3/evaluations/{evaluation_id}",
    tag: "evaluations",
    summary:
      "Delete an evaluation with its answers. A queued evaluation never starts. The record that the sealed split was used is kept.",
    params: evaluationId,
    reply: deletion("evaluation_id"),
    errors: ["not_found", "under_way"],
  }),
  "evaluations.results": endpoint({
    method: "GET",
    path: "/api/v3/evaluations/{evaluation_id}/results",
    tag: "evaluations",
    summary: "Get scores with intervals, the paired comparison, and every item; 409 until READY.",
    params: evaluationId,
    reply: evaluationResults,
    errors: ["not_found", "conflict"],
  }),
} as const;
