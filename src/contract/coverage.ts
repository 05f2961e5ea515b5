// The rows that a study made from the documents, passage by passage.
import type { FromSchema } from "json-schema-to-ts";

const count = { type: "integer", minimum: 0 } as const;

/** Why a passage has no row: it is code, or nothing was found in it that is worth asking about. */
export const uncovered = ["code", "nothing_told"] as const;

export const passageCoverage = {
  type: "object",
  additionalProperties: false,
  required: ["start", "end", "heading", "rows", "written", "none"],
  properties: {
    start: { ...count, description: "Offset in the document's clean text, in UTF-16 code units." },
    end: count,
    heading: { type: "string", description: "Title and headings above it, outermost first." },
    rows: count,
    written: { ...count, description: "Rows in a writer's words rather than the document's." },
    none: { enum: [...uncovered, null], description: "Why there is no row; null if there is one." },
  },
} as const;

export const coverage = {
  type: "object",
  additionalProperties: false,
  required: ["content", "covered", "written", "documents"],
  properties: {
    content: { ...count, description: "Passages that are not code." },
    covered: { ...count, description: "How many of these have a row." },
    written: { ...count, description: "How many of these have a row in a writer's words." },
    documents: {
      type: "array",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["document_id", "name", "passages"],
        properties: {
          document_id: { type: "string" },
          name: { type: "string" },
          passages: { type: "array", items: passageCoverage },
        },
      },
    },
  },
} as const;

export type PassageCoverage = FromSchema<typeof passageCoverage>;
export type Coverage = FromSchema<typeof coverage>;
