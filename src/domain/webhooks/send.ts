// Makes one attempt to deliver a webhook by the Standard Webhooks specification 1.0.0: the request has three headers, any 2xx
// is an acknowledgement, and redirects are not followed. A target answers 410 to get no more events.
import { createHmac } from "node:crypto";

export interface Target {
  url: string;
  key: Buffer;
}

export interface Message {
  id: string;
  payload: string;
}

export type Outcome =
  | { acknowledged: true }
  | { acknowledged: false; error: string; isGone: boolean; retryAfterMs: number };

/** Maximum number of bytes of an error response that are read, which are enough for the receiver to give a reason. */
const mostAnswerBytes = 1024;

/** The value of the signature header. `seconds` is the Unix time of the attempt. */
export function signatureOf(key: Buffer, { id, payload }: Message, seconds: number): string {
  return `v1,${createHmac("sha256", key).update(`${id}.${seconds}.${payload}`).digest("base64")}`;
}

/** Sends a message once. Null if `signal` aborted the request; it is then unknown whether the message arrived. */
export async function send(
  { url, key }: Target,
  message: Message,
  options: { seconds: number; timeoutMs: number; signal: AbortSignal },
): Promise<Outcome | null> {
  const { seconds, timeoutMs, signal } = options;
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), timeoutMs);
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "webhook-id": message.id,
        "webhook-timestamp": String(seconds),
        "webhook-signature": signatureOf(key, message, seconds),
      },
      body: message.payload,
      redirect: "manual",
      signal: AbortSignal.any([signal, late.signal]),
    });
    if (!response.ok) return await refusalOf(response);
    // The body is not needed, and an endless body would hold the connection. It may have ended or failed already, which does
    // not matter.
    await response.body?.cancel().catch(() => {});
    return { acknowledged: true };
  } catch (error) {
    if (signal.aborted) return null;
    const words = late.signal.aborted ? `no answer within ${timeoutMs / 1000} s` : wordsOf(error);
    return { acknowledged: false, error: words, isGone: false, retryAfterMs: 0 };
  } finally {
    clearTimeout(timer);
  }
}

async function refusalOf(response: Response): Promise<Outcome> {
  const said = await beginningOf(response);
  return {
    acknowledged: false,
    error: `answered ${response.status}${said === "" ? "" : `: ${said}`}`,
    isGone: response.status === 410,
    // A date, the other form of Retry-After, is ignored, because the two clocks may differ.
    retryAfterMs: 1000 * (Number(response.headers.get("retry-after")) || 0),
  };
}

/** The first bytes of the body, as far as it can be read. An error is ignored, because the status has decided the outcome. */
async function beginningOf(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const part of response.body ?? []) {
      parts.push(part);
      bytes += part.length;
      if (bytes >= mostAnswerBytes) break;
    }
  } catch {
    // The body was cut off, by the receiver or by our timeout.
  }
  return Buffer.concat(parts).subarray(0, mostAnswerBytes).toString("utf8").trim();
}

/** The reason why a request failed. `fetch` puts it in the error's cause. */
function wordsOf(error: unknown): string {
  const cause = (error as Error).cause ?? error;
  const { message, code } = cause as Error & { code?: string };
  return message || code || String(cause);
}
