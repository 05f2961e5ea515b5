import { chat } from "./chat.ts";
import { chatBody } from "./chat-body.ts";
import { id, idempotencyHeaders, idParam, name, nullableTimestamp, pageQuery, timestamp } from "./common.ts";
import { endpoint } from "./endpoint.ts";
import { inferenceErrors } from "./inference-common.ts";

export const agentStatuses = ["ACTIVE", "INACTIVE"] as const;

const longText = { type: "string", maxLength: 20_000, pattern: "^[^\\u0000]*$" } as const;
const long = { ...longText, default: "" } as const;
const model = { ...id, description: "A base model, or one of your aligned models." } as const;
const temperature = { type: "number", minimum: 0, maximum: 2 } as const;
const figure = { type: ["number", "null"] } as const;

export const agentInfo = {
  type: "object",
  additionalProperties: false,
  required: [
    "id",
    "name",
    "description",
    "base_model",
    "base_model_name",
    "created_date",
    "status",
    "creator",
    "endpoint",
    "usage_count",
    "performance_metrics",
    "system_prompt",
    "temperature",
    "last_used",
    "conversation_saving_enabled",
  ],
  properties: {
    id: { type: "string", examples: ["agent_5m2k8q0z7c4n9x1v6b3a0s2d"] },
    name,
    description: { type: "string" },
    base_model: { type: "string", description: "The base or aligned model that answers." },
    base_model_name: { type: "string" },
    created_date: timestamp,
    status: { enum: agentStatuses, description: "ACTIVE while its model can answer." },
    creator: { type: "string" },
    endpoint: { type: "string", description: "URL that answers chat completions as this agent." },
    usage_count: { type: "integer", minimum: 0 },
    performance_metrics: {
      type: "object",
      additionalProperties: false,
      required: ["average_uncertainty", "human_interventions", "average_response_time", "user_satisfaction_score"],
      description: "Computed from its answers and the feedback on them; null before the first answer.",
      properties: {
        average_uncertainty: { ...figure, description: "100 minus the mean confidence score; aligned models only." },
        human_interventions: { type: ["integer", "null"] },
        average_response_time: { ...figure, description: "Seconds." },
        user_satisfaction_score: { ...figure, description: "Mean rating, 0 to 100." },
      },
    },
    system_prompt: { type: "string" },
    temperature,
    last_used: nullableTimestamp,
    conversation_saving_enabled: { type: "boolean" },
  },
} as const;

const oneAgent = {
  type: "object",
  additionalProperties: false,
  required: ["data"],
  properties: { data: agentInfo },
} as const;

const headers = {
  type: "object",
  properties: { "x-session-id": { type: "string", maxLength: 256, pattern: "^[\\x21-\\x7e]*$" } },
} as const;

/** The default depends on the model's context, so the schema sets none. */
const { default: _, ...promptTruncateLen } = chatBody.properties.prompt_truncate_len;

const agentId = idParam("agent_id");
const answering = [
  "not_found",
  "not_deployed",
  "prompt_too_long",
  "template_failed",
  "engine_busy",
  "out_of_memory",
  "load_cooling",
] as const;

export const agents = {
  "agents.create": endpoint({
    method: "POST",
    path: "/api/v3/agents",
    tag: "agents",
    summary: "Create an agent: a model with its own system prompt and temperature.",
    headers: idempotencyHeaders,
    body: {
      type: "object",
      additionalProperties: false,
      required: ["name", "base_model"],
      properties: {
        name,
        description: long,
        base_model: model,
        system_prompt: long,
        temperature: { ...temperature, default: 1 },
        conversation_saving_enabled: { type: "boolean", default: false },
      },
    },
    reply: oneAgent,
    errors: ["not_found", "wrong_kind"],
  }),
  "agents.list": endpoint({
    method: "GET",
    path: "/api/v3/agents",
    tag: "agents",
    summary: "List your agents, newest first.",
    query: pageQuery,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["data"],
      properties: { data: { type: "array", items: agentInfo } },
    },
    errors: [],
  }),
  "agents.get": endpoint({
    method: "GET",
    path: "/api/v3/agents/{agent_id}",
    tag: "agents",
    summary: "Get an agent, with figures about its use.",
    params: agentId,
    reply: oneAgent,
    errors: ["not_found"],
  }),
  "agents.update": endpoint({
    method: "PATCH",
    path: "/api/v3/agents/{agent_id}",
    tag: "agents",
    summary: "Change an agent. Only the fields that are sent change. Its conversations and figures are kept.",
    params: agentId,
    body: {
      type: "object",
      additionalProperties: false,
      minProperties: 1,
      properties: {
        name,
        description: longText,
        base_model: model,
        system_prompt: longText,
        temperature,
        conversation_saving_enabled: { type: "boolean" },
      },
      examples: [{ system_prompt: "You answer from the harbour handbook, in one sentence.", temperature: 0.2 }],
    },
    reply: oneAgent,
    errors: ["not_found", "wrong_kind"],
  }),
  "agents.delete": endpoint({
    method: "DELETE",
    path: "/api/v3/agents/{agent_id}",
    tag: "agents",
    summary: "Delete an agent with its saved conversations and feedback.",
    params: agentId,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["agent_id", "message"],
      properties: { agent_id: { type: "string" }, message: { type: "string" } },
    },
    errors: ["not_found"],
  }),
  "agents.run": endpoint({
    method: "POST",
    path: "/api/v3/agents/{agent_id}/run/",
    aliases: ["/api/v3/agents/{agent_id}/run"],
    tag: "agents",
    summary:
      "Send a message to an agent. If the agent saves conversations, X-Session-ID continues the conversation of that name.",
    generates: true,
    params: agentId,
    headers,
    body: {
      type: "object",
      additionalProperties: false,
      required: ["message"],
      properties: { message: { type: "string", minLength: 1, pattern: "^[^\\u0000]*$" } },
    },
    largeBody: true,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["agent_id", "model", "response", "usage"],
      properties: {
        agent_id: { type: "string" },
        model: { type: "string" },
        response: { type: "string" },
        usage: {
          type: "object",
          additionalProperties: false,
          required: ["total_tokens", "input_tokens", "output_tokens"],
          properties: {
            total_tokens: { type: "integer" },
            input_tokens: { type: "integer" },
            output_tokens: { type: "integer" },
          },
        },
      },
    },
    errors: answering,
  }),
  "agents.completions": endpoint({
    method: "POST",
    path: "/api/v3/agents/{agent_id}/chat/completions",
    tag: "agents",
    summary:
      "Create a chat completion with an agent's model and system prompt, and with its temperature unless the request sets one.",
    generates: true,
    params: agentId,
    headers,
    body: {
      ...chatBody,
      required: ["messages"],
      properties: {
        ...chatBody.properties,
        model: { ...chatBody.properties.model, description: "Ignored: the agent's model answers." },
        prompt_truncate_len: {
          ...promptTruncateLen,
          description: "Default: the model's context, less the room for the answer.",
        },
        temperature: {
          type: ["number", "null"],
          minimum: 0,
          maximum: 2,
          description: "Default: the agent's temperature.",
        },
      },
      examples: [{ messages: [{ role: "user", content: "How many days off has a new colleague?" }] }],
    },
    largeBody: true,
    reply: chat["inference.chat"].reply,
    events: chat["inference.chat"].events,
    errors: [...inferenceErrors, "template_failed"],
  }),
  "agents.conversations": endpoint({
    method: "GET",
    path: "/api/v3/agents/{agent_id}/conversations",
    tag: "agents",
    summary: "List the conversations that an agent saved, newest first.",
    params: agentId,
    query: {
      ...pageQuery,
      properties: { ...pageQuery.properties, session_id: { type: "string", maxLength: 256 } },
    },
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["turns"],
      properties: {
        turns: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["session_id", "role", "content", "at"],
            properties: {
              session_id: { type: ["string", "null"] },
              role: { enum: ["user", "assistant"] },
              content: { type: "string" },
              at: timestamp,
            },
          },
        },
      },
    },
    errors: ["not_found"],
  }),
  "agents.feedback": endpoint({
    method: "POST",
    path: "/api/v3/agents/{agent_id}/feedback",
    tag: "agents",
    summary: "Record how a person rated an answer, and whether they had to intervene.",
    params: agentId,
    headers: idempotencyHeaders,
    body: {
      type: "object",
      additionalProperties: false,
      anyOf: [{ required: ["rating"] }, { required: ["intervention"] }],
      properties: {
        rating: { type: "number", minimum: 0, maximum: 100 },
        intervention: { type: "boolean" },
        request_id: {
          ...id,
          description: "The X-Request-Id of the rated answer. Without it, the feedback is about the agent as a whole.",
        },
      },
      examples: [{ rating: 80, intervention: false }],
    },
    reply: oneAgent,
    errors: ["not_found"],
  }),
} as const;
