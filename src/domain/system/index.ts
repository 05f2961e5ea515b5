// Endpoints that need no key: whether the process is alive, what does not work now, and whether it serves everything it
// should.
import { Failure } from "../../base/errors.ts";
import type { Clock } from "../../base/time.ts";
import { type Handlers, PlainText } from "../../contract/endpoint.ts";
import type { system as promises } from "../../contract/system.ts";

export interface SystemParts {
  version: string;
  clock: Clock;
  /** Descriptions of what does not work now; empty if all is well. */
  degraded: () => string[];
  /** Models that should serve but do not yet. */
  waitingFor: () => string[];
  /** The metrics in Prometheus text format. */
  renderMetrics: () => Promise<string>;
}

export function createSystem(parts: SystemParts): Handlers<typeof promises> {
  const { version, clock, degraded, waitingFor, renderMetrics } = parts;
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
    "system.metrics": async () => new PlainText(await renderMetrics()),
  };
}
