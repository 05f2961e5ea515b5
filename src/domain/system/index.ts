// What may be known without a key: that the process lives, what it cannot do now, and whether it serves all it should.
import { Failure } from "../../base/errors.ts";
import type { Clock } from "../../base/time.ts";
import { type Handlers, PlainText } from "../../contract/endpoint.ts";
import type { system as promises } from "../../contract/system.ts";

export interface SystemParts {
  version: string;
  clock: Clock;
  /** What cannot be done now, in words; none when all is well. */
  degraded: () => string[];
  /** Models that should serve and do not yet. */
  waitingFor: () => string[];
  /** What is counted, in Prometheus' text form. */
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
