import { endpoint } from "./endpoint.ts";

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
} as const;
