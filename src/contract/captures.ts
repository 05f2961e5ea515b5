import { id, idempotencyHeaders, idParam, name, page, timestamp } from "./common.ts";
import { endpoint } from "./endpoint.ts";

export const captureSetting = {
  type: "object",
  additionalProperties: false,
  required: ["kind", "subject_id", "enabled", "masking"],
  properties: {
    kind: { enum: ["agent", "key"] },
    subject_id: { type: "string" },
    enabled: { type: "boolean" },
    masking: {
      type: "boolean",
      description: "Whether personal data of known forms is replaced before anything is stored.",
    },
  },
} as const;

export const captureRecord = {
  type: "object",
  additionalProperties: false,
  required: [
    "capture_id",
    "kind",
    "subject_id",
    "model_id",
    "question",
    "answer",
    "confidence_score",
    "masked",
    "used_in",
    "created_at",
  ],
  properties: {
    capture_id: { type: "string" },
    kind: { enum: ["agent", "key"] },
    subject_id: { type: "string" },
    model_id: { type: "string", description: "The model id given in the answer." },
    question: { type: "string", description: "The last message sent to the model." },
    answer: { type: "string" },
    confidence_score: { type: ["number", "null"] },
    masked: { type: "integer", description: "Number of personal data values that were replaced." },
    used_in: {
      type: ["string", "null"],
      description: "The document or benchmark made from it, or the auto-align that learned from it.",
    },
    created_at: timestamp,
  },
} as const;

const text = { type: "string", minLength: 1, maxLength: 20_000, pattern: "^[^\\u0000]*\\S[^\\u0000]*$" } as const;
const score = { type: "number", minimum: 0, maximum: 100 } as const;

export const captures = {
  "captures.set": endpoint({
    method: "POST",
    path: "/api/v3/captures/settings",
    tag: "captures",
    summary: "Start or stop storing the questions and answers of an agent, or of one of your keys. Off by default.",
    body: {
      type: "object",
      additionalProperties: false,
      required: ["kind", "subject_id", "enabled"],
      properties: {
        kind: { enum: ["agent", "key"] },
        subject_id: { ...id, description: "The id of the agent or key." },
        enabled: { type: "boolean" },
        masking: { type: "boolean", default: true },
      },
    },
    reply: captureSetting,
    errors: ["not_found"],
  }),
  "captures.settings": endpoint({
    method: "GET",
    path: "/api/v3/captures/settings",
    tag: "captures",
    summary: "List the agents and keys whose traffic is stored.",
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["settings"],
      properties: { settings: { type: "array", items: captureSetting } },
    },
    errors: [],
  }),
  "captures.list": endpoint({
    method: "GET",
    path: "/api/v3/captures",
    tag: "captures",
    summary: "List the stored questions and answers, newest first.",
    query: { type: "object", additionalProperties: false, properties: { subject_id: id, ...page } },
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["captures", "total"],
      properties: { captures: { type: "array", items: captureRecord }, total: { type: "integer" } },
    },
    errors: ["not_found"],
  }),
  "captures.delete": endpoint({
    method: "DELETE",
    path: "/api/v3/captures/{capture_id}",
    tag: "captures",
    summary: "Delete a question and its answer. Documents made from it are kept.",
    params: idParam("capture_id"),
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["capture_id"],
      properties: { capture_id: { type: "string" } },
    },
    errors: ["not_found"],
  }),
  "captures.select": endpoint({
    method: "POST",
    path: "/api/v3/captures/select",
    tag: "captures",
    summary:
      "Filter the captures that have not been used yet. Make a document from the result, or make benchmark items from those that a person has answered.",
    headers: idempotencyHeaders,
    body: {
      type: "object",
      additionalProperties: false,
      required: ["into", "name"],
      properties: {
        into: { enum: ["document", "benchmark"] },
        name,
        subject_id: id,
        least_confidence: { ...score, description: "Leave out answers with a lower confidence score, or with none." },
        most_confidence: {
          ...score,
          description: "Leave out answers with a higher confidence score, to keep what the model finds hard.",
        },
        limit: { type: "integer", minimum: 1, maximum: 1000, default: 200 },
        responses: {
          type: "array",
          maxItems: 1000,
          description:
            "Correct answers given by a person. A benchmark only uses captures that have one; in a document it replaces the model's answer.",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["capture", "response"],
            properties: {
              capture: { ...id, description: "The id of a capture that has not been used." },
              response: text,
            },
          },
        },
      },
    },
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["id", "taken", "left"],
      properties: {
        id: { type: ["string", "null"], description: "The id of the document or benchmark; null if nothing was left." },
        taken: { type: "array", items: { type: "string" } },
        left: {
          type: "object",
          additionalProperties: false,
          required: ["unsure", "sure", "short", "declined", "duplicate", "in_benchmark", "unanswered"],
          description: "How many captures each filter left out, in this order.",
          properties: {
            unsure: { type: "integer" },
            sure: { type: "integer" },
            short: { type: "integer" },
            declined: { type: "integer" },
            duplicate: { type: "integer" },
            in_benchmark: {
              type: "integer",
              description: "Already a question of a benchmark: it must not be trained on.",
            },
            unanswered: { type: "integer" },
          },
        },
      },
    },
    errors: ["not_found", "conflict", "document_invalid", "benchmark_invalid", "disk_full"],
  }),
} as const;
