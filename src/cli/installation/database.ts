// Copies the database during an upgrade, as the old version left it, and restores the copy if the upgrade is undone.
//
// The copy is taken after the service has stopped. The upgrade's backup is older: restoring that would lose everything that was
// acknowledged in between.
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

/** Whether the database no longer has the old version's schema, or cannot be read at all. `schema` is that schema's version. */
export function isMigrated(data: string, schema: number): boolean {
  try {
    return schemaVersion(places(data).database) !== schema;
  } catch {
    return true;
  }
}

/**
 * Replaces the migrated database with the kept copy, if there is one. The migrated database stays beside it as
 * `*.of-<version>`. No process may have the database open. If this is cut off, it can be repeated.
 */
export async function bringDatabaseBack(installed: Installation, version: string): Promise<void> {
  const { data } = installed;
  const { database } = places(data);
  if (!(await stat(copyOf(data)).catch(() => null))) return;
  const aside = `${database}.of-${version}`;
  await link(database, aside).catch((error) => {
    if (!isErrno(error, "EEXIST", "ENOENT")) throw error;
  });
  // The write-ahead log moves too. If it stayed here, SQLite would apply it to the restored database.
  await rename(`${database}-wal`, `${aside}-wal`).catch((error) => {
    if (!isErrno(error, "ENOENT")) throw error;
  });
  await rm(`${database}-shm`, { force: true });
  await syncFolder(data);
  await renameDurably(copyOf(data), database);
}

export const forgetCopy = (data: string): Promise<void> => rm(copyOf(data), { force: true });

/** Makes the service's user the owner of a file that root has created. Does nothing if this process is not root. */
async function give(path: string, { user }: Installation): Promise<void> {
  const account = await findAccount(user);
  if (account && process.getuid?.() === 0) await chown(path, account.uid, account.gid);
}
