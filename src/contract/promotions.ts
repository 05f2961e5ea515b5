import { having, id, idParam, name, page, rules, timestamp, whenever, where } from "./common.ts";
import { comparison } from "./comparisons.ts";
import { endpoint } from "./endpoint.ts";

/** Evidence for and against promoting a model in place of another. */
const verdict = {
  type: "object",
  additionalProperties: false,
  required: ["compared_with", "comparisons", "limits", "unproven"],
  properties: {
    compared_with: { type: "string", description: "The model that was promoted until then, or the base." },
    comparisons: {
      type: "array",
      items: {
        ...comparison,
        required: ["about", "name", "compared_with", ...comparison.required, "refused_from", "regressed", "lost_items"],
        properties: {
          about: { enum: ["sealed", "retention", "guard"] },
          name: { type: "string", description: "The benchmark or the guard." },
          compared_with: { type: "string", description: "A model, or `base` if a guard was measured on the base." },
          ...comparison.properties,
          refused_from: {
            type: "number",
            description: "In points: the size of a true loss that is refused in 95 % of all cases.",
          },
          regressed: {
            type: "boolean",
            description: "Worse by more than chance; the error rate of all comparisons together is 5 %.",
          },
          lost_items: {
            type: "array",
            items: {
              type: "object",
              additionalProperties: false,
              required: ["item", "text", "expected", "answer", "former_answer"],
              properties: {
                item: { type: "string" },
                text: { type: "string" },
                expected: { type: ["string", "null"] },
                answer: { type: ["string", "null"] },
                former_answer: { type: ["string", "null"] },
              },
            },
          },
        },
      },
    },
    limits: {
      type: "array",
      description: "Guards that have a limit.",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["name", "value", "most", "exceeded"],
        properties: {
          name: { type: "string" },
          value: { type: "number" },
          most: { type: "number" },
          exceeded: { type: "boolean" },
        },
      },
    },
    unproven: { type: ["string", "null"], description: "Why no sealed split could be compared." },
  },
} as const;

/**
 * A channel is a stable name that applications use instead of a model's. It belongs to one owner and one base model, and at most
 * one model is promoted to it at a time.
 */
const channel = {
  ...name,
  description:
    "Default: the model's name. Requests that name this channel get answers from the model currently promoted to it.",
} as const;

export const promotionRecord = {
  type: "object",
  additionalProperties: false,
  required: [
    "channel",
    "base_model_id",
    "act",
    "model_id",
    "replaced_model_id",
    "overridden",
    "reason",
    "verdict",
    "key_id",
    "at",
  ],
  properties: {
    channel: { type: "string" },
    base_model_id: { type: "string" },
    act: { enum: ["promote", "rollback"] },
    model_id: {
      type: ["string", "null"],
      description: "The model that is promoted after this act; null after the first promotion was rolled back.",
    },
    replaced_model_id: { type: ["string", "null"], description: "The model promoted until then." },
    overridden: {
      type: "boolean",
      description: "The promotion was refused at first, and carried out for the given reason.",
    },
    reason: { type: ["string", "null"] },
    verdict: { anyOf: [verdict, { type: "null" }], description: "null for a rollback, which needs no proof." },
    key_id: { type: "string" },
    at: timestamp,
  },
} as const;

const reason = { type: "string", minLength: 1, maxLength: 2000, pattern: "\\S" } as const;

export const promotions = {
  "models.promote": endpoint({
    method: "POST",
    path: "/api/v3/models/{model_id}/promote",
    tag: "models",
    summary:
      "Promote an aligned model to its channel, and deploy it if needed. If it does worse than the model it replaces by more than chance, the promotion is refused and the items are listed.",
    params: idParam("model_id"),
    body: {
      type: "object",
      additionalProperties: false,
      properties: {
        channel,
        override: {
          type: "boolean",
          description: "Promote the model even if it is refused; requires a reason. A reason alone also overrides.",
        },
        reason: { ...reason, description: "Stored with the promotion." },
      },
      ...rules(whenever(where("override", true), having("reason"))),
    },
    reply: promotionRecord,
    errors: ["not_found", "conflict", "promotion_refused", "disk_full"],
  }),
  "models.rollback": endpoint({
    method: "POST",
    path: "/api/v3/models/{model_id}/rollback",
    tag: "models",
    summary:
      "Roll back a promotion: the previous model is promoted again and deployed. If there is none, the channel is left without a model.",
    params: idParam("model_id"),
    body: {
      type: "object",
      additionalProperties: false,
      properties: {
        // Refers to an existing channel, so older names that `name` would refuse are accepted.
        channel: { ...id, description: "Required only if the model is promoted to several channels." },
        reason,
      },
    },
    reply: promotionRecord,
    errors: ["not_found", "conflict", "several_channels", "disk_full"],
  }),
  "models.promotions": endpoint({
    method: "GET",
    path: "/api/v3/promotions",
    tag: "models",
    summary: "List the promoted models, and all promotions and rollbacks, newest first.",
    query: { type: "object", additionalProperties: false, properties: { channel: id, ...page } },
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["promoted", "promotions", "total"],
      properties: {
        promoted: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["channel", "base_model_id", "model_id"],
            properties: {
              channel: { type: "string" },
              base_model_id: { type: "string" },
              model_id: { type: "string" },
            },
          },
        },
        promotions: { type: "array", items: promotionRecord },
        total: { type: "integer" },
      },
    },
    errors: [],
  }),
} as const;
