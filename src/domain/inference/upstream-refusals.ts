// Error responses of upstreams as failures, and which of them may pass.
import { Failure } from "../../base/errors.ts";

/** Statuses below 500 of requests that may be answered later: timeout, conflict, too early. */
const passing: ReadonlySet<number> = new Set([408, 409, 425]);

/**
 * The failure for an error response of the upstream. Errors that the client made keep the upstream's message. Errors
 * between the upstream and this appliance do not, because the client cannot solve them. `now`: wall time, ISO 8601.
 */
export function refusalOf(name: string, { status, headers }: Response, text: string, now: string): Failure {
  const words = `The upstream ${name} answered ${status}`;
  const retryAfterSeconds = retryAfterOf(headers.get("retry-after"), now);
  const more = {
    context: { status, text: text.slice(0, 2000) },
    ...(retryAfterSeconds !== null && { retryAfterSeconds }),
  };
  if (status === 401 || status === 403)
    return new Failure(
      "upstream_failed",
      `The upstream ${name} refused the key (${status}); PLUMBLINE_UPSTREAM_KEYS sets it`,
      more,
    );
  if (status < 400 || status >= 500 || passing.has(status)) return new Failure("upstream_failed", words, more);
  const said = `${words}${messageOf(text)}`;
  if (status === 404) return new Failure("not_found", said, more);
  return new Failure(status === 429 ? "too_many_requests" : "bad_request", said, more);
}

/** The body of the upstream's response if it refused what the request says; otherwise null. */
export const refusedWith = (error: unknown): string | null =>
  error instanceof Failure && error.code === "bad_request" ? String(error.context.text ?? "") : null;

/**
 * Whether the upstream failed in a way that may pass. Without a status, the connection failed or the response could not be
 * read.
 */
export function mayAnswerLater({ code, context: { status } }: Failure): boolean {
  return code === "upstream_failed" && (typeof status !== "number" || status >= 500 || passing.has(status));
}

/** Seconds that Retry-After asks to wait, which it says as a number or as a date; null if it says neither. */
function retryAfterOf(header: string | null, now: string): number | null {
  if (header === null) return null;
  const seconds = /^\s*\d+(\.\d+)?\s*$/.test(header) ? Number(header) : (Date.parse(header) - Date.parse(now)) / 1000;
  return Number.isNaN(seconds) ? null : Math.max(1, Math.ceil(seconds));
}

/** The message of an error response, as far as its form is known, to be put behind other words. */
export function messageOf(text: string): string {
  try {
    const { error, message, detail } = JSON.parse(text) as Record<string, unknown>;
    const said = [(error as { message?: unknown } | null | undefined)?.message, error, message, detail];
    const found = said.find((one): one is string => typeof one === "string");
    return found === undefined ? "" : `: ${found.slice(0, 500)}`;
  } catch {
    return "";
  }
}
