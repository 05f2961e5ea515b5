// The shape of one endpoint of the contract, as data. Routes, checks, types, /openapi.json and the tests are derived from it.
import type { Readable } from "node:stream";
import type { FromSchema, JSONSchema } from "json-schema-to-ts";
import type { FailureCode } from "../base/errors.ts";
import { idempotencyHeaders } from "./common.ts";

export interface Endpoint {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  /** Path with parameters in braces, as in OpenAPI. */
  path: string;
  /** Other paths to the same endpoint, with the same parameters. */
  aliases?: readonly string[];
  tag: string;
  summary: string;
  params?: JSONSchema;
  query?: JSONSchema;
  headers?: JSONSchema;
  body?: JSONSchema;
  /** Body fields that are kept and returned byte for byte as they were sent. */
  verbatim?: readonly string[];
  /** Files of multipart/form-data, all in the field `file`. */
  upload?: {
    many: boolean;
    /** The file is a model, whose size is limited by PLUMBLINE_MODEL_BYTES. */
    model?: true;
  };
  reply: JSONSchema;
  /** Media types of the file that is returned instead of JSON. */
  download?: readonly string[];
  /** Media type of the text that is returned instead of JSON. */
  text?: string;
  /** Status of a successful reply; 200 when absent. */
  status?: 202;
  /** Schema of each event's data, if the endpoint can answer as text/event-stream. */
  events?: JSONSchema;
  /** Failures in addition to those of every endpoint. */
  errors: readonly FailureCode[];
  /**
   * Which requests need no key. If this is absent, every request needs one. With `true`, no request needs one. With
   * `loopback`, no request needs one, but only requests from this machine are answered. With `key_elsewhere`, only
   * requests from other machines need one.
   */
  open?: true | "loopback" | "key_elsewhere";
  /** Any valid key may call the endpoint, whatever the key's scopes. */
  anyScope?: true;
  /** Polled by monitoring programs or pages, so its requests are logged at debug level only and are not traced. */
  watched?: true;
  /** Generates tokens with a model, so token limits apply. They always apply to endpoints tagged inference. */
  generates?: true;
  /** May be answered by the upstream that X-Provider names. */
  forwards?: true;
  /** Format of the endpoint's errors, if it is not OpenAI's. */
  dialect?: "anthropic";
  /** The body may be ten times as large as that of other endpoints; for inference. */
  largeBody?: true;
}

export const takesIdempotencyKey = ({ headers }: Endpoint): boolean => headers === idempotencyHeaders;

export const endpoint = <const E extends Endpoint>(promise: E): E => promise;

/** The scopes that an API key can have. */
export const scopes = ["inference", "documents", "alignments", "models", "agents", "keys", "admin"] as const;
export type Scope = (typeof scopes)[number];

/** The scope that an endpoint requires, by its tag. Endpoints with `anyScope`, and open ones called without a key, require none. */
export const scopeOfTag: Readonly<Record<string, Scope>> = {
  documents: "documents",
  benchmarks: "documents",
  captures: "documents",
  alignments: "alignments",
  evaluations: "alignments",
  models: "models",
  inference: "inference",
  agents: "agents",
  keys: "keys",
  administration: "admin",
};

/** The caller, resolved from the API key before any handler runs. */
export interface Caller {
  userId: string;
  userName: string;
  keyId: string;
}

/** A file of an upload, already on disk under a random name; `name` is only a label. */
export interface UploadedFile {
  name: string;
  declaredType: string;
  path: string;
  bytes: number;
  sha256: string;
}

type Part<E, K extends string> = E extends { readonly [P in K]: infer S }
  ? S extends JSONSchema
    ? FromSchema<S>
    : Record<never, never>
  : Record<never, never>;

interface Received<E> {
  params: Part<E, "params">;
  query: Part<E, "query">;
  headers: Part<E, "headers">;
  body: Part<E, "body">;
  /** The text, exactly as sent, of each verbatim field that the body has. */
  raw: Record<string, string>;
  files: UploadedFile[];
  requestId: string;
  /** The Last-Event-ID header of a resumed event stream. */
  lastEventId: string | null;
  /** Aborted when the client disconnects. */
  signal: AbortSignal;
  /** Sets a response header. For a stream, call this before the first event. */
  setHeader(name: string, value: string): void;
}

/** Additional input of endpoints that take an Idempotency-Key. */
interface Repeatable<E extends Endpoint> {
  /**
   * Stores the reply. Call this in the transaction that creates what the reply describes, so that a crash leaves both or
   * neither. Do not call it if nothing is created. `subjects` are the ids of the deletable resources that the reply
   * describes.
   */
  keepReply(reply: Reply<E>, subjects?: readonly string[]): void;
}

export type Input<E> = Received<E> &
  (E extends Endpoint & { readonly headers: typeof idempotencyHeaders } ? Repeatable<E> : unknown);

export type Reply<E extends Endpoint> = FromSchema<E["reply"]>;

export interface StreamEvent {
  id?: string;
  event?: string;
  /** One JSON text, or "[DONE]". */
  data: string;
}

/**
 * A handler returns this to answer as an event stream. The first event is awaited before any header is sent, so that an earlier error
 * gets its own status. A stream that `mayBeSilent` for minutes sends its head before that, because clients give up on a silent server.
 */
export class EventStream {
  readonly events: AsyncIterable<StreamEvent>;
  readonly mayBeSilent: boolean;
  constructor(events: AsyncIterable<StreamEvent>, { mayBeSilent }: { mayBeSilent: boolean } = { mayBeSilent: false }) {
    this.events = events;
    this.mayBeSilent = mayBeSilent;
  }
}

/** A reply that is already JSON text, because parsing and serialising it again would change its verbatim fields. */
export class JsonText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** A reply with the endpoint's `text` media type. */
export class PlainText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** A reply that is a file download. */
export class Download {
  readonly name: string;
  readonly mediaType: string;
  readonly bytes: number;
  readonly content: Readable;
  constructor(parts: { name: string; mediaType: string; bytes: number; content: Readable }) {
    this.name = parts.name;
    this.mediaType = parts.mediaType;
    this.bytes = parts.bytes;
    this.content = parts.content;
  }
}

export type Handler<E extends Endpoint> = (
  input: Input<E>,
  caller: Caller,
) => Promise<
  | Reply<E>
  | (E extends { readonly events: unknown } ? EventStream : never)
  | (E extends { readonly verbatim: unknown } ? JsonText : never)
  | (E extends { readonly download: unknown } ? Download : never)
  | (E extends { readonly text: unknown } ? PlainText : never)
>;

/** A handler for every endpoint of a group. */
export type Handlers<G extends Record<string, Endpoint>> = { [K in keyof G]: Handler<G[K]> };
