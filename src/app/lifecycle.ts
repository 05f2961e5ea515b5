// Starts and stops the appliance that main.ts has built: recovers interrupted work, listens, does the slow part of the start in the
// background, and closes everything in order.
import { type Config, places } from "../base/config.ts";
import type { Lock } from "../base/lock.ts";
import type { Log } from "../base/log.ts";
import type { Traces } from "../base/traces.ts";
import type { Trial } from "../base/trial.ts";
import type { Verbs } from "../contract/admin.ts";
import type { Access } from "../domain/access/index.ts";
import type { AlignmentsRoom } from "../domain/alignments/room.ts";
import type { Documents } from "../domain/documents/index.ts";
import type { Serving } from "../domain/models/serving.ts";
import type { Stock } from "../domain/models/stock.ts";
import type { Webhooks } from "../domain/webhooks/index.ts";
import type { Generator } from "../engine/generator.ts";
import type { Address } from "../http/address.ts";
import { serveAdmin, verbOf } from "../http/admin.ts";
import type { Server } from "../http/server.ts";
import type { Executor } from "../jobs/executor.ts";
import type { Queue } from "../jobs/queue.ts";
import type { Runner, Workers } from "../jobs/runner.ts";
import type { Ballast } from "../store/ballast.ts";
import type { Store } from "../store/open.ts";

export interface House {
  /** Starts to answer requests; slow parts of the start follow in the background. Resolves to the base URL. */
  listen(): Promise<string>;
  /** Link at which a browser on this machine creates the first API key; null if a key exists. */
  claimLink(): string | null;
  /** Performs a verb of the admin socket. */
  admin(verb: string, args: unknown): Promise<unknown>;
  close(): Promise<void>;
}

export interface Built {
  config: Config;
  log: Log;
  version: string;
  lock: Lock;
  store: Store;
  ballast: Ballast;
  traces: Traces;
  trial: Trial;
  queue: Queue;
  runner: Runner;
  workers: Workers;
  executor: Executor;
  generator: Generator;
  address: Address;
  server: Server;
  verbs: Verbs;
  access: Access;
  webhooks: Webhooks;
  documents: Documents;
  serving: Serving;
  stock: Stock;
  alignments: AlignmentsRoom;
  /** Called when no run is active any more, before the database is closed. */
  closing: readonly (() => Promise<void>)[];
}

export async function createLifecycle(built: Built): Promise<House> {
  const { config, log, store, queue, runner, address, server, verbs, access } = built;
  let admin: { close(): Promise<void> } | null = null;
  let settling: Promise<void> = Promise.resolve();
  const ending = new AbortController();
  await built.documents.prepare();
  await built.stock.prepare();

  /** Does the slow part of the start. A starter model that cannot be imported does not prevent redeployment. */
  async function settle(): Promise<void> {
    await built.ballast.look();
    await built.alignments.tidy();
    runner.start({ ...built.serving.afterRedeployment(built.workers), ...built.serving.workers });
    const unfinished = (what: string) => (error: unknown) => log("error", "start.unfinished", { what, error });
    await built.stock.importStarter(config.starterModel).catch(unfinished("starter model"));
    await built.serving.redeployAtStart(ending.signal).catch(unfinished("redeployment"));
    await built.documents.sweep();
  }

  return {
    async listen() {
      queue.recover();
      built.alignments.recover();
      const url = await address.listen(server, access.anyKey());
      admin = await serveAdmin(places(config.data).adminSocket, verbs, log, built.trial.checkWritable);
      built.webhooks.start();
      settling = settle().catch((error) => log("error", "start.unfinished", { error }));
      log("info", "listening", { url, version: built.version });
      return url;
    },

    claimLink() {
      const token = access.claimToken();
      // The token is in the fragment, which a browser does not send to the server. The page's script sends the token.
      return token === null ? null : `${address.url()}/first-key#${token}`;
    },

    async admin(verb, args) {
      built.trial.checkWritable();
      return verbOf(verbs, verb)(args);
    },

    async close() {
      try {
        ending.abort();
        await admin?.close();
        await server.close();
        await settling;
        // Runs end before the engine. They resume from their last checkpoint at the next start.
        const ended = Promise.all([runner.stop(), built.executor.close()]);
        // The workers' signal is aborted by now. One that waits for a model would wait for ever, because no more are loaded.
        built.serving.giveUp();
        await ended;
        await built.generator.dispose();
        await built.traces.close();
        await Promise.all(built.closing.map((close) => close()));
        store.close();
      } finally {
        built.lock.release();
      }
    },
  };
}
