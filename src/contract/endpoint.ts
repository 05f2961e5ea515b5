// The form of a promise: one endpoint, as data. Routes, checks, types, /openapi.json and the tests are made from it.
import type { Readable } from "node:stream";
import type { FromSchema, JSONSchema } from "json-schema-to-ts";
import type { FailureCode } from "../base/errors.ts";
import { idempotencyHeaders } from "./common.ts";

export interface Endpoint {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  /** With parameters in braces, as in OpenAPI. */
  path: string;
  /** Other paths that lead to it, with the same parameters. */
  aliases?: readonly string[];
  tag: string;
  summary: string;
  params?: JSONSchema;
  query?: JSONSchema;
  headers?: JSONSchema;
  body?: JSONSchema;
  /** Fields of the body that are kept as they were sent, byte for byte, and given back so. */
  verbatim?: readonly string[];
  /** Files of multipart/form-data, all in the field `file`. */
  upload?: {
    many: boolean;
    /** A model's file, which may be as large as PLUMBLINE_MODEL_BYTES says. */
    model?: true;
  };
  reply: JSONSchema;
  /** Media types of the file that it answers with in place of JSON. */
  download?: readonly string[];
  /** Media type of the text that it answers with in place of JSON. */
  text?: string;
  /** Of success; 200 unless it says otherwise. */
  status?: 202;
  /** What each event of the stream carries, where the endpoint can answer as text/event-stream. */
  events?: JSONSchema;
  /** Failures besides those every endpoint has. */
  errors: readonly FailureCode[];
  /** No key asked: of nobody; of nobody on this machine, which alone is answered; or only of whoever is elsewhere. */
  open?: true | "loopback" | "key_elsewhere";
  /** Asked again and again by programs that watch the appliance: its requests are logged for debugging only. */
  watched?: true;
  /** Draws tokens with a model, so that limits of tokens hold. What is tagged inference always does. */
  generates?: true;
  /** May be answered by the upstream that X-Provider names. */
  forwards?: true;
  /** The form of its errors, where it is not OpenAI's. */
  dialect?: "anthropic";
  /** Inference bodies may be ten times as large as others. */
  largeBody?: true;
}

export const takesIdempotencyKey = ({ headers }: Endpoint): boolean => headers === idempotencyHeaders;

export const endpoint = <const E extends Endpoint>(promise: E): E => promise;

/** What a key can be allowed to do. */
export const scopes = ["inference", "documents", "alignments", "models", "agents", "keys", "admin"] as const;
export type Scope = (typeof scopes)[number];

/** The scope that an endpoint asks for, by its tag. An open endpoint asks for none. */
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

/** Who calls: resolved from the key before any handler runs. */
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
  /** The text of each verbatim field that the body has. */
  raw: Record<string, string>;
  files: UploadedFile[];
  requestId: string;
  /** Of a resumed event stream. */
  lastEventId: string | null;
  /** Aborted when the client leaves. */
  signal: AbortSignal;
  /** A header of the answer; of a stream, before its first event. */
  setHeader(name: string, value: string): void;
}

/** Of endpoints that take an Idempotency-Key. */
interface Repeatable<E extends Endpoint> {
  /**
   * Within the transaction that makes what the reply tells of, so that a crash leaves both or neither; where nothing is made it is
   * not called. `subjects`: ids of what it tells of that can be deleted.
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

/** What a handler returns to answer as an event stream. Its first event is awaited before any header is sent. */
export class EventStream {
  readonly events: AsyncIterable<StreamEvent>;
  constructor(events: AsyncIterable<StreamEvent>) {
    this.events = events;
  }
}

/** An answer that is text already, because to read and write it again would change what it gives back. */
export class JsonText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** An answer in the endpoint's own `text` form. */
export class PlainText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** An answer that is a file to be kept. */
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
