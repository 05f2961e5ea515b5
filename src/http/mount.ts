// Makes routes from the contract: finds the endpoint of a request, checks every part of the request, and passes the handler the input
// that the contract describes. What the handler returns is the response.
import type { IncomingMessage } from "node:http";
import Router from "@koa/router";
import { Failure, type ValidationDetail } from "../base/errors.ts";
import { sha256 } from "../base/files.ts";
import { type Caller, type Endpoint, JsonText, takesIdempotencyKey, type UploadedFile } from "../contract/endpoint.ts";
import { compile } from "../contract/validate.ts";
import { readBody } from "./body.ts";
import type { Pace } from "./pace.ts";
import { decodePart, type Target } from "./request.ts";
import { receiveUpload, removeUploads, type UploadLimits } from "./upload.ts";

export interface Route {
  name: string;
  endpoint: Endpoint;
  perform(request: Arrived): Promise<unknown>;
}

/** A request whose head has been checked. */
export interface Arrived {
  request: IncomingMessage;
  target: Target;
  params: Record<string, string>;
  caller: Caller;
  requestId: string;
  signal: AbortSignal;
  setHeader: (name: string, value: string) => void;
}

export interface Limits {
  bodyBytes: number;
  /** Pace of a JSON body. */
  pace: Pace;
  upload: Omit<UploadLimits, "settings" | "isKept">;
  /** Maximum number of bytes of an uploaded model. */
  modelBytes: number;
  /** Throws disk_full. Called before every endpoint that lists this error performs a request. */
  checkDisk: () => Promise<void>;
  /**
   * If the request was performed before, returns the first answer again, as JSON. Otherwise returns the reply of `perform`, which
   * may keep its reply itself. `request` is a digest of the request. Throws idempotency_key_reused, request_in_progress,
   * made_and_deleted, and what `perform` throws.
   */
  once: (
    ownerId: string,
    key: string,
    request: string,
    perform: (keepReply: KeepReply) => Promise<unknown>,
  ) => Promise<{ again: string } | { reply: unknown }>;
  /** Whether `once` will perform nothing for this key, so that the request needs no disk. */
  isKnown: (ownerId: string, key: string) => boolean;
}

type KeepReply = (reply: unknown, subjects?: readonly string[]) => void;

/** A handler of any endpoint. Domain modules type their handlers by the contract. Here that type is not needed. */
export type AnyHandler = (input: never, caller: Caller) => Promise<unknown>;

export function mount<Name extends string>(
  endpoints: Readonly<Record<Name, Endpoint>>,
  handlers: Readonly<Record<Name, AnyHandler>>,
  limits: Limits,
): Route[] {
  return (Object.keys(endpoints) as Name[]).map((name) => ({
    name,
    endpoint: endpoints[name],
    perform: performer(endpoints[name], handlers[name], limits),
  }));
}

/** The route of a path and a method; `allowed` lists the methods of the path. */
export interface Found {
  route: Route | null;
  params: Record<string, string>;
  allowed: string[];
}

/** Returns a function that finds routes, and prefers literal parts to parameters. Koa's router only matches; server.ts performs. */
export function createFinder(routes: Route[]): (method: string, path: string) => Found {
  const router = new Router({ sensitive: true, strict: true });
  const byName = new Map(routes.map((route) => [route.name, route]));
  for (const { name, endpoint } of routes)
    for (const path of [endpoint.path, ...(endpoint.aliases ?? [])])
      router.register(path.replaceAll(/\{(\w+)\}/g, ":$1"), [endpoint.method], (_ctx, next) => next(), { name });

  return (method, path) => {
    const fitting = router.match(path, method).path.map((layer) => ({ layer, route: byName.get(layer.name!)! }));
    const fewest = Math.min(...fitting.map(({ layer }) => layer.paramNames.length));
    const best = fitting.filter(({ layer }) => layer.paramNames.length === fewest);
    const found = best.find(({ route }) => route.endpoint.method === method);
    const captures = found?.layer.captures(path) ?? [];
    return {
      route: found?.route ?? null,
      params: Object.fromEntries(captures.map((text, i) => [found!.layer.paramNames[i]!.name, decodePart(text)])),
      allowed: best.map(({ route }) => route.endpoint.method),
    };
  };
}

const idempotencyKey = "idempotency-key";
const none = { type: "object", additionalProperties: false } as const;

/** Returns the function that performs requests to an endpoint. Each schema is compiled on its first use, not here. */
function performer(endpoint: Endpoint, handler: AnyHandler, limits: Limits): Route["perform"] {
  const check = {
    path: compile(endpoint.params ?? none),
    query: compile(endpoint.query ?? none),
    header: compile(endpoint.headers ?? none),
    body: endpoint.body ? compile(endpoint.body) : null,
  };
  const typed = {
    integers: namesOf(endpoint.query, (schema) => schema.type === "integer"),
    booleans: namesOf(endpoint.query, (schema) => schema.type === "boolean"),
  };
  const takesKey = takesIdempotencyKey(endpoint);
  const headerNames = namesOf(endpoint.headers, () => true);
  const bodyBytes = limits.bodyBytes * (endpoint.largeBody ? 10 : 1);

  return async ({ request, target, params, caller, requestId, signal, setHeader }) => {
    const details: ValidationDetail[] = [];
    const checked = <T>(result: { ok: true; value: T } | { ok: false; details: ValidationDetail[] }): T => {
      if (result.ok) return result.value;
      details.push(...result.details);
      return undefined as T;
    };
    const head = {
      params: checked(check.path(params, ["path"])),
      query: checked(check.query(withTypes(target.query, typed), ["query"])),
      headers: checked(check.header(pick(request, headerNames), ["header"])),
    };
    if (details.length > 0) throw refusal(details);
    const key = takesKey ? (head.headers as Record<string, string>)[idempotencyKey] : undefined;
    const isKnown = key !== undefined && limits.isKnown(caller.userId, key);
    if (!isKnown && endpoint.errors.includes("disk_full")) await limits.checkDisk();
    const sent = check.body ? await readBody(request, bodyBytes, limits.pace, endpoint.verbatim) : null;
    const body = check.body && sent ? checked(check.body(sent.value, ["body"])) : {};
    if (details.length > 0) throw refusal(details);
    const lastEventId = endpoint.events ? (request.headers["last-event-id"]?.toString() ?? null) : null;
    let files: UploadedFile[] = [];
    try {
      if (endpoint.upload) {
        const { many, model } = endpoint.upload;
        const fileBytes = model ? limits.modelBytes : limits.upload.fileBytes;
        const settings = {
          fileBytes: model ? "PLUMBLINE_MODEL_BYTES" : "PLUMBLINE_UPLOAD_BYTES",
          files: many ? "PLUMBLINE_UPLOAD_FILES" : null,
        };
        // A repeated upload is read only because the digests of its files are part of the request's.
        const most = { files: many ? limits.upload.files : 1, fileBytes, settings, isKept: !isKnown };
        files = await receiveUpload(request, { ...limits.upload, ...most }, signal);
      }
      const input = { ...head, body, raw: sent?.raw ?? {}, files, requestId, lastEventId, signal, setHeader };
      const perform = (keepReply: KeepReply) => {
        // The first request has failed in the meantime, or its answer has expired. This one cannot be performed instead, because the
        // disk was not checked and no file was written.
        if (isKnown) throw new Failure("request_in_progress");
        return handler({ ...input, keepReply } as never, caller);
      };
      if (key === undefined) return await perform(() => {});
      const { method, path } = endpoint;
      const uploaded = files.map(({ name, declaredType, sha256 }) => [name, declaredType, sha256]);
      const digest = sha256(JSON.stringify([method, path, params, target.query, body, input.raw, uploaded]));
      const answered = await limits.once(caller.userId, key, digest, perform);
      if ("reply" in answered) return answered.reply;
      setHeader("idempotent-replayed", "true");
      return new JsonText(answered.again);
    } finally {
      await removeUploads(files);
    }
  };
}

function refusal(details: ValidationDetail[]): Failure {
  const sentences = details.slice(0, 5).map(({ loc, msg }) => `${loc.join(".")}: ${msg}`);
  return new Failure("validation", sentences.join("; "), { details });
}

type Properties = Record<string, { type?: string }>;

function namesOf(schema: unknown, which: (property: { type?: string }) => boolean): string[] {
  const properties = (schema as { properties?: Properties } | undefined)?.properties ?? {};
  return Object.keys(properties).filter((name) => which(properties[name]!));
}

/**
 * Converts query values, which are text. Digits become numbers where the contract says integer, and true and false become booleans
 * where it says boolean. Anything else stays text, which the schema then refuses.
 */
function withTypes(
  query: Record<string, string>,
  { integers, booleans }: { integers: string[]; booleans: string[] },
): Record<string, unknown> {
  const values: Record<string, unknown> = { ...query };
  for (const name of integers) {
    const number = Number(values[name]);
    if (/^\d+$/.test(String(values[name])) && Number.isSafeInteger(number)) values[name] = number;
  }
  for (const name of booleans) if (/^(true|false)$/.test(String(values[name]))) values[name] = values[name] === "true";
  return values;
}

const pick = (request: IncomingMessage, names: string[]): Record<string, unknown> =>
  Object.fromEntries(names.flatMap((name) => (name in request.headers ? [[name, request.headers[name]]] : [])));
