// Counts who uses which loaded model, so that the generator unloads a model when its last user has gone. A base without
// an adapter stays loaded for a while after its last request, so that the next one need not wait for a load. After a
// failed load, further loads are refused for a pause that grows each time, unless a person deploys the model.
import { basename } from "node:path";
import { Failure } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { type Clock, systemClock } from "../../base/time.ts";
import type { Generator, LoadedInfo, ModelRef } from "../../engine/generator.ts";

export type Use = "deployment" | "request" | "evaluation";

export interface Lease {
  info: LoadedInfo;
  /** Resolves once the model is unloaded, if this was its last user. A second release does nothing. */
  release(): Promise<void>;
}

export interface Loads {
  /**
   * Loads the model if needed; concurrent takes of one model share a load. Throws load_cooling for a while after one
   * that failed.
   */
  take(ref: ModelRef, use: Use): Promise<Lease>;
  /** Resolves when no request runs on the model. */
  quiet(ref: ModelRef): Promise<void>;
  /** Unloads the base that has been idle for longest; false if none is idle. */
  freeIdle(): Promise<boolean>;
}

interface Entry {
  key: string;
  ref: ModelRef;
  uses: Record<Use, number>;
  loaded: Promise<LoadedInfo>;
  /** Unload timer; set while nobody uses the model. */
  idle: NodeJS.Timeout | null;
  onQuiet: (() => void)[];
}

/** The pause after a failed load. */
interface Cooling {
  reason: string;
  pauseMs: number;
  /** End of the pause, by the monotonic clock. */
  untilMs: number;
}

const keepIdleMs = 5 * 60_000;
/** Pause after the first failure; doubled with each further one. */
const firstPauseMs = 10_000;
const longestPauseMs = 5 * 60_000;

const keyOf = (ref: ModelRef): string => `${ref.baseId} ${ref.adapter?.id ?? ""}`;
const isUnused = (entry: Entry): boolean => Object.values(entry.uses).every((count) => count === 0);

export function createLoads(parts: { generator: Generator; log: Log; clock?: Clock; keepMs?: number }): Loads {
  const { generator, log, clock = systemClock, keepMs = keepIdleMs } = parts;
  /** Models by key, loaded or loading; the idle ones are in the order in which they became idle. */
  const entries = new Map<string, Entry>();
  const coolings = new Map<string, Cooling>();
  /** Unloads under way; a take of the same model waits for their end. */
  const leaving = new Map<string, Promise<void>>();

  function enter(key: string, ref: ModelRef): Entry {
    const uses = { deployment: 0, request: 0, evaluation: 0 };
    const entry: Entry = { key, ref, uses, loaded: load(ref), idle: null, onQuiet: [] };
    entry.loaded.then(
      () => coolings.delete(key),
      (error) => {
        if (entries.get(key) === entry) entries.delete(key);
        cool(key, error);
      },
    );
    entries.set(key, entry);
    return entry;
  }

  async function load(ref: ModelRef): Promise<LoadedInfo> {
    const attempt = async (): Promise<LoadedInfo> => {
      try {
        return await generator.load(ref);
      } catch (error) {
        throw withoutFolders(error, ref);
      }
    };
    for (;;)
      try {
        return await attempt();
      } catch (error) {
        const isFull = error instanceof Failure && error.code === "out_of_memory";
        if (!isFull || !(await freeIdle())) throw error;
      }
  }

  /**
   * Starts or lengthens the pause after a failed load. There is none after out_of_memory, which is found before
   * anything is loaded and may pass at once, nor after load_ended_appliance, which lasts anyway.
   */
  function cool(key: string, error: unknown): void {
    if (error instanceof Failure && ["out_of_memory", "load_ended_appliance"].includes(error.code)) return;
    const pauseMs = Math.min(longestPauseMs, 2 * (coolings.get(key)?.pauseMs ?? firstPauseMs / 2));
    const reason = error instanceof Failure ? error.message : "for a reason given in the log";
    coolings.set(key, { reason, pauseMs, untilMs: clock.monotonicMs() + pauseMs });
  }

  function refuseCooling(key: string): void {
    const cooling = coolings.get(key);
    const leftMs = (cooling?.untilMs ?? 0) - clock.monotonicMs();
    if (cooling === undefined || leftMs <= 0) return;
    const retryAfterSeconds = Math.ceil(leftMs / 1000);
    throw new Failure(
      "load_cooling",
      `The last attempt to load it failed: ${cooling.reason}. The next is possible in ${retryAfterSeconds} s`,
      {
        retryAfterSeconds,
      },
    );
  }

  function unload(entry: Entry): Promise<void> {
    if (entry.idle) clearTimeout(entry.idle);
    entries.delete(entry.key);
    const gone = generator.unload(entry.ref).finally(() => leaving.delete(entry.key));
    leaving.set(
      entry.key,
      gone.catch((error) => log("error", "model.unload_failed", { model: entry.key, error })),
    );
    return gone;
  }

  async function freeIdle(): Promise<boolean> {
    const unused = [...entries.values()].find((entry) => entry.idle !== null);
    if (unused !== undefined) await unload(unused);
    return unused !== undefined;
  }

  async function leave(entry: Entry, use: Use): Promise<void> {
    entry.uses[use]--;
    if (entry.uses.request === 0) for (const tell of entry.onQuiet.splice(0)) tell();
    if (!isUnused(entry) || entries.get(entry.key) !== entry) return;
    if (entry.ref.adapter) return unload(entry);
    const timer = setTimeout(() => void unload(entry).catch(() => {}), keepMs);
    entry.idle = timer.unref();
    entries.delete(entry.key);
    entries.set(entry.key, entry);
  }

  return {
    freeIdle,
    async take(ref, use) {
      const key = keyOf(ref);
      while (leaving.has(key)) await leaving.get(key);
      if (use !== "deployment" && !entries.has(key)) refuseCooling(key);
      const entry = entries.get(key) ?? enter(key, ref);
      if (entry.idle) clearTimeout(entry.idle);
      entry.idle = null;
      entry.uses[use]++;
      let given: Promise<void> | null = null;
      // A model that could not be loaded has no entry any more, so there is nothing to release.
      const info = await entry.loaded;
      return { info, release: () => (given ??= leave(entry, use)) };
    },
    quiet: (ref) =>
      new Promise((resolve) => {
        const entry = entries.get(keyOf(ref));
        if (!entry || entry.uses.request === 0) resolve();
        else entry.onQuiet.push(resolve);
      }),
  };
}

/** Strips folders from the message, because clients must not learn where files are. The log has the cause. */
function withoutFolders(error: unknown, ref: ModelRef): unknown {
  if (!(error instanceof Failure)) return error;
  const paths = [ref.basePath, ...(ref.adapter ? [ref.adapter.path] : [])];
  const message = paths.reduce((text, path) => text.replaceAll(path, basename(path)), error.message);
  const { context, retryAfterSeconds } = error;
  return new Failure(error.code, message, {
    cause: error,
    context,
    ...(retryAfterSeconds === null ? {} : { retryAfterSeconds }),
  });
}
