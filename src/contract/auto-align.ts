// The request that auto-align records. Of its configuration the typed fields are checked for their JSON type, and nothing else:
// values and bounds are judged at planning. It is kept and given back byte for byte.
import type { FromSchema } from "json-schema-to-ts";
import { id, timestamp } from "./common.ts";

const text = { type: ["string", "null"] } as const;
/** JSON has one kind of number; whether it must be whole is a matter of its value. */
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
        // A limit of size: whether there are two is judged at planning.
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
      config: { loss: { type: "cispo", cispo: { eps_max: 0.2 } }, optimizer: { learning_rate: 0.0001 } },
    },
  ],
} as const;

/** As it is sent: what has a default may be left out. */
export type AutoAlignRequest = FromSchema<typeof autoAlignRequest, { keepDefaultedPropertiesOptional: true }>;

/** Only recorded as yet: nothing carries it out. */
export const autoAlignStatuses = ["RECORDED"] as const;

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

export const autoAlignRecord = {
  type: "object",
  additionalProperties: false,
  required: [
    "auto_align_id",
    "alignment_id",
    "status",
    "created_date",
    ...(Object.keys(requestProperties) as (keyof typeof requestProperties)[]),
    "config",
  ],
  properties: {
    auto_align_id: { type: "string" },
    alignment_id: { type: "string" },
    status: { enum: autoAlignStatuses },
    created_date: timestamp,
    ...requestProperties,
    config: { type: ["object", "null"], description: "As it was sent, byte for byte." },
  },
} as const;

/** As the project's status shows it. */
export const autoAlignRow = {
  type: "object",
  additionalProperties: false,
  required: ["auto_align_id", "status", "target_score", "created_date"],
  properties: {
    auto_align_id: { type: "string" },
    status: { enum: autoAlignStatuses },
    target_score: { type: "number" },
    created_date: timestamp,
  },
} as const;
