// A version that an upgrade has started is on trial until the upgrade has found it in order: if it is not, the old version comes back
// with the database as it was before. What is acknowledged meanwhile would be lost, so nothing is: writes are refused, and clients
// send them again.
import { existsSync } from "node:fs";
import { places } from "./config.ts";
import { Failure } from "./errors.ts";

export interface Trial {
  /** Throws upgrade_on_trial. */
  checkWritable(): void;
  isOn(): boolean;
}

/** `data` is the data folder of a process that has just started. A version that started before an upgrade is never on trial. */
export function openTrial(data: string): Trial {
  const { upgrading } = places(data);
  let on = existsSync(upgrading);
  const isOn = (): boolean => {
    // It ends once, with the upgrade.
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
