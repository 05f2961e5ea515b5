import { id, idParam, name, nullableTimestamp, page, pageQuery, timestamp, usageSums } from "./common.ts";
import { endpoint, scopes } from "./endpoint.ts";

const userName = { type: "string", pattern: "^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$" } as const;
const limit = { type: ["integer", "null"], minimum: 1, maximum: 1_000_000_000_000, default: null } as const;
const limits = {
  requests_per_minute: limit,
  tokens_per_minute: limit,
  tokens_per_day: { ...limit, description: "A day of UTC." },
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
    user: { ...userName, description: "Whom it belongs to; another than yourself only with the scope admin." },
    name: { ...name, minLength: 0, default: "", description: "What it is for." },
    scopes: { ...scopeList, description: "Default: those of the key that asks; where it has admin, all but admin." },
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
  prefix: { type: "string", description: "What the key begins with." },
  user: { type: "string" },
  name: { type: "string" },
  scopes: scopeList,
  ...limits,
  created_at: timestamp,
  expires_at: nullableTimestamp,
  revoked_at: nullableTimestamp,
  last_used_at: { ...nullableTimestamp, description: "Its last inference request." },
  previous_until: { ...nullableTimestamp, description: "Until then the key before the last rotation still opens." },
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
  properties: { ...keyProperties, key: { type: "string", description: "The whole key, shown this once." } },
} as const;

export const graceSeconds = { type: "integer", minimum: 0, maximum: 2_592_000, default: 3600 } as const;

const keyId = idParam("key_id");
const day = { type: "string", pattern: `${date}$` } as const;
const ofUser = { ...userName, description: "Another user; asks for the scope admin." } as const;

export const access = {
  "access.claim": endpoint({
    method: "POST",
    path: "/claim",
    tag: "system",
    summary:
      "Make the first key, with the token that `plumbline serve` printed; from this machine only, once, within half an hour. PLUMBLINE_HOST is listened on from then on.",
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
      "Make an API key that may no more than the one that asks. It is shown this once, so no Idempotency-Key is read here.",
    body: keySettings,
    reply: newKey,
    errors: [],
  }),
  "keys.list": endpoint({
    method: "GET",
    path: "/api/v3/keys",
    tag: "keys",
    summary: "Your API keys, newest first.",
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
    summary: "The key that asks: whose it is, its scopes and its limits.",
    anyScope: true,
    reply: keyRecord,
    errors: [],
  }),
  "keys.revoke": endpoint({
    method: "DELETE",
    path: "/api/v3/keys/{key_id}",
    tag: "keys",
    summary: "Revoke a key. Answers under way end; the next request with it is refused.",
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
    summary: "Give a key a new secret; the old one opens for the grace. Id, scopes, limits and what was used stay.",
    params: keyId,
    body: { type: "object", additionalProperties: false, properties: { grace_seconds: graceSeconds } },
    reply: newKey,
    errors: ["not_found", "conflict"],
  }),
  "usage.list": endpoint({
    method: "GET",
    path: "/api/v3/usage",
    tag: "keys",
    summary: "Tokens by day, model and key, newest day first. Each inference request counts once.",
    query: {
      type: "object",
      additionalProperties: false,
      properties: {
        from: { ...day, description: "First day, UTC." },
        to: { ...day, description: "Last day, UTC." },
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
    summary: "Everybody who has or had a key. Making a key for a new name makes the user.",
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
    summary: "Administrative acts, newest first: who did what to what.",
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
              actor: { type: "string", description: "A user; `(console)` is whoever sat at the machine." },
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
