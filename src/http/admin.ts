// The admin socket: a unix socket that only the owner of the data folder can open. A request is one JSON line
// ({verb, args}), and so is its answer ({value} or {failure}). The caller supplies the verbs.
import { chmodSync, closeSync, openSync } from "node:fs";
import { rm } from "node:fs/promises";
import { createConnection, createServer, type Socket } from "node:net";
import { basename, dirname } from "node:path";
import { Failure, type FailureCode, failures } from "../base/errors.ts";
import { isErrno } from "../base/files.ts";
import type { Log } from "../base/log.ts";
import { linesOf } from "../base/processes.ts";
import type { Verbs } from "../contract/admin.ts";
import { toFailure } from "./failures.ts";

type Answer = { value: unknown } | { failure: { code: FailureCode; message: string } };

const maxLine = 1 << 20;

/** Returns a short path to a socket, whose path may have at most 107 bytes. A long one goes through an open handle of its folder. */
function shortened(path: string): { path: string; done: () => void } {
  if (Buffer.byteLength(path) < 100) return { path, done: () => {} };
  const folder = openSync(dirname(path), "r");
  return { path: `/proc/self/fd/${folder}/${basename(path)}`, done: () => closeSync(folder) };
}

/**
 * Serves the verbs on a socket. The caller must hold the data lock, so an existing socket file is left over from a dead process and is
 * removed. `admit` is called before each verb, and refuses it by throwing.
 */
export async function serveAdmin(
  path: string,
  verbs: Verbs,
  log: Log,
  admit: () => void,
): Promise<{ close(): Promise<void> }> {
  await rm(path, { force: true });
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => open.delete(socket));
    socket.once("data", (start) => limit(socket, start.length));
    answerLines(socket, verbs, log, admit).catch((error) => log("error", "admin.failed", { error }));
  });
  const at = shortened(path);
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(at.path, resolve));
  chmodSync(at.path, 0o600);
  at.done();
  return {
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of open) socket.destroy();
      }),
  };
}

function limit(socket: Socket, start: number): void {
  let bytes = start;
  socket.on("data", (part) => {
    bytes += part.length;
    if (bytes > maxLine) socket.destroy();
  });
}

async function answerLines(socket: Socket, verbs: Verbs, log: Log, admit: () => void): Promise<void> {
  for await (const line of linesOf(socket)) {
    const answer = await perform(line, verbs, log, admit);
    if (!socket.destroyed) socket.write(`${JSON.stringify(answer)}\n`);
  }
}

async function perform(line: string, verbs: Verbs, log: Log, admit: () => void): Promise<Answer> {
  try {
    const { verb, args } = JSON.parse(line) as { verb: string; args: unknown };
    admit();
    return { value: (await verbOf(verbs, verb)(args)) ?? null };
  } catch (error) {
    const failure = toFailure(error);
    if (failure.code === "internal") log("error", "admin.failed", { error });
    return { failure: { code: failure.code, message: failure.message } };
  }
}

export function verbOf(verbs: Verbs, verb: string): Verbs[string] {
  const handler = Object.hasOwn(verbs, verb) ? verbs[verb] : undefined;
  if (!handler) throw new Failure("bad_request", `Unknown verb: ${verb}`);
  return handler;
}

/** Asks the appliance to perform a verb. Returns null if no process listens on the socket. Throws the appliance's failure. */
export async function askAdmin(path: string, verb: string, args: unknown): Promise<{ value: unknown } | null> {
  const socket = await connected(path);
  if (socket === null) return null;
  try {
    socket.on("error", () => {});
    socket.write(`${JSON.stringify({ verb, args })}\n`);
    for await (const line of linesOf(socket)) return read(JSON.parse(line) as Answer);
    throw new Failure("internal", "The appliance stopped before it answered");
  } finally {
    socket.destroy();
  }
}

/** Connects to a socket. Returns null if no process listens on it, or if its folder does not exist yet. */
async function connected(path: string): Promise<Socket | null> {
  try {
    const at = shortened(path);
    try {
      const socket = createConnection(at.path);
      await new Promise<void>((resolve, reject) => socket.once("connect", resolve).once("error", reject));
      return socket;
    } finally {
      at.done();
    }
  } catch (error) {
    if (isErrno(error, "ENOENT", "ECONNREFUSED")) return null;
    throw error;
  }
}

function read(answer: Answer): { value: unknown } {
  if ("value" in answer) return answer;
  const { code, message } = answer.failure;
  throw new Failure(code in failures ? code : "internal", message);
}
