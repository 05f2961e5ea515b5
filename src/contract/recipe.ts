// The recipe of an alignment: how the model is trained, on which rows, and how the result is checked. Data only.
import type { FromSchema } from "json-schema-to-ts";

const count = { type: "integer", minimum: 0 } as const;

/** A recipe, as each preset in config/recipes/ is. The comment on an optional field says what applies when it is absent. */
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
        /**
         * How the losses of tokens are combined. mean and sum are over the tokens of a step. With sequence_mean, every row of the
         * documents has the same weight, however long its answer is.
         */
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
        /**
         * If null, the rate is chosen by the model's architecture and width (ruleLearningRate in run/schedule.ts), and reported in
         * report.json.
         */
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
        /** Factor on the learning rate, whether the rate is given or chosen by the rule; 1 when absent. */
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
        /** Whether to train the output head, if it is not tied to the token embedding; false when absent. */
        train_unembed: { type: "boolean" },
        /** Share of the layers, counted from the output, that have an adapter; 1 when absent. */
        top_layers: { type: "number", exclusiveMinimum: 0, maximum: 1 },
        /** Dropout on the adapter's inputs during training; 0 when absent. */
        dropout: { type: "number", minimum: 0, maximum: 0.9999 },
        /**
         * Whether training starts from the adapter that is shipped for the base, if there is one and rank, layers and targets can hold it;
         * true when absent.
         */
        warm_start: { type: "boolean" },
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
        /** Rows per target and rung. A target with several parts can get more rows if a writer has questions for it. */
        phrasings: { type: "integer", minimum: 1, maximum: 64 },
        /**
         * Maximum number of rungs, the stages of the curriculum; 1 when absent. Each rung has its own wordings. The next rung
         * follows only while the dev score rises.
         */
        rungs: { type: "integer", minimum: 1, maximum: 16 },
        /** Number of times that a teacher is asked for further questions of each fact; 1 when absent. */
        teacher_rounds: { type: "integer", minimum: 1, maximum: 4 },
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
            /** Name of the document, with or without its extension; null for all documents that have the two columns. */
            document: { type: ["string", "null"] },
            prompt_field: { type: "string" },
            answer_field: { type: "string" },
          },
        },
        /** These two fields occur in run folders of older versions. Nothing reads them. */
        probe_known: { type: "boolean" },
        proposals_per_chunk: { type: "integer", minimum: 0, maximum: 64 },
        /**
         * Number of the base's likeliest tokens that are the soft targets at each position of a replayed row. With 0, the default,
         * the target is the sampled token.
         */
        replay_top_k: { type: "integer", minimum: 0, maximum: 1024 },
        /** Weight of a token with soft targets, relative to a token of a document's row; 1 when absent. */
        replay_weight: { type: "number", minimum: 0.1, maximum: 100 },
        /** Maximum number of tokens of a replayed answer; 32 when absent. */
        replay_tokens: { type: "integer", minimum: 4, maximum: 1024 },
        /** Share of self-replay rows among the rows of a rung. */
        replay_share: { type: "number", minimum: 0, maximum: 0.9 },
      },
    },
    /** Limits on what an adapter may lose. When absent, losses are not measured. */
    guards: {
      type: "object",
      additionalProperties: false,
      required: ["retained_items", "max_loss", "max_kl", "max_perplexity_rise"],
      properties: {
        /**
         * Maximum number of general-knowledge items in the retention suite. It contains only items that the base answers correctly
         * in both wordings.
         */
        retained_items: { type: "integer", minimum: 1 },
        /** Points that an adapter may lose in a suite before the loss counts against it. */
        max_loss: { type: "number", minimum: 0, maximum: 100 },
        /**
         * Number of paragraphs of generic text on which divergence is measured, spread evenly over those available; all when
         * absent.
         */
        prose_paragraphs: { type: "integer", minimum: 1 },
        /** Limits on these paragraphs: KL(base‖adapter) in nats, and the rise of perplexity in percent. */
        max_kl: { type: "number", minimum: 0 },
        max_perplexity_rise: { type: "number", minimum: 0 },
      },
    },
    /** On-policy distillation from the base, done if an adapter exceeds a limit of `guards`; no repair is done when absent. */
    repair: {
      type: "object",
      additionalProperties: false,
      required: ["steps", "check_every_steps", "prompts", "tokens", "top_k", "rows", "lr_factor"],
      properties: {
        steps: { type: "integer", minimum: 1, maximum: 10000 },
        /** Number of steps between the checks whether the repair is sufficient. */
        check_every_steps: { type: "integer", minimum: 1 },
        /** Prompts per step. The adapter answers them, and the base's likeliest tokens are the targets. */
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
