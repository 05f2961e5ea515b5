// Limits on what one client may hold: connections, and requests on each. A refused connection is closed in both directions. If it were
// half closed, it would hold one of the few file descriptors for as long as the client likes.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Config } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import { networkOf } from "./address.ts";

/** How long a response that closes its connection may take to arrive. */
const lingerMs = 1_000;

/** Sends the last text of a connection, then closes it whether or not the client does. */
export function endWith(socket: Socket, text: string): void {
  socket.end(text);
  const timer = setTimeout(() => socket.destroy(), lingerMs).unref();
  socket.once("close", () => clearTimeout(timer));
}

/** How long a client may go on sending data that is discarded. */
const unreadMs = 2_000;

/**
 * Lets a client that is still sending read its response before the connection ends. Node would close both directions at once;
 * data that arrives after that is answered with a reset, and the response is lost.
 */
export function endGently(socket: Socket): void {
  socket.destroySoon = () => {
    socket.end();
    const timer = setTimeout(() => socket.destroy(), unreadMs).unref();
    socket.once("close", () => clearTimeout(timer));
  };
}

/** Limits connections, in total and per network. `refusal` makes the raw response to a client that has too many. */
export function limitConnections(
  server: Server,
  { connections, connectionsPerAddress }: Pick<Config, "connections" | "connectionsPerAddress">,
  refusal: (failure: Failure) => string,
): void {
  const held = new Map<string, number>();
  // Node closes connections beyond this at once. It sends no response, because no resources are left for one.
  server.maxConnections = connections;
  server.on("connection", (socket: Socket) => {
    const network = networkOf(socket.remoteAddress ?? "");
    const count = (held.get(network) ?? 0) + 1;
    held.set(network, count);
    socket.once("close", () => {
      const left = held.get(network)! - 1;
      if (left === 0) held.delete(network);
      else held.set(network, left);
    });
    if (count <= connectionsPerAddress) return;
    socket.end(refusal(new Failure("too_many_connections")));
    socket.destroySoon();
  });
}

/**
 * Cuts off a client that reads nothing of its response for `stallMs`. Otherwise the response would stay in the socket's buffer
 * and hold the connection for ever. Node's socket timeout does not expire while data is leaving the socket.
 */
export function endStalled(response: ServerResponse, stallMs: number): void {
  const watch = (): void => void response.setTimeout(stallMs);
  // A file is piped, so it is watched from its first bytes on. A text is written in one go, so it is watched from its end.
  response.once("pipe", watch).once("prefinish", watch);
}

type Handle = (request: IncomingMessage, response: ServerResponse) => void;

interface Line {
  answering: ServerResponse;
  waiting: { response: ServerResponse; begin: () => void }[];
  /** Whether a request exceeded the limit. That request is the last one to be answered. */
  isFull: boolean;
  /** Number of requests that came after the last one to be answered. */
  ignored: number;
}

/** Node keeps each ignored request in memory until the connection closes, so beyond this number the connection is destroyed. */
const mostIgnored = 1_000;

export interface Turns {
  handle: Handle;
  /** The response that is being written to a connection. */
  answering(socket: Socket): ServerResponse | undefined;
}

/**
 * Handles the requests of one connection one after the other: each begins once the response before it was sent. HTTP requires
 * this order of responses, and requests sent ahead cost nothing once the client has left. The first request beyond `most` is
 * refused in its turn, and ends the connection.
 */
export function inTurn(handle: Handle, most: number, refuse: Handle): Turns {
  const lines = new WeakMap<Socket, Line>();

  function answer(line: Line, socket: Socket, response: ServerResponse, begin: () => void): void {
    line.answering = response;
    // Clears the timeout that the response before this one set, because the client is not to blame for the time to answer.
    socket.setTimeout(0);
    response.once("close", () => {
      const next = socket.destroyed ? undefined : line.waiting.shift();
      if (next === undefined) lines.delete(socket);
      else answer(line, socket, next.response, next.begin);
    });
    begin();
  }

  return {
    answering: (socket) => lines.get(socket)?.answering,
    handle(request, response) {
      const { socket } = request;
      const line = lines.get(socket);
      if (line === undefined) {
        const first: Line = { answering: response, waiting: [], isFull: false, ignored: 0 };
        lines.set(socket, first);
        answer(first, socket, response, () => handle(request, response));
        return;
      }
      if (line.isFull) {
        if (++line.ignored > mostIgnored) socket.destroy();
        return;
      }
      // The request that is being answered counts too.
      line.isFull = line.waiting.length + 1 >= most;
      const begin = line.isFull ? refuse : handle;
      line.waiting.push({ response, begin: () => begin(request, response) });
    },
  };
}
