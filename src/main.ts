// The whole house on one page: what is built, in which order, and who may call whom. Rooms meet here and nowhere else.
import { readdir, readFile, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type Config, installation, places } from "./base/config.ts";
import { Failure } from "./base/errors.ts";
import { makeFolder } from "./base/files.ts";
import { type Lock, tryLock } from "./base/lock.ts";
import type { Log } from "./base/log.ts";
import { type Clock, sleep, systemClock } from "./base/time.ts";
import { benchmarks as benchmarkPromises } from "./contract/benchmarks.ts";
import { documents as documentPromises } from "./contract/documents.ts";
import { contract, interfaceVersion } from "./contract/index.ts";
import { system as systemPromises } from "./contract/system.ts";
import { createAccess } from "./domain/access/index.ts";
import { createBenchmarks } from "./domain/benchmarks/index.ts";
import { createDocuments } from "./domain/documents/index.ts";
import { createSystem } from "./domain/system/index.ts";
import { askAdmin, serveAdmin, type Verbs, verbOf } from "./http/admin.ts";
import { type Limits, mount } from "./http/mount.ts";
import { renderOpenApi } from "./http/openapi.ts";
import { isLoopback } from "./http/request.ts";
import { createServer } from "./http/server.ts";
import { createBallast } from "./store/ballast.ts";
import { openStore } from "./store/open.ts";

export interface HouseParts {
  config: Config;
  log: Log;
  clock?: Clock;
  /** Bytes kept in reserve for a full disk. */
  ballastBytes?: number;
  /** The disk failed under the database: what was committed is unknown until everything is opened anew. */
  onFatal?: (error: Error) => void;
}

export interface House {
  /** Starts to answer; what takes long follows. Resolves to the base URL. */
  listen(): Promise<string>;
  /** A verb of the administrators' door. */
  admin(verb: string, args: unknown): Promise<unknown>;
  close(): Promise<void>;
}

const leave = (error: Error): never => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
};

export async function createHouse(parts: HouseParts): Promise<House> {
  const { config, log, clock = systemClock, ballastBytes = 64 << 20, onFatal = leave } = parts;
  const at = places(config.data);
  const lock = await enter(config);
  const { version } = JSON.parse(await readFile(join(installation, "package.json"), "utf8")) as { version: string };

  const store = openStore(at.database, { onIoError: onFatal });
  const ballast = createBallast({ path: at.ballast, bytes: ballastBytes, freeDisk: config.freeDisk, log });

  const access = createAccess({ store, clock });
  const documents = createDocuments({ store, clock, log, folder: at.blobs });
  const benchmarks = createBenchmarks({ store, clock, keepDocument: documents.keepBenchmark });
  const system = createSystem({
    version,
    clock,
    degraded: () => (ballast.isLow() ? ["The disk is nearly full: new work is refused"] : []),
    waitingFor: () => [],
  });

  const limits: Limits = {
    bodyBytes: config.bodyBytes,
    upload: {
      folder: at.uploads,
      fileBytes: config.uploadBytes,
      files: config.uploadFiles,
      freeDisk: config.freeDisk,
    },
    checkDisk: ballast.check,
  };
  const server = createServer({
    config,
    log,
    authenticate: access.authenticate,
    openapi: renderOpenApi(contract, interfaceVersion),
    routes: [
      ...mount(systemPromises, system, limits),
      ...mount(documentPromises, documents.handlers, limits),
      ...mount(benchmarkPromises, benchmarks.handlers, limits),
    ],
  });

  const verbs: Verbs = {
    "key.create": (args) => access.createKey(stringOf(args, "user")),
    "key.list": () => access.listKeys(),
    "key.revoke": (args) => access.revokeKey(stringOf(args, "id")),
  };

  await documents.prepare();
  let door: { close(): Promise<void> } | null = null;
  let after: Promise<void> = Promise.resolve();

  /** What nobody waits for. */
  async function settle(): Promise<void> {
    await ballast.look();
    await documents.sweep();
  }

  return {
    async listen() {
      const address = await server.listen(config.port, hostFor(config, access.anyKey(), log));
      door = await serveAdmin(at.adminSocket, verbs, log);
      after = settle().catch((error) => log("error", "start.unfinished", { error }));
      const url = urlOf(address);
      log("info", "listening", { url, version });
      return url;
    },

    admin: async (verb, args) => verbOf(verbs, verb)(args),

    async close() {
      await door?.close();
      await server.close();
      await after;
      await Promise.all([documents.close(), benchmarks.close(), ballast.close()]);
      store.close();
      lock.release();
    },
  };
}

/** The data folder, ours alone: the lock goes when the process does, however it ends. */
async function enter(config: Config): Promise<Lock> {
  const at = places(config.data);
  for (const folder of [config.data, at.models, at.runs, at.uploads]) await makeFolder(folder);
  const lock = tryLock(at.lock);
  if (!lock) throw new Failure("data_locked", `Another plumbline uses ${config.data}`);
  for (const name of await readdir(at.uploads)) await rm(join(at.uploads, name), { recursive: true, force: true });
  return lock;
}

/** Without a key anyone who reaches the address could do nothing but wait for the first key to leak: so nobody reaches it. */
function hostFor(config: Config, anyKey: boolean, log: Log): string {
  if (anyKey || isLoopback(config.host)) return config.host;
  log("warn", "loopback_only", {
    wanted: config.host,
    hint: "No API key exists, so only this machine is answered. Make one with `plumbline key create --user NAME`, then restart.",
  });
  return "127.0.0.1";
}

const urlOf = ({ address, family, port }: AddressInfo): string => {
  const host = address === "0.0.0.0" || address === "::" ? "127.0.0.1" : address;
  return `http://${family === "IPv6" && host === address ? `[${host}]` : host}:${port}`;
};

function stringOf(args: unknown, name: string): string {
  const value = (args as Record<string, unknown> | null)?.[name];
  if (typeof value !== "string") throw new Failure("bad_request", `${name} is missing`);
  return value;
}

/**
 * Does a verb wherever it can be done: in the running appliance through its socket, else in a house of our own that never
 * listens. A running one that cannot be reached yet is waited for.
 */
export async function callAdmin(config: Config, log: Log, verb: string, args: unknown = {}): Promise<unknown> {
  for (let tries = 1; ; tries++) {
    const answered = await askAdmin(places(config.data).adminSocket, verb, args);
    if (answered) return answered.value;
    try {
      return await withHouse({ config, log }, (house) => house.admin(verb, args));
    } catch (error) {
      if (!(error instanceof Failure && error.code === "data_locked") || tries === 10) throw error;
      await sleep(300);
    }
  }
}

export async function withHouse<T>(parts: HouseParts, work: (house: House) => Promise<T>): Promise<T> {
  const house = await createHouse(parts);
  try {
    return await work(house);
  } finally {
    await house.close();
  }
}
