// Results of an evaluation: scores, the paired comparison, further measurements of the run, and every item.
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
    base: { type: "number", description: "In points, or in the unit that `most` limits." },
    aligned: { type: "number" },
    most: { type: ["number", "null"], description: "Upper limit for the aligned model's value, if less is better." },
    items: {
      type: "array",
      description: "At least the items that the two models answered differently.",
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
    chosen: { type: "integer", description: "The choice with the highest log-prob per character, counted from 0." },
    chosen_unnormalised: { type: "integer", description: "The choice with the highest log-prob." },
    logprobs: { type: "array", items: { type: "number" }, description: "Log-prob of each choice, in nats." },
    points: {
      type: "array",
      description: "Points of the rubric, as the judge saw them.",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["id", "met", "probability"],
        properties: { id: { type: "string" }, met: { type: "boolean" }, probability: { type: "number" } },
      },
    },
  },
} as const;

/** `score` and `n` are those of the sealed split. The paired comparison is with the base, on the same items. */
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
      description:
        "Whether the model is worth deploying, judged by the comparison with its base; null if there is no comparison.",
      examples: ["No gain: do not deploy"],
    },
    fell: {
      type: "array",
      items: { type: "string" },
      description: "Regression suites in which the model got worse than its base, beyond chance.",
    },
    evaluation_id: { type: "string" },
    model_id: { type: "string" },
    benchmark_id: { type: "string" },
    ...clusteredScore.properties,
    clustered_by: {
      enum: ["document", "fact"],
      description: "What groups items into clusters: the document they cite, or the fact if there are few documents.",
    },
    splits: bySplit(clusteredScore),
    types: {
      type: "array",
      description: "Sealed items by type.",
      items: {
        ...score,
        required: ["type", ...score.required, "chance"],
        properties: {
          type: { enum: itemTypes },
          ...score.properties,
          chance: { type: ["number", "null"], description: "Points expected from guessing, for choice items." },
        },
      },
    },
    minimum_detectable: {
      type: "number",
      description:
        "In points: the true difference that a paired comparison on the sealed split detects in 80 % of all cases, two-sided at 5 %. If there is no comparison yet, it assumes two models that disagree on 20 % of the items.",
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
          description: "The model that judged the long answers, and its error rate on answers whose truth is known.",
          properties: {
            model_id: { type: "string" },
            same_base: {
              type: "boolean",
              description: "The judge is the model's own base, so it may favour the model's style.",
            },
            sensitivity: {
              ...score,
              description: "Share of points marked as met for the item's own reference, which meets them.",
            },
            specificity: {
              ...score,
              description: "Share of points marked as unmet for another item's reference, which does not meet them.",
            },
            observed: { type: "number", description: "Rubric points marked as met, out of 100." },
            corrected: {
              type: ["number", "null"],
              description:
                "The same, corrected for the judge's error (Rogan and Gladen); null if the judge only guesses.",
            },
          },
        },
      ],
    },
    guards: { type: "array", items: guardResult, description: "What the run measured for this model." },
    sealed_touches: {
      type: "object",
      additionalProperties: false,
      required: ["n", "models", "latest"],
      description: "Uses of the benchmark's sealed split so far. The best of many looks better than it is.",
      properties: {
        n: { type: "integer" },
        models: { type: "integer", description: "Number of different models that used it." },
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
      description: "How the answers were made: greedy decoding, batch shape, limits, prompt template hash.",
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
          correct: { type: "boolean", description: "Whether the answer is fully correct." },
          score: { type: "number", minimum: 0, maximum: 1 },
          cluster: {
            type: "string",
            description: "The cluster of the item; items of one cluster tend to fail together.",
          },
          confidence_score: { type: ["number", "null"] },
          prompt_sha256: { type: "string", description: "SHA-256 of the token ids given to the model." },
          graded_by,
        },
      },
    },
  },
} as const;
