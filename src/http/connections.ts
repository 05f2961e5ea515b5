// What one client may hold: connections, and requests on each. A connection that is refused is closed for good: half closed, it
// would keep its descriptor for as long as the client likes, and those are few.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Config } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import { networkOf } from "./address.ts";

/** How long an answer that closes a connection may take to arrive. */
const lingerMs = 1_000;

/** Sends what is the last of a connection, and closes it whether or not the client does. */
export function endWith(socket: Socket, text: string): void {
  socket.end(text);
  const timer = setTimeout(() => socket.destroy(), lingerMs).unref();
  socket.once("close", () => clearTimeout(timer));
}

/** How long a client may still send what nobody reads. */
const unreadMs = 2_000;

/**
 * Lets a client that is still sending read its answer, after which the connection ends: Node would close it for both sides at once, and
 * what came after that would be met by a reset, in which the answer is lost.
 */
export function endGently(socket: Socket): void {
  socket.destroySoon = () => {
    socket.end();
    const timer = setTimeout(() => socket.destroy(), unreadMs).unref();
    socket.once("close", () => clearTimeout(timer));
  };
}

/** `refusal`: what a client is told that has too many, as bytes. */
export function limitConnections(
  server: Server,
  { connections, connectionsPerAddress }: Pick<Config, "connections" | "connectionsPerAddress">,
  refusal: (failure: Failure) => string,
): void {
  const held = new Map<string, number>();
  // What is over this is closed by Node as it comes, without a word: nothing is left to say it with.
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
 * Cuts off a client that takes nothing of its answer for so long: the answer would lie in the socket's buffer for ever, and hold the
 * connection. Node's timeout of a socket does not run while some of what is written leaves it.
 */
export function endStalled(response: ServerResponse, stallMs: number): void {
  const watch = (): void => void response.setTimeout(stallMs);
  // A text is written at once; a file is being written from its first bytes on.
  response.once("pipe", watch).once("prefinish", watch);
}

type Handle = (request: IncomingMessage, response: ServerResponse) => void;

interface Line {
  answering: ServerResponse;
  waiting: { response: ServerResponse; begin: () => void }[];
  /** One came that was too many: it is the last. */
  isFull: boolean;
  /** Came after that. */
  ignored: number;
}

/** Node keeps what it has read of each until the connection closes; whoever sends so many is no client. */
const mostIgnored = 1_000;

export interface Turns {
  handle: Handle;
  /** What is written to a connection now. */
  answering(socket: Socket): ServerResponse | undefined;
}

/**
 * Requests of one connection one after the other, each begun when the answer before it was sent: so has HTTP it for the answers,
 * and what a client sent ahead costs nothing once it is gone. One that is too many is refused in its turn, and ends the connection.
 */
export function inTurn(handle: Handle, most: number, refuse: Handle): Turns {
  const lines = new WeakMap<Socket, Line>();

  function answer(line: Line, socket: Socket, response: ServerResponse, begin: () => void): void {
    line.answering = response;
    // Sent ahead of this request: how long it may take to answer is not the client's doing.
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
      // With the one that is answered.
      line.isFull = line.waiting.length + 1 >= most;
      const begin = line.isFull ? refuse : handle;
      line.waiting.push({ response, begin: () => begin(request, response) });
    },
  };
}
