// The middleware around every request: id → errors → head and host → key → contract → handler. Only this layer uses Koa, and it
// names no resource.
import {
  createServer as createNodeServer,
  type IncomingMessage,
  type Server as NodeServer,
  type ServerResponse,
} from "node:http";
import type { AddressInfo, Socket } from "node:net";
import Koa, { type Context, type Next } from "koa";
import type { Config } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import { randomWord } from "../base/ids.ts";
import type { Log } from "../base/log.ts";
import { sleep } from "../base/time.ts";
import type { Traces } from "../base/traces.ts";
import { type Caller, Download, type Endpoint, EventStream, JsonText, PlainText } from "../contract/endpoint.ts";
import { endGently, endStalled, endWith, inTurn, limitConnections, type Turns } from "./connections.ts";
import { type Dialect, failureBody, failureHeaders, failureIn, rawAnswer, rawFailure, toFailure } from "./failures.ts";
import { createGuesses } from "./guesses.ts";
import { createFinder, type Route } from "./mount.ts";
import { checkHeaders, checkHost, isLoopback, keyOf, targetOf } from "./request.ts";
import { keepAliveMs, sendEvents } from "./sse.ts";
import { consolePolicy, type StaticFiles } from "./static.ts";

export interface ServerParts {
  config: Config;
  log: Log;
  routes: Route[];
  authenticate: (key: string) => Caller | null;
  /** Checks that the caller may make this request now. Throws forbidden, too_many_requests. */
  admit: (caller: Caller, endpoint: Endpoint, setHeader: (name: string, value: string) => void) => void;
  /** Called before every request that may write. Throws upgrade_on_trial. */
  checkWritable: () => void;
  traces: Traces;
  /** Called when a request has ended, with the name of its route, or "none". Status 499 means that the client left. */
  count: (route: string, status: number) => void;
  /** Pages by their path, served to anyone; each is rendered on its first request. */
  pages: Readonly<Record<string, Page>>;
  /** The console's files, served to anyone, because they contain no data of the appliance. */
  files: StaticFiles;
}

export interface Page {
  type: "application/json" | "text/html";
  render: () => string;
}

export interface Server {
  listen(port: number, host: string): Promise<AddressInfo>;
  /** Listens on another address at the same port, while requests under way go on. If that fails, listens on the old one again. */
  move(host: string): Promise<AddressInfo>;
  /** Accepts no more requests, gives those under way `graceMs` to finish, then cuts them off. */
  close(): Promise<void>;
}

interface State {
  requestId: string;
  log: Log;
  /** Aborted when the client leaves or the server closes. */
  signal: AbortSignal;
  caller: Caller;
  /** Name of the route; "none" until it is found. */
  route: string;
  isWatched: boolean;
  /** Form of the error bodies. */
  dialect: Dialect;
}

type Ctx = Context & { state: State };

/** The caller of endpoints that need no key. */
const nobody: Caller = Object.freeze({ userId: "", userName: "", keyId: "" });
const graceMs = 5_000;
/** Logged status of a request whose client left before it was answered, as in nginx. */
const clientLeft = 499;

const newRequestId = (): string => `req_${randomWord()}`;

/** Returns the host names that requests may have, besides those of loopback. */
function servedHosts({ host, publicUrl, allowedHosts }: ServerParts["config"]): Set<string> {
  const publicHost = publicUrl === "" ? [] : [new URL(publicUrl).hostname.replace(/^\[|\]$/g, "")];
  return new Set([host, ...publicHost, ...allowedHosts].map((name) => name.toLowerCase()));
}

export function createServer(parts: ServerParts): Server {
  const app = new Koa({ proxy: false });
  const leaving = new Set<AbortController>();
  // Reports connections that broke during a response. All other errors are answered below.
  app.on("error", (error) => parts.log("debug", "connection.failed", { error }));
  app.use(identify(parts, leaving, dialectsOf(parts.routes)));
  app.use(answerErrors);
  app.use(checkHead(servedHosts(parts.config)));
  app.use(askForKey(parts));
  app.use(answer(parts));
  const { config } = parts;
  const respond = app.callback();
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    endStalled(response, config.stallSeconds * 1000);
    void respond(request, response);
  };
  const turns = inTurn(handle, config.requestsPerConnection, refuseSentAhead);
  const server = createNodeServer(
    {
      maxHeaderSize: 16_384,
      headersTimeout: config.headSeconds * 1000,
      // Node's limit for head and body together; bodies also have limits of their own.
      requestTimeout: (config.headSeconds + Math.max(config.bodySeconds, config.uploadSeconds)) * 1000,
      connectionsCheckingInterval: 1_000,
      keepAliveTimeout: 65_000,
    },
    turns.handle,
  );
  limitConnections(server, config, (failure) => rawFailure(failure, newRequestId()));
  refuseWhatIsNoRequest(server, turns);
  const listen = (port: number, host: string): Promise<AddressInfo> =>
    new Promise((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, host, () => {
        server.off("error", reject);
        resolve(server.address() as AddressInfo);
      });
    });
  return {
    listen,
    async move(host) {
      const { port, address } = server.address() as AddressInfo;
      server.close();
      try {
        return await listen(port, host);
      } catch (error) {
        await listen(port, address);
        throw error;
      }
    },
    close: () => closeServer(server, leaving),
  };
}

async function closeServer(server: NodeServer, leaving: Set<AbortController>): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve));
  const end = performance.now() + graceMs;
  while (leaving.size > 0 && performance.now() < end) await sleep(20);
  for (const controller of leaving) controller.abort();
  // Node counts connections that have sent no request yet as busy, and would wait for them.
  server.closeAllConnections();
  await closed;
}

/** Answers errors of Node's HTTP parser, and CONNECT requests. Neither ever reaches the middleware. */
function refuseWhatIsNoRequest(server: NodeServer, turns: Turns): void {
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    const answer = turns.answering(socket);
    const isInTheMiddle = answer?.headersSent && !answer.writableFinished;
    // Nothing may be written into the middle of a response.
    if (error.code === "ECONNRESET" || !socket.writable || isInTheMiddle) socket.destroy();
    else endWith(socket, rawAnswer(error.code, newRequestId()));
  });
  server.on("connect", (_request, socket: Socket) => {
    // Node has removed its own listener, and without one a client that resets the connection would end the process.
    socket.on("error", () => socket.destroy());
    // The client would take the refusal as the answer to its request before this one.
    if (turns.answering(socket)) socket.destroy();
    else endWith(socket, rawFailure(new Failure("method_not_allowed"), newRequestId()));
  });
}

function refuseSentAhead(_request: IncomingMessage, response: ServerResponse): void {
  const requestId = newRequestId();
  const failure = new Failure("too_many_requests", "Too many requests were sent ahead on this connection");
  const headers = { ...failureHeaders(failure), connection: "close", "x-request-id": requestId };
  response.writeHead(failure.status, { ...headers, "content-type": "application/json; charset=utf-8" });
  response.end(JSON.stringify(failureBody(failure, requestId)));
}

/** Returns the dialects by path, because an error can occur before the route is known. */
const dialectsOf = (routes: readonly Route[]): Map<string, Dialect> =>
  new Map(
    routes.flatMap(({ endpoint: { path, aliases = [], dialect } }) =>
      dialect === undefined ? [] : [path, ...aliases].map((one): [string, Dialect] => [one, dialect]),
    ),
  );

const identify =
  ({ log, count, traces }: ServerParts, leaving: Set<AbortController>, dialects: ReadonlyMap<string, Dialect>) =>
  async (ctx: Ctx, next: Next): Promise<void> => {
    const requestId = newRequestId();
    // The query is not logged, because a client may have put a secret in it.
    const path = (ctx.req.url ?? "").split("?")[0]!;
    const dialect = dialects.get(path) ?? "openai";
    const controller = new AbortController();
    const started = performance.now();
    ctx.state = {
      requestId,
      log: log.with({ requestId }),
      signal: controller.signal,
      caller: nobody,
      route: "none",
      isWatched: false,
      dialect,
    };
    ctx.set({ "x-request-id": requestId, "x-content-type-options": "nosniff" });
    if (dialect === "anthropic") ctx.set("request-id", requestId);
    leaving.add(controller);
    const { traceparent } = ctx.req.headers;
    const span = traces.begin(ctx.method, {
      kind: "server",
      ...(typeof traceparent === "string" && { traceparent }),
      attributes: { "http.request.method": ctx.method, "plumbline.request": requestId },
    });
    ctx.res.once("close", () => {
      leaving.delete(controller);
      // Koa's status starts as 404, which means nothing until the headers are sent.
      const status = ctx.res.headersSent ? ctx.res.statusCode : clientLeft;
      if (!ctx.res.writableFinished) controller.abort();
      const ms = Math.round(performance.now() - started);
      const { keyId } = ctx.state.caller;
      count(ctx.state.route, status);
      // A span that is never ended is never sent. Watched routes are polled, so their spans would hide all others.
      if (!ctx.state.isWatched)
        span.end({
          name: `${ctx.method} ${ctx.state.route}`,
          attributes: { "http.route": ctx.state.route, "http.response.status_code": status },
          ...(status >= 500 && { error: String(status) }),
        });
      const level = ctx.state.isWatched ? "debug" : "info";
      ctx.state.log(level, "request", { method: ctx.method, path: path.slice(0, 300), status, ms, keyId });
    });
    await span.run(next);
  };

async function answerErrors(ctx: Ctx, next: Next): Promise<void> {
  try {
    await next();
  } catch (error) {
    const failure = toFailure(error);
    // A refusal for lack of resources is expected and only a warning; an internal error is a bug.
    const level = failure.code === "internal" ? "error" : failure.status >= 500 ? "warn" : "debug";
    ctx.state.log(level, "request.failed", { error, context: failure.context });
    ctx.status = failure.status;
    ctx.set(failureHeaders(failure));
    ctx.body = failureIn[ctx.state.dialect].body(failure, ctx.state.requestId);
  }
  if (!ctx.req.complete) refuseTheRest(ctx);
}

/** Discards the rest of the body for a moment, then ends the connection. */
function refuseTheRest(ctx: Ctx): void {
  ctx.set("connection", "close");
  endGently(ctx.req.socket);
  ctx.res.once("finish", () => {
    ctx.req.unpipe();
    ctx.req.resume();
  });
}

const checkHead =
  (served: ReadonlySet<string>) =>
  async (ctx: Ctx, next: Next): Promise<void> => {
    checkHeaders(ctx.req);
    checkHost(ctx.req, served);
    await next();
  };

const isHere = (ctx: Ctx): boolean => isLoopback(ctx.req.socket.remoteAddress?.replace(/^::ffff:/, "") ?? "");

/** Checks the key. It runs before routing, so that without a key every path under /api or /v1 gets the same answer, known or not. */
const askForKey = ({ authenticate, routes }: ServerParts) => {
  const guesses = createGuesses();
  const closedElsewhere = new Set(
    routes.flatMap(({ endpoint }) => (endpoint.open === "key_elsewhere" ? [endpoint.path] : [])),
  );
  const needsKey = (ctx: Ctx): boolean => {
    const path = (ctx.req.url ?? "").split("?")[0]!;
    return /^\/(api|v1)(\/|$)/.test(path) || (closedElsewhere.has(path) && !isHere(ctx));
  };
  return async (ctx: Ctx, next: Next): Promise<void> => {
    try {
      if (needsKey(ctx)) {
        const caller = authenticate(keyOf(ctx.req));
        if (!caller) throw new Failure("unauthorized");
        ctx.state.caller = caller;
      }
      await next();
    } catch (error) {
      if (toFailure(error).code === "unauthorized") guesses.count(ctx.req.socket.remoteAddress ?? "");
      throw error;
    }
  };
};

/** The policy of `pages`, which have no scripts and load nothing. */
const pagePolicy =
  "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Throws method_not_allowed unless the request only reads. */
function checkReads(ctx: Ctx): void {
  if (ctx.method === "GET" || ctx.method === "HEAD") return;
  ctx.set("allow", "GET, HEAD");
  throw new Failure("method_not_allowed");
}

function answerFile(ctx: Ctx, file: NonNullable<ReturnType<StaticFiles["get"]>>): void {
  checkReads(ctx);
  const { type, content, etag } = file();
  ctx.set({
    etag,
    // Browsers ask each time, so that an upgrade is seen at once. The answer is empty if nothing has changed.
    "cache-control": "no-cache",
    "content-security-policy": consolePolicy,
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
  });
  ctx.type = type;
  if (ctx.req.headers["if-none-match"] === etag) ctx.status = 304;
  else ctx.body = content;
}

const answer = ({ routes, pages, files, admit, checkWritable, log, config }: ServerParts) => {
  const stallMs = config.stallSeconds * 1000;
  /** Rendered pages as bytes, so that they are not encoded for each request. */
  const rendered = new Map<string, Buffer>();
  const find = createFinder(routes);
  return async (ctx: Ctx): Promise<void> => {
    const target = targetOf(ctx.req);
    if (Object.hasOwn(pages, target.path)) {
      ctx.state.route = target.path;
      checkReads(ctx);
      const { type, render } = pages[target.path]!;
      const page = rendered.get(target.path) ?? Buffer.from(render());
      rendered.set(target.path, page);
      ctx.type = type;
      ctx.set({ "content-security-policy": pagePolicy, "referrer-policy": "no-referrer" });
      ctx.body = page;
      return;
    }
    const file = files.get(target.path);
    if (file) {
      ctx.state.route = "console";
      ctx.state.isWatched = true;
      answerFile(ctx, file);
      return;
    }
    const { route, params, allowed } = find(ctx.method, target.path);
    if (!route) {
      if (allowed.length === 0) throw new Failure("unknown_path");
      ctx.set("allow", allowed.join(", "));
      throw new Failure("method_not_allowed");
    }
    ctx.state.route = route.name;
    ctx.state.isWatched = route.endpoint.watched === true;
    const { requestId, signal, caller } = ctx.state;
    const setHeader = (name: string, value: string): void => ctx.set(name, value);
    const { open } = route.endpoint;
    if (open === "loopback" && !isHere(ctx))
      throw new Failure("forbidden", "Only requests from the machine itself are answered here");
    if (!open && caller === nobody) throw new Failure("internal", "An endpoint is outside /api and /v1");
    if (caller !== nobody) admit(caller, route.endpoint, setHeader);
    if (route.endpoint.method !== "GET") checkWritable();
    const reply = await route.perform({ request: ctx.req, target, params, caller, requestId, signal, setHeader });
    if (reply instanceof Download) {
      // We make the name from letters, digits, dots and underscores, so it needs no escaping.
      ctx.set("content-disposition", `attachment; filename="${reply.name}"`);
      ctx.body = reply.content;
      ctx.type = reply.mediaType;
      ctx.length = reply.bytes;
      return;
    }
    if (!(reply instanceof EventStream)) {
      ctx.status = route.endpoint.status ?? 200;
      const isText = reply instanceof JsonText || reply instanceof PlainText;
      if (isText) ctx.type = reply instanceof JsonText ? "application/json" : route.endpoint.text!;
      ctx.body = isText ? reply.text : reply;
      return;
    }
    ctx.respond = false;
    await sendEvents(
      ctx.res,
      reply,
      (error) => {
        const failure = toFailure(error);
        log("error", "stream.failed", { requestId, error });
        return failureIn[ctx.state.dialect].event(failure, requestId);
      },
      { keepAliveMs, stallMs },
    ).catch((error) => {
      // Nothing has been sent yet, so Koa can still answer with the error.
      ctx.respond = true;
      throw error;
    });
  };
};
