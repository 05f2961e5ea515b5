// Who uses which loaded model. The generator loads and unloads; here is counted for whom, so that a model goes when its last
// user went. A base without an adapter stays a while after its last request: the next one should not wait for a load.
import { basename } from "node:path";
import { Failure } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Generator, LoadedInfo, ModelRef } from "../../engine/generator.ts";

export type Use = "deployment" | "request" | "evaluation";

export interface Lease {
  info: LoadedInfo;
  /** Resolves when the model is out of memory, where this was its last user. Giving back twice is once. */
  release(): Promise<void>;
}

export interface Loads {
  /** Loads where needed; several takes of one model are one load. */
  take(ref: ModelRef, use: Use): Promise<Lease>;
  /** Resolves when no request runs on the model. */
  quiet(ref: ModelRef): Promise<void>;
  /** Unloads what nobody uses now; how many models went. */
  freeIdle(): Promise<number>;
}

interface Entry {
  key: string;
  ref: ModelRef;
  uses: Record<Use, number>;
  loaded: Promise<LoadedInfo>;
  /** Runs while nobody uses the model. */
  idle: NodeJS.Timeout | null;
  onQuiet: (() => void)[];
}

const keepIdleMs = 5 * 60_000;

const keyOf = (ref: ModelRef): string => `${ref.baseId} ${ref.adapter?.id ?? ""}`;
const isUnused = (entry: Entry): boolean => Object.values(entry.uses).every((count) => count === 0);

export function createLoads(parts: { generator: Generator; log: Log; keepMs?: number }): Loads {
  const { generator, log, keepMs = keepIdleMs } = parts;
  const entries = new Map<string, Entry>();
  /** Unloads under way: a take of the same model waits for its end. */
  const leaving = new Map<string, Promise<void>>();

  function enter(key: string, ref: ModelRef): Entry {
    const uses = { deployment: 0, request: 0, evaluation: 0 };
    const entry: Entry = { key, ref, uses, loaded: load(ref), idle: null, onQuiet: [] };
    entry.loaded.catch(() => entries.get(key) === entry && entries.delete(key));
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
    try {
      return await attempt();
    } catch (error) {
      const isFull = error instanceof Failure && error.code === "out_of_memory";
      if (!isFull || (await freeIdle()) === 0) throw error;
      return attempt();
    }
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

  async function freeIdle(): Promise<number> {
    const unused = [...entries.values()].filter((entry) => entry.idle !== null);
    await Promise.all(unused.map(unload));
    return unused.length;
  }

  async function leave(entry: Entry, use: Use): Promise<void> {
    entry.uses[use]--;
    if (entry.uses.request === 0) for (const tell of entry.onQuiet.splice(0)) tell();
    if (!isUnused(entry) || entries.get(entry.key) !== entry) return;
    if (entry.ref.adapter) return unload(entry);
    const timer = setTimeout(() => void unload(entry).catch(() => {}), keepMs);
    entry.idle = timer.unref();
  }

  return {
    freeIdle,
    async take(ref, use) {
      const key = keyOf(ref);
      while (leaving.has(key)) await leaving.get(key);
      const entry = entries.get(key) ?? enter(key, ref);
      if (entry.idle) clearTimeout(entry.idle);
      entry.idle = null;
      entry.uses[use]++;
      let given: Promise<void> | null = null;
      // A model that could not be loaded has no entry any more: nothing is to be given back.
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

/** Where files lie on this machine is no client's business; the log has the cause. */
function withoutFolders(error: unknown, ref: ModelRef): unknown {
  if (!(error instanceof Failure)) return error;
  const paths = [ref.basePath, ...(ref.adapter ? [ref.adapter.path] : [])];
  const message = paths.reduce((text, path) => text.replaceAll(path, basename(path)), error.message);
  return new Failure(error.code, message, { cause: error });
}
