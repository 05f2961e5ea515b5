// Schema parts that several endpoints share.
import { hiddenCharacters } from "../base/visible.ts";

/** An id in a path. Any text is accepted, and a text that is not an id leads to not_found. */
const pathId = { type: "string", minLength: 1, maxLength: 200 } as const;
export const id = { ...pathId, pattern: "^[^\\u0000]*$" } as const;
/** Text without NUL characters. The JSON reader refuses them too, and SQLite would end a text there. */
export const text = { type: "string", pattern: "^[^\\u0000]*$" } as const;
/** Large enough for every count, and exact as a JSON number. */
export const mostCount = 1_000_000_000;
/** Names are shown in terminals, pages and logs, so they may not contain hidden characters. */
export const name = { type: "string", minLength: 1, maxLength: 200, pattern: `^[^${hiddenCharacters}]*$` } as const;
export const timestamp = { type: "string", description: "ISO 8601, UTC" } as const;
export const nullableTimestamp = { type: ["string", "null"], description: "ISO 8601, UTC" } as const;

/**
 * Rules between fields. They are checked and documented like the rest of the schema, but do not affect the type. A property
 * that may not be combined with others is `{ not: {}, description: … }`; its description is the error message.
 */
export const rules = (...all: object[]): object => ({ allOf: all });

/** If `condition` holds, `consequence` must hold too. If it does not, `otherwise` must hold, when that is given. */
export const whenever = (condition: object, consequence: object, otherwise?: object): object => ({
  if: condition,
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema.
  then: consequence,
  ...(otherwise === undefined ? {} : { else: otherwise }),
});

/** Matches objects that have these fields. */
export const having = (...fields: string[]) => ({ type: "object", required: fields }) as const;

/** Matches objects whose `field` has one of `values`. */
export const where = (field: string, ...values: (string | boolean | null)[]) =>
  ({ type: "object", required: [field], properties: { [field]: { enum: values } } }) as const;

/** A part of a message's content. Only text parts are supported. */
export const textPart = {
  type: "object",
  required: ["type"],
  properties: { type: { const: "text", description: "Images, files and documents are not supported." }, text },
  ...rules(whenever(where("type", "text"), having("text"))),
} as const;

/** Schema of path parameters that are a single id. */
export const idParam = <const K extends string>(key: K) =>
  ({
    type: "object",
    additionalProperties: false,
    required: [key],
    properties: { [key]: pathId } as { [P in K]: typeof pathId },
  }) as const;

/** Schema of the reply to a deletion, with the deleted id under `key`. */
export const deletion = <const K extends string>(key: K) =>
  ({
    type: "object",
    additionalProperties: false,
    required: [key, "message"],
    properties: { [key]: { type: "string" }, message: { type: "string" } } as {
      [P in K | "message"]: { readonly type: "string" };
    },
  }) as const;

/** Paging parameters. Query values arrive as text, and only a text of digits is read as a whole number. */
export const page = {
  limit: { type: "integer", minimum: 1, maximum: 100, default: 10 },
  offset: { type: "integer", minimum: 0, maximum: 9007199254740991, default: 0 },
} as const;

export const pageQuery = { type: "object", additionalProperties: false, properties: page } as const;

/** Usage summed over requests. */
export const usageSums = {
  type: "object",
  additionalProperties: false,
  required: ["requests", "prompt_tokens", "completion_tokens"],
  properties: {
    requests: { type: "integer" },
    prompt_tokens: { type: "integer" },
    completion_tokens: { type: "integer" },
  },
} as const;

/**
 * Headers of requests that create something. A request with a key is carried out only once, however often it is sent. Its reply is
 * stored for that, so an endpoint whose reply contains a secret must not use these headers.
 */
export const idempotencyHeaders = {
  type: "object",
  additionalProperties: false,
  properties: {
    "idempotency-key": {
      type: "string",
      pattern: "^[\\x21-\\x7e]{1,255}$",
      description:
        "Any text that is different for each new request, for example a UUID. For a day, repeating the same request with the same key does nothing new and returns the first answer, with the header Idempotent-Replayed. A failed request has created nothing and is tried again.",
    },
  },
} as const;

/** A score out of 100 with its 95 % Wilson interval over n items. */
export const score = {
  type: "object",
  additionalProperties: false,
  required: ["score", "low", "high", "n"],
  properties: {
    score: { type: "number", minimum: 0, maximum: 100 },
    low: { type: "number", minimum: 0, maximum: 100 },
    high: { type: "number", minimum: 0, maximum: 100 },
    n: { type: "integer", minimum: 0 },
  },
} as const;

/** Notes on things that are valid, but that the owner may not expect. */
export const warnings = {
  type: "array",
  items: {
    type: "object",
    additionalProperties: false,
    required: ["code", "message"],
    properties: {
      code: { type: "string" },
      message: { type: "string" },
      parameters: {
        type: "object",
        additionalProperties: { type: ["string", "number"] },
        description: "The values in the message, for clients that have their own text for the code.",
      },
    },
  },
} as const;

/** Progress of long work. */
export const progressDetail = {
  type: "object",
  additionalProperties: false,
  required: ["phase", "done", "total", "unit", "rate", "seconds_left"],
  properties: {
    phase: { type: "string" },
    done: { type: "number" },
    total: { type: ["number", "null"] },
    unit: { type: "string" },
    rate: { type: ["number", "null"], description: "Units per second" },
    seconds_left: { type: ["number", "null"] },
  },
} as const;

/**
 * The body of errors: the contract's `detail`, and the `error` that OpenAI's clients read. The Messages endpoints have a different
 * body (messagesFailureBody).
 */
export const failureBody = {
  type: "object",
  additionalProperties: false,
  required: ["detail", "error"],
  properties: {
    detail: {
      anyOf: [
        { type: "string" },
        {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["loc", "msg", "type"],
            properties: {
              loc: { type: "array", items: { type: ["string", "integer"] } },
              msg: { type: "string" },
              type: { type: "string" },
              ctx: {
                type: "object",
                description: "The same as `msg`, field by field.",
                additionalProperties: { type: ["string", "null"] },
              },
            },
          },
        },
      ],
    },
    error: {
      type: "object",
      additionalProperties: false,
      required: ["message", "type", "param", "code", "hint", "request_id"],
      properties: {
        message: { type: "string" },
        type: { type: "string" },
        param: { type: ["string", "null"] },
        code: { type: "string" },
        hint: { type: "string" },
        request_id: { type: "string" },
      },
    },
  },
} as const;
