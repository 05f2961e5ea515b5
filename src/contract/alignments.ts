import { autoAlignAccepted, autoAlignMove, autoAlignRecord, autoAlignRequest, autoAlignRow } from "./auto-align.ts";
import {
  deletion,
  having,
  id,
  idempotencyHeaders,
  idParam,
  name,
  page,
  progressDetail,
  rules,
  timestamp,
  whenever,
} from "./common.ts";
import { coverage } from "./coverage.ts";
import { endpoint } from "./endpoint.ts";
import { runEvent } from "./run-folder.ts";
import { runVerdict } from "./verdict.ts";

export const alignmentStatuses = ["PROCESSING", "STOPPING", "COMPLETED", "FAILED", "STOPPED"] as const;

const metrics = { type: "object", additionalProperties: { type: ["number", "null"] } } as const;

export const alignmentStatus = {
  type: "object",
  additionalProperties: false,
  required: [
    "alignment_id",
    "name",
    "status",
    "phase",
    "base_model",
    "document_ids",
    "created_date",
    "progress",
    "progress_detail",
  ],
  properties: {
    alignment_id: { type: "string" },
    name,
    description: { type: ["string", "null"] },
    status: { enum: alignmentStatuses },
    phase: {
      enum: ["queued", "preparing", "training", "checking", "repairing", "packaging", "ended"],
      description: "ended once the status is terminal.",
    },
    last_phase: { type: "string", description: "The last phase before the end; present once the status is terminal." },
    base_model: { type: "string" },
    workflow_id: { type: "string" },
    document_ids: { type: "array", items: { type: "string" } },
    benchmark_id: { type: ["string", "null"] },
    created_date: timestamp,
    started_date: { type: ["string", "null"] },
    completed_date: { type: ["string", "null"] },
    progress: { type: "number", minimum: 0, maximum: 100 },
    progress_detail: { anyOf: [progressDetail, { type: "null" }] },
    estimated_completion: { type: ["string", "null"] },
    budget: {
      anyOf: [
        {
          type: "object",
          additionalProperties: false,
          required: ["memory_bytes", "threads"],
          properties: {
            memory_bytes: { type: "integer" },
            gpu_memory_bytes: {
              type: "integer",
              description: "0: no GPU was found when the run was given its budget, and its GPU memory is not limited.",
            },
            threads: { type: "integer" },
            pass_tokens: {
              type: "integer",
              description: "Tokens computed at the same time; lower than full_pass_tokens if memory was short.",
            },
            full_pass_tokens: { type: "integer" },
          },
        },
        { type: "null" },
      ],
    },
    waiting_for: {
      type: ["string", "null"],
      description: "What a queued alignment is waiting for; null if it is not waiting.",
    },
    performance_metrics: { anyOf: [metrics, { type: "null" }] },
    verdict: {
      anyOf: [runVerdict, { type: "null" }],
      description:
        "Whether the alignment was worth it. null before it completes, and for alignments made by older versions.",
    },
    report: { type: ["object", "null"], description: "The run's report; null until the run completes." },
    model_id: { type: ["string", "null"] },
    evaluation_id: { type: ["string", "null"] },
    error: { type: ["string", "null"] },
    auto_align: { type: "array", items: autoAlignRow, description: "The latest 20 requests, newest first." },
  },
} as const;

export const alignmentRow = {
  type: "object",
  additionalProperties: false,
  required: ["id", "name", "base_model", "status", "created_date", "documents", "document_count", "creator"],
  properties: {
    id: { type: "string", examples: ["alignment_8d3f6h1j5k9m2n7p4q0r8s6t"] },
    name,
    base_model: { type: "string" },
    status: {
      enum: ["PENDING", "COMPLETED", "FAILED", "STOPPED"],
      description: "PENDING until the status is terminal",
    },
    created_date: timestamp,
    completed_date: timestamp,
    documents: { type: "array", items: { type: "string" } },
    document_count: { type: "integer" },
    creator: { type: "string" },
    performance_metrics: metrics,
    progress: { type: "number", minimum: 0, maximum: 100 },
    phase: { type: "string", description: "Present while the status is PENDING." },
    progress_detail: progressDetail,
    estimated_completion: timestamp,
    error: { type: "string" },
    evaluation_id: { type: "string" },
    model_id: { type: "string" },
  },
} as const;

const alignmentId = idParam("alignment_id");

const autoAlignParams = {
  type: "object",
  additionalProperties: false,
  required: ["alignment_id", "auto_align_id"],
  properties: { alignment_id: id, auto_align_id: id },
} as const;

const createBody = {
  type: "object",
  additionalProperties: false,
  required: ["alignment_name", "base_model_id", "document_ids"],
  properties: {
    alignment_name: name,
    base_model_id: { ...id, description: "An id, a name, or hf://organisation/name[/file.gguf]" },
    document_ids: { type: "array", minItems: 1, maxItems: 10_000, items: id },
    workflow_id: { ...id, default: "standard", description: "A preset: quick, standard, thorough" },
    benchmark_id: id,
    description: { type: "string", maxLength: 20_000, pattern: "^[^\\u0000]*$" },
    organisation: {
      ...name,
      description:
        "The organisation that the documents belong to, so that questions can name it. It is never guessed: without it, questions name the documents' titles instead.",
    },
    teacher_model: {
      ...id,
      description:
        "The model that reads the documents and writes the training questions: a base model, a deployed aligned model, or a model of the upstream. Without it, only the base model and the built-in writer are used.",
    },
    teacher_provider: {
      ...id,
      description:
        "A configured upstream. The documents' passages are sent to it. Without it, the teacher is a model of this appliance.",
    },
  },
  ...rules(whenever(having("teacher_provider"), having("teacher_model"))),
} as const;

const estimateRange = {
  type: "object",
  additionalProperties: false,
  required: ["low", "likely", "high"],
  properties: { low: { type: "number" }, likely: { type: "number" }, high: { type: "number" } },
} as const;

/** Errors of a request for an alignment, whether it is started or only estimated. */
const createErrors = [
  "base_model_unsupported",
  "hub_unavailable",
  "mirror_unreachable",
  "not_found",
  "model_invalid",
  "model_file_type",
] as const;

export const alignments = {
  "alignments.create": endpoint({
    method: "POST",
    path: "/api/v3/alignment-projects/create",
    tag: "alignments",
    summary:
      "Start an alignment. The documents are snapshotted, the request returns at once, and the run follows in the background.",
    headers: idempotencyHeaders,
    body: createBody,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["alignment_id", "status"],
      properties: { alignment_id: { type: "string" }, status: { const: "PROCESSING" }, message: { type: "string" } },
    },
    errors: [...createErrors, "disk_full"],
  }),
  "alignments.estimate": endpoint({
    method: "POST",
    path: "/api/v3/alignment-projects/estimate",
    tag: "alignments",
    summary: "Estimate what an alignment needs on this machine: rows, memory and time, as ranges. Nothing is started.",
    body: createBody,
    reply: {
      type: "object",
      additionalProperties: false,
      required: [
        "passages",
        "targets",
        "rows",
        "train_tokens",
        "memory_bytes",
        "gpu_memory_bytes",
        "minutes",
        "teacher_messages",
      ],
      properties: {
        passages: { type: "integer" },
        targets: { type: "integer", description: "Answers that the training questions would ask for." },
        rows: { ...estimateRange, description: "Training rows, including replayed rows." },
        train_tokens: { ...estimateRange, description: "Training tokens over all epochs, before early stopping." },
        memory_bytes: { type: "integer", description: "Main memory; with less, passes are smaller." },
        gpu_memory_bytes: { type: "integer", description: "GPU memory; 0 if no GPU is used." },
        minutes: {
          anyOf: [estimateRange, { type: "null" }],
          description: "Minutes for the whole run, without a teacher's time; null if the device's speed is unknown.",
        },
        teacher_messages: {
          anyOf: [estimateRange, { type: "null" }],
          description:
            "Messages that the teacher would answer, unless it did so in an earlier alignment; null without a teacher.",
        },
      },
    },
    errors: createErrors,
  }),
  "alignments.status": endpoint({
    method: "GET",
    path: "/api/v3/alignment-projects/{alignment_id}/status",
    tag: "alignments",
    summary: "Get the status of an alignment.",
    params: alignmentId,
    reply: alignmentStatus,
    errors: ["not_found"],
  }),
  "alignments.stop": endpoint({
    method: "POST",
    path: "/api/v3/alignment-projects/{alignment_id}/stop",
    tag: "alignments",
    summary: "Stop an alignment that has started training.",
    params: alignmentId,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["alignment_id", "status"],
      properties: { alignment_id: { type: "string" }, status: { enum: alignmentStatuses } },
    },
    errors: ["not_found", "already_terminal", "not_started", "stop_rejected", "stop_unreachable"],
  }),
  "alignments.delete": endpoint({
    method: "DELETE",
    path: "/api/v3/alignment-projects/{alignment_id}",
    tag: "alignments",
    summary:
      "Delete an alignment that has ended, with its run's files (snapshots, rows, checkpoints, report, the PEFT adapter), or cancel an alignment that is queued or preparing. Its model is kept.",
    params: alignmentId,
    reply: deletion("alignment_id"),
    errors: ["not_found", "under_way", "stop_rejected", "stop_unreachable"],
  }),
  "alignments.auto_align": endpoint({
    method: "POST",
    path: "/api/v3/alignment-projects/{alignment_id}/auto-align",
    tag: "alignments",
    summary:
      "Improve a project until it reaches a target score. Each phase is chosen by its expected gain per hour, and sealed questions decide whether the target is reached. If PLUMBLINE_AUTO_ALIGN is `record`, the request is only stored. Its configuration is stored byte for byte.",
    params: alignmentId,
    headers: idempotencyHeaders,
    body: autoAlignRequest,
    verbatim: ["config"],
    reply: autoAlignAccepted,
    status: 202,
    errors: ["not_found", "conflict", "snapshot_gone", "disk_full"],
  }),
  "alignments.auto_align_record": endpoint({
    method: "GET",
    path: "/api/v3/alignment-projects/{alignment_id}/auto-align/{auto_align_id}",
    tag: "alignments",
    summary: "Get an auto-align: the request as it was sent, its status, and why each phase was chosen.",
    params: autoAlignParams,
    reply: autoAlignRecord,
    verbatim: ["config"],
    errors: ["not_found"],
  }),
  "alignments.auto_align_resume": endpoint({
    method: "POST",
    path: "/api/v3/alignment-projects/{alignment_id}/auto-align/{auto_align_id}/resume",
    tag: "alignments",
    summary:
      "Continue an auto-align that is PAUSED. An explicit sequence starts again from the beginning; otherwise at least one more phase is tried.",
    params: autoAlignParams,
    reply: autoAlignAccepted,
    errors: ["not_found", "conflict"],
  }),
  "alignments.auto_align_stop": endpoint({
    method: "POST",
    path: "/api/v3/alignment-projects/{alignment_id}/auto-align/{auto_align_id}/stop",
    tag: "alignments",
    summary:
      "End an auto-align. No further phase starts, and the best checkpoint so far becomes a model. Before its first decision it becomes STOPPED without a model.",
    params: autoAlignParams,
    reply: autoAlignAccepted,
    errors: ["not_found", "conflict", "stop_rejected", "stop_unreachable"],
  }),
  "alignments.auto_align_events": endpoint({
    method: "GET",
    path: "/api/v3/alignment-projects/{alignment_id}/auto-align/{auto_align_id}/events",
    tag: "alignments",
    summary:
      "Stream the run's events and, as `transition`, each change of status or phase. Last-Event-ID resumes after that event. The stream ends when the auto-align ends.",
    params: autoAlignParams,
    reply: { type: "object", description: "The reply is always an event stream.", additionalProperties: false },
    events: { anyOf: [runEvent, autoAlignMove] },
    errors: ["not_found"],
  }),
  "alignments.list": endpoint({
    method: "GET",
    path: "/api/v3/alignment",
    tag: "alignments",
    summary: "List your alignment projects, newest first.",
    query: {
      type: "object",
      additionalProperties: false,
      properties: { status: alignmentRow.properties.status, ...page },
    },
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["alignment_projects", "total"],
      properties: {
        alignment_projects: { type: "array", items: alignmentRow },
        total: { type: "integer", description: "Number of projects with this status." },
      },
    },
    errors: [],
  }),
  "alignments.report": endpoint({
    method: "GET",
    path: "/api/v3/alignment-projects/{alignment_id}/report",
    tag: "alignments",
    summary:
      "The finished run's report as a web page: what was learned, what was lost, what it cost, and what would help most. It has the same figures as `report` in the alignment's status.",
    params: alignmentId,
    reply: { type: "string", contentMediaType: "text/html" },
    download: ["text/html"],
    errors: ["not_found"],
  }),
  "alignments.coverage": endpoint({
    method: "GET",
    path: "/api/v3/alignment-projects/{alignment_id}/coverage",
    tag: "alignments",
    summary:
      "Which parts of the documents are trained: the rows made from each passage, or why there are none. Available once the rows are made.",
    params: alignmentId,
    reply: coverage,
    errors: ["not_found"],
  }),
  "alignments.events": endpoint({
    method: "GET",
    path: "/api/v3/alignment-projects/{alignment_id}/events",
    tag: "alignments",
    summary:
      "Stream the run's events. Last-Event-ID resumes after that event. The stream ends when the alignment ends.",
    params: alignmentId,
    reply: { type: "object", description: "The reply is always an event stream.", additionalProperties: false },
    events: runEvent,
    errors: ["not_found"],
  }),
} as const;
