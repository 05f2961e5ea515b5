// Results of an evaluation: scores, the paired comparison, what the run measured besides, and every item.
import { bySplit, itemTypes, splits as splitNames } from "./benchmarks.ts";
import { score, timestamp } from "./common.ts";
import { clusteredScore, comparison } from "./comparisons.ts";

/** A run's measurement of its model against its base. */
const guardResult = {
  type: "object",
  additionalProperties: false,
  required: ["name", "n", "base", "aligned", "most", "items"],
  properties: {
    name: { type: "string" },
    n: { type: "integer" },
    base: { type: "number", description: "Points, or what `most` limits." },
    aligned: { type: "number" },
    most: { type: ["number", "null"], description: "The aligned model's value at most, where less is better." },
    items: {
      type: "array",
      description: "At least those that the two answered differently.",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["item", "text", "base", "aligned"],
        properties: {
          item: { type: "string" },
          text: { type: "string" },
          base: { type: "number", minimum: 0, maximum: 1 },
          aligned: { type: "number", minimum: 0, maximum: 1 },
        },
      },
    },
  },
} as const;

/** How an item was answered and graded. Greedy answers and likelihoods involve no sampling, so there is no seed. */
const graded_by = {
  type: "object",
  additionalProperties: false,
  required: ["by", "seed"],
  properties: {
    by: { enum: ["answer", "likelihood", "judge"] },
    seed: { type: "null" },
    max_tokens: { type: "integer" },
    reason: { enum: ["match", "within_tolerance", "declined", "no_match", "competing_value"] },
    chosen: { type: "integer", description: "The choice with the highest log-prob per character, from 0." },
    chosen_unnormalised: { type: "integer", description: "That with the highest log-prob." },
    logprobs: { type: "array", items: { type: "number" }, description: "Of each choice, in nats." },
    points: {
      type: "array",
      description: "Of the rubric, as the judge saw them.",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["id", "met", "probability"],
        properties: { id: { type: "string" }, met: { type: "boolean" }, probability: { type: "number" } },
      },
    },
  },
} as const;

/** `score` and `n` refer to the sealed split; the paired comparison is with the base on the same items. */
export const evaluationResults = {
  type: "object",
  additionalProperties: false,
  required: [
    "headline",
    "evaluation_id",
    "model_id",
    "benchmark_id",
    "score",
    "low",
    "high",
    "n",
    "splits",
    "types",
    "minimum_detectable",
    "paired",
    "judge",
    "guards",
    "sealed_touches",
    "settings",
    "items",
  ],
  properties: {
    headline: {
      type: ["string", "null"],
      description: "Whether the model is worth deploying, by the comparison with its base; null where there is none.",
      examples: ["No gain: do not deploy"],
    },
    evaluation_id: { type: "string" },
    model_id: { type: "string" },
    benchmark_id: { type: "string" },
    ...clusteredScore.properties,
    clustered_by: {
      enum: ["document", "fact"],
      description: "Items belong together by the document they cite, or by the fact where those documents are few.",
    },
    splits: bySplit(clusteredScore),
    types: {
      type: "array",
      description: "Sealed items by their type.",
      items: {
        ...score,
        required: ["type", ...score.required, "chance"],
        properties: {
          type: { enum: itemTypes },
          ...score.properties,
          chance: { type: ["number", "null"], description: "Points that guessing gets, of choices." },
        },
      },
    },
    minimum_detectable: {
      type: "number",
      description:
        "Points: the true difference that a paired comparison on the sealed split finds, two-sided at 5 %, in 80 % of all cases; where there is no comparison yet, of two models that disagree on 20 % of the items.",
    },
    paired: {
      anyOf: [
        { type: "null" },
        {
          ...comparison,
          required: ["compared_with", "evaluation_id", "difference", "gained", "lost", "p_value", "minimum_detectable"],
          properties: {
            compared_with: { type: "string" },
            evaluation_id: { type: "string" },
            ...comparison.properties,
          },
        },
      ],
    },
    judge: {
      anyOf: [
        { type: "null" },
        {
          type: "object",
          additionalProperties: false,
          required: ["model_id", "same_base", "sensitivity", "specificity", "observed", "corrected"],
          description: "Who judged the long answers, and how often it errs on answers whose truth is known.",
          properties: {
            model_id: { type: "string" },
            same_base: { type: "boolean", description: "It judges a model over its own base: it may like its style." },
            sensitivity: { ...score, description: "Points of a rubric that its own reference meets, called met." },
            specificity: { ...score, description: "Points that another item's reference leaves unmet, called unmet." },
            observed: { type: "number", description: "Of the rubrics' points, those called met, out of 100." },
            corrected: {
              type: ["number", "null"],
              description: "The same with the judge's error taken off (Rogan and Gladen); null if it only guesses.",
            },
          },
        },
      ],
    },
    guards: { type: "array", items: guardResult, description: "What the run measured of this model." },
    sealed_touches: {
      type: "object",
      additionalProperties: false,
      required: ["n", "models", "latest"],
      description: "Each use of the benchmark's sealed split so far: the best of many looks better than it is.",
      properties: {
        n: { type: "integer" },
        models: { type: "integer", description: "Different models that it was used on." },
        latest: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["evaluation_id", "model_id", "purpose", "at"],
            properties: {
              evaluation_id: { type: "string" },
              model_id: { type: "string" },
              purpose: { enum: ["evaluation", "comparison", "promotion", "look"] },
              at: timestamp,
            },
          },
        },
      },
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
          "type",
          "score",
          "cluster",
          "graded_by",
        ],
        properties: {
          sample_num: { type: "integer" },
          split: { enum: splitNames },
          type: { enum: itemTypes },
          instruction: { type: "string" },
          response: { type: "string" },
          answer: { type: "string" },
          correct: { type: "boolean", description: "Wholly right." },
          score: { type: "number", minimum: 0, maximum: 1 },
          cluster: { type: "string", description: "What it belongs to: items of one cluster fail together." },
          confidence_score: { type: ["number", "null"] },
          prompt_sha256: { type: "string", description: "Of the token ids that the model was given." },
          graded_by,
        },
      },
    },
  },
} as const;
