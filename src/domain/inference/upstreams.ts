// X-Provider: forwards a request to another OpenAI-compatible server that the settings name, for users who outgrow this
// machine. The response is passed on as it arrives, and its tokens are counted here like those of any other request.
import { Failure, invalid } from "../../base/errors.ts";
import type { Caller, StreamEvent } from "../../contract/endpoint.ts";
import { EventStream } from "../../contract/endpoint.ts";
import { openAccount } from "./account.ts";
import type { Asked, SessionParts } from "./session.ts";
import { confidenceOf, done, event } from "./shapes.ts";
import type { UsageOutcome } from "./store.ts";
import { type Rewording, rewordingFor, type UpstreamBody, upstreamFields } from "./upstream-body.ts";
import { createEstimate, dataOf, readAnswer, readChoices, type UpstreamUsage } from "./upstream-events.ts";
import { refusalOf } from "./upstream-refusals.ts";

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
  const ask = createAsking(parts);
  return async (path, { body, ...asked }, caller) => {
    const name = String(asked.headers["x-provider"]);
    const upstream = parts.upstreams.get(name);
    if (!upstream)
      throw invalid(["header", "X-Provider"], "is not a configured upstream; PLUMBLINE_UPSTREAMS lists them");
    if (body.model === undefined) throw invalid(["body", "model"], "field required", "missing");
    const end = begin(parts, asked, caller, `${name}/${body.model}`);
    try {
      const response = await ask(upstream, path, body, asked.signal);
      if (body.stream) return new EventStream(passed(name, response, body, end, asked.signal));
      const json = await response.text();
      const answer = path === "embeddings" ? readAnswer(name, json) : readChoices(name, json);
      end("done", answer.usage);
      return path === "embeddings" ? answer : { ...answer, ...confidenceOf([]) };
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

type End = (outcome: UsageOutcome, used?: UpstreamUsage | null, estimate?: UpstreamUsage) => void;

/**
 * Inserts the usage row. The returned function closes the row with the numbers of tokens that the upstream reported, or with
 * the estimate if it reported none.
 */
function begin(parts: SessionParts, asked: Omit<Arrived, "body">, caller: Caller, modelId: string): End {
  const account = openAccount(parts, asked, caller, modelId);
  return (outcome, used, estimate) => {
    const { prompt_tokens: promptTokens = 0, completion_tokens: completionTokens = 0 } = used ?? estimate ?? {};
    account.read(promptTokens);
    account.end(outcome, completionTokens);
    if (outcome === "done" && used?.prompt_tokens === undefined)
      parts.log("warn", "upstream.usage_missing", { requestId: asked.requestId, modelId });
  };
}

type Ask = (upstream: Upstream, path: string, body: Sent, signal: AbortSignal) => Promise<Response>;

/**
 * Returns a function that sends a request and returns the response if it is no error. A request that a model refuses for its
 * wording is sent again, reworded; the wording that the model accepted is used from then on. Throws upstream_failed, and the
 * errors of refusalOf.
 */
function createAsking({ clock, traces }: Pick<SessionParts, "clock" | "traces">): Ask {
  /** The rewordings that each upstream's model needs. */
  const needed = new Map<string, ReadonlySet<Rewording>>();
  return async (upstream, path, body, signal) => {
    const whom = `${upstream.name}/${body.model}`;
    const usual = upstreamFields(body as UpstreamBody);
    const used = new Set(needed.get(whom));
    for (;;) {
      const fields = [...used].reduce((said, { reword }) => reword(said), usual);
      const response = await send(upstream, path, fields, { signal, trace: traces.headers() });
      if (response.ok) {
        if (used.size > 0) needed.set(whom, new Set([...used, ...(needed.get(whom) ?? [])]));
        return response;
      }
      const refusal = await response.text();
      const isOfWording = response.status === 400 || response.status === 422;
      const more = isOfWording ? rewordingFor(refusal, fields) : undefined;
      if (more === undefined) throw refusalOf(upstream.name, response, refusal, clock.now());
      used.add(more);
    }
  };
}

function send(
  { name, url, key }: Upstream,
  path: string,
  body: UpstreamBody,
  { signal, trace }: { signal: AbortSignal; trace: Record<string, string> },
): Promise<Response> {
  return fetch(`${url}/${path}`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...trace,
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
    },
    body: JSON.stringify(body),
    // A redirect is refused like an error, because the key is for the configured server only.
    redirect: "manual",
    signal,
  }).catch((cause) => {
    throw signal.aborted ? cause : new Failure("upstream_failed", `The upstream ${name} cannot be reached`, { cause });
  });
}

/**
 * Passes on the events of an upstream's stream. The chunk that ends a choice says that there is no confidence, like an answer
 * that is not a stream. An event that holds an error ends the stream with upstream_failed, and so does the end of the
 * connection before the end of the answer.
 */
async function* passed(
  name: string,
  response: Response,
  body: Sent,
  end: End,
  signal: AbortSignal,
): AsyncGenerator<StreamEvent, void, void> {
  const estimate = createEstimate(body as UpstreamBody);
  let used: UpstreamUsage | null | undefined;
  let outcome: UsageOutcome = "aborted";
  let isWhole = false;
  let isDone = false;
  try {
    for await (const data of dataOf(name, response)) {
      isDone ||= data === done.data;
      const chunk = data === done.data ? {} : readAnswer(name, data);
      used = chunk.usage ?? used;
      estimate.add(chunk);
      const isLast = (chunk.choices ?? []).some((choice) => choice.finish_reason);
      isWhole ||= isDone || isLast;
      const isForUsOnly = chunk.usage && chunk.choices?.length === 0 && !body.stream_options?.include_usage;
      if (!isForUsOnly) yield isLast ? event({ ...chunk, ...confidenceOf([]) }) : { data };
    }
    if (!isWhole) throw new Failure("upstream_failed", `The answer of the upstream ${name} broke off`);
    outcome = "done";
    // Some servers close the connection instead of sending the mark, which clients wait for.
    if (!isDone) yield done;
  } catch (error) {
    outcome = signal.aborted ? "aborted" : "failed";
    if (signal.aborted) throw new Failure("cut_off");
    throw error instanceof Failure ? error : new Failure("upstream_failed", undefined, { cause: error });
  } finally {
    end(outcome, used, estimate.usage());
  }
}
