// The contract between the appliance and whatever machine does a run: the files of runs/<alignment_id>/ and the JSON lines on
// the run's stdin and stdout. Data only.
//
//   request.json      resolved configuration (runRequest)
//   snapshot/         documents/<n>.json (snapshotDocument), dev.jsonl (snapshotItem per line). Never the sealed split
//   events.jsonl      append-only (runEvent per line): a resumed run drops a torn last line, counts on, writes `resumed`
//   prepared/         the rows as token ids and as text: a resumed run trains on the same ones, and the appliance looks for
//                     sealed questions in rows.jsonl
//   checkpoints/<n>/  adapter and moments (the trainer's), state.json (the loop's), build.json
//   guards/           what the base (base/) and each adapter that could be chosen said to dev questions and guards
//   plan/             of an auto-align: what its base was found to need, and for each phase its adapter and what a check said of it
//   reward-models.jsonl  of an auto-align: what a judge or a preference model that the appliance asks has said
//   looks/<n>/        of an auto-align: the adapter that dev says meets the target, and scores.json, which the appliance writes of a
//                     third of the sealed questions
//   artefact/         adapter.gguf, the same adapter as peft/, calibration.json, sources.json, report.json, report.html
//   result.json       last of all (runResult)
import type { FromSchema } from "json-schema-to-ts";
import { runVerdict } from "./verdict.ts";

const sha256 = { type: "string", pattern: "^[0-9a-f]{64}$" } as const;
const count = { type: "integer", minimum: 0 } as const;

/** One recipe: what a preset in config/recipes/ resolves to. Every field filled in. */
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
        /** null: by the rule of the notes from the model's width, at most 1e-3. Resolved in request.json once known. */
        learning_rate: { type: ["number", "null"], exclusiveMinimum: 0, maximum: 0.1 },
        beta1: { type: "number", minimum: 0, exclusiveMaximum: 1 },
        beta2: { type: "number", minimum: 0, exclusiveMaximum: 1 },
        eps: { type: "number", exclusiveMinimum: 0 },
        weight_decay: { type: "number", minimum: 0 },
        grad_clip_norm: { type: "number", minimum: 0 },
        lr_schedule: { enum: ["linear", "cosine", "constant"] },
        warmup_ratio: { type: "number", minimum: 0, exclusiveMaximum: 1 },
        /** In place of the ratio. */
        warmup_steps: count,
        /** Of the learning rate, whether it is given or by the rule; 1 when absent. */
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
        /** The head, where it is not the token embedding; false when absent. */
        train_unembed: { type: "boolean" },
        /** Of the adapter's inputs while it trains; 0 when absent. */
        dropout: { type: "number", minimum: 0, maximum: 0.9999 },
        /** Of A; training.seed when absent. */
        init_seed: { type: "integer", minimum: 0, maximum: 2147483647 },
        /** Factors of alpha to choose from once training has ended, 1 first; [1] when absent. */
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
        /** Rows of a target and rung, at most. */
        phrasings: { type: "integer", minimum: 1, maximum: 64 },
        /** Rungs at most, each with wordings of its own and followed by another while the dev score rises; 1 when absent. */
        rungs: { type: "integer", minimum: 1, maximum: 16 },
        /** Whether a model writes questions beside the plain forms, as when absent. */
        synthetic: {
          type: "object",
          additionalProperties: false,
          required: ["enabled"],
          properties: { enabled: { type: "boolean" } },
        },
        /** CSV documents whose rows are prompts and answers; all documents are studied when absent. */
        source: {
          type: "object",
          additionalProperties: false,
          required: ["document", "prompt_field", "answer_field"],
          properties: {
            /** Its name, with or without the ending; null: all that have the two columns. */
            document: { type: ["string", "null"] },
            prompt_field: { type: "string" },
            answer_field: { type: "string" },
          },
        },
        /** Folders that an older version made name these two; nothing reads them. */
        probe_known: { type: "boolean" },
        proposals_per_chunk: { type: "integer", minimum: 0, maximum: 64 },
        /** The base's likeliest tokens that replayed rows have for targets; 0, as when absent: the token that was drawn. */
        replay_top_k: { type: "integer", minimum: 0, maximum: 1024 },
        /** What a token with such targets counts beside one of a document's row; 1 when absent. */
        replay_weight: { type: "number", minimum: 0.1, maximum: 100 },
        /** Tokens of a replayed answer, at most; 32 when absent. */
        replay_tokens: { type: "integer", minimum: 4, maximum: 1024 },
        /** Share of self-replay rows among the rows of a rung. */
        replay_share: { type: "number", minimum: 0, maximum: 0.9 },
      },
    },
    /** What may not get worse; nothing is watched when absent. */
    guards: {
      type: "object",
      additionalProperties: false,
      required: ["retained_items", "max_loss", "max_kl", "max_perplexity_rise"],
      properties: {
        /** Items of common knowledge that the base gets right twice, at most. */
        retained_items: { type: "integer", minimum: 1 },
        /** Points that a suite may lose before it counts against an adapter. */
        max_loss: { type: "number", minimum: 0, maximum: 100 },
        /** Paragraphs of generic text on which drift is measured, evenly over those there are; all of them when absent. */
        prose_paragraphs: { type: "integer", minimum: 1 },
        /** Nats of KL(base‖adapter), and percent of perplexity, on them. */
        max_kl: { type: "number", minimum: 0 },
        max_perplexity_rise: { type: "number", minimum: 0 },
      },
    },
    /** On-policy distillation from the base when a guard gave way; none when absent. */
    repair: {
      type: "object",
      additionalProperties: false,
      required: ["steps", "check_every_steps", "prompts", "tokens", "top_k", "rows", "lr_factor"],
      properties: {
        steps: { type: "integer", minimum: 1, maximum: 10000 },
        /** After so many, and as many again, it is asked whether they were enough. */
        check_every_steps: { type: "integer", minimum: 1 },
        /** Of a step: answered by the adapter itself, with the base's likeliest tokens for targets. */
        prompts: { type: "integer", minimum: 1, maximum: 1024 },
        tokens: { type: "integer", minimum: 4, maximum: 1024 },
        top_k: { type: "integer", minimum: 1, maximum: 1024 },
        /** Rows of the documents that a step goes over beside them, so that what was learned stays. */
        rows: { type: "integer", minimum: 0, maximum: 4096 },
        /** Of the peak learning rate. */
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
    /** Rises with every claim of the job; events carry it. The file is rewritten with each claim. */
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
          /** Of the file that was uploaded, as in the document's record; absent in older folders. */
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
        /** Of the benchmark, as in its record; absent in older folders. */
        benchmark_sha256: sha256,
        items: count,
        /** Of snapshot/marks.json: salted marks of all its questions, the sealed ones too; absent in older folders. */
        marks_sha256: sha256,
      },
    },
    /** Whose documents they are; null or left out where the project does not say. */
    organisation: { type: ["string", "null"] },
    /** Who wrote teacher.jsonl, the questions that rows ask; null or left out where nobody did. */
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
        /** Of the machine, for the trainer and for inference, which are never open together. */
        memory_bytes: count,
        /** Likewise of the GPU; 0: none is used, or all of it where nobody set a limit. */
        gpu_memory_bytes: count,
        threads: { type: "integer", minimum: 1 },
        /** Computed at the same time, and how many were without want of memory; absent in older folders. */
        pass_tokens: count,
        full_pass_tokens: count,
      },
    },
    /** What the run is to reach, and by what; null or left out of an alignment that follows its recipe. */
    auto_align: {
      type: ["object", "null"],
      additionalProperties: false,
      required: ["auto_align_id", "request", "past", "thirds", "resumed_after", "stopping"],
      properties: {
        auto_align_id: { type: "string" },
        /** AutoAlignRequest, its configuration as JSON reads it. */
        request: { type: "object" },
        /** Phases of earlier auto-aligns of the same owner and base. */
        past: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["arm", "headroom", "gain"],
            properties: { arm: { type: "string" }, headroom: { type: "number" }, gain: { type: "number" } },
          },
        },
        /** Questions of each third of the sealed split. */
        thirds: { type: "array", minItems: 3, maxItems: 3, items: count },
        /** Phases that had run when a pause was last ended by hand. */
        resumed_after: count,
        /** Whether no further phase may begin: the best checkpoint so far is packaged. */
        stopping: { type: "boolean" },
      },
    },
    /** What measures how unlike the documents a question is; null or left out where none is installed. */
    encoder: {
      type: ["object", "null"],
      additionalProperties: false,
      required: ["sha256", "path"],
      properties: { sha256, path: { type: "string" } },
    },
    /** What bitwise resumption depends on. */
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
    /** Where each page begins in the text, in UTF-16 code units; absent where the format has no pages. */
    pages: { type: "array", items: { type: "integer", minimum: 0 } },
    /** As the document was parsed; absent in snapshots that an older version made. */
    blocks: {
      type: "array",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["type", "level", "start", "end"],
        properties: {
          type: { enum: ["heading", "paragraph", "item", "row", "code"] },
          /** Of headings, from 1. Of rows 1 in the first row of a table, else 2. Else 0. */
          level: count,
          /** In the text, UTF-16 code units. */
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
    /** Golds of other dev items of the same kind: an answer that names one is not counted right. */
    competitors: { type: "array", items: { type: "string" } },
  },
} as const;

export type SnapshotItem = FromSchema<typeof snapshotItem>;

const hashes = { type: "array", items: { type: "string" } } as const;

/** Marks of questions (study/leakage.ts): whether a text holds one is told by them, what it asks is not. */
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

/** One line of events.jsonl. `kind` says which of the optional fields are there. */
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
    /** Of this phase; total null while unknown. */
    done: { type: "number" },
    total: { type: ["number", "null"] },
    unit: { type: "string" },
    /** units per second, and seconds left by it; null while unknown. */
    rate: { type: ["number", "null"] },
    seconds_left: { type: ["number", "null"] },
    step: count,
    from_step: count,
    /** kind step: loss, learning_rate, grad_norm, tokens, tokens_per_second; kind check: score, low, high (0–100), n. loss_hex is the loss's exact double. */
    metrics: { type: "object", additionalProperties: { type: ["number", "string", "null"] } },
    message: { type: "string" },
    code: { type: "string" },
    /** Of a decision of an auto-align: DecisionCard (run/plan/state.ts) and what comes next. */
    card: { type: "object" },
  },
} as const;

export type RunEvent = FromSchema<typeof runEvent>;

/** Runs of older versions made no sources.json. */
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
    /** look and paused are ends of a process, not of an auto-align: it goes on once it has its scores, or is resumed by hand. */
    outcome: { enum: ["completed", "look", "paused", "stopped", "failed"] },
    error: {
      type: ["object", "null"],
      additionalProperties: false,
      required: ["code", "message"],
      properties: { code: { type: "string" }, message: { type: "string" } },
    },
    chosen_step: { type: ["integer", "null"] },
    /** Of an auto-align; null or left out of a plain alignment. */
    auto_align: {
      type: ["object", "null"],
      additionalProperties: false,
      required: ["status", "confirmed", "checkpoint", "phases", "hours", "look", "help"],
      properties: {
        status: { enum: ["RUNNING", "REACHED", "BUDGET_SPENT", "PAUSED", "STOPPED"] },
        /** Whether the look's lower bound meets the target too; null where nothing is reached. */
        confirmed: { type: ["boolean", "null"] },
        /** The best one: `base` where no phase brought anything, and then there is no artefact. */
        checkpoint: { type: "string" },
        phases: count,
        hours: { type: "number", minimum: 0 },
        /** The third that is to be scored. */
        look: { type: ["integer", "null"], minimum: 0, maximum: 2 },
        /** What would help, the most helpful first. */
        help: { type: "array", items: { type: "string" } },
      },
    },
    /** Of a completed run; absent in what older versions wrote. */
    verdict: runVerdict,
    /** Under artefact/, present when completed; none of an auto-align that ends at the base. */
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

/** How far an adapter speaks from its base on text that neither wrote. */
export interface Divergence {
  tokens: number;
  base_perplexity: number;
  perplexity: number;
  /** Percent. */
  perplexity_rise: number;
  /**
   * Mean of KL(base‖adapter) over the tokens, in nats, between the base's likeliest tokens and all others taken as one: never
   * more than the whole KL, and close to it where the base is seldom far from them.
   */
  kl: number;
  /** The base's probability of those tokens, on average. */
  covered: number;
}

/** One regression suite before and after, in points. */
export interface SuiteResult {
  name: "retention" | "general" | "format" | "refusals";
  n: number;
  base: number;
  aligned: number;
  /** Whether a loss counts against an adapter: the base does better than chance for certain. The others are only told. */
  gates: boolean;
  /** What the base did and the adapter does not, and the other way round: by question. */
  lost: string[];
  gained: string[];
}

/** `guards` of report.json: what an adapter cost. */
export interface GuardResults {
  suites: SuiteResult[];
  drift: Divergence;
}

/** looks/<n>/scores.json: in [0, 1] of each question of the third, whose facts go together by cluster, and what it took. */
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

/** A line on the run's stdin. `stop` ends after the current step with outcome stopped; all but answers are acknowledged. */
export const runCommand = {
  type: "object",
  additionalProperties: false,
  required: ["seq", "command"],
  properties: {
    /** Of an answer: its question's. */
    seq: { type: "integer", minimum: 1 },
    command: { enum: ["pause", "resume", "stop", "answer"] },
    /** Of an answer: a judge's words, or a preference model's score of each answer it was shown. */
    said: { type: ["string", "array"], items: { type: "number" } },
    /** Of an answer: why there is none. */
    failed: { type: "string" },
  },
} as const;

export type RunCommand = FromSchema<typeof runCommand>;

/** Asked of a model that the request names and the run does not hold: a run opens no connection and no other model. */
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
        /** The words that answer it. */
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

/** A line on the run's stdout: an acknowledgement, a heartbeat once a second of the main loop's life, or a question. */
export const runReply = {
  type: "object",
  additionalProperties: false,
  required: ["kind"],
  properties: {
    kind: { enum: ["ack", "refused", "heartbeat", "ask"] },
    seq: { type: "integer", minimum: 1 },
    message: { type: "string" },
    events: count,
    /** Answered by a command of the same seq, which is not acknowledged. */
    question: modelQuestion,
  },
} as const;

export type RunReply = FromSchema<typeof runReply>;

/** Exit codes of `plumbline run <folder>`. */
export const runExit = { completed: 0, failed: 1, invalid: 2, stopped: 3, look: 4, paused: 5, locked: 75 } as const;
