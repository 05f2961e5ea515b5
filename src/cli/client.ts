// A client of the REST API that anyone could write: it uses the paths, bodies and responses of the contract, over HTTP.
import { setTimeout as delay } from "node:timers/promises";
import { Failure, failures, type ValidationDetail } from "../base/errors.ts";
import type { Endpoint, Reply } from "../contract/endpoint.ts";
import { type Contract, contract } from "../contract/index.ts";
import type { RunEvent } from "../contract/run-folder.ts";

export interface ClientFile {
  name: string;
  mediaType: string;
  /** A Blob that refers to a file on disk is read while it is sent. */
  content: string | Uint8Array<ArrayBuffer> | Blob;
}

export interface CallInput {
  params?: Record<string, string>;
  /** Undefined values are left out. */
  query?: Record<string, string | number | boolean | undefined>;
  body?: object;
  /** A body that is already serialised as JSON. */
  json?: string;
  files?: ClientFile[];
  /** For a day, a repeated request with the same key gets the first response and creates nothing new. */
  idempotencyKey?: string;
  signal?: AbortSignal;
}

type Name = keyof Contract;
export type Replies = { [K in Name]: Reply<Contract[K]> };

/** An event of a stream that can be resumed. */
export interface ClientEvent {
  id: string;
  data: string;
}

export interface Client {
  address: string;
  /** One function per endpoint, under its name in the contract. */
  api: { [K in Name]: (input?: CallInput) => Promise<Replies[K]> };
  /** Returns the response body unchanged, for endpoints that respond with a text or a file. */
  text(name: Name, input?: CallInput): Promise<string>;
  /** Yields the data of each event of a streamed response. A broken stream cannot be resumed; send the request again. */
  stream(name: Name, input?: CallInput): AsyncIterable<string>;
  /** Yields all events from the beginning to the end. A stream that breaks is resumed after the last event received. */
  events(name: Name, input?: CallInput): AsyncIterable<ClientEvent>;
  alignmentEvents(alignmentId: string, signal?: AbortSignal): AsyncIterable<RunEvent>;
}

/** Number of consecutive failures that are retried before giving up. */
const mostBreaks = 10;
const breakMs = 500;

export function createClient(address: string, key: string): Client {
  const authorization = `Bearer ${key}`;

  async function send(name: Name, input: CallInput, headers: Record<string, string> = {}) {
    const endpoint: Endpoint = contract[name];
    const url = new URL(`${address}${fillPath(endpoint.path, input.params ?? {})}`);
    for (const [field, value] of Object.entries(input.query ?? {}))
      if (value !== undefined) url.searchParams.set(field, String(value));
    const body = bodyOf(input);
    const type = typeof body === "string" ? { "content-type": "application/json" } : {};
    const request = {
      method: endpoint.method,
      headers: {
        authorization,
        ...type,
        ...(input.idempotencyKey === undefined ? {} : { "idempotency-key": input.idempotencyKey }),
        ...headers,
      },
      ...(body === undefined ? {} : { body }),
      ...(input.signal === undefined ? {} : { signal: input.signal }),
    };
    const response = await fetch(url, request).catch((error) => {
      throw input.signal?.aborted ? error : unreachable(address, error);
    });
    if (!response.ok)
      throw refusal(`${endpoint.method} ${url.pathname}`, response.status, await bodyText(response, input));
    return response;
  }

  /** The failure of a response that broke off. */
  const brokenOff = ({ signal }: CallInput, error: unknown): unknown =>
    signal?.aborted ? error : unreachable(address, error);

  const bodyText = (response: Response, input: CallInput): Promise<string> =>
    response.text().catch((error) => {
      throw brokenOff(input, error);
    });

  const text = async (name: Name, input: CallInput = {}): Promise<string> => bodyText(await send(name, input), input);

  async function* eventsFrom(response: Response, input: CallInput): AsyncGenerator<ClientEvent> {
    try {
      yield* eventsOf(response);
    } catch (error) {
      throw brokenOff(input, error);
    }
  }

  async function* events(name: Name, input: CallInput = {}): AsyncGenerator<ClientEvent> {
    let last = "";
    for (let broken = 0; ; ) {
      const headers = { accept: "text/event-stream", ...(last === "" ? {} : { "last-event-id": last }) };
      try {
        const response = await send(name, input, headers);
        for await (const event of eventsFrom(response, input)) {
          if (event.id !== "") last = event.id;
          broken = 0;
          yield event;
        }
        return;
      } catch (error) {
        // A broken connection is worth a retry, unlike a refusal.
        const isRefusal = error instanceof Failure && error.code !== "api_unreachable";
        if (isRefusal || input.signal?.aborted || ++broken > mostBreaks) throw error;
        await delay(breakMs);
      }
    }
  }

  return {
    address,
    api: Object.fromEntries(
      (Object.keys(contract) as Name[]).map((name) => [
        name,
        async (input: CallInput = {}) => parsed(await text(name, input), address),
      ]),
    ) as Client["api"],
    text,
    async *stream(name, input = {}) {
      const response = await send(name, input, { accept: "text/event-stream" });
      for await (const { data } of eventsFrom(response, input)) yield data;
    },
    events,
    async *alignmentEvents(alignmentId, signal) {
      const input = { params: { alignment_id: alignmentId }, ...(signal === undefined ? {} : { signal }) };
      for await (const { data } of events("alignments.events", input)) yield eventOf<RunEvent>(data);
    },
  };
}

/**
 * Retries while the appliance is unreachable, for example while it restarts. Throws api_unreachable after `mostBreaks`
 * retries.
 */
export async function patiently<T>(ask: () => Promise<T>): Promise<T> {
  for (let broken = 1; ; broken++)
    try {
      return await ask();
    } catch (error) {
      const isGone = error instanceof Failure && error.code === "api_unreachable";
      if (!isGone || broken > mostBreaks) throw error;
      await delay(breakMs);
    }
}

const fillPath = (path: string, params: Record<string, string>): string =>
  path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));

function bodyOf(input: CallInput): string | FormData | undefined {
  if (input.files) {
    const form = new FormData();
    for (const file of input.files) form.append("file", new Blob([file.content], { type: file.mediaType }), file.name);
    return form;
  }
  return input.body === undefined ? input.json : JSON.stringify(input.body);
}

/** Parses an event. Throws api_refused if the event reports a failure, as failures do once a stream has begun. */
export function eventOf<T extends object>(data: string): T {
  const value = JSON.parse(data) as T | { error: { message: string } };
  if ("error" in value) throw new Failure("api_refused", `The event stream ended: ${value.error.message}`);
  return value;
}

/** The failure of a request that nobody answered. */
export function unreachable(address: string, error: unknown): Failure {
  const { cause } = error as { cause?: { code?: string; message?: string } };
  const why = cause?.code ?? cause?.message ?? (error as Error).message;
  return new Failure("api_unreachable", `No appliance answers at ${address} (${why})`, { cause: error });
}

/** Throws api_refused if an answer is not JSON, because what answers there is then no appliance. */
function parsed(text: string, address: string) {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Failure("api_refused", `What answers at ${address} is no appliance: «${text.trim().slice(0, 80)}»`, {
      cause,
    });
  }
}

interface Refusal {
  detail?: string | ValidationDetail[];
  error?: { code?: string; message?: string };
}

/** The field and its message, without the first part of `loc`, which says where in the request the field is. */
const fieldText = ({ loc, msg }: ValidationDetail): string => `${loc.slice(1).join(".") || loc.join(".")}: ${msg}`;

function refusal(request: string, status: number, text: string): Failure {
  let said = text.slice(0, 500);
  let code = "";
  try {
    const { detail, error } = JSON.parse(text) as Refusal;
    code = error?.code ?? "";
    // A detail of this type is about the request as a whole, and names no field.
    const isOfFields = Array.isArray(detail) && detail[0]?.type !== code;
    said = isOfFields ? detail.map(fieldText).join("; ") : String(error?.message ?? detail);
  } catch {
    // The response is not the appliance's JSON, so its text is reported.
  }
  return new Failure("api_refused", `${request} returned ${status}: ${said}`, {
    context: { status, said, code: Object.hasOwn(failures, code) ? code : null },
  });
}

/** Yields the events of a text/event-stream. Skips comments (lines that start with a colon) and events without data. */
export async function* eventsOf(response: Response): AsyncGenerator<ClientEvent> {
  const decoder = new TextDecoder();
  let buffer = "";
  for await (const part of response.body ?? []) {
    buffer += decoder.decode(part as Uint8Array, { stream: true });
    for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n")) {
      const lines = buffer.slice(0, end).split("\n");
      buffer = buffer.slice(end + 2);
      const field = (name: string): string =>
        lines
          .filter((line) => line.startsWith(`${name}:`))
          .map((line) => line.slice(name.length + 1).replace(/^ /, ""))
          .join("\n");
      const data = field("data");
      if (data !== "") yield { id: field("id"), data };
    }
  }
}
