// Endpoints that report on the appliance itself. Without a key: whether the process is alive, what does not work now, and
// whether all deployed models answer. With a key: the names that requests may use here. For administrators: memory, log and
// metrics; the metrics need no key on the machine itself.
import { Failure } from "../../base/errors.ts";
import type { Metrics, Watched } from "../../base/metrics.ts";
import type { Clock } from "../../base/time.ts";
import { type Handlers, PlainText, type Reply } from "../../contract/endpoint.ts";
import type { system as promises } from "../../contract/system.ts";
import type { Gpu } from "../../engine/gguf/gpu.ts";

export interface SystemParts {
  version: string;
  clock: Clock;
  /** Tells whether so little disk space is free that new work is refused. */
  ballast: { isLow(): boolean };
  /** Tells whether writes are refused because an upgrade is trying this version out. */
  trial: { isOn(): boolean };
  /** Models that should answer requests but cannot yet. */
  waitingFor: () => string[];
  metrics: Pick<Metrics, "render">;
  generator: Pick<Watched, "occupancy">;
  queue: { counts: Watched["jobs"] };
  gpu: { snapshot: Gpu["snapshot"] };
  autoAligns: Watched["autoAligns"];
  webhooks: Watched["webhooks"];
  /** Names of presets and of configured upstreams. */
  choices: Choices;
  /** Lines of the log as they were written, oldest first. */
  recentLog: () => string[];
}

type Choices = Reply<(typeof promises)["system.choices"]>;
type MemoryTold = Reply<(typeof promises)["system.memory"]>;
type LogLine = Reply<(typeof promises)["system.log"]>["lines"][number];

const levels: readonly LogLine["level"][] = ["info", "warn", "error"];

function memoryOf({ machine, gpu, threads, freeThreads, grants }: ReturnType<Gpu["snapshot"]>): MemoryTold {
  const pools = [
    { device: "machine" as const, pool: machine },
    { device: "gpu" as const, pool: gpu },
  ];
  return {
    devices: pools.flatMap(({ device, pool }) =>
      pool ? [{ device, total_bytes: pool.total, free_bytes: pool.free }] : [],
    ),
    threads: { total: threads, free: freeThreads },
    grants: grants.map(({ holder, bytes, threads }) => ({
      holder,
      machine_bytes: bytes.machine,
      gpu_bytes: bytes.gpu,
      threads,
    })),
  };
}

function lineOf(text: string): LogLine {
  const { at, level, event, ...fields } = JSON.parse(text) as Omit<LogLine, "fields">;
  return { at, level, event, fields };
}

export function createSystem(parts: SystemParts): Handlers<typeof promises> {
  const { version, clock, waitingFor, metrics, autoAligns, webhooks } = parts;
  const { occupancy } = parts.generator;
  const degraded = (): string[] => [
    ...(parts.ballast.isLow() ? ["The disk is nearly full: new work is refused"] : []),
    ...(parts.trial.isOn() ? ["An upgrade is not finished: writes are refused"] : []),
  ];
  const { counts: jobs } = parts.queue;
  const { snapshot: memory } = parts.gpu;
  const started = clock.monotonicMs();
  return {
    "system.health": async () => {
      const reasons = degraded();
      const status = reasons.length > 0 ? ("degraded" as const) : ("ok" as const);
      const uptime = Math.round(clock.monotonicMs() - started) / 1000;
      return { status, version, uptime_seconds: uptime, degraded: reasons };
    },
    "system.ready": async () => {
      const waiting = waitingFor();
      if (waiting.length > 0) throw new Failure("not_ready", `Not served yet: ${waiting.join(", ")}`);
      return { ready: true, waiting_for: [] };
    },
    "system.choices": async () => parts.choices,
    "system.memory": async () => memoryOf(memory()),
    "system.log": async ({ query: { level, limit } }) => {
      const lines = parts.recentLog().map(lineOf);
      const asked = lines.filter((one) => levels.indexOf(one.level) >= levels.indexOf(level));
      return { lines: asked.slice(-limit).reverse() };
    },
    "system.metrics": async () =>
      new PlainText(await metrics.render({ occupancy, autoAligns, webhooks, jobs, memory, degraded })),
  };
}
