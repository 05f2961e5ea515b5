// Auto-aligns: the request, and the records that report on it. These schemas check only the JSON types of the fields in the
// request's configuration; planning checks values and bounds. The configuration is stored and returned byte for byte.
import type { FromSchema } from "json-schema-to-ts";
import { id, nullableTimestamp, score, timestamp } from "./common.ts";

const text = { type: ["string", "null"] } as const;
/** Also used for integers, because JSON has one kind of number. Planning checks whether a value must be whole. */
const number = { type: ["number", "null"] } as const;
const numbers = { type: ["object", "null"], additionalProperties: number } as const;
const block = { type: ["object", "null"] } as const;

export const autoAlignConfig = {
  type: ["object", "null"],
  properties: {
    base_model: text,
    loss: {
      type: ["object", "null"],
      properties: {
        type: text,
        ppo: numbers,
        cispo: numbers,
        dro: numbers,
        kl_coef: number,
        entropy_coef: number,
        token_reduction: text,
        is_ratio_level: text,
        custom_loss_ref: text,
        custom_weights_field: text,
        z_loss_coef: number,
      },
    },
    optimizer: {
      type: ["object", "null"],
      properties: {
        type: text,
        learning_rate: number,
        beta1: number,
        beta2: number,
        eps: number,
        weight_decay: number,
        grad_clip_norm: number,
        lr_schedule: text,
        warmup_steps: number,
        warmup_ratio: number,
        lr_multiplier: number,
      },
    },
    reward: {
      type: ["object", "null"],
      properties: {
        type: text,
        verifier_ref: text,
        llm_judge: block,
        rubric_ref: text,
        preference_model_ref: text,
        // The maximum only limits the size. Planning checks that there are exactly two numbers.
        clip: { type: ["array", "null"], maxItems: 1000, items: number },
        composite: numbers,
        normalize: text,
      },
    },
    advantage: block,
    reference_policy: block,
    environment: block,
    dataset: block,
    sampling: block,
    training: block,
    adapter: block,
    checkpointing: block,
    evaluation: block,
    rendering: block,
    logging: block,
  },
} as const;

const family = { type: ["string", "null"], minLength: 1, maxLength: 200, pattern: "^[^\\u0000]*$" } as const;

const requestProperties = {
  target_score: { type: "number", minimum: 0, maximum: 99 },
  benchmark_id: { ...id, type: ["string", "null"], default: null, description: "Default: the project's benchmark" },
  method: { ...family, default: "auto" },
  representations: { ...family, default: "auto" },
  sequencing: {
    type: ["array", "null"],
    maxItems: 1000,
    items: { type: "string", minLength: 1, maxLength: 200 },
    default: null,
  },
  max_compute_hours: { type: ["number", "null"], minimum: 0, default: null },
  notify_on_phase_transition: { type: ["boolean", "null"], default: true },
} as const;

export const autoAlignRequest = {
  type: "object",
  additionalProperties: false,
  required: ["target_score"],
  properties: { ...requestProperties, config: { ...autoAlignConfig, default: null } },
  examples: [
    {
      target_score: 85,
      max_compute_hours: 4,
      config: { loss: { type: "cispo", cispo: { eps_max: 4 } }, optimizer: { learning_rate: 0.0001 } },
    },
  ],
} as const;

/** The request as sent: fields with a default may be absent. */
export type AutoAlignRequest = FromSchema<typeof autoAlignRequest, { keepDefaultedPropertiesOptional: true }>;

/** First the statuses from which an auto-align can still continue, then the statuses in which it has ended. */
export const autoAlignStatuses = [
  "RECORDED",
  "PLANNING",
  "RUNNING",
  "PAUSED",
  "REACHED",
  "BUDGET_SPENT",
  "STOPPED",
  "FAILED",
] as const;
export type AutoAlignStatus = (typeof autoAlignStatuses)[number];

const status = {
  enum: autoAlignStatuses,
  description:
    "RECORDED until its turn comes, PLANNING until its first decision, RUNNING from then on, PAUSED until it is resumed or stopped; the others are final.",
} as const;

const phase = { type: ["string", "null"], description: "The kind of phase that is running; null if none is." } as const;
const points = { type: "number" } as const;
const count = { type: "integer", minimum: 0 } as const;

export const autoAlignAccepted = {
  type: "object",
  additionalProperties: false,
  required: ["auto_align_id", "alignment_id", "status", "message"],
  properties: {
    auto_align_id: { type: "string" },
    alignment_id: { type: "string" },
    status: { enum: autoAlignStatuses },
    message: { type: "string" },
  },
} as const;

const lookVerdict = {
  type: "object",
  additionalProperties: false,
  required: ["checkpoint", "n", "score", "low", "smallest_visible", "reached", "confirmed"],
  properties: {
    checkpoint: { type: "string" },
    n: { ...count, description: "Number of sealed questions in the third that was opened for this look." },
    score: points,
    low: { ...points, description: "One-sided lower bound." },
    smallest_visible: {
      ...points,
      description: "The smallest distance below the target, in points, that this look could have detected.",
    },
    reached: { type: "boolean" },
    confirmed: { type: "boolean", description: "Whether the lower bound reaches the target too." },
  },
} as const;

/** Why a phase, a look or the end was chosen. Points are out of 100; hours are device hours. */
export const decisionCard = {
  type: "object",
  additionalProperties: false,
  required: [
    "step",
    "because",
    "would_change",
    "bids",
    "excluded",
    "best",
    "hours",
    "looks",
    "result",
    "regressions",
    "next",
  ],
  properties: {
    step: { ...count, description: "Number of decisions carried out before this one." },
    code: {
      type: "string",
      description: "Which sentences `because` and `would_change` are; absent where the record lacks what they report.",
    },
    because: { type: "string" },
    would_change: { type: "string" },
    bids: {
      type: "array",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["arm", "steps", "gain", "sd", "hours", "risk", "bid"],
        properties: {
          arm: { type: "string" },
          steps: count,
          gain: points,
          sd: points,
          hours: { type: "number" },
          risk: { type: "number", description: "Probability that a regression is confirmed after the phase." },
          bid: { type: ["number", "null"], description: "Expected points per hour; null if the phase takes no time." },
        },
      },
    },
    excluded: {
      type: "array",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["arm", "reason"],
        properties: { arm: { type: "string" }, reason: { type: "string" } },
      },
    },
    best: {
      type: "object",
      additionalProperties: false,
      required: ["checkpoint", "dev", "chance_of_target"],
      properties: { checkpoint: { type: "string" }, dev: score, chance_of_target: { type: "number" } },
    },
    hours: {
      type: "object",
      additionalProperties: false,
      required: ["spent", "left"],
      properties: { spent: { type: "number", minimum: 0 }, left: { type: ["number", "null"] } },
    },
    looks: { type: "array", maxItems: 3, items: lookVerdict },
    result: {
      type: ["object", "null"],
      additionalProperties: false,
      description: "The result of the previous phase; null for the first decision.",
      required: [
        "checkpoint",
        "arm",
        "headroom",
        "dev",
        "difference",
        "low",
        "high",
        "chance_better",
        "forecast_error",
        "suites",
      ],
      properties: {
        checkpoint: { type: "string" },
        arm: { type: "string" },
        headroom: { ...points, description: "The most that phases of this kind could have gained." },
        dev: { type: "array", minItems: 2, maxItems: 2, items: points },
        difference: points,
        low: points,
        high: points,
        chance_better: { type: "number" },
        forecast_error: points,
        suites: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["name", "points"],
            properties: { name: { type: "string" }, points },
          },
        },
      },
    },
    regressions: {
      type: "array",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["checkpoint", "suite", "points", "cause"],
        properties: {
          checkpoint: { type: "string" },
          suite: { type: "string" },
          points,
          cause: { type: "string" },
        },
      },
    },
    next: {
      type: "object",
      required: ["kind"],
      properties: {
        kind: { enum: ["phase", "look", "end"] },
        phase: { type: "object", required: ["arm"], properties: { arm: { type: "string" } } },
      },
      description: "The decision: a phase, a look, or the end.",
    },
  },
} as const;

export type ToldCard = FromSchema<typeof decisionCard>;

const progress = {
  status,
  phase,
  phases: { ...count, description: "Number of phases that have run." },
  dev: {
    anyOf: [score, { type: "null" }],
    description: "Score of the best checkpoint so far on the dev questions; null before the first decision.",
  },
} as const;

export const autoAlignRecord = {
  type: "object",
  additionalProperties: false,
  required: [
    "auto_align_id",
    "alignment_id",
    "created_date",
    "updated_date",
    "ended_date",
    ...(Object.keys(progress) as (keyof typeof progress)[]),
    "stopping",
    "hours",
    "confirmed",
    "looks",
    "cards",
    "help",
    "model_id",
    "evaluation_id",
    "error",
    ...(Object.keys(requestProperties) as (keyof typeof requestProperties)[]),
    "config",
  ],
  properties: {
    auto_align_id: { type: "string" },
    alignment_id: { type: "string" },
    created_date: timestamp,
    updated_date: timestamp,
    ended_date: nullableTimestamp,
    ...progress,
    stopping: {
      type: "boolean",
      description: "Whether it is stopping: no further phase starts, and the best checkpoint so far is packaged.",
    },
    hours: {
      type: "object",
      additionalProperties: false,
      required: ["spent", "left"],
      properties: {
        spent: { type: "number", minimum: 0 },
        left: { type: ["number", "null"], description: "What is left of max_compute_hours; null without a limit." },
      },
    },
    confirmed: {
      type: ["boolean", "null"],
      description: "Once the status is REACHED: whether the look's lower bound reaches the target too.",
    },
    looks: { type: "array", items: lookVerdict, description: "Results on the sealed questions so far." },
    cards: { type: "array", items: decisionCard, description: "One card for each decision, in order." },
    help: { type: "array", items: { type: "string" }, description: "What would help, most helpful first." },
    model_id: {
      type: ["string", "null"],
      description: "The model that it produced; null if no phase improved the score.",
    },
    evaluation_id: { type: ["string", "null"] },
    error: {
      anyOf: [
        {
          type: "object",
          additionalProperties: false,
          required: ["code", "message", "hint"],
          properties: { code: { type: "string" }, message: { type: "string" }, hint: { type: "string" } },
        },
        { type: "null" },
      ],
    },
    ...requestProperties,
    config: { type: ["object", "null"], description: "The configuration as it was sent, byte for byte." },
  },
} as const;

/** An auto-align as the project's status shows it. */
export const autoAlignRow = {
  type: "object",
  additionalProperties: false,
  required: [
    "auto_align_id",
    ...(Object.keys(progress) as (keyof typeof progress)[]),
    "target_score",
    "hours",
    "model_id",
    "created_date",
  ],
  properties: {
    auto_align_id: { type: "string" },
    ...progress,
    target_score: { type: "number" },
    hours: { type: "number", minimum: 0, description: "Device hours used so far." },
    model_id: { type: ["string", "null"] },
    created_date: timestamp,
  },
} as const;

/** A change of status, or the start of a phase. */
export const autoAlignMove = {
  type: "object",
  additionalProperties: false,
  required: ["kind", "auto_align_id", "alignment_id", "from", "to", "phase", "at"],
  properties: {
    kind: { const: "transition" },
    auto_align_id: { type: "string" },
    alignment_id: { type: "string" },
    from: { enum: autoAlignStatuses },
    to: { enum: autoAlignStatuses },
    phase,
    at: timestamp,
  },
} as const;
