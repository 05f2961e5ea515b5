// Makes all error bodies: the contract's `detail` and, beside it, the `error` that OpenAI's clients read.
import { Failure, type FailureCode, failures, type ValidationDetail } from "../base/errors.ts";
import type { StreamEvent } from "../contract/endpoint.ts";

export interface FailureBody {
  detail: string | ValidationDetail[];
  error: { message: string; type: string; param: string | null; code: string; hint: string; request_id: string };
}

/** Maximum number of details in a body, because more would not help. */
const maxDetails = 50;

/** Turns anything thrown into a Failure. An error of any other class becomes `internal`, and the client learns nothing about it. */
export const toFailure = (error: unknown): Failure =>
  error instanceof Failure ? error : new Failure("internal", undefined, { cause: error });

export function failureBody(failure: Failure, requestId: string): FailureBody {
  const details = failure.details?.slice(0, maxDetails);
  // By the contract, the detail of every 422 is a list.
  const whole =
    failure.status === 422 ? [{ loc: ["body"], msg: failure.message, type: failure.code }] : failure.message;
  return {
    detail: details ?? whole,
    error: {
      message: failure.message,
      type: typeOf(failure),
      param: details?.[0] ? details[0].loc.slice(1).join(".") || null : null,
      code: failure.code,
      hint: failure.hint,
      request_id: requestId,
    },
  };
}

/** As failureBody, in Anthropic's envelope. */
function anthropicFailureBody(failure: Failure, requestId: string) {
  const { detail, error } = failureBody(failure, requestId);
  const type = anthropicTypes[failure.status] ?? (failure.status < 500 ? "invalid_request_error" : "api_error");
  const { message, code, hint } = error;
  return { type: "error" as const, error: { type, message, code, hint }, request_id: requestId, detail };
}

const anthropicTypes: Record<number, string> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
};

export type Dialect = "openai" | "anthropic";

/** A failure as a response body, and as an event of a stream that has begun. */
export const failureIn: Record<
  Dialect,
  { body(failure: Failure, requestId: string): unknown; event(failure: Failure, requestId: string): StreamEvent }
> = {
  openai: {
    body: failureBody,
    event: (failure, requestId) => ({ data: JSON.stringify({ error: failureBody(failure, requestId).error }) }),
  },
  anthropic: {
    body: anthropicFailureBody,
    event: (failure, requestId) => ({
      event: "error",
      data: JSON.stringify(anthropicFailureBody(failure, requestId)),
    }),
  },
};

function typeOf({ code, status }: Failure): string {
  if (code === "unauthorized") return "authentication_error";
  if (status === 403) return "permission_error";
  if (status === 404) return "not_found_error";
  if (status === 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

export function failureHeaders(failure: Failure): Record<string, string> {
  const headers: Record<string, string> = {};
  const row: { retry?: boolean } = failures[failure.code];
  if (failure.code === "unauthorized") headers["www-authenticate"] = "Bearer";
  if (row.retry && failure.status !== 408) headers["retry-after"] = String(failure.retryAfterSeconds ?? 1);
  return headers;
}

/** Failure codes by the error codes of Node's HTTP parser. */
const refused: Record<string, FailureCode> = {
  ERR_HTTP_REQUEST_TIMEOUT: "request_timeout",
  HPE_HEADER_OVERFLOW: "headers_too_large",
  HPE_CHUNK_EXTENSIONS_OVERFLOW: "too_large",
};

/** The complete raw response to a request that could not be parsed. */
export function rawAnswer(code: string | undefined, requestId: string): string {
  return rawFailure(new Failure(refused[code ?? ""] ?? "bad_request"), requestId);
}

export function rawFailure(failure: Failure, requestId: string): string {
  const body = JSON.stringify(failureBody(failure, requestId));
  return [
    `HTTP/1.1 ${failure.status} ${failure.code}`,
    "Connection: close",
    "Content-Type: application/json; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Request-Id: ${requestId}`,
    "",
    body,
  ].join("\r\n");
}
