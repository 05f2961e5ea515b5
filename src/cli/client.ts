// A client of the REST API, as anyone could write one: its paths, bodies and answers are those of the contract, over HTTP.
import { setTimeout as delay } from "node:timers/promises";
import { Failure } from "../base/errors.ts";
import type { Endpoint, Reply } from "../contract/endpoint.ts";
import { type Contract, contract } from "../contract/index.ts";
import type { RunEvent } from "../contract/run-folder.ts";

export interface ClientFile {
  name: string;
  mediaType: string;
  content: string | Uint8Array<ArrayBuffer>;
}

export interface CallInput {
  params?: Record<string, string>;
  query?: Record<string, string | number>;
  body?: object;
  files?: ClientFile[];
  signal?: AbortSignal;
}

export type Replies = { [K in keyof Contract]: Reply<Contract[K]> };

export interface Client {
  /** One function per endpoint, under its name in the contract. */
  api: { [K in keyof Contract]: (input?: CallInput) => Promise<Replies[K]> };
  /** The events of an alignment from the beginning until it has ended; a stream that breaks is taken up where it broke. */
  alignmentEvents(alignmentId: string, signal?: AbortSignal): AsyncIterable<RunEvent>;
}

export function createClient(address: string, key: string): Client {
  const authorization = `Bearer ${key}`;

  async function send(name: keyof Contract, input: CallInput, headers: Record<string, string> = {}) {
    const endpoint: Endpoint = contract[name];
    const url = new URL(fillPath(endpoint.path, input.params ?? {}), address);
    for (const [field, value] of Object.entries(input.query ?? {})) url.searchParams.set(field, String(value));
    const body = bodyOf(input);
    const type = typeof body === "string" ? { "content-type": "application/json" } : {};
    const response = await fetch(url, {
      method: endpoint.method,
      headers: { authorization, ...type, ...headers },
      ...(body === undefined ? {} : { body }),
      ...(input.signal === undefined ? {} : { signal: input.signal }),
    });
    if (!response.ok) throw await refusal(`${endpoint.method} ${url.pathname}`, response);
    return response;
  }

  return {
    api: Object.fromEntries(
      (Object.keys(contract) as (keyof Contract)[]).map((name) => [
        name,
        async (input: CallInput = {}) => (await send(name, input)).json(),
      ]),
    ) as Client["api"],

    async *alignmentEvents(alignmentId, signal) {
      let last = "";
      for (let broken = 0; ; ) {
        const headers = { accept: "text/event-stream", ...(last === "" ? {} : { "last-event-id": last }) };
        const input = { params: { alignment_id: alignmentId }, ...(signal === undefined ? {} : { signal }) };
        try {
          const response = await send("alignments.events", input, headers);
          for await (const event of eventsOf(response)) {
            if (event.id !== "") last = event.id;
            broken = 0;
            yield runEventOf(event.data);
          }
          return;
        } catch (error) {
          // A connection that broke, unlike an answer that refuses, is worth another try; ten in a row are not.
          if (error instanceof Failure || signal?.aborted || ++broken > 10) throw error;
          await delay(500);
        }
      }
    },
  };
}

const fillPath = (path: string, params: Record<string, string>): string =>
  path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));

function bodyOf(input: CallInput): string | FormData | undefined {
  if (input.files) {
    const form = new FormData();
    for (const file of input.files) form.append("file", new Blob([file.content], { type: file.mediaType }), file.name);
    return form;
  }
  return input.body === undefined ? undefined : JSON.stringify(input.body);
}

/** Once a stream has begun, a failure can only come as an event. */
function runEventOf(data: string): RunEvent {
  const value = JSON.parse(data) as RunEvent | { error: { message: string } };
  if ("error" in value) throw new Failure("api_refused", `The event stream ended: ${value.error.message}`);
  return value;
}

async function refusal(request: string, response: Response): Promise<Failure> {
  const text = await response.text();
  let said = text.slice(0, 500);
  try {
    const { detail } = JSON.parse(text) as { detail: unknown };
    said = typeof detail === "string" ? detail : JSON.stringify(detail);
  } catch {
    // Not the house's JSON: the text itself is what there is to say.
  }
  return new Failure("api_refused", `${request} was answered ${response.status}: ${said}`, {
    context: { status: response.status },
  });
}

/** The events of a text/event-stream; lines that start with a colon are comments. */
export async function* eventsOf(response: Response): AsyncGenerator<{ id: string; data: string }> {
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
