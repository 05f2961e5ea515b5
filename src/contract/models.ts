import {
  deletion,
  id,
  idParam,
  name,
  nullableTimestamp,
  page,
  pageQuery,
  score,
  timestamp,
  usageSums,
} from "./common.ts";
import { endpoint } from "./endpoint.ts";

export const deploymentStatuses = ["UNDEPLOYED", "DEPLOYING", "DEPLOYED", "UNDEPLOYING"] as const;

export const modelKinds = ["text", "embedding", "rerank"] as const;

export const baseModelRecord = {
  type: "object",
  additionalProperties: false,
  required: [
    "model_id",
    "model_name",
    "kind",
    "architecture",
    "context_length",
    "parameters",
    "file_type",
    "bytes",
    "memory_bytes",
    "can_be_aligned",
    "reason",
    "license",
    "load_error",
    "sha256",
    "created_at",
  ],
  properties: {
    model_id: { type: "string" },
    model_name: name,
    kind: {
      enum: modelKinds,
      description: "text models answer and also embed; embedding models embed; rerank models rank.",
    },
    architecture: { type: "string" },
    context_length: { type: "integer" },
    parameters: { type: "integer" },
    file_type: { type: "string" },
    bytes: { type: "integer" },
    memory_bytes: { type: "integer", description: "Estimated memory needed to serve it." },
    can_be_aligned: { type: "boolean" },
    reason: { type: ["string", "null"], description: "Why it cannot be aligned." },
    license: { type: ["string", "null"] },
    load_error: {
      type: ["string", "null"],
      description: "Why it is no longer loaded, and what to do: loading it crashed the appliance.",
    },
    sha256: { type: "string" },
    created_at: timestamp,
  },
} as const;

const alignedProperties = {
  model_id: { type: "string" },
  model_name: name,
  deployment_status: { enum: deploymentStatuses },
  base_model_id: { type: "string" },
  base_model_name: { type: "string" },
  alignment_id: { type: "string" },
  auto_align_id: { type: "string", description: "The project's auto-align that made it; absent if none did." },
  created_at: timestamp,
} as const;

export const alignedModelRow = {
  type: "object",
  additionalProperties: false,
  required: [
    "model_id",
    "model_name",
    "deployment_status",
    "base_model_id",
    "base_model_name",
    "alignment_id",
    "created_at",
  ],
  properties: alignedProperties,
} as const;

/** Record of an aligned model. For a base model the reply is a baseModelRecord. */
export const alignedModelRecord = {
  type: "object",
  additionalProperties: false,
  required: [
    ...alignedModelRow.required,
    "error",
    "performance_metrics",
    "evaluations",
    "usage",
    "lineage",
    "confidence",
    "downloadable",
    "conversation",
  ],
  properties: {
    ...alignedProperties,
    error: { type: ["string", "null"] },
    performance_metrics: { type: ["object", "null"], additionalProperties: { type: ["number", "null"] } },
    evaluations: {
      type: "array",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["evaluation_id", "benchmark_id", "status", "result"],
        properties: {
          evaluation_id: { type: "string" },
          benchmark_id: { type: "string" },
          status: { type: "string" },
          result: { anyOf: [score, { type: "null" }] },
        },
      },
    },
    usage: usageSums,
    lineage: {
      type: "object",
      additionalProperties: false,
      required: ["base_sha256", "adapter_sha256", "workflow_id", "document_ids", "document_sha256s", "benchmark_id"],
      properties: {
        workflow_id: { type: "string" },
        document_ids: { type: "array", items: { type: "string" }, description: "Some may have been deleted since." },
        base_sha256: { type: "string" },
        adapter_sha256: { type: "string" },
        document_sha256s: { type: "array", items: { type: "string" } },
        benchmark_id: { type: ["string", "null"], description: "It may have been deleted since." },
      },
    },
    confidence: {
      type: "object",
      additionalProperties: false,
      required: ["calibrated", "n", "reason"],
      properties: { calibrated: { type: "boolean" }, n: { type: "integer" }, reason: { type: ["string", "null"] } },
    },
    downloadable: {
      type: "object",
      additionalProperties: false,
      required: ["gguf", "peft"],
      description: "Formats in which the adapter can be downloaded now.",
      properties: { gguf: { type: "boolean" }, peft: { type: "boolean" } },
    },
    conversation: {
      type: "object",
      additionalProperties: false,
      required: ["context_tokens", "max_tokens", "prompt_truncate_len", "temperature", "conversation_saving_enabled"],
      description: "Defaults of a chat whose request does not set them.",
      properties: {
        context_tokens: { type: "integer", description: "Prompt and answer together." },
        max_tokens: { type: "integer" },
        prompt_truncate_len: { type: "integer" },
        temperature: { type: "number" },
        conversation_saving_enabled: {
          const: false,
          description: "Chats with a model are not saved; an agent saves its own if it is set to.",
        },
      },
    },
  },
} as const;

export const deploymentTask = {
  type: "object",
  additionalProperties: false,
  required: ["model_id", "status", "result", "start_time", "end_time"],
  properties: {
    model_id: { type: "string" },
    status: { enum: ["PROCESSING", "READY", "FAILED"] },
    result: {
      anyOf: [
        { type: "null" },
        {
          type: "object",
          additionalProperties: false,
          required: ["deployment_id", "endpoint_url"],
          properties: { deployment_id: { type: "string" }, endpoint_url: { type: "string" } },
        },
        { type: "object", additionalProperties: false, required: ["error"], properties: { error: { type: "string" } } },
      ],
    },
    start_time: timestamp,
    end_time: nullableTimestamp,
  },
} as const;

const modelId = idParam("model_id");
const sha256 = {
  type: "string",
  pattern: "^[0-9A-Fa-f]{64}$",
  description: "If given, the file is refused unless this is its SHA-256.",
} as const;

export const models = {
  "models.base": endpoint({
    method: "GET",
    path: "/api/v3/models/base",
    tag: "models",
    summary: "List the base models on this machine, whether each can be aligned, and why not.",
    query: pageQuery,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["base_models"],
      properties: { base_models: { type: "array", items: baseModelRecord } },
    },
    errors: [],
  }),
  "models.aligned": endpoint({
    method: "GET",
    path: "/api/v3/models/aligned",
    tag: "models",
    summary: "List your aligned models, newest first.",
    query: {
      type: "object",
      additionalProperties: false,
      properties: { deployment_status: { enum: deploymentStatuses }, base_model_id: id, ...page },
    },
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["domain_aligned_models", "total"],
      properties: {
        domain_aligned_models: { type: "array", items: alignedModelRow },
        total: { type: "integer", description: "Number of models that match the filters." },
      },
    },
    errors: ["no_aligned_models", "first_model_under_way"],
  }),
  "models.get": endpoint({
    method: "GET",
    path: "/api/v3/models/{model_id}",
    tag: "models",
    summary: "Get the full record of a base or aligned model.",
    params: modelId,
    reply: { anyOf: [alignedModelRecord, baseModelRecord] },
    errors: ["not_found"],
  }),
  "models.delete": endpoint({
    method: "DELETE",
    path: "/api/v3/models/{model_id}",
    tag: "models",
    summary:
      "Delete one of your aligned models with its adapter; its evaluations are kept. Deleting a base model requires a key with the scope admin, and that no model made from it is left.",
    params: modelId,
    reply: deletion("model_id"),
    errors: ["not_found", "still_deployed", "still_promoted", "in_use"],
  }),
  "models.import": endpoint({
    method: "POST",
    path: "/api/v3/models/import",
    tag: "administration",
    summary: "Fetch a base model from the configured mirror of the model hub, and check it.",
    body: {
      type: "object",
      additionalProperties: false,
      required: ["source"],
      properties: {
        source: {
          ...id,
          pattern: "^hf://",
          description:
            "hf://organisation/name[/file.gguf]. To import a file on the appliance's machine, use `plumbline model import`; to send a file of your own, use the upload.",
          examples: ["hf://organisation/name/file.gguf"],
        },
      },
    },
    reply: baseModelRecord,
    errors: ["hub_unavailable", "mirror_unreachable", "model_invalid", "model_file_type", "disk_full"],
  }),
  "models.upload": endpoint({
    method: "POST",
    path: "/api/v3/models/upload",
    tag: "administration",
    summary:
      "Upload a GGUF file as a base model; the file is checked first. Uploading the same file again returns the same model.",
    query: { type: "object", additionalProperties: false, properties: { name, sha256 } },
    upload: { many: false, model: true },
    reply: baseModelRecord,
    errors: ["model_invalid", "model_file_type", "too_large", "disk_full", "unsupported_media_type"],
  }),
  "models.download": endpoint({
    method: "GET",
    path: "/api/v3/models/{model_id}/download",
    tag: "models",
    summary:
      "Download the adapter of an aligned model: as GGUF for llama.cpp, or as PEFT (a tar archive) for PyTorch and vLLM.",
    params: modelId,
    query: {
      type: "object",
      additionalProperties: false,
      required: ["format"],
      properties: { format: { enum: ["gguf", "peft"] } },
    },
    reply: { type: "string", contentMediaType: "application/octet-stream" },
    download: ["application/octet-stream", "application/x-tar"],
    errors: ["not_found"],
  }),
  "models.deploy": endpoint({
    method: "POST",
    path: "/api/v3/models/deploy-model/{model_id}",
    tag: "models",
    summary: "Load an aligned model for inference. If the model is already deployed, the reply is its READY task.",
    params: modelId,
    reply: deploymentTask,
    errors: ["not_found", "conflict"],
  }),
  "models.undeploy": endpoint({
    method: "POST",
    path: "/api/v3/models/undeploy-model/{model_id}",
    tag: "models",
    summary: "Take an aligned model out of service; running answers finish first.",
    params: modelId,
    reply: deploymentTask,
    errors: ["not_found", "conflict"],
  }),
  "models.deployment": endpoint({
    method: "GET",
    path: "/api/v3/models/deploy-model/{model_id}/status",
    tag: "models",
    summary: "Get the latest deployment task of a model; 404 if it never had one.",
    params: modelId,
    reply: deploymentTask,
    errors: ["not_found"],
  }),
} as const;
