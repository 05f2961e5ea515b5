// Performs verbs of the admin socket, for commands that work with or without a running appliance.
import { stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { type Config, installation, ownExecutable, places, settings } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { sleep } from "../base/time.ts";
import { askAdmin } from "../http/admin.ts";
import { createHouse } from "../main.ts";
import { defaults, layout, readInstallation, serviceCommand } from "./installation/layout.ts";

/**
 * Performs a verb in the running appliance, through its socket. If none runs, performs the verb in this process, in a House
 * that never listens. If an appliance holds the data folder but cannot be reached yet, retries for about three seconds, then
 * throws data_locked. Throws usage if it would make a data folder that the installed service does not use.
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
  await refuseBesideService(config);
  const house = await createHouse({ config, log });
  try {
    return await house.admin(verb, args);
  } finally {
    await house.close();
  }
}

/**
 * Throws usage if there is no data in the default folder, but a service is installed that has its own. It would know nothing of what
 * is made here, such as a key.
 */
async function refuseBesideService({ data }: Config): Promise<void> {
  const own = ownExecutable();
  if (data !== resolve(own === null ? installation : dirname(own), settings.data.default)) return;
  if (await stat(places(data).database).catch(() => null)) return;
  const at = layout(defaults.prefix);
  const installed = await readInstallation(at);
  if (installed === null || installed.data === data) return;
  throw new Failure(
    "usage",
    `The service of this machine has its data in ${installed.data}: as root, begin the command with ${serviceCommand(installed, at)}`,
  );
}
