import { id, idParam, name, nullableTimestamp, page, pageQuery, timestamp, usageSums } from "./common.ts";
import { endpoint, scopes } from "./endpoint.ts";

const userName = { type: "string", pattern: "^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$" } as const;
const limit = { type: ["integer", "null"], minimum: 1, maximum: 1_000_000_000_000, default: null } as const;
const limits = {
  requests_per_minute: limit,
  tokens_per_minute: limit,
  tokens_per_day: { ...limit, description: "Counted per UTC day." },
} as const;
const date = "^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])";
const scopeList = {
  type: "array",
  minItems: 1,
  maxItems: scopes.length,
  uniqueItems: true,
  items: { type: "string", enum: scopes },
} as const;

export const keySettings = {
  type: "object",
  additionalProperties: false,
  properties: {
    user: {
      ...userName,
      description: "The user that the key belongs to. A user other than yourself requires the scope admin.",
    },
    name: { ...name, minLength: 0, default: "", description: "What the key is for." },
    scopes: { ...scopeList, description: "Default: the scopes of the key that makes the request, without admin." },
    expires_at: {
      type: ["string", "null"],
      pattern: `${date}T([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,3})?Z$`,
      default: null,
      description: "ISO 8601, UTC",
    },
    ...limits,
  },
} as const;

const keyProperties = {
  id: { ...id, examples: ["key_0s6d4f8g2h5j9k1m7n3b6v0c"] },
  prefix: { type: "string", description: "The first characters of the key." },
  user: { type: "string" },
  name: { type: "string" },
  scopes: scopeList,
  ...limits,
  created_at: timestamp,
  expires_at: nullableTimestamp,
  revoked_at: nullableTimestamp,
  last_used_at: { ...nullableTimestamp, description: "Time of its last inference request." },
  previous_until: { ...nullableTimestamp, description: "Until this time the key's previous secret is still accepted." },
} as const;

export const keyRecord = {
  type: "object",
  additionalProperties: false,
  required: Object.keys(keyProperties) as (keyof typeof keyProperties)[],
  properties: keyProperties,
} as const;

export const newKey = {
  type: "object",
  additionalProperties: false,
  required: [...keyRecord.required, "key"],
  properties: { ...keyProperties, key: { type: "string", description: "The whole key. It is shown only once." } },
} as const;

export const graceSeconds = { type: "integer", minimum: 0, maximum: 2_592_000, default: 3600 } as const;

const keyId = idParam("key_id");
const day = { type: "string", pattern: `${date}$` } as const;
const ofUser = { ...userName, description: "Another user; requires the scope admin." } as const;

export const access = {
  "access.claim": endpoint({
    method: "POST",
    path: "/claim",
    tag: "system",
    summary:
      "Create the first key with the token that `plumbline serve` printed. Allowed once, from this machine, within half an hour. From then on the appliance also listens on PLUMBLINE_HOST.",
    open: "loopback",
    body: {
      type: "object",
      additionalProperties: false,
      required: ["token", "user"],
      properties: { token: { type: "string", minLength: 1, maxLength: 200 }, user: userName },
    },
    reply: newKey,
    errors: ["unauthorized", "forbidden", "already_claimed", "claim_expired", "too_many_requests"],
  }),
  "keys.create": endpoint({
    method: "POST",
    path: "/api/v3/keys",
    tag: "keys",
    summary:
      "Create an API key, with no more rights than the key that makes the request. The key is shown only once, so Idempotency-Key is ignored here.",
    body: keySettings,
    reply: newKey,
    errors: [],
  }),
  "keys.list": endpoint({
    method: "GET",
    path: "/api/v3/keys",
    tag: "keys",
    summary: "List your API keys, newest first.",
    query: { type: "object", additionalProperties: false, properties: { user: ofUser, ...page } },
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["keys"],
      properties: { keys: { type: "array", items: keyRecord } },
    },
    errors: ["not_found"],
  }),
  "keys.current": endpoint({
    method: "GET",
    path: "/api/v3/keys/current",
    tag: "keys",
    summary: "Get the key that makes the request: its user, scopes and limits.",
    anyScope: true,
    reply: keyRecord,
    errors: [],
  }),
  "keys.revoke": endpoint({
    method: "DELETE",
    path: "/api/v3/keys/{key_id}",
    tag: "keys",
    summary: "Revoke a key. Requests in progress finish; the next request with the key is refused.",
    params: keyId,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["id", "message"],
      properties: { id, message: { type: "string" } },
    },
    errors: ["not_found", "conflict"],
  }),
  "keys.rotate": endpoint({
    method: "POST",
    path: "/api/v3/keys/{key_id}/rotate",
    tag: "keys",
    summary:
      "Give a key a new secret. The old secret works until the grace period ends. Id, scopes, limits and usage stay the same.",
    params: keyId,
    body: { type: "object", additionalProperties: false, properties: { grace_seconds: graceSeconds } },
    reply: newKey,
    errors: ["not_found", "conflict"],
  }),
  "usage.list": endpoint({
    method: "GET",
    path: "/api/v3/usage",
    tag: "keys",
    summary: "Tokens used by day, model and key, newest day first. Each inference request counts once.",
    query: {
      type: "object",
      additionalProperties: false,
      properties: {
        from: { ...day, description: "First day (UTC)." },
        to: { ...day, description: "Last day (UTC)." },
        user: ofUser,
        ...page,
      },
    },
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["usage", "total"],
      properties: {
        usage: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["day", "model_id", "key_id", "requests", "prompt_tokens", "completion_tokens"],
            properties: {
              day,
              model_id: { type: "string" },
              key_id: { type: "string" },
              requests: { type: "integer" },
              prompt_tokens: { type: "integer" },
              completion_tokens: { type: "integer" },
            },
          },
        },
        total: usageSums,
      },
    },
    errors: ["not_found"],
  }),
  "users.list": endpoint({
    method: "GET",
    path: "/api/v3/users",
    tag: "administration",
    summary: "List all users who have or had a key. Creating a key for a new name creates the user.",
    query: pageQuery,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["users"],
      properties: {
        users: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["name", "created_at", "live_keys"],
            properties: { name: { type: "string" }, created_at: timestamp, live_keys: { type: "integer" } },
          },
        },
      },
    },
    errors: [],
  }),
  "audit.list": endpoint({
    method: "GET",
    path: "/api/v3/audit",
    tag: "administration",
    summary: "List administrative actions, newest first: who did what to what.",
    query: pageQuery,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["acts"],
      properties: {
        acts: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["seq", "at", "actor", "key_id", "act", "subject", "detail", "request_id"],
            properties: {
              seq: { type: "integer" },
              at: timestamp,
              actor: {
                type: "string",
                description: "A user, or `(console)` for someone working on the machine itself.",
              },
              key_id: { type: ["string", "null"] },
              act: { type: "string" },
              subject: { type: "string" },
              detail: { type: "object" },
              request_id: { type: ["string", "null"] },
            },
          },
        },
      },
    },
    errors: [],
  }),
} as const;
