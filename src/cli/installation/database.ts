// The database around an upgrade: a copy of it as the old version left it, and its return.
//
// The copy is taken when the service has stopped. The backup is older than that: what was acknowledged since it was taken would be
// lost with it.
import { chown, link, rename, rm, stat } from "node:fs/promises";
import { places } from "../../base/config.ts";
import { isErrno, renameDurably, syncFolder, temporaryName } from "../../base/files.ts";
import { copyDatabase, schemaVersion } from "../../store/snapshot.ts";
import { findAccount } from "./account.ts";
import type { Installation } from "./layout.ts";

const copyOf = (data: string): string => `${places(data).database}.before-upgrade`;

export async function keepDatabase(installed: Installation): Promise<void> {
  const { database } = places(installed.data);
  const temporary = temporaryName(copyOf(installed.data));
  try {
    copyDatabase(database, temporary);
    await give(temporary, installed);
    await renameDurably(temporary, copyOf(installed.data));
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Whether the database is no longer of the schema that the old version knows, or cannot be read at all. */
export function isMigrated(data: string, schema: number): boolean {
  try {
    return schemaVersion(places(data).database) !== schema;
  } catch {
    return true;
  }
}

/**
 * Puts the kept copy in the database's place; the migrated one stays beside it as `*.of-<version>`. Nothing may have it
 * open. Can be done again after it was cut off.
 */
export async function bringDatabaseBack(installed: Installation, version: string): Promise<void> {
  const { data } = installed;
  const { database } = places(data);
  if (!(await stat(copyOf(data)).catch(() => null))) return;
  const aside = `${database}.of-${version}`;
  await link(database, aside).catch((error) => {
    if (!isErrno(error, "EEXIST", "ENOENT")) throw error;
  });
  // SQLite would apply a log that is left here to the database that takes this one's place.
  await rename(`${database}-wal`, `${aside}-wal`).catch((error) => {
    if (!isErrno(error, "ENOENT")) throw error;
  });
  await rm(`${database}-shm`, { force: true });
  await syncFolder(data);
  await renameDurably(copyOf(data), database);
}

export const forgetCopy = (data: string): Promise<void> => rm(copyOf(data), { force: true });

/** Makes the service's user the owner of a file that root has made. */
async function give(path: string, { user }: Installation): Promise<void> {
  const account = await findAccount(user);
  if (account && process.getuid?.() === 0) await chown(path, account.uid, account.gid);
}
