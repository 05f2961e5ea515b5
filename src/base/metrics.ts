// The appliance's metrics in Prometheus' text format. Labels take few values, such as the contract's routes, statuses, base models, and
// kinds and states of work. No label names a user, a key or an aligned model. config/monitoring has alerts and a dashboard.
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { freeBytes } from "./files.ts";

/** Occupancy of a loaded base model. */
export interface Occupancy {
  baseId: string;
  slots: number;
  busy: number;
  /** Requests that wait for a slot. */
  waiting: number;
}

/** Values that are read when the metrics are rendered, instead of being counted as events happen. */
export interface Watched {
  occupancy(): readonly Occupancy[];
  jobs(): readonly { kind: string; state: string; count: number }[];
  autoAligns(): readonly { status: string; count: number }[];
  webhooks(): readonly { state: string; count: number }[];
  /** Memory that models and runs share; `gpu` is null until a GPU has been found. */
  memory(): { machine: Capacity; gpu: Capacity | null };
  /** Descriptions of what is not working now. */
  degraded(): readonly string[];
}

interface Capacity {
  total: number;
  free: number;
}

/** Values that do not change while the appliance runs. */
export interface Watch {
  version: string;
  engine: string;
  database: string;
  /** New work is refused while the database's disk has fewer free bytes than this. */
  freeDisk: number;
}

export interface Metrics {
  /** Counts an answered request. `route` is the endpoint's name in the contract. */
  request(route: string, status: number): void;
  /** Counts the tokens of one inference request, whatever its outcome. */
  tokens(prompt: number, completion: number): void;
  truncation(tokens: number): void;
  /** Records the time from a request's arrival to its first token. */
  firstToken(seconds: number): void;
  /** Records an answer's mean time per token after the first. */
  token(seconds: number): void;
  render(watched: Watched): Promise<string>;
}

const seconds = {
  first: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  each: [0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5],
};

export function createMetrics({ version, engine, database, freeDisk }: Watch): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const counter = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
    new Counter({ name: `plumbline_${name}`, help, labelNames, registers });
  const gauge = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
    new Gauge({ name: `plumbline_${name}`, help, labelNames, registers });
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name: `plumbline_${name}`, help, buckets, registers });

  const requests = counter("http_requests_total", "Requests answered, by route and status.", ["route", "status"]);
  const tokens = counter("tokens_total", "Tokens of inference requests.", ["kind"]);
  const truncations = counter("prompt_truncations_total", "Requests that were shortened to fit.");
  const truncated = counter("prompt_truncated_tokens_total", "Tokens removed to make requests fit.");
  const first = histogram("first_token_seconds", "Time from a request's arrival to its first token.", seconds.first);
  const each = histogram("token_seconds", "Mean time per token after the first, for each answer.", seconds.each);
  const slots = gauge("slots", "Slots of a loaded base model.", ["base"]);
  const busy = gauge("slots_busy", "Slots that are answering now.", ["base"]);
  const waiting = gauge("requests_waiting", "Requests waiting for a slot.", ["base"]);
  const jobs = gauge("jobs", "Jobs, by kind and state.", ["kind", "state"]);
  const autoAligns = gauge("auto_aligns", "Auto-aligns, by status.", ["status"]);
  const webhooks = gauge("webhooks", "Events for webhook targets, by state.", ["state"]);
  const memory = gauge("memory_bytes", "Memory that models and runs may use together.", ["pool"]);
  const granted = gauge("memory_granted_bytes", "Memory that models and runs hold now.", ["pool"]);
  const databaseBytes = gauge("database_bytes", "Size of the database, without its write-ahead log.");
  const diskFree = gauge("disk_free_bytes", "Free bytes on the database's disk.");
  const diskLow = gauge("disk_low_bytes", "Free bytes below which new work is refused.");
  const degraded = gauge("degraded", "1 while something is not working; /healthz says what.");
  gauge("build_info", "Versions; always 1.", ["version", "engine"]).set({ version, engine }, 1);
  diskLow.set(freeDisk);

  return {
    request: (route, status) => requests.inc({ route, status }),
    tokens(prompt, completion) {
      tokens.inc({ kind: "prompt" }, prompt);
      tokens.inc({ kind: "completion" }, completion);
    },
    truncation(count) {
      truncations.inc();
      truncated.inc(count);
    },
    firstToken: (value) => first.observe(value),
    token: (value) => each.observe(value),
    async render(watched) {
      // Removes values that no longer apply, such as those of unloaded base models.
      for (const one of [slots, busy, waiting, jobs, autoAligns, webhooks]) one.reset();
      for (const { baseId: base, ...now } of watched.occupancy()) {
        slots.set({ base }, now.slots);
        busy.set({ base }, now.busy);
        waiting.set({ base }, now.waiting);
      }
      for (const { kind, state, count } of watched.jobs()) jobs.set({ kind, state }, count);
      for (const { status, count } of watched.autoAligns()) autoAligns.set({ status }, count);
      for (const { state, count } of watched.webhooks()) webhooks.set({ state }, count);
      const pools = watched.memory();
      for (const pool of ["machine", "gpu"] as const) {
        const capacity = pools[pool];
        if (capacity === null) continue;
        memory.set({ pool }, capacity.total);
        granted.set({ pool }, capacity.total - capacity.free);
      }
      degraded.set(Number(watched.degraded().length > 0));
      databaseBytes.set((await stat(database)).size);
      diskFree.set(await freeBytes(dirname(database)));
      return registry.metrics();
    },
  };
}
