// Endpoints that need no key: whether the process is alive, what does not work now, and whether it serves everything it
// should.
import { Failure } from "../../base/errors.ts";
import type { Metrics, Watched } from "../../base/metrics.ts";
import type { Clock } from "../../base/time.ts";
import { type Handlers, PlainText } from "../../contract/endpoint.ts";
import type { system as promises } from "../../contract/system.ts";

export interface SystemParts {
  version: string;
  clock: Clock;
  /** Tells whether so little of the disk is free that new work is refused. */
  ballast: { isLow(): boolean };
  /** Tells whether writes are refused, because an upgrade tries this version out. */
  trial: { isOn(): boolean };
  /** Models that should serve but do not yet. */
  waitingFor: () => string[];
  metrics: Pick<Metrics, "render">;
  generator: Pick<Watched, "occupancy">;
  queue: { counts: Watched["jobs"] };
  gpu: { snapshot: Watched["memory"] };
  autoAligns: Watched["autoAligns"];
  webhooks: Watched["webhooks"];
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
    "system.metrics": async () =>
      new PlainText(await metrics.render({ occupancy, autoAligns, webhooks, jobs, memory, degraded })),
  };
}
