// Auto-aligns that captured answers suggest. The appliance proposes them; only their owner can start them.
import { autoAlignAccepted } from "./auto-align.ts";
import { id, idempotencyHeaders, idParam, nullableTimestamp, page, timestamp } from "./common.ts";
import { endpoint } from "./endpoint.ts";

const count = { type: "integer", minimum: 0 } as const;
const score = { type: "number", minimum: 0, maximum: 100 } as const;
const targetScore = { type: "number", minimum: 0, maximum: 99 } as const;
const hours = { type: ["number", "null"], minimum: 0 } as const;

const rowProperties = {
  proposal_id: { type: "string" },
  alignment_id: { type: "string" },
  status: {
    enum: ["PROPOSED", "ACCEPTED", "DISMISSED"],
    description: "PROPOSED until its owner decides; nothing starts automatically.",
  },
  because: { type: "string", description: "The reason for the proposal, in one sentence." },
  captures: {
    ...count,
    description: "Captured answers that support the proposal; each may do so for several reasons.",
  },
  low_rated: { ...count, description: "Answers rated below 50." },
  interventions: { ...count, description: "Answers where a person had to intervene." },
  unsure: { ...count, description: "Answers with a confidence score below 50." },
  suggested: {
    type: "object",
    additionalProperties: false,
    required: ["target_score", "max_compute_hours"],
    properties: {
      target_score: { ...targetScore, description: "Suggested target, above the score of the project's newest model." },
      max_compute_hours: {
        ...hours,
        description: "Twice the time of the project's last run; null if that is unknown.",
      },
    },
  },
  auto_align_id: {
    type: ["string", "null"],
    description: "The auto-align that started when the proposal was accepted.",
  },
  created_date: timestamp,
  decided_date: nullableTimestamp,
} as const;

const proposalRow = {
  type: "object",
  additionalProperties: false,
  required: Object.keys(rowProperties) as (keyof typeof rowProperties)[],
  properties: rowProperties,
} as const;

const proposedCapture = {
  type: "object",
  additionalProperties: false,
  required: [
    "capture_id",
    "model_id",
    "question",
    "answer",
    "confidence_score",
    "rating",
    "intervention",
    "created_at",
  ],
  properties: {
    capture_id: { type: "string" },
    model_id: { type: "string" },
    question: { type: "string" },
    answer: { type: "string" },
    confidence_score: { ...score, type: ["number", "null"] },
    rating: { ...score, type: ["number", "null"], description: "The lowest rating given." },
    intervention: { type: "boolean" },
    created_at: timestamp,
  },
} as const;

const recordProperties = {
  ...rowProperties,
  trains_on: {
    type: "string",
    description: "A description of what the auto-align would learn from.",
  },
  evidence: { type: "array", items: proposedCapture, description: "The captured answers, oldest first." },
  left: {
    type: "object",
    additionalProperties: false,
    required: ["short", "duplicate", "in_benchmark"],
    description: "Captured answers that each filter left out, in this order. 0 once the proposal is decided.",
    properties: {
      short: count,
      duplicate: count,
      in_benchmark: {
        ...count,
        description: "The question is the same as a benchmark question of yours, or nearly: it must not be trained on.",
      },
    },
  },
} as const;

const proposalParams = {
  type: "object",
  additionalProperties: false,
  required: ["alignment_id", "proposal_id"],
  properties: { alignment_id: id, proposal_id: id },
} as const;

const text = { type: "string", minLength: 1, maxLength: 20_000, pattern: "^[^\\u0000]*\\S[^\\u0000]*$" } as const;

export const proposals = {
  "proposals.list": endpoint({
    method: "GET",
    path: "/api/v3/alignment-projects/{alignment_id}/proposals",
    tag: "alignments",
    summary: "List the auto-aligns that captured answers of the project's models suggest, newest first.",
    params: idParam("alignment_id"),
    query: { type: "object", additionalProperties: false, properties: page },
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["proposals"],
      properties: { proposals: { type: "array", items: proposalRow } },
    },
    errors: ["not_found"],
  }),
  "proposals.get": endpoint({
    method: "GET",
    path: "/api/v3/alignment-projects/{alignment_id}/proposals/{proposal_id}",
    // The reply shows captures, so it requires the same scope as they do.
    tag: "captures",
    summary: "Get a proposed auto-align: the reason, the captured answers behind it, and what it would learn from.",
    params: proposalParams,
    reply: {
      type: "object",
      additionalProperties: false,
      required: Object.keys(recordProperties) as (keyof typeof recordProperties)[],
      properties: recordProperties,
    },
    errors: ["not_found"],
  }),
  "proposals.accept": endpoint({
    method: "POST",
    path: "/api/v3/alignment-projects/{alignment_id}/proposals/{proposal_id}/accept",
    tag: "alignments",
    summary:
      "Start the proposed auto-align, with the suggested values unless the body sets others. It learns from the project's documents, and from those captured questions for which you send a correct answer.",
    params: proposalParams,
    headers: idempotencyHeaders,
    body: {
      type: "object",
      additionalProperties: false,
      properties: {
        target_score: { ...targetScore, description: "Default: the suggested value" },
        max_compute_hours: { ...hours, description: "Default: the suggested value; null: no limit" },
        responses: {
          type: "array",
          maxItems: 1000,
          description:
            "Correct answers given by a person. A model's own answer with a low rating or low confidence is never learned from.",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["capture", "response"],
            properties: {
              capture: { ...id, description: "The capture's id; it must belong to the proposal." },
              response: text,
            },
          },
        },
      },
    },
    reply: autoAlignAccepted,
    status: 202,
    errors: ["not_found", "conflict", "snapshot_gone", "disk_full"],
  }),
  "proposals.dismiss": endpoint({
    method: "POST",
    path: "/api/v3/alignment-projects/{alignment_id}/proposals/{proposal_id}/dismiss",
    tag: "alignments",
    summary: "Dismiss a proposal. Its captured answers are kept, and are not proposed again.",
    params: proposalParams,
    reply: proposalRow,
    errors: ["not_found", "conflict"],
  }),
} as const;
