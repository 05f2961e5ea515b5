// Takes the data folder for this process. Only one process at a time may use the folder.
import { existsSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { type Config, isLeftAlone, places } from "./config.ts";
import { Failure } from "./errors.ts";
import { makeFolder } from "./files.ts";
import { type Lock, tryLock } from "./lock.ts";

/**
 * Creates and locks the folder, and removes uploads that a crash left behind. The lock is released when the process ends, however it
 * ends. Throws data_locked, restore_unfinished, upgrade_unfinished.
 */
export async function takeDataFolder(config: Pick<Config, "data">): Promise<Lock> {
  const at = places(config.data);
  for (const folder of [config.data, at.models, at.runs, at.uploads]) await makeFolder(folder);
  const lock = tryLock(at.lock);
  if (!lock) throw new Failure("data_locked", `Another plumbline process uses ${config.data}`);
  if (isLeftAlone()) {
    lock.release();
    throw new Failure("upgrade_unfinished", "The upgrade that started this version was cut off");
  }
  if (existsSync(at.restoring)) {
    lock.release();
    throw new Failure("restore_unfinished");
  }
  if (existsSync(at.upgrading)) {
    // If a running upgrade holds the marker, that upgrade has started this process itself.
    const upgrade = tryLock(at.upgrading);
    upgrade?.release();
    if (upgrade !== null) {
      lock.release();
      throw new Failure("upgrade_unfinished");
    }
  }
  for (const name of await readdir(at.uploads)) await rm(join(at.uploads, name), { recursive: true, force: true });
  return lock;
}
