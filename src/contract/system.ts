import { timestamp } from "./common.ts";
import { endpoint } from "./endpoint.ts";

const bytes = { type: "integer", minimum: 0 } as const;
const names = { type: "array", items: { type: "string" } } as const;

export const system = {
  "system.health": endpoint({
    method: "GET",
    path: "/healthz",
    tag: "system",
    summary: "The process lives; `degraded` says what it cannot do now.",
    open: true,
    watched: true,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["status", "version", "uptime_seconds", "degraded"],
      properties: {
        status: { enum: ["ok", "degraded"] },
        version: { type: "string" },
        uptime_seconds: { type: "number" },
        degraded: { type: "array", items: { type: "string" } },
      },
    },
    errors: [],
  }),
  "system.ready": endpoint({
    method: "GET",
    path: "/readyz",
    tag: "system",
    summary: "Whether every model marked as deployed serves; 503 until then.",
    open: true,
    watched: true,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["ready", "waiting_for"],
      properties: { ready: { type: "boolean" }, waiting_for: { type: "array", items: { type: "string" } } },
    },
    errors: ["not_ready"],
  }),
  "system.metrics": endpoint({
    method: "GET",
    path: "/metrics",
    tag: "administration",
    summary: "What the appliance counts of itself, for Prometheus. On this machine without a key.",
    open: "key_elsewhere",
    watched: true,
    text: "text/plain",
    reply: { type: "string" },
    errors: [],
  }),
  "system.choices": endpoint({
    method: "GET",
    path: "/api/v3/system/choices",
    tag: "system",
    summary: "Names that requests may give on this appliance: presets of alignments, and configured upstreams.",
    anyScope: true,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["presets", "upstreams"],
      properties: {
        presets: { ...names, description: "For `workflow_id`." },
        upstreams: { ...names, description: "For `X-Provider` and the fields called provider." },
      },
    },
    errors: [],
  }),
  "system.memory": endpoint({
    method: "GET",
    path: "/api/v3/system/memory",
    tag: "administration",
    summary: "The devices, and who holds how much of their memory.",
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["devices", "threads", "grants"],
      properties: {
        devices: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["device", "total_bytes", "free_bytes"],
            properties: { device: { enum: ["machine", "gpu"] }, total_bytes: bytes, free_bytes: { type: "integer" } },
          },
        },
        threads: {
          type: "object",
          additionalProperties: false,
          required: ["total", "free"],
          properties: { total: { type: "integer" }, free: { type: "integer" } },
        },
        grants: {
          type: "array",
          description: "Memory that is promised, whether it is in use yet or not.",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["holder", "machine_bytes", "gpu_bytes", "threads"],
            properties: {
              holder: { type: "string", description: "What it is held for: a model or a run." },
              machine_bytes: bytes,
              gpu_bytes: bytes,
              threads: { type: "integer" },
            },
          },
        },
      },
    },
    errors: [],
  }),
  "system.log": endpoint({
    method: "GET",
    path: "/api/v3/system/log",
    tag: "administration",
    summary: "The last lines of the log since the start, newest first; 500 are kept, of level info and above.",
    watched: true,
    query: {
      type: "object",
      additionalProperties: false,
      properties: {
        level: { enum: ["info", "warn", "error"], default: "info", description: "The least." },
        limit: { type: "integer", minimum: 1, maximum: 500, default: 100 },
      },
    },
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["lines"],
      properties: {
        lines: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["at", "level", "event", "fields"],
            properties: {
              at: timestamp,
              level: { enum: ["info", "warn", "error"] },
              event: { type: "string" },
              fields: { type: "object" },
            },
          },
        },
      },
    },
    errors: [],
  }),
} as const;
