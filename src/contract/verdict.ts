import type { FromSchema } from "json-schema-to-ts";

/** The summary that a finished run reports first. */
export const runVerdict = {
  type: "object",
  additionalProperties: false,
  required: ["outcome", "headline", "why", "help", "fell"],
  properties: {
    outcome: {
      enum: ["gain", "unproven", "no_gain", "unmeasured"],
      description: "Measured on the dev questions, against the base; unproven if chance may explain the gain.",
    },
    headline: { type: "string" },
    why: { type: "array", items: { type: "string" } },
    help: { type: "array", items: { type: "string" }, description: "What would help, most helpful first." },
    dev: {
      type: ["object", "null"],
      description:
        "Scores on the dev questions, and how many answers became correct or wrong; null without dev questions, absent in reports of older versions.",
      additionalProperties: false,
      required: ["n", "base", "aligned", "gained", "lost"],
      properties: {
        n: { type: "integer" },
        base: { type: "number" },
        aligned: { type: "number" },
        gained: { type: "integer" },
        lost: { type: "integer" },
      },
    },
    fell: {
      type: "array",
      description: "Regression suites in which the model does worse than its base, and exceeded limits of divergence.",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["name", "base", "aligned", "beyond_chance"],
        properties: {
          name: { type: "string" },
          base: { type: "number" },
          aligned: { type: "number" },
          beyond_chance: { type: "boolean" },
        },
      },
    },
  },
} as const;

export type RunVerdict = FromSchema<typeof runVerdict>;
