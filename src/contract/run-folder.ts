// The contract between the appliance and the machine that does a run: the files of runs/<alignment_id>/. The lines that the two
// exchange while the run lasts are in run-lines.ts. Data only.
//
//   request.json      resolved configuration (runRequest)
//   snapshot/         documents/<n>.json (snapshotDocument), dev.jsonl (snapshotItem per line). The sealed split is never here
//   events.jsonl      append-only (runEvent per line). A resumed run drops a torn last line, continues the numbering and
//                     writes `resumed`
//   prepared/         the rows as token ids and as text. A resumed run trains on the same rows, and the appliance searches
//                     rows.jsonl for sealed questions
//   checkpoints/<n>/  adapter and moments (the trainer's), state.json (the loop's), build.json
//   guards/           answers of the base (base/) and of each candidate adapter to the dev and guard questions
//   plan/             auto-align only: the diagnosis of the base, and for each phase its adapter and the result of its check
//   reward-models.jsonl  auto-align only: answers of the judge and preference models that the appliance asks
//   looks/<n>/        auto-align only: scores.json, which the appliance writes. It says how the adapter that meets the target on
//                     dev answered a third of the sealed questions
//   artefact/         adapter.gguf, the same adapter as peft/, calibration.json, sources.json, report.json, report.html
//   result.json       written last (runResult)
import type { FromSchema } from "json-schema-to-ts";
import { recipe } from "./recipe.ts";
import { runVerdict } from "./verdict.ts";

const sha256 = { type: "string", pattern: "^[0-9a-f]{64}$" } as const;
const count = { type: "integer", minimum: 0 } as const;

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
    /** Rises with every claim of the job, and is part of every event. This file is rewritten at each claim. */
    fence: { type: "integer", minimum: 1 },
    recipe_name: { type: "string" },
    recipe,
    base: {
      type: "object",
      additionalProperties: false,
      required: ["id", "sha256", "path", "architecture"],
      properties: { id: { type: "string" }, sha256, path: { type: "string" }, architecture: { type: "string" } },
    },
    /** In the order of the snapshot: the index of a document is the name of its file, snapshot/documents/<index>.json. */
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
    /** The benchmark's dev questions in snapshot/dev.jsonl; null without a benchmark. */
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
        /**
         * SHA-256 of snapshot/marks.json, which has salted hashes of all questions, including the sealed ones; absent in older
         * folders.
         */
        marks_sha256: sha256,
      },
    },
    /** Owner of the documents; null or absent when the project does not name one. */
    organisation: { type: ["string", "null"] },
    /** The teacher model, which wrote the questions in teacher.jsonl; null or absent when there was none. */
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
        /** The same for GPU memory. 0 sets no limit; the appliance writes 0 if it found no GPU. */
        gpu_memory_bytes: count,
        threads: { type: "integer", minimum: 1 },
        /** Number of tokens computed at the same time, and what it would be with enough memory; both absent in older folders. */
        pass_tokens: count,
        full_pass_tokens: count,
      },
    },
    /** Target and limits of an auto-align; null or absent for an alignment that follows its recipe. */
    auto_align: {
      type: ["object", "null"],
      additionalProperties: false,
      required: ["auto_align_id", "request", "past", "thirds", "stopping"],
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
        /** Each time that the user resumed the auto-align from a pause, in order: the phases and looks before it. Absent in older folders. */
        resumes: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["phases", "looks"],
            properties: { phases: count, looks: count },
          },
        },
        /** In older folders, in place of `resumes`: number of phases before the latest resume. */
        resumed_after: count,
        /** Whether the auto-align is to end: no further phase begins, and the best checkpoint so far is packaged. */
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
    /** Versions that must be the same for a resumed run to give bitwise the same result. */
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
    /** Offset at which each page begins, in UTF-16 code units; absent if the format has no pages. */
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
    /** Reference answers of other dev items of the same kind. An answer that also names one of these counts as wrong. */
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
    /** Whether clauses in scripts without spaces were split into words; absent in older folders, where they were not. */
    segmented: { type: "boolean" },
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
    /** Progress within this phase; total is null as long as it is unknown. */
    done: { type: "number" },
    total: { type: ["number", "null"] },
    unit: { type: "string" },
    /** Units per second, and the seconds left at that rate; null as long as they are unknown. */
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
    /** The values in the message of a warning. */
    parameters: { type: "object", additionalProperties: { type: ["string", "number"] } },
    /** For a decision of an auto-align's planner: its DecisionCard (run/plan/state.ts), with what comes next as `next`. */
    card: { type: "object" },
  },
} as const;

export type RunEvent = FromSchema<typeof runEvent>;

/** Files of an artefact. Artefacts of older versions have no sources.json. */
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
    /**
     * With `look` and `paused`, only the process ends. The auto-align continues once the look has its scores, or when a user
     * resumes it.
     */
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
        /** The best checkpoint. It is `base` if no phase brought a gain; then there is no artefact. */
        checkpoint: { type: "string" },
        phases: count,
        hours: { type: "number", minimum: 0 },
        /** Index of the third of the sealed split that is to be scored. */
        look: { type: ["integer", "null"], minimum: 0, maximum: 2 },
        /** What would help, the most helpful first. */
        help: { type: "array", items: { type: "string" } },
      },
    },
    /** Verdict on a completed run; absent if there is no artefact, and in results of older versions. */
    verdict: runVerdict,
    /** Files under artefact/ of a completed run. Empty for an auto-align whose best checkpoint is the base. */
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
  /** In per cent. */
  perplexity_rise: number;
  /**
   * Mean of KL(base‖adapter) over the tokens, in nats. At each token it is computed over the base's likeliest tokens, with all
   * other tokens grouped as one. So it never exceeds the full KL, and is close to it if the likeliest tokens have nearly all of
   * the base's probability.
   */
  kl: number;
  /** Mean of the total probability that the base gives to its likeliest tokens. */
  covered: number;
}

/** The results of one regression suite for the base and for the adapter, in points. */
export interface SuiteResult {
  name: "retention" | "general" | "format" | "refusals";
  n: number;
  base: number;
  aligned: number;
  /** Whether a loss counts against an adapter. A loss counts if the base is certainly above chance; otherwise it is only reported. */
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

/** looks/<n>/scores.json: the score in [0, 1] and the cluster of each question of the third, and the hours that the look took. */
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
