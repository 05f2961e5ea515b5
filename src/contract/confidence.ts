import { idParam, nullableTimestamp, timestamp } from "./common.ts";
import { endpoint } from "./endpoint.ts";

/** A passage of the documents that supports an answer. */
const source = {
  type: "object",
  additionalProperties: false,
  required: ["document_id", "start", "end", "support", "deleted"],
  properties: {
    document_id: { type: "string" },
    start: { type: "integer", minimum: 0, description: "In the document's clean text, UTF-16 code units." },
    end: { type: "integer", minimum: 0 },
    support: {
      type: "number",
      minimum: 0,
      maximum: 1,
      description:
        "Share of the answer's words that the passage holds, rare ones counting more; less where another passage has more of the question.",
    },
    deleted: { type: "boolean", description: "Whether the document has been deleted since." },
  },
} as const;

/** 0–100 on aligned models, null on base models; `confidence` explains the number. */
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
        n: { type: "integer", description: "Graded answers that it was calibrated on; 0 where it was not." },
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
              description: "Share of the benchmark's questions at least as unlike the documents as this one.",
            },
            reason: { type: ["string", "null"], description: "Why it is not known." },
          },
        },
        least_certain: {
          anyOf: [
            { type: "null" },
            {
              type: "object",
              additionalProperties: false,
              required: ["text", "start", "end", "probability"],
              description: "The word around the token the model was least sure of.",
              properties: {
                text: { type: "string" },
                start: { type: "integer", description: "Code points of the text as it was generated before the word." },
                end: { type: "integer" },
                probability: { type: "number", minimum: 0, maximum: 1 },
              },
            },
          ],
        },
        sources: {
          anyOf: [{ type: "null" }, { type: "array", maxItems: 3, items: source }],
          description:
            "Passages of the model's documents that support the answer, the best first; empty where none does. Of more than a megabyte of text only an even part of the passages can be named. null where the answer is empty, where the model was made before passages were kept, or where they cannot be read.",
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
      { document_id: "document_1q5w9r3t7y2z6x0c4v8b3n7m", start: 1204, end: 1391, support: 0.92, deleted: false },
    ],
  },
} as const;

const share = { type: "number", minimum: 0, maximum: 100 } as const;
const figure = { type: ["number", "null"] } as const;
const count = { type: "integer", minimum: 0 } as const;
const whole = { type: "integer", minimum: 0, maximum: 100 } as const;

const coverage = {
  threshold: { ...whole, description: "Answers of at least this confidence_score are accepted." },
  coverage: { ...share, description: "Per cent of all answers that are accepted." },
  n: { ...count, description: "Accepted answers." },
  error: { ...share, description: "Per cent of the accepted answers that are wrong." },
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
    n: { ...count, description: "Graded answers behind the figures, whether or not they were enough to calibrate on." },
    date: { ...nullableTimestamp, description: "When they were graded." },
    calibrator: { enum: ["platt", "isotonic", "prior"] },
    features: {
      type: "array",
      items: { type: "string" },
      description:
        "What a score is made from. Those of support say how far passages of the documents that the question is about hold the words of the answer.",
    },
    depends_on: {
      type: "object",
      description: "What it was measured on: where one of these is another, the prior serves.",
      additionalProperties: { type: "string" },
    },
    prior: {
      type: "object",
      additionalProperties: false,
      required: ["family", "is_own_family", "about"],
      properties: {
        family: { type: "string", description: "Of base models, on whose answers the prior was fitted." },
        is_own_family: { type: "boolean", description: "Whether the base of this model is one of them." },
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
        accuracy: { ...figure, description: "Share of right answers, 0–1." },
        auroc: { ...figure, description: "The chance that a right answer scores above a wrong one." },
        prr: { ...figure, description: "Prediction-rejection ratio up to half of the answers: 0 chance, 1 perfect." },
        brier: figure,
        brier_skill: figure,
        calibration_error: {
          ...figure,
          description: "Mean distance of score and accuracy over ten bins of equal mass, 0–1.",
        },
        perfect_calibration_error: {
          type: ["object", "null"],
          additionalProperties: false,
          required: ["mean", "p95"],
          description: "What chance alone makes of the calibration error of scores that are exactly right.",
          properties: { mean: { type: "number" }, p95: { type: "number" } },
        },
        debiased_calibration_error: { ...figure, description: "Root mean square, without what chance adds." },
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
          accuracy: { ...share, description: "Per cent that was right." },
          accuracy_low: { ...share, description: "Lower end of its 95 % interval." },
          accuracy_high: share,
        },
      },
    },
    risk_coverage: {
      type: "array",
      description: "From the strictest threshold to none.",
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
            error_bound: { ...share, description: "With 95 % certainty no more of the accepted answers are wrong." },
          },
        },
      ],
      description:
        "The lowest threshold whose error is bounded by max_error, on questions like the benchmark's; null where none is.",
    },
    drift: {
      type: "object",
      additionalProperties: false,
      required: ["n", "reason", "encoder_sha256"],
      properties: {
        n: { ...count, description: "Held-out questions that a question's drift is compared with." },
        reason: { type: ["string", "null"], description: "Why drift is not known." },
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
          description: "Per cent of wrong answers that the suggested threshold may let through.",
        },
      },
    },
    reply: confidenceRecord,
    errors: ["not_found"],
  }),
} as const;
