// The contract between the appliance and whatever machine does a run: the files of runs/<alignment_id>/ and the JSON lines on
// the run's stdin and stdout. Data only.
//
//   request.json      resolved configuration (runRequest)
//   snapshot/         documents/<n>.json (snapshotDocument), dev.jsonl (snapshotItem per line). Never the sealed split
//   events.jsonl      append-only (runEvent per line). A resumed run drops a torn last line, continues the numbering and
//                     writes `resumed`
//   prepared/         the rows as token ids and as text. A resumed run trains on the same rows, and the appliance searches
//                     rows.jsonl for sealed questions
//   checkpoints/<n>/  adapter and moments (the trainer's), state.json (the loop's), build.json
//   guards/           answers of the base (base/) and of each candidate adapter to the dev and guard questions
//   plan/             auto-align only: what the base was found to need, and for each phase its adapter and the result of its check
//   reward-models.jsonl  auto-align only: answers of the judge and preference models that the appliance asks
//   looks/<n>/        auto-align only: scores.json, which the appliance writes after it has asked the adapter that meets the
//                     target on dev a third of the sealed questions
//   artefact/         adapter.gguf, the same adapter as peft/, calibration.json, sources.json, report.json, report.html
//   result.json       written last (runResult)
import type { FromSchema } from "json-schema-to-ts";
import { runVerdict } from "./verdict.ts";

const sha256 = { type: "string", pattern: "^[0-9a-f]{64}$" } as const;
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
      properties: { type: { const: "cross_entropy" }, token_reduction: { enum: ["mean", "sum"] } },
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

export const runRequest = {
  type: "object",
  additionalProperties: false,
  required: [
    "format",
    "alignment_id",
    "fence",
    "recipe_name",
    "recipe",
    "base",
    "documents",
    "dev",
    "budget",
    "versions",
  ],
  properties: {
    format: { const: 1 },
    alignment_id: { type: "string" },
    /** Rises with every claim of the job, and is part of every event. The file is rewritten at each claim. */
    fence: { type: "integer", minimum: 1 },
    recipe_name: { type: "string" },
    recipe,
    base: {
      type: "object",
      additionalProperties: false,
      required: ["id", "sha256", "path", "architecture"],
      properties: { id: { type: "string" }, sha256, path: { type: "string" }, architecture: { type: "string" } },
    },
    /** In snapshot order: snapshot/documents/<index>.json */
    documents: {
      type: "array",
      minItems: 1,
      items: {
        type: "object",
        additionalProperties: false,
        required: ["id", "name", "sha256"],
        properties: {
          id: { type: "string" },
          name: { type: "string" },
          sha256,
          /** SHA-256 of the uploaded file, as in the document's record; absent in older folders. */
          original_sha256: sha256,
        },
      },
    },
    /** snapshot/dev.jsonl; null without a benchmark. */
    dev: {
      type: ["object", "null"],
      additionalProperties: false,
      required: ["benchmark_id", "sha256", "items"],
      properties: {
        benchmark_id: { type: "string" },
        sha256,
        /** SHA-256 of the benchmark, as in its record; absent in older folders. */
        benchmark_sha256: sha256,
        items: count,
        /** SHA-256 of snapshot/marks.json: salted marks of all questions, including the sealed ones; absent in older folders. */
        marks_sha256: sha256,
      },
    },
    /** Owner of the documents; null or absent when the project does not name one. */
    organisation: { type: ["string", "null"] },
    /** The model that wrote teacher.jsonl, the questions of the rows; null or absent when there was none. */
    teacher: {
      type: ["object", "null"],
      additionalProperties: false,
      required: ["model", "provider"],
      properties: { model: { type: "string" }, provider: { type: ["string", "null"] } },
    },
    budget: {
      type: "object",
      additionalProperties: false,
      required: ["memory_bytes", "threads"],
      properties: {
        /** Limit on machine memory for the trainer and for inference, which are never open together. */
        memory_bytes: count,
        /** The same for GPU memory. 0: no GPU is used, or there is no limit and all of it may be used. */
        gpu_memory_bytes: count,
        threads: { type: "integer", minimum: 1 },
        /** Tokens computed at the same time, and how many it would be with enough memory; absent in older folders. */
        pass_tokens: count,
        full_pass_tokens: count,
      },
    },
    /** Target and limits of an auto-align; null or absent for an alignment that follows its recipe. */
    auto_align: {
      type: ["object", "null"],
      additionalProperties: false,
      required: ["auto_align_id", "request", "past", "thirds", "resumed_after", "stopping"],
      properties: {
        auto_align_id: { type: "string" },
        /** AutoAlignRequest, with its configuration as parsed JSON. */
        request: { type: "object" },
        /** Phases of earlier auto-aligns by the same owner on the same base. */
        past: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["arm", "headroom", "gain"],
            properties: { arm: { type: "string" }, headroom: { type: "number" }, gain: { type: "number" } },
          },
        },
        /** Number of questions in each third of the sealed split. */
        thirds: { type: "array", minItems: 3, maxItems: 3, items: count },
        /** Number of phases that had run when the user last resumed it from a pause. */
        resumed_after: count,
        /** True when no further phase may begin; the best checkpoint so far is then packaged. */
        stopping: { type: "boolean" },
      },
    },
    /** Encoder that measures how far a question is from the documents; null or absent when none is installed. */
    encoder: {
      type: ["object", "null"],
      additionalProperties: false,
      required: ["sha256", "path"],
      properties: { sha256, path: { type: "string" } },
    },
    /** Versions that must be the same for a bitwise resumption. */
    versions: {
      type: "object",
      additionalProperties: false,
      required: ["plumbline", "trainer"],
      properties: { plumbline: { type: "string" }, trainer: { type: "string" } },
    },
  },
} as const;

export type RunRequest = FromSchema<typeof runRequest>;

export const snapshotDocument = {
  type: "object",
  additionalProperties: false,
  required: ["id", "name", "media_type", "text"],
  properties: {
    id: { type: "string" },
    name: { type: "string" },
    media_type: { enum: ["text/plain", "text/markdown", "text/csv"] },
    text: { type: "string" },
    /** Offset at which each page begins, in UTF-16 code units; absent where the format has no pages. */
    pages: { type: "array", items: { type: "integer", minimum: 0 } },
    /** Blocks of the parsed document; absent in snapshots of older versions. */
    blocks: {
      type: "array",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["type", "level", "start", "end"],
        properties: {
          type: { enum: ["heading", "paragraph", "item", "row", "code"] },
          /** Heading level, from 1. For rows: 1 for the first row of a table, else 2. 0 for all other types. */
          level: count,
          /** Offsets in the text, in UTF-16 code units. */
          start: count,
          end: count,
        },
      },
    },
  },
} as const;

export type SnapshotBlock = NonNullable<SnapshotDocument["blocks"]>[number];

export type SnapshotDocument = FromSchema<typeof snapshotDocument>;

export const snapshotItem = {
  type: "object",
  additionalProperties: false,
  required: ["sample_num", "instruction", "response", "aliases", "cluster", "competitors"],
  properties: {
    sample_num: { type: "integer", minimum: 1 },
    instruction: { type: "string" },
    response: { type: "string" },
    aliases: { type: "array", items: { type: "string" } },
    cluster: { type: "string" },
    /** Reference answers of other dev items of the same kind. An answer that names one of them does not count as right. */
    competitors: { type: "array", items: { type: "string" } },
  },
} as const;

export type SnapshotItem = FromSchema<typeof snapshotItem>;

const hashes = { type: "array", items: { type: "string" } } as const;

/** Salted hashes of questions (study/leakage.ts). They show whether a text contains a question, not what it asks. */
export const snapshotMarks = {
  type: "object",
  additionalProperties: false,
  required: ["salt", "questions"],
  properties: {
    salt: { type: "string" },
    questions: {
      type: "array",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["length", "runs", "grams"],
        properties: { length: count, runs: hashes, grams: hashes },
      },
    },
  },
} as const;

export const phases = ["preparing", "training", "checking", "repairing", "packaging"] as const;
export type Phase = (typeof phases)[number];

/** One line of events.jsonl. `kind` determines which of the optional fields are present. */
export const runEvent = {
  type: "object",
  additionalProperties: false,
  required: ["seq", "fence", "at", "kind", "phase"],
  properties: {
    /** Contiguous from 1. */
    seq: { type: "integer", minimum: 1 },
    fence: { type: "integer", minimum: 1 },
    at: { type: "string" },
    kind: {
      enum: [
        "phase",
        "progress",
        "step",
        "check",
        "checkpoint",
        "resumed",
        "paused",
        "continued",
        "decision",
        "warning",
        "stopped",
        "failed",
        "done",
      ],
    },
    phase: { enum: phases },
    /** Progress within this phase; total is null while unknown. */
    done: { type: "number" },
    total: { type: ["number", "null"] },
    unit: { type: "string" },
    /** Units per second, and the seconds left at that rate; null while unknown. */
    rate: { type: ["number", "null"] },
    seconds_left: { type: ["number", "null"] },
    step: count,
    from_step: count,
    /**
     * For kind step: loss, loss_hex (its exact double), learning_rate, grad_norm, tokens, tokens_per_second. For kind check:
     * score, low, high (0–100), n.
     */
    metrics: { type: "object", additionalProperties: { type: ["number", "string", "null"] } },
    message: { type: "string" },
    code: { type: "string" },
    /** For a decision of an auto-align: its DecisionCard (run/plan/state.ts) and what comes next. */
    card: { type: "object" },
  },
} as const;

export type RunEvent = FromSchema<typeof runEvent>;

/** Runs of older versions have no sources.json. */
export const artefactFiles = [
  "adapter.gguf",
  "peft/adapter_model.safetensors",
  "peft/adapter_config.json",
  "calibration.json",
  "sources.json",
  "report.json",
  "report.html",
] as const;

export const runResult = {
  type: "object",
  additionalProperties: false,
  required: ["format", "fence", "outcome", "error", "chosen_step", "files", "metrics"],
  properties: {
    format: { const: 1 },
    fence: { type: "integer", minimum: 1 },
    /** `look` and `paused` end the process, not the auto-align: it goes on once it has its scores, or when a user resumes it. */
    outcome: { enum: ["completed", "look", "paused", "stopped", "failed"] },
    error: {
      type: ["object", "null"],
      additionalProperties: false,
      required: ["code", "message"],
      properties: { code: { type: "string" }, message: { type: "string" } },
    },
    chosen_step: { type: ["integer", "null"] },
    /** State of an auto-align; null or absent for a plain alignment. */
    auto_align: {
      type: ["object", "null"],
      additionalProperties: false,
      required: ["status", "confirmed", "checkpoint", "phases", "hours", "look", "help"],
      properties: {
        status: { enum: ["RUNNING", "REACHED", "BUDGET_SPENT", "PAUSED", "STOPPED"] },
        /** Whether the lower bound of the look's score meets the target too; null when the target was not reached. */
        confirmed: { type: ["boolean", "null"] },
        /** The best checkpoint. `base` when no phase brought a gain; there is then no artefact. */
        checkpoint: { type: "string" },
        phases: count,
        hours: { type: "number", minimum: 0 },
        /** Index of the third of the sealed split that is to be scored. */
        look: { type: ["integer", "null"], minimum: 0, maximum: 2 },
        /** What would help, the most helpful first. */
        help: { type: "array", items: { type: "string" } },
      },
    },
    /** Verdict on a completed run; absent in results of older versions. */
    verdict: runVerdict,
    /** Files under artefact/ of a completed run. Empty for an auto-align that ends at the base. */
    files: {
      type: "array",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["name", "bytes", "sha256"],
        properties: { name: { enum: artefactFiles }, bytes: count, sha256 },
      },
    },
    /** loss, dev_score, adapter_scale, base_dev_score, train_tokens (prompts included), train_seconds, tokens_per_second, rows, overlap */
    metrics: { type: "object", additionalProperties: { type: ["number", "null"] } },
  },
} as const;

export type RunResult = FromSchema<typeof runResult>;

/** How far an adapter diverges from its base on text that neither of them wrote. */
export interface Divergence {
  tokens: number;
  base_perplexity: number;
  perplexity: number;
  /** Percent. */
  perplexity_rise: number;
  /**
   * Mean of KL(base‖adapter) over the tokens, in nats, computed over the base's likeliest tokens and all others grouped as
   * one. It never exceeds the full KL, and is close to it where those tokens hold nearly all of the base's probability.
   */
  kl: number;
  /** Mean of the probability that the base gives to its likeliest tokens together. */
  covered: number;
}

/** One regression suite before and after, in points. */
export interface SuiteResult {
  name: "retention" | "general" | "format" | "refusals";
  n: number;
  base: number;
  aligned: number;
  /** Whether a loss counts against an adapter: only if the base is certainly above chance. Otherwise it is just reported. */
  gates: boolean;
  /** Questions that the base passes and the adapter fails, and the reverse. */
  lost: string[];
  gained: string[];
}

/** `guards` of report.json: what an adapter lost compared with its base. */
export interface GuardResults {
  suites: SuiteResult[];
  drift: Divergence;
}

/** looks/<n>/scores.json: for each question of the third its score in [0, 1] and its cluster, and the hours that the look took. */
export const lookScores = {
  type: "object",
  additionalProperties: false,
  required: ["scores", "clusters", "hours"],
  properties: {
    scores: { type: "array", items: { type: "number", minimum: 0, maximum: 1 } },
    clusters: { type: "array", items: { type: "string" } },
    hours: { type: "number", minimum: 0 },
  },
} as const;

export type LookScores = FromSchema<typeof lookScores>;

/** A line on the run's stdin. `stop` ends it after the current step, with outcome stopped. All but answers are acknowledged. */
export const runCommand = {
  type: "object",
  additionalProperties: false,
  required: ["seq", "command"],
  properties: {
    /** For an answer: the seq of its question. */
    seq: { type: "integer", minimum: 1 },
    command: { enum: ["pause", "resume", "stop", "answer"] },
    /** For an answer: a judge's text, or a preference model's score for each answer that it was shown. */
    said: { type: ["string", "array"], items: { type: "number" } },
    /** For an answer: why the question could not be answered. */
    failed: { type: "string" },
  },
} as const;

export type RunCommand = FromSchema<typeof runCommand>;

/** A question to a model that the request names but the run has not loaded: a run opens no connection and no other model. */
export const modelQuestion = {
  anyOf: [
    {
      type: "object",
      additionalProperties: false,
      required: ["of", "content", "choices"],
      properties: {
        of: { const: "judge" },
        /** One message. */
        content: { type: "string" },
        /** The answers that the judge may give. */
        choices: { type: "array", minItems: 2, items: { type: "string" } },
      },
    },
    {
      type: "object",
      additionalProperties: false,
      required: ["of", "prompt", "answers"],
      properties: {
        of: { const: "preference_model" },
        prompt: { type: "string" },
        answers: { type: "array", minItems: 1, items: { type: "string" } },
      },
    },
  ],
} as const;

export type ModelQuestion = FromSchema<typeof modelQuestion>;

/** A line on the run's stdout: an acknowledgement, a heartbeat (once a second while the main loop lives) or a question. */
export const runReply = {
  type: "object",
  additionalProperties: false,
  required: ["kind"],
  properties: {
    kind: { enum: ["ack", "refused", "heartbeat", "ask"] },
    seq: { type: "integer", minimum: 1 },
    message: { type: "string" },
    events: count,
    /** Answered by a command with the same seq, which is not acknowledged. */
    question: modelQuestion,
  },
} as const;

export type RunReply = FromSchema<typeof runReply>;

/** Exit codes of `plumbline run <folder>`. */
export const runExit = { completed: 0, failed: 1, invalid: 2, stopped: 3, look: 4, paused: 5, locked: 75 } as const;
