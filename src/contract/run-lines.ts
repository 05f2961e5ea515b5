// The JSON lines that the appliance and a run exchange on the run's stdin and stdout, and the run's exit codes. Data only.
import type { FromSchema } from "json-schema-to-ts";

const count = { type: "integer", minimum: 0 } as const;

/**
 * A line on the run's stdin. `stop` ends the run after the current step, with the outcome stopped. All commands except answers are
 * acknowledged or refused.
 */
export const runCommand = {
  type: "object",
  additionalProperties: false,
  required: ["seq", "command"],
  properties: {
    /** Number of the command; for an answer, the seq of its question. */
    seq: { type: "integer", minimum: 1 },
    command: { enum: ["pause", "resume", "stop", "answer"] },
    /** For an answer: the judge's text, or the preference model's score for each answer that the question contained. */
    said: { type: ["string", "array"], items: { type: "number" } },
    /** For an answer: why the question could not be answered. */
    failed: { type: "string" },
  },
} as const;

export type RunCommand = FromSchema<typeof runCommand>;

/**
 * A question to a model that the request names and the run has not loaded. The appliance asks that model, because a run opens no
 * network connection and loads no other model.
 */
export const modelQuestion = {
  anyOf: [
    {
      type: "object",
      additionalProperties: false,
      required: ["of", "content", "choices"],
      properties: {
        of: { const: "judge" },
        /** One message. */
        content: { type: "string" },
        /** The answers that the judge may give. */
        choices: { type: "array", minItems: 2, items: { type: "string" } },
      },
    },
    {
      type: "object",
      additionalProperties: false,
      required: ["of", "prompt", "answers"],
      properties: {
        of: { const: "preference_model" },
        prompt: { type: "string" },
        answers: { type: "array", minItems: 1, items: { type: "string" } },
      },
    },
  ],
} as const;

export type ModelQuestion = FromSchema<typeof modelQuestion>;

/**
 * A line on the run's stdout: an acknowledgement or refusal of a command, a heartbeat (once a second as long as the event loop is
 * not blocked), or a question.
 */
export const runReply = {
  type: "object",
  additionalProperties: false,
  required: ["kind"],
  properties: {
    kind: { enum: ["ack", "refused", "heartbeat", "ask"] },
    seq: { type: "integer", minimum: 1 },
    message: { type: "string" },
    events: count,
    /** The question of an `ask`. The answer is a command with the same seq, which is not acknowledged. */
    question: modelQuestion,
  },
} as const;

export type RunReply = FromSchema<typeof runReply>;

/** Exit codes of `plumbline run <folder>`. */
export const runExit = { completed: 0, failed: 1, invalid: 2, stopped: 3, look: 4, paused: 5, locked: 75 } as const;
