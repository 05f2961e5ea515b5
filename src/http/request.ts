// Checks of a request's head, made before any other work on the request.
import type { IncomingMessage } from "node:http";
import { isIPv4 } from "node:net";
import { Failure, invalid } from "../base/errors.ts";

const maxHeaders = 100;
const maxKeyLength = 512;

/** Headers that may occur only once, because Node takes the first of some and joins others. */
const single = new Set([
  "authorization",
  "content-encoding",
  "content-length",
  "content-type",
  "host",
  "idempotency-key",
  "last-event-id",
  "x-api-key",
  "x-provider",
  "x-session-id",
]);

export function checkHeaders(request: IncomingMessage): void {
  const names = request.rawHeaders.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase());
  if (names.length > maxHeaders) throw new Failure("headers_too_large");
  // Node reads "gzip, chunked" as if it said chunked, and a proxy in front may read it differently.
  const coding = request.headers["transfer-encoding"];
  if (coding !== undefined && coding.toLowerCase() !== "chunked")
    throw new Failure("bad_request", "Transfer-Encoding must be chunked; send the body without other encodings");
  const twice = names.find((name, index) => single.has(name) && names.indexOf(name) !== index);
  if (twice) throw new Failure("bad_request", `The header ${twice} occurs twice`);
}

/**
 * Guards against DNS rebinding: if a foreign page's name is made to point here, its requests have that name as Host. Throws misdirected,
 * and bad_request if Host is no host name.
 */
export function checkHost(request: IncomingMessage, served: ReadonlySet<string>): void {
  const match = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/i.exec(request.headers.host ?? "");
  if (!match) throw new Failure("bad_request", "The Host header is not a valid host name");
  const name = match[1]!.toLowerCase().replace(/^\[|\]$/g, "");
  const own = request.socket.localAddress?.replace(/^::ffff:/, "");
  if (!served.has(name) && !isLoopback(name) && name !== own) throw new Failure("misdirected");
}

export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));

/** Paths whose clients may send the key as x-api-key. */
const takesApiKey = /^(\/api\/v3\/inference|\/v1)(\/|$|\?)/;

/** Returns the API key as it was sent. Throws validation (422) without the header, unauthorized (401) if its form is wrong. */
export function keyOf(request: IncomingMessage): string {
  const header = request.headers.authorization;
  const apiKey = request.headers["x-api-key"];
  if (header === undefined && apiKey !== undefined && takesApiKey.test(request.url ?? "")) {
    if (!/^[\x21-\x7e]+$/.test(String(apiKey)) || apiKey.length > maxKeyLength) throw new Failure("unauthorized");
    return String(apiKey);
  }
  if (header === undefined) throw invalid(["header", "Authorization"], "field required", "missing");
  const key = /^bearer ([\x21-\x7e]+)$/i.exec(header)?.[1];
  if (key === undefined || key.length > maxKeyLength) throw new Failure("unauthorized");
  return key;
}

export interface Target {
  path: string;
  query: Record<string, string>;
}

/** Returns the path as it was sent, and the decoded query. No URL is rebuilt, so all code sees the same path as the router. */
export function targetOf(request: IncomingMessage): Target {
  const url = request.url ?? "";
  if (!url.startsWith("/")) throw new Failure("bad_request", "The request target must be a path");
  const at = url.indexOf("?");
  if (at < 0) return { path: url, query: {} };
  return { path: url.slice(0, at), query: readQuery(url.slice(at + 1)) };
}

function readQuery(text: string): Record<string, string> {
  const query: Record<string, string> = Object.create(null);
  for (const part of text.split("&").filter((piece) => piece !== "")) {
    const at = part.indexOf("=");
    const name = decode(at < 0 ? part : part.slice(0, at));
    if (name in query) throw new Failure("bad_request");
    query[name] = decode(at < 0 ? "" : part.slice(at + 1));
  }
  return query;
}

const decode = (text: string): string => decodePart(text.replaceAll("+", " "));

export function decodePart(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    throw new Failure("bad_request", undefined, { cause: error });
  }
}
