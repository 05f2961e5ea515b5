// Keeps account of the models that are loaded: which bases, which adapters on them, and who uses each. A model is loaded for
// its first lease and unloaded after its last. This is the only place that counts users.
//
//   (absent) ──first lease──► loading ──► loaded ──last lease of an adapter────────────────► closing ──► (absent)
//                                          ▲  └────last lease of a base──► idle ──time, memory──┘
//                                          └───────────────next lease──────┘
//
// A base without an adapter stays loaded for a while after its last lease, so that the next request need not wait for a load.
// When a load finds too little memory, idle bases are unloaded one by one, the one idle for longest first. After a failed load,
// further loads of that model are refused for a pause that grows each time; only loads for a deployment (`hold`) are still tried.
// A base stays loaded as long as any model on it does. Closing waits until running work has finished. A lease that is requested
// meanwhile waits until closing has ended.
import { basename } from "node:path";
import { Failure } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { type Clock, systemClock } from "../../base/time.ts";
import type { Lease, LoadedInfo, ModelPool, ModelRef } from "../generator.ts";

/** A base as the pool handles it. `A` is the type of an opened adapter. */
export interface PooledBase<A> {
  info: LoadedInfo;
  /** Loads the adapter of a model. Returns null for the base without an adapter. */
  openAdapter(model: ModelRef): Promise<A | null>;
  /** Waits until no work runs on the model, and unloads its adapter. */
  closeAdapter(model: ModelRef, adapter: A | null): Promise<void>;
  /** Called once no model on the base is left. */
  close(): Promise<void>;
}

export interface PoolParts<B> {
  /** Reserves the memory that the base needs, and loads it. Throws out_of_memory if it does not fit. */
  openBase(model: ModelRef): Promise<B>;
  log: Log;
  clock?: Clock;
  /** How long a base stays loaded after its last lease. With 0, it is unloaded at once, and `release` waits for that. */
  keepIdleMs?: number;
}

/** The pool as the engine uses it: leases, and access to the loaded bases and adapters. */
export interface LoadedModels<A, B extends PooledBase<A>> extends ModelPool {
  /** A loaded model. Throws not_loaded. */
  loaded(model: ModelRef): { base: B; adapter: A | null };
  /** A loaded base; null if it is not loaded. */
  base(baseId: string): B | null;
  bases(): [baseId: string, base: B][];
  /** Unloads everything, whoever uses it, once running work has finished. */
  dispose(): Promise<void>;
}

/** `request` is work that undeploying a model waits for. */
type Use = "request" | "work" | "deployment";

/** A model in the pool. */
interface Entry<A, B> {
  key: string;
  model: ModelRef;
  leases: Set<{ use: Use }>;
  loading: Promise<{ base: B; adapter: A | null }>;
  /** Set once `loading` has resolved. */
  loaded: { base: B; adapter: A | null } | null;
  closing: Promise<void> | null;
  /** Called once no request has a lease any more. */
  onQuiet: (() => void)[];
}

interface Resident<B> {
  opening: Promise<B>;
  /** Set once `opening` has resolved. */
  base: B | null;
  closing: Promise<void> | null;
}

/** The pause after a failed load. */
interface Cooling {
  reason: string;
  pauseMs: number;
  /** End of the pause, by the monotonic clock. */
  untilMs: number;
}

const fiveMinutesMs = 5 * 60_000;
/** Pause after the first failure; doubled with each further one. */
const firstPauseMs = 10_000;
const longestPauseMs = 5 * 60_000;

const keyOf = (model: ModelRef): string => `${model.baseId} ${model.adapter?.id ?? ""}`;
const ended = (work: Promise<unknown>): Promise<void> =>
  work.then(
    () => {},
    () => {},
  );

export function createModelPool<A, B extends PooledBase<A>>(parts: PoolParts<B>): LoadedModels<A, B> {
  const { log, clock = systemClock, keepIdleMs = fiveMinutesMs } = parts;
  const entries = new Map<string, Entry<A, B>>();
  const residents = new Map<string, Resident<B>>();
  /** Bases without a lease and their timers, in the order in which they became idle. */
  const idle = new Map<Entry<A, B>, NodeJS.Timeout>();
  const coolings = new Map<string, Cooling>();
  const named = new Map<string, Lease>();
  /** The last load under a name. Such loads run one after another, because two at once would need twice the spare memory. */
  let holding: Promise<unknown> = Promise.resolve();

  function enter(model: ModelRef): Entry<A, B> {
    const key = keyOf(model);
    const entry: Entry<A, B> = {
      key,
      model,
      leases: new Set(),
      loading: Promise.resolve().then(() => load(entry)),
      loaded: null,
      closing: null,
      onQuiet: [],
    };
    entries.set(key, entry);
    return entry;
  }

  async function load(entry: Entry<A, B>): Promise<{ base: B; adapter: A | null }> {
    const { key, model } = entry;
    try {
      entry.loaded = await open(model);
      coolings.delete(key);
      return entry.loaded;
    } catch (error) {
      const shown = withoutFolders(error, model);
      entries.delete(key);
      cool(key, shown);
      await ended(closeIfUnused(model.baseId));
      throw shown;
    }
  }

  async function open(model: ModelRef): Promise<{ base: B; adapter: A | null }> {
    for (;;)
      try {
        const base = await baseOf(model);
        return { base, adapter: await base.openAdapter(model) };
      } catch (error) {
        const isFull = error instanceof Failure && error.code === "out_of_memory";
        if (!isFull || !(await freeIdle())) throw error;
      }
  }

  async function baseOf(model: ModelRef): Promise<B> {
    for (let held = residents.get(model.baseId); held?.closing; held = residents.get(model.baseId))
      await ended(held.closing);
    return (residents.get(model.baseId) ?? openResident(model)).opening;
  }

  function openResident(model: ModelRef): Resident<B> {
    const resident: Resident<B> = { opening: parts.openBase(model), base: null, closing: null };
    residents.set(model.baseId, resident);
    resident.opening.then(
      (base) => {
        resident.base = base;
      },
      () => {
        // Whoever awaits `opening` gets the error.
        residents.delete(model.baseId);
      },
    );
    return resident;
  }

  async function closeIfUnused(baseId: string): Promise<void> {
    const resident = residents.get(baseId);
    const isUsed = [...entries.values()].some(({ model }) => model.baseId === baseId);
    if (isUsed || !resident?.base || resident.closing) return;
    const { base } = resident;
    resident.closing = base.close().finally(() => residents.delete(baseId));
    await resident.closing;
    log("info", "base_unloaded", { baseId });
  }

  async function unload(entry: Entry<A, B>): Promise<void> {
    clearTimeout(idle.get(entry));
    idle.delete(entry);
    entry.closing ??= close(entry);
    return entry.closing;
  }

  async function close(entry: Entry<A, B>): Promise<void> {
    const { key, model } = entry;
    try {
      const { base, adapter } = await entry.loading;
      await base.closeAdapter(model, adapter);
    } catch (error) {
      log("error", "model.unload_failed", { model: key, error });
      throw error;
    } finally {
      entries.delete(key);
      await closeIfUnused(model.baseId);
    }
  }

  async function freeIdle(): Promise<boolean> {
    const [longest] = idle.keys();
    if (longest !== undefined) await unload(longest);
    return longest !== undefined;
  }

  async function take(model: ModelRef, use: Use): Promise<Lease> {
    const key = keyOf(model);
    for (let entry = entries.get(key); entry?.closing; entry = entries.get(key)) await ended(entry.closing);
    if (use !== "deployment" && !entries.has(key)) refuseCooling(key);
    const entry = entries.get(key) ?? enter(model);
    clearTimeout(idle.get(entry));
    idle.delete(entry);
    const user = { use };
    entry.leases.add(user);
    // A model that could not be loaded has no entry any more, so there is nothing to release.
    const { base } = await entry.loading;
    let released: Promise<void> | null = null;
    const release = (): Promise<void> => (released ??= leave(entry, user));
    return { info: base.info, release, [Symbol.asyncDispose]: release };
  }

  async function leave(entry: Entry<A, B>, user: { use: Use }): Promise<void> {
    entry.leases.delete(user);
    if (!isAsked(entry)) for (const tell of entry.onQuiet.splice(0)) tell();
    if (entry.leases.size > 0 || entry.closing || entries.get(entry.key) !== entry) return;
    if (entry.model.adapter || keepIdleMs === 0) return unload(entry);
    const timer = setTimeout(() => void ended(unload(entry)), keepIdleMs);
    idle.set(entry, timer.unref());
  }

  const isAsked = (entry: Entry<A, B>): boolean => [...entry.leases].some(({ use }) => use === "request");

  /**
   * Starts or lengthens the pause after a failed load. There is no pause after out_of_memory, because it is found before anything is
   * loaded and may pass at once, nor after load_ended_appliance, because further loads are refused then anyway.
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
      { retryAfterSeconds },
    );
  }

  return {
    lease: take,
    async hold(name, model) {
      const turn = holding.then(async () => {
        if (!named.has(name)) named.set(name, await take(model, "deployment"));
      });
      holding = ended(turn);
      await turn;
    },
    async letGo(name) {
      const lease = named.get(name);
      named.delete(name);
      await lease?.release();
    },
    quiet: (model) =>
      new Promise((resolve) => {
        const entry = entries.get(keyOf(model));
        if (!entry || !isAsked(entry)) resolve();
        else entry.onQuiet.push(resolve);
      }),
    freeIdle,
    isLoaded(model) {
      const entry = entries.get(keyOf(model));
      return entry?.loaded != null && entry.closing === null;
    },
    loaded(model) {
      const entry = entries.get(keyOf(model));
      if (!entry?.loaded || entry.closing !== null)
        throw new Failure("not_loaded", `The model ${model.adapter?.id ?? model.baseId} is not loaded`);
      return entry.loaded;
    },
    base: (baseId) => residents.get(baseId)?.base ?? null,
    bases: () => [...residents].flatMap(([baseId, { base }]) => (base === null ? [] : [[baseId, base]])),
    async dispose() {
      named.clear();
      for (const entry of [...entries.values()]) {
        await ended(entry.loading);
        if (entries.get(entry.key) === entry) await unload(entry);
      }
    },
  };
}

/** Strips folders from the message, because clients must not learn where files are. The log has the cause. */
function withoutFolders(error: unknown, model: ModelRef): unknown {
  if (!(error instanceof Failure)) return error;
  const paths = [model.basePath, ...(model.adapter ? [model.adapter.path] : [])];
  const message = paths.reduce((text, path) => text.replaceAll(path, basename(path)), error.message);
  const { context, retryAfterSeconds } = error;
  return new Failure(error.code, message, {
    cause: error,
    context,
    ...(retryAfterSeconds === null ? {} : { retryAfterSeconds }),
  });
}
