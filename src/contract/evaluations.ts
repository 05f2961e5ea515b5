import { itemTypes, splits as splitNames } from "./benchmarks.ts";
import { id, idParam, name, nullableTimestamp, progressDetail, score, timestamp } from "./common.ts";
import { endpoint } from "./endpoint.ts";

export const evaluationStatuses = ["QUEUED", "PROCESSING", "READY", "FAILED"] as const;

/** A score and how its interval was made. */
const clusteredScore = {
  ...score,
  required: [...score.required, "method", "clusters", "design_effect"],
  properties: {
    ...score.properties,
    method: {
      enum: ["wilson", "cluster_bootstrap"],
      description:
        "Wilson's interval over the independent items that clustered ones are worth; graded items by bootstrap.",
    },
    clusters: { type: "integer" },
    design_effect: { type: "number", description: "By how much clustering widens the variance." },
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
    difference: { type: "number", description: "Points, this model minus the other." },
    low: { type: "number", description: "Of the 95 % interval of the difference." },
    high: { type: "number" },
    method: { enum: ["mcnemar", "sign_flip"], description: "sign_flip where items are graded or share a cluster." },
    clusters: { type: "integer" },
    p_value: { type: "number", description: "Two-sided." },
    p_worse: { type: "number", description: "One-sided: that this model, no worse than the other, does as badly." },
    minimum_detectable: {
      type: "number",
      description: "Points: the true difference that is found, two-sided at 5 %, in 80 % of all cases.",
    },
  },
} as const;

/** What a run measured of its model beside its base. */
export const guardResult = {
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

/** How an item was answered and graded. Greedy answers and likelihoods draw nothing: there is no seed. */
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

/** `score` and `n` are of the sealed split; the paired comparison is with the base on the same items. */
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
    evaluation_id: { type: "string" },
    model_id: { type: "string" },
    benchmark_id: { type: "string" },
    ...clusteredScore.properties,
    clustered_by: {
      enum: ["document", "fact"],
      description: "Items belong together by the document they cite, or by the fact where those documents are few.",
    },
    splits: {
      type: "object",
      additionalProperties: false,
      properties: { dev: clusteredScore, sealed: clusteredScore, retention: clusteredScore },
    },
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
              purpose: { enum: ["evaluation", "comparison", "promotion"] },
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

/** The first model is `model_id`: what it gains, the other lacks. */
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
    scores: {
      type: "object",
      additionalProperties: false,
      properties: { dev: clusteredScore, sealed: clusteredScore, retention: clusteredScore },
    },
    compared_scores: {
      type: "object",
      additionalProperties: false,
      properties: { dev: clusteredScore, sealed: clusteredScore, retention: clusteredScore },
    },
    splits: {
      type: "object",
      additionalProperties: false,
      properties: { dev: comparison, sealed: comparison, retention: comparison },
    },
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

/** What spoke for and against a model in another one's place. */
export const verdict = {
  type: "object",
  additionalProperties: false,
  required: ["compared_with", "comparisons", "limits", "unproven"],
  properties: {
    compared_with: { type: "string", description: "The model that was promoted until then, else the base." },
    comparisons: {
      type: "array",
      items: {
        ...comparison,
        required: ["about", "name", "compared_with", ...comparison.required, "refused_from", "regressed", "lost_items"],
        properties: {
          about: { enum: ["sealed", "retention", "guard"] },
          name: { type: "string", description: "The benchmark or the guard." },
          compared_with: { type: "string", description: "A model, or base where a guard was measured on the base." },
          ...comparison.properties,
          refused_from: {
            type: "number",
            description: "Points: a true loss that is refused in 95 % of all cases.",
          },
          regressed: { type: "boolean", description: "Worse beyond chance; all comparisons together err in 5 %." },
          lost_items: {
            type: "array",
            items: {
              type: "object",
              additionalProperties: false,
              required: ["item", "text", "expected", "answer", "former_answer"],
              properties: {
                item: { type: "string" },
                text: { type: "string" },
                expected: { type: ["string", "null"] },
                answer: { type: ["string", "null"] },
                former_answer: { type: ["string", "null"] },
              },
            },
          },
        },
      },
    },
    limits: {
      type: "array",
      description: "Guards with a limit.",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["name", "value", "most", "exceeded"],
        properties: {
          name: { type: "string" },
          value: { type: "number" },
          most: { type: "number" },
          exceeded: { type: "boolean" },
        },
      },
    },
    unproven: { type: ["string", "null"], description: "Why no sealed split could be compared." },
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
      properties: {
        model_id: id,
        benchmark_id: id,
        evaluation_name: name,
        splits: {
          type: "array",
          minItems: 1,
          uniqueItems: true,
          items: { enum: splitNames },
          default: splitNames,
          description: "While a model is being made, ask for dev alone: each use of the sealed split is recorded.",
        },
        judge_model_id: {
          ...id,
          description: "Judges long answers by their rubrics; the model's base where none is named.",
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
    summary: "Two models side by side on the items of a benchmark, by their latest finished evaluations.",
    body: {
      type: "object",
      additionalProperties: false,
      required: ["model_id", "compared_with", "benchmark_id"],
      properties: { model_id: id, compared_with: id, benchmark_id: id },
    },
    reply: comparisonRecord,
    errors: ["not_found", "conflict"],
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
