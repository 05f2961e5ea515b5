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
    masking: { type: "boolean", description: "Personal data of a known form is replaced before anything is written." },
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
    model_id: { type: "string", description: "As the answer named it." },
    question: { type: "string", description: "The last thing that was said to the model." },
    answer: { type: "string" },
    confidence_score: { type: ["number", "null"] },
    masked: { type: "integer", description: "Pieces of personal data that were replaced." },
    used_in: {
      type: ["string", "null"],
      description: "The document or benchmark that was made of it, or the auto-align that learned from it.",
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
    summary:
      "Start or end keeping what an agent, or whoever uses a key of yours, asks and is answered. Off until then.",
    body: {
      type: "object",
      additionalProperties: false,
      required: ["kind", "subject_id", "enabled"],
      properties: {
        kind: { enum: ["agent", "key"] },
        subject_id: { ...id, description: "The agent or the key, by its id." },
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
    summary: "Agents and keys whose traffic is kept.",
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
    summary: "What was kept, newest first.",
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
    summary: "Forget a question and its answer. A document that was made of it stays.",
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
      "Filter what was kept and was not used yet, and make a document of it, or benchmark items of those that a person has answered.",
    headers: idempotencyHeaders,
    body: {
      type: "object",
      additionalProperties: false,
      required: ["into", "name"],
      properties: {
        into: { enum: ["document", "benchmark"] },
        name,
        subject_id: id,
        least_confidence: { ...score, description: "Answers less sure than this, or without a score, are left." },
        most_confidence: { ...score, description: "Answers surer than this are left: what the model finds hard." },
        limit: { type: "integer", minimum: 1, maximum: 1000, default: 200 },
        responses: {
          type: "array",
          maxItems: 1000,
          description:
            "Right answers by a person. In a benchmark only what has one is used; in a document it replaces the answer.",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["capture", "response"],
            properties: { capture: { ...id, description: "By its id." }, response: text },
          },
        },
      },
    },
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["id", "taken", "left"],
      properties: {
        id: { type: ["string", "null"], description: "Of the document or benchmark; null where nothing was left." },
        taken: { type: "array", items: { type: "string" } },
        left: {
          type: "object",
          additionalProperties: false,
          required: ["unsure", "sure", "short", "declined", "duplicate", "in_benchmark", "unanswered"],
          description: "How many each filter left behind, in this order.",
          properties: {
            unsure: { type: "integer" },
            sure: { type: "integer" },
            short: { type: "integer" },
            declined: { type: "integer" },
            duplicate: { type: "integer" },
            in_benchmark: {
              type: "integer",
              description: "Already a benchmark's question: it must not be trained on.",
            },
            unanswered: { type: "integer" },
          },
        },
      },
    },
    errors: ["not_found", "document_invalid", "benchmark_invalid", "disk_full"],
  }),
} as const;
