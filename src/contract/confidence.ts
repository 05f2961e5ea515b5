import { idParam, nullableTimestamp, timestamp } from "./common.ts";
import { endpoint } from "./endpoint.ts";

/** A passage of the documents that supports an answer. */
const source = {
  type: "object",
  additionalProperties: false,
  required: ["document_id", "start", "end", "grounding", "deleted"],
  properties: {
    document_id: { type: "string" },
    start: { type: "integer", minimum: 0, description: "Offset in the document's clean text, in UTF-16 code units." },
    end: { type: "integer", minimum: 0 },
    grounding: {
      type: "number",
      minimum: 0,
      maximum: 1,
      description:
        "Share of the answer's words found in the passage, with rare words weighted more. It is lower if another passage matches the question better.",
    },
    deleted: { type: "boolean", description: "Whether the document has since been deleted." },
  },
} as const;

/** From 0 to 100 for aligned models, null for base models. `confidence` explains the number. */
export const confidenceScore = { type: ["number", "null"], minimum: 0, maximum: 100 } as const;
export const confidence = {
  anyOf: [
    { type: "null" },
    {
      type: "object",
      additionalProperties: false,
      required: ["calibrated", "n", "reason", "date", "drift", "least_certain", "sources"],
      properties: {
        calibrated: { type: "boolean" },
        n: { type: "integer", description: "Graded answers used for calibration; 0 if it is not calibrated." },
        reason: { type: ["string", "null"], description: "Why it is not calibrated." },
        date: { anyOf: [timestamp, { type: "null" }], description: "When it was calibrated." },
        drift: {
          type: "object",
          additionalProperties: false,
          required: ["p_value", "reason"],
          properties: {
            p_value: {
              type: ["number", "null"],
              minimum: 0,
              maximum: 1,
              description: "Share of the benchmark's questions that are at least as unlike the documents as this one.",
            },
            reason: { type: ["string", "null"], description: "Why it is unknown." },
          },
        },
        least_certain: {
          anyOf: [
            { type: "null" },
            {
              type: "object",
              additionalProperties: false,
              required: ["text", "start", "end", "probability"],
              description: "The word that contains the token the model was least sure of.",
              properties: {
                text: { type: "string" },
                start: {
                  type: "integer",
                  description: "Code points before the word: of a chat's content, or of a completion's text.",
                },
                end: { type: "integer" },
                probability: { type: "number", minimum: 0, maximum: 1 },
              },
            },
          ],
        },
        sources: {
          anyOf: [{ type: "null" }, { type: "array", maxItems: 3, items: source }],
          description:
            "Passages of the model's documents that support the answer, best first; empty if none does. If the documents have more than a megabyte of text, only an evenly spaced part of the passages is searched. null if the answer is empty, if the model was made before passages were stored, or if they cannot be read.",
        },
      },
    },
  ],
} as const;

/** Confidence fields of every answer. */
export const ofAnswer = { confidence_score: confidenceScore, confidence } as const;

/** Confidence of the answer "Twice a year.", which the examples use. */
export const exampleOfAnswer = {
  confidence_score: 87,
  confidence: {
    calibrated: true,
    n: 120,
    reason: null,
    date: "2026-01-15T09:00:00.000Z",
    drift: { p_value: 0.42, reason: null },
    least_certain: { text: "Twice", start: 0, end: 5, probability: 0.71 },
    sources: [
      { document_id: "document_1q5w9r3t7y2z6x0c4v8b3n7m", start: 1204, end: 1391, grounding: 0.92, deleted: false },
    ],
  },
} as const;

const share = { type: "number", minimum: 0, maximum: 100 } as const;
const figure = { type: ["number", "null"] } as const;
const count = { type: "integer", minimum: 0 } as const;
const whole = { type: "integer", minimum: 0, maximum: 100 } as const;

const coverage = {
  threshold: { ...whole, description: "Answers with at least this confidence_score are accepted." },
  coverage: { ...share, description: "Accepted answers, in per cent of all answers." },
  n: { ...count, description: "Number of accepted answers." },
  error: { ...share, description: "Wrong answers, in per cent of the accepted answers." },
} as const;

/** How reliable an aligned model's confidence scores are, on answers to its benchmark that its calibrator had not seen. */
export const confidenceRecord = {
  type: "object",
  additionalProperties: false,
  required: [
    "model_id",
    "calibrated",
    "reason",
    "n",
    "date",
    "calibrator",
    "features",
    "depends_on",
    "prior",
    "statistics",
    "reliability",
    "risk_coverage",
    "threshold",
    "drift",
  ],
  properties: {
    model_id: { type: "string" },
    calibrated: { type: "boolean" },
    reason: { type: ["string", "null"], description: "Why it is not calibrated." },
    n: {
      ...count,
      description: "Graded answers behind the figures, whether or not they were enough for a calibration.",
    },
    date: { ...nullableTimestamp, description: "When the answers were graded." },
    calibrator: { enum: ["platt", "isotonic", "prior"] },
    features: {
      type: "array",
      items: { type: "string" },
      description:
        "The inputs of the score. The grounding features say how far passages about the question contain the words of the answer.",
    },
    depends_on: {
      type: "object",
      description: "What the calibration was measured on. If any of these differs, the prior is used instead.",
      additionalProperties: { type: "string" },
    },
    prior: {
      type: "object",
      additionalProperties: false,
      required: ["family", "is_own_family", "about"],
      properties: {
        family: { type: "string", description: "Family of base models whose answers the prior was fitted on." },
        is_own_family: { type: "boolean", description: "Whether this model's base belongs to that family." },
        about: { type: "string" },
      },
    },
    statistics: {
      type: "object",
      additionalProperties: false,
      required: [
        "accuracy",
        "auroc",
        "prr",
        "brier",
        "brier_skill",
        "calibration_error",
        "perfect_calibration_error",
        "debiased_calibration_error",
      ],
      properties: {
        accuracy: { ...figure, description: "Share of correct answers, 0–1." },
        auroc: { ...figure, description: "Probability that a correct answer scores higher than a wrong one." },
        prr: { ...figure, description: "Prediction-rejection ratio up to half of the answers: 0 chance, 1 perfect." },
        brier: figure,
        brier_skill: figure,
        calibration_error: {
          ...figure,
          description: "Mean distance between score and accuracy over ten bins of equal mass, 0–1.",
        },
        perfect_calibration_error: {
          type: ["object", "null"],
          additionalProperties: false,
          required: ["mean", "p95"],
          description: "The calibration error that chance alone produces when all scores are exactly right.",
          properties: { mean: { type: "number" }, p95: { type: "number" } },
        },
        debiased_calibration_error: { ...figure, description: "Root mean square, without the part due to chance." },
      },
    },
    reliability: {
      type: "array",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["low", "high", "n", "score", "accuracy", "accuracy_low", "accuracy_high"],
        properties: {
          low: whole,
          high: whole,
          n: count,
          score: { ...share, description: "Mean confidence_score." },
          accuracy: { ...share, description: "Correct answers, in per cent." },
          accuracy_low: { ...share, description: "Lower end of its 95 % interval." },
          accuracy_high: share,
        },
      },
    },
    risk_coverage: {
      type: "array",
      description: "From the strictest threshold down to no threshold.",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["threshold", "coverage", "n", "error"],
        properties: coverage,
      },
    },
    threshold: {
      anyOf: [
        { type: "null" },
        {
          type: "object",
          additionalProperties: false,
          required: ["threshold", "coverage", "n", "error", "error_bound"],
          properties: {
            ...coverage,
            error_bound: {
              ...share,
              description: "With 95 % certainty, no more than this per cent of the accepted answers are wrong.",
            },
          },
        },
      ],
      description:
        "The lowest threshold whose error is bounded by max_error, for questions like the benchmark's; null if there is none.",
    },
    drift: {
      type: "object",
      additionalProperties: false,
      required: ["n", "reason", "encoder_sha256"],
      properties: {
        n: { ...count, description: "Held-out questions that a question's drift is compared with." },
        reason: { type: ["string", "null"], description: "Why drift is unknown." },
        encoder_sha256: { type: ["string", "null"] },
      },
    },
  },
} as const;

export const confidences = {
  "models.confidence": endpoint({
    method: "GET",
    path: "/api/v3/models/{model_id}/confidence",
    tag: "models",
    summary: "How far the confidence scores of an aligned model can be trusted, and from which score on.",
    params: idParam("model_id"),
    query: {
      type: "object",
      additionalProperties: false,
      properties: {
        max_error: {
          type: "integer",
          minimum: 1,
          maximum: 99,
          default: 5,
          description: "Wrong answers that the suggested threshold may let through, in per cent.",
        },
      },
    },
    reply: confidenceRecord,
    errors: ["not_found"],
  }),
} as const;
