import { timestamp } from "./common.ts";
import { endpoint } from "./endpoint.ts";

const bytes = { type: "integer", minimum: 0 } as const;
const names = { type: "array", items: { type: "string" } } as const;

export const system = {
  "system.health": endpoint({
    method: "GET",
    path: "/healthz",
    tag: "system",
    summary: "Check that the process is alive; `degraded` lists what is not working.",
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
    summary: "Check that every model marked as deployed is serving; 503 until then.",
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
    summary: "Get the appliance's metrics, in Prometheus format. On this machine no key is needed.",
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
    summary: "List the names that requests may use on this appliance: alignment presets and configured upstreams.",
    anyScope: true,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["presets", "upstreams"],
      properties: {
        presets: { ...names, description: "Values for `workflow_id`." },
        upstreams: { ...names, description: "Values for `X-Provider` and for fields named provider." },
      },
    },
    errors: [],
  }),
  "system.memory": endpoint({
    method: "GET",
    path: "/api/v3/system/memory",
    tag: "administration",
    summary: "List the devices, and who holds how much of their memory.",
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
          description: "Memory that is reserved, whether it is used yet or not.",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["holder", "machine_bytes", "gpu_bytes", "threads"],
            properties: {
              holder: { type: "string", description: "The model or run that holds the memory." },
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
    summary:
      "Get the last log lines since the start, newest first. The appliance keeps 500 lines of level info and above.",
    watched: true,
    query: {
      type: "object",
      additionalProperties: false,
      properties: {
        level: { enum: ["info", "warn", "error"], default: "info", description: "The lowest level to return." },
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
