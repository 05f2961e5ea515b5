// The recipe of an alignment: how it is trained, on what rows, and how it is checked. Data only.
import type { FromSchema } from "json-schema-to-ts";

const count = { type: "integer", minimum: 0 } as const;

/** A recipe, with every field filled in. The presets in config/recipes/ resolve to one. */
export const recipe = {
  type: "object",
  additionalProperties: false,
  required: ["loss", "optimizer", "training", "adapter", "checkpointing", "evaluation", "dataset", "rendering"],
  properties: {
    loss: {
      type: "object",
      additionalProperties: false,
      required: ["type", "token_reduction"],
      properties: {
        type: { const: "cross_entropy" },
        /** mean, sum: over the tokens of a step. sequence_mean: every row of the documents counts alike, however long its answer. */
        token_reduction: { enum: ["mean", "sum", "sequence_mean"] },
      },
    },
    optimizer: {
      type: "object",
      additionalProperties: false,
      required: [
        "type",
        "learning_rate",
        "beta1",
        "beta2",
        "eps",
        "weight_decay",
        "grad_clip_norm",
        "lr_schedule",
        "warmup_ratio",
      ],
      properties: {
        type: { const: "adamw" },
        /** null: chosen by the model's architecture and width (ruleLearningRate in run/schedule.ts), and stated in report.json. */
        learning_rate: { type: ["number", "null"], exclusiveMinimum: 0, maximum: 0.1 },
        beta1: { type: "number", minimum: 0, exclusiveMaximum: 1 },
        beta2: { type: "number", minimum: 0, exclusiveMaximum: 1 },
        eps: { type: "number", exclusiveMinimum: 0 },
        weight_decay: { type: "number", minimum: 0 },
        grad_clip_norm: { type: "number", minimum: 0 },
        lr_schedule: { enum: ["linear", "cosine", "constant"] },
        warmup_ratio: { type: "number", minimum: 0, exclusiveMaximum: 1 },
        /** Replaces warmup_ratio when present. */
        warmup_steps: count,
        /** Factor on the learning rate, whether that is given or chosen by the rule; 1 when absent. */
        lr_multiplier: { type: "number", exclusiveMinimum: 0 },
      },
    },
    training: {
      type: "object",
      additionalProperties: false,
      required: ["batch_size", "epochs", "max_steps", "seed", "early_stopping"],
      properties: {
        batch_size: { type: "integer", minimum: 1, maximum: 4096 },
        epochs: { type: "integer", minimum: 1, maximum: 50 },
        max_steps: { type: ["integer", "null"], minimum: 1 },
        seed: { type: "integer", minimum: 0, maximum: 2147483647 },
        early_stopping: {
          type: "object",
          additionalProperties: false,
          required: ["enabled", "metric", "patience"],
          properties: {
            enabled: { type: "boolean" },
            metric: { const: "score" },
            patience: { type: "integer", minimum: 1, maximum: 100 },
          },
        },
      },
    },
    adapter: {
      type: "object",
      additionalProperties: false,
      required: ["mode", "rank", "alpha", "train_attn", "train_mlp"],
      properties: {
        mode: { const: "lora" },
        rank: { type: "integer", minimum: 1, maximum: 256 },
        alpha: { type: "number", exclusiveMinimum: 0 },
        train_attn: { type: "boolean" },
        train_mlp: { type: "boolean" },
        /** Whether to train the output head, where it is not tied to the token embedding; false when absent. */
        train_unembed: { type: "boolean" },
        /** Share of the layers, counted from the output, that have an adapter; 1 when absent. */
        top_layers: { type: "number", exclusiveMinimum: 0, maximum: 1 },
        /** Dropout on the adapter's inputs during training; 0 when absent. */
        dropout: { type: "number", minimum: 0, maximum: 0.9999 },
        /** Seed for initialising A; training.seed when absent. */
        init_seed: { type: "integer", minimum: 0, maximum: 2147483647 },
        /** Factors on alpha to choose from after training, 1 first; [1] when absent. */
        scales: { type: "array", minItems: 1, items: { type: "number", exclusiveMinimum: 0, maximum: 1 } },
      },
    },
    checkpointing: {
      type: "object",
      additionalProperties: false,
      required: ["save_every_steps", "keep_last_n"],
      properties: { save_every_steps: { type: "integer", minimum: 1 }, keep_last_n: { type: "integer", minimum: 2 } },
    },
    evaluation: {
      type: "object",
      additionalProperties: false,
      required: ["eval_every_steps"],
      properties: { eval_every_steps: { type: "integer", minimum: 1 } },
    },
    dataset: {
      type: "object",
      additionalProperties: false,
      required: ["phrasings", "replay_share"],
      properties: {
        /** Rows per target and rung. A target of several parts can get more when a writer has questions for it. */
        phrasings: { type: "integer", minimum: 1, maximum: 64 },
        /** Largest number of rungs. Each has its own wordings; the next one follows while the dev score rises. 1 when absent. */
        rungs: { type: "integer", minimum: 1, maximum: 16 },
        /** Whether a model writes questions in addition to the plain forms; enabled when absent. */
        synthetic: {
          type: "object",
          additionalProperties: false,
          required: ["enabled"],
          properties: { enabled: { type: "boolean" } },
        },
        /** CSV documents whose rows are prompts and answers. When absent, all documents are studied. */
        source: {
          type: "object",
          additionalProperties: false,
          required: ["document", "prompt_field", "answer_field"],
          properties: {
            /** Name of the document, with or without its extension; null: all documents that have the two columns. */
            document: { type: ["string", "null"] },
            prompt_field: { type: "string" },
            answer_field: { type: "string" },
          },
        },
        /** These two occur in folders of older versions; nothing reads them. */
        probe_known: { type: "boolean" },
        proposals_per_chunk: { type: "integer", minimum: 0, maximum: 64 },
        /** Number of the base's likeliest tokens used as targets of replayed rows. 0 (the default): the sampled token. */
        replay_top_k: { type: "integer", minimum: 0, maximum: 1024 },
        /** Weight of a token with such targets, relative to a token of a document's row; 1 when absent. */
        replay_weight: { type: "number", minimum: 0.1, maximum: 100 },
        /** Maximum number of tokens of a replayed answer; 32 when absent. */
        replay_tokens: { type: "integer", minimum: 4, maximum: 1024 },
        /** Share of self-replay rows among the rows of a rung. */
        replay_share: { type: "number", minimum: 0, maximum: 0.9 },
      },
    },
    /** Limits on what an adapter may lose; nothing is watched when absent. */
    guards: {
      type: "object",
      additionalProperties: false,
      required: ["retained_items", "max_loss", "max_kl", "max_perplexity_rise"],
      properties: {
        /** Maximum number of general-knowledge items in the retention suite. Items count that the base answers right in both wordings. */
        retained_items: { type: "integer", minimum: 1 },
        /** Points that a suite may lose before it counts against an adapter. */
        max_loss: { type: "number", minimum: 0, maximum: 100 },
        /** Paragraphs of generic text on which drift is measured, spread evenly over those available; all when absent. */
        prose_paragraphs: { type: "integer", minimum: 1 },
        /** Limits on these paragraphs: KL(base‖adapter) in nats, and the rise of perplexity in percent. */
        max_kl: { type: "number", minimum: 0 },
        max_perplexity_rise: { type: "number", minimum: 0 },
      },
    },
    /** On-policy distillation from the base when a guard limit was exceeded; none when absent. */
    repair: {
      type: "object",
      additionalProperties: false,
      required: ["steps", "check_every_steps", "prompts", "tokens", "top_k", "rows", "lr_factor"],
      properties: {
        steps: { type: "integer", minimum: 1, maximum: 10000 },
        /** Number of steps between checks whether the repair is enough. */
        check_every_steps: { type: "integer", minimum: 1 },
        /** Prompts per step. The adapter answers them itself; the base's likeliest tokens are the targets. */
        prompts: { type: "integer", minimum: 1, maximum: 1024 },
        tokens: { type: "integer", minimum: 4, maximum: 1024 },
        top_k: { type: "integer", minimum: 1, maximum: 1024 },
        /** Document rows added to each step, so that what was learned is kept. */
        rows: { type: "integer", minimum: 0, maximum: 4096 },
        /** Factor on the peak learning rate. */
        lr_factor: { type: "number", exclusiveMinimum: 0, maximum: 1 },
      },
    },
    rendering: {
      type: "object",
      additionalProperties: false,
      required: ["max_seq_len", "packing"],
      properties: { max_seq_len: { type: "integer", minimum: 16 }, packing: { const: true } },
    },
  },
} as const;

export type Recipe = FromSchema<typeof recipe>;
