// A version that an upgrade has started is on trial until the upgrade has checked it. If the check fails, the old version returns with
// the database as it was before. A write acknowledged during the trial would then be lost, so writes are refused during the trial, and
// clients send them again.
import { existsSync } from "node:fs";
import { places } from "./config.ts";
import { Failure } from "./errors.ts";

export interface Trial {
  /** Throws upgrade_on_trial while the version is on trial. */
  checkWritable(): void;
  isOn(): boolean;
}

/**
 * Tells whether this version is on trial. `data` is the data folder. Call this at the start of the process, because a process that started
 * before an upgrade is never on trial.
 */
export function openTrial(data: string): Trial {
  const { upgrading } = places(data);
  let on = existsSync(upgrading);
  const isOn = (): boolean => {
    // A trial ends with its upgrade and never begins again.
    on &&= existsSync(upgrading);
    return on;
  };
  return {
    isOn,
    checkWritable() {
      if (isOn()) throw new Failure("upgrade_on_trial");
    },
  };
}
