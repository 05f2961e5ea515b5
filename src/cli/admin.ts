// Performs verbs of the admin socket, for commands that work with or without a running appliance.
import { type Config, places } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { sleep } from "../base/time.ts";
import { askAdmin } from "../http/admin.ts";
import { createHouse } from "../main.ts";

/**
 * Performs a verb in the running appliance, through its socket. If none runs, performs the verb in this process, in a House
 * that never listens. If an appliance holds the data folder but cannot be reached yet, retries for about three seconds, then
 * throws data_locked.
 */
export async function callAdmin(config: Config, log: Log, verb: string, args: unknown = {}): Promise<unknown> {
  for (let tries = 1; ; tries++) {
    const answered = await askAdmin(places(config.data).adminSocket, verb, args);
    if (answered) return answered.value;
    try {
      return await performHere(config, log, verb, args);
    } catch (error) {
      if (!(error instanceof Failure && error.code === "data_locked") || tries === 10) throw error;
      await sleep(300);
    }
  }
}

async function performHere(config: Config, log: Log, verb: string, args: unknown): Promise<unknown> {
  const house = await createHouse({ config, log });
  try {
    return await house.admin(verb, args);
  } finally {
    await house.close();
  }
}
