// What the promises about inference share.
import { mostSeatContext } from "../base/config.ts";
import type { FailureCode } from "../base/errors.ts";

const root = "/api/v3/inference";

/**
 * A path under the inference address, the same under its `v1`, for tools that insist on that, and under `/v1` of the host, for those
 * that know no other.
 */
export const inferencePaths = <const P extends string>(path: P, ...others: string[]) => ({
  path: `${root}/${path}` as const,
  aliases: [path, ...others].flatMap((one) => [`${root}/${one}`, `${root}/v1/${one}`, `/v1/${one}`]).slice(1),
});

/** X-Provider is described where an endpoint forwards; elsewhere it is taken to be refused with a sentence. */
export const inferenceHeaders = {
  type: "object",
  properties: {
    "x-session-id": { type: "string", maxLength: 256, pattern: "^[\\x21-\\x7e]*$" },
    "x-provider": { type: "string", maxLength: 256 },
  },
} as const;

export const optionalModel = {
  type: "string",
  minLength: 1,
  maxLength: 200,
  description: "An aligned model id, or a base model's. May be left out while one base of the kind is installed.",
} as const;

/** Of one text. No seat holds more; the seats that there are, or the model, mostly hold fewer, and say so before the ids are read. */
export const tokenIds = {
  type: "array",
  minItems: 1,
  maxItems: mostSeatContext,
  items: { type: "integer", minimum: 0, maximum: 2147483647 },
} as const;

export const inferenceErrors: readonly FailureCode[] = [
  "not_found",
  "not_deployed",
  "wrong_kind",
  "prompt_too_long",
  "engine_busy",
  "out_of_memory",
  "load_cooling",
  "load_ended_appliance",
];

/** Of routes that an upstream may answer. */
export const forwardingErrors: readonly FailureCode[] = [...inferenceErrors, "upstream_failed"];

/** Of every answer. */
export const answerHead = { id: { type: "string" }, created: { type: "integer" }, model: { type: "string" } } as const;

export const usage = {
  type: "object",
  additionalProperties: false,
  required: ["prompt_tokens", "completion_tokens", "total_tokens"],
  properties: {
    prompt_tokens: { type: "integer" },
    completion_tokens: { type: "integer" },
    total_tokens: { type: "integer" },
    prompt_tokens_details: {
      type: "object",
      additionalProperties: false,
      properties: { cached_tokens: { type: "integer" }, truncated_tokens: { type: "integer" } },
    },
    completion_tokens_details: {
      type: "object",
      additionalProperties: false,
      properties: { reasoning_tokens: { type: "integer" } },
    },
  },
} as const;

/** What a model says may be any text. */
export const said = { type: "string" } as const;

export const stopReason = {
  type: ["string", "null"],
  description: "The stop string that ended the answer, where one did.",
} as const;
