// Scores with their intervals, and two models on the same items.
import { bySplit, itemTypes, splits as splitNames } from "./benchmarks.ts";
import { score } from "./common.ts";

/** A score, and how its interval was computed. */
export const clusteredScore = {
  ...score,
  required: [...score.required, "method", "clusters", "design_effect"],
  properties: {
    ...score.properties,
    method: {
      enum: ["wilson", "cluster_bootstrap"],
      description:
        "Wilson's interval, based on the effective number of independent items; for graded items, a bootstrap.",
    },
    clusters: { type: "integer" },
    design_effect: { type: "number", description: "How much clustering increases the variance." },
  },
} as const;

/** Two models on the same items. */
export const comparison = {
  type: "object",
  additionalProperties: false,
  required: [
    "n",
    "gained",
    "lost",
    "difference",
    "low",
    "high",
    "method",
    "clusters",
    "p_value",
    "p_worse",
    "minimum_detectable",
  ],
  properties: {
    n: { type: "integer" },
    gained: { type: "integer", description: "Items that this model answers better." },
    lost: { type: "integer" },
    difference: { type: "number", description: "In points: this model minus the other." },
    low: { type: "number", description: "Lower end of the 95 % interval of the difference." },
    high: { type: "number" },
    method: { enum: ["mcnemar", "sign_flip"], description: "sign_flip if items are graded or share a cluster." },
    clusters: { type: "integer" },
    p_value: { type: "number", description: "Two-sided." },
    p_worse: {
      type: "number",
      description: "One-sided: probability of a result this bad if this model is not worse than the other.",
    },
    minimum_detectable: {
      type: "number",
      description: "In points: the true difference that is detected in 80 % of all cases, two-sided at 5 %.",
    },
  },
} as const;

const side = {
  type: "object",
  additionalProperties: false,
  required: ["answer", "score", "correct", "confidence_score"],
  properties: {
    answer: { type: "string" },
    score: { type: "number", minimum: 0, maximum: 1 },
    correct: { type: "boolean" },
    confidence_score: { type: ["number", "null"] },
  },
} as const;

/** Compares the model `model_id` with the model `compared_with`. `gained` counts the items that `model_id` answers better. */
export const comparisonRecord = {
  type: "object",
  additionalProperties: false,
  required: [
    "benchmark_id",
    "model_id",
    "evaluation_id",
    "compared_with",
    "compared_evaluation_id",
    "scores",
    "compared_scores",
    "splits",
    "items",
  ],
  properties: {
    benchmark_id: { type: "string" },
    model_id: { type: "string" },
    evaluation_id: { type: "string" },
    compared_with: { type: "string" },
    compared_evaluation_id: { type: "string" },
    scores: bySplit(clusteredScore),
    compared_scores: bySplit(clusteredScore),
    splits: bySplit(comparison),
    items: {
      type: "array",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["sample_num", "split", "type", "instruction", "response", "outcome", "model", "compared"],
        properties: {
          sample_num: { type: "integer" },
          split: { enum: splitNames },
          type: { enum: itemTypes },
          instruction: { type: "string" },
          response: { type: "string" },
          outcome: { enum: ["gained", "lost", "same"] },
          model: side,
          compared: side,
        },
      },
    },
  },
} as const;
