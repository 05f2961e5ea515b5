// X-Provider: forwards a request to another OpenAI-compatible server that the settings name, for users who outgrow this
// machine. The response is passed on as it arrives, and its tokens are counted here like those of any other request.
import { Failure, invalid } from "../../base/errors.ts";
import type { Caller, StreamEvent } from "../../contract/endpoint.ts";
import { EventStream } from "../../contract/endpoint.ts";
import { openAccount } from "./account.ts";
import type { Asked, SessionParts } from "./session.ts";
import type { UsageOutcome } from "./store.ts";

interface Upstream {
  name: string;
  url: string;
  key: string | null;
}

export type Upstreams = ReadonlyMap<string, Upstream>;

/** The upstreams of the settings, which give `name=url` and `name=key`. */
export function upstreamsOf(urls: readonly string[], keys: readonly string[]): Upstreams {
  const split = (pair: string): [string, string] => [
    pair.slice(0, pair.indexOf("=")),
    pair.slice(pair.indexOf("=") + 1),
  ];
  const keyOf = new Map(keys.map(split));
  return new Map(
    urls.map(split).map(([name, url]) => [name, { name, url: url.replace(/\/+$/, ""), key: keyOf.get(name) ?? null }]),
  );
}

interface Usage {
  prompt_tokens?: number;
  completion_tokens?: number;
}
/** What is read of an event that is passed on. */
interface Passed {
  usage?: Usage | null;
  choices?: unknown[];
  error?: unknown;
}
interface Sent {
  model?: string | undefined;
  stream?: boolean | null;
  stream_options?: { include_usage?: boolean } | null;
}

type Arrived = Pick<Asked, "headers" | "requestId" | "signal"> & { body: Sent };

/** Returns the response of the upstream that the request names. */
export type Forward = (
  path: "chat/completions" | "completions" | "embeddings",
  input: Arrived,
  caller: Caller,
) => Promise<unknown>;

export const isForwarded = (headers: Record<string, unknown>): boolean => headers["x-provider"] !== undefined;

/**
 * Returns a function that forwards requests. It throws validation for a name that is not configured or if the model is left
 * out, cut_off, upstream_failed, and the errors of refusalOf for what the upstream refuses.
 */
export function createForward(parts: SessionParts & { upstreams: Upstreams }): Forward {
  return async (path, { body, ...asked }, caller) => {
    const name = String(asked.headers["x-provider"]);
    const upstream = parts.upstreams.get(name);
    if (!upstream)
      throw invalid(["header", "X-Provider"], "is not a configured upstream; PLUMBLINE_UPSTREAMS lists them");
    if (body.model === undefined) throw invalid(["body", "model"], "field required", "missing");
    const end = begin(parts, asked, caller, `${name}/${body.model}`);
    try {
      const response = await ask(upstream, path, body, { signal: asked.signal, trace: parts.traces.headers() });
      if (body.stream) return new EventStream(passed(name, response, body, end, asked.signal));
      const answer = (await response.json()) as { usage?: Usage };
      end("done", answer.usage);
      return { ...answer, ...(path === "embeddings" ? {} : { confidence_score: null, confidence: null }) };
    } catch (error) {
      end(asked.signal.aborted ? "aborted" : "failed");
      if (asked.signal.aborted) throw new Failure("cut_off");
      throw error instanceof Failure ? error : new Failure("upstream_failed", undefined, { cause: error });
    }
  };
}

/** Returns a handler that forwards to an upstream if the request names one, and otherwise calls `here`. */
export function orUpstream<H extends (input: never, caller: Caller) => Promise<unknown>>(
  forward: Forward,
  path: Parameters<Forward>[0],
  here: H,
): H {
  const handle = (input: Arrived, caller: Caller): Promise<unknown> =>
    isForwarded(input.headers) ? forward(path, input, caller) : here(input as never, caller);
  return handle as unknown as H;
}

type End = (outcome: UsageOutcome, used?: Usage) => void;

/** Inserts the usage row. The returned function closes the row with the numbers of tokens that the upstream reported. */
function begin(parts: SessionParts, asked: Omit<Arrived, "body">, caller: Caller, modelId: string): End {
  const account = openAccount(parts, asked, caller, modelId);
  return (outcome, used = {}) => {
    const { prompt_tokens: promptTokens, completion_tokens: completionTokens = 0 } = used;
    account.read(promptTokens ?? 0);
    account.end(outcome, completionTokens);
    if (outcome === "done" && promptTokens === undefined)
      parts.log("warn", "upstream.usage_missing", { requestId: asked.requestId, modelId });
  };
}

/**
 * The body without what other servers do not know: our own field prompt_truncate_len, and nulls for left-out values. OpenAI
 * refuses max_tokens beside max_completion_tokens, which wins.
 */
function bodyFor(body: Sent): string {
  const { prompt_truncate_len: _, ...rest } = body as Record<string, unknown>;
  const known = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null));
  if ("max_completion_tokens" in known) delete known.max_tokens;
  // Usage is always requested, because the tokens are counted here.
  return JSON.stringify(
    body.stream ? { ...known, stream_options: { ...body.stream_options, include_usage: true } } : known,
  );
}

async function ask(
  { name, url, key }: Upstream,
  path: string,
  body: Sent,
  { signal, trace }: { signal: AbortSignal; trace: Record<string, string> },
): Promise<Response> {
  const response = await fetch(`${url}/${path}`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...trace,
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
    },
    body: bodyFor(body),
    redirect: "error",
    signal,
  }).catch((cause) => {
    throw signal.aborted ? cause : new Failure("upstream_failed", `The upstream ${name} cannot be reached`, { cause });
  });
  if (response.ok) return response;
  throw refusalOf(name, response, await response.text());
}

/**
 * The failure for an error response of the upstream. Errors that the client made keep the upstream's message. Errors
 * between the upstream and this appliance do not, because the client cannot solve them.
 */
function refusalOf(name: string, response: Response, text: string): Failure {
  const { status } = response;
  const words = `The upstream ${name} answered ${status}${messageOf(text)}`;
  const context = { context: { status, text: text.slice(0, 2000) } };
  if (status === 404) return new Failure("not_found", words, context);
  if (status === 429) {
    const retryAfterSeconds = Number(response.headers.get("retry-after")) || 1;
    return new Failure("too_many_requests", words, { ...context, retryAfterSeconds });
  }
  const isTheClients = status >= 400 && status < 500 && status !== 401 && status !== 403;
  return isTheClients
    ? new Failure("bad_request", words, context)
    : new Failure("upstream_failed", `The upstream ${name} answered ${status}`, context);
}

function messageOf(text: string): string {
  try {
    const { error, message } = JSON.parse(text) as { error?: { message?: string }; message?: string };
    const said = error?.message ?? message;
    return typeof said === "string" ? `: ${said.slice(0, 500)}` : "";
  } catch {
    return "";
  }
}

/** Passes on the events of an upstream's stream. An event that holds an error ends the stream with upstream_failed. */
async function* passed(
  name: string,
  response: Response,
  body: Sent,
  end: End,
  signal: AbortSignal,
): AsyncGenerator<StreamEvent, void, void> {
  let used: Usage | undefined;
  let outcome: UsageOutcome = "aborted";
  try {
    for await (const data of dataOf(response)) {
      const chunk = data === "[DONE]" ? {} : (JSON.parse(data) as Passed);
      if (chunk.error) throw new Failure("upstream_failed", `The upstream ${name} failed${messageOf(data)}`);
      if (chunk.usage) used = chunk.usage;
      const isForUsOnly = chunk.usage && chunk.choices?.length === 0 && !body.stream_options?.include_usage;
      if (!isForUsOnly) yield { data };
    }
    outcome = "done";
  } catch (error) {
    outcome = signal.aborted ? "aborted" : "failed";
    if (signal.aborted) throw new Failure("cut_off");
    throw error instanceof Failure ? error : new Failure("upstream_failed", undefined, { cause: error });
  } finally {
    end(outcome, used);
  }
}

/** Yields the data of each server-sent event. */
async function* dataOf(response: Response): AsyncGenerator<string, void, void> {
  const decoder = new TextDecoder();
  let held = "";
  for await (const bytes of response.body ?? []) {
    held += decoder.decode(bytes, { stream: true });
    const events = held.split(/\r?\n\r?\n/);
    held = events.pop()!;
    for (const event of events) {
      const lines = event.split(/\r?\n/).filter((line) => line.startsWith("data:"));
      if (lines.length > 0) yield lines.map((line) => line.slice(5).trimStart()).join("\n");
    }
  }
}
