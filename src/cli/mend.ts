// Repairs faults of a data folder that need no decision: modes that let others read it, missing folders and indexes, and
// half-written or unused files that a crash left. No data is ever removed.
// A lock is never stale, because the kernel holds it and releases it when its process ends.
import { chmod, chown, readdir, rm, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { places } from "../base/config.ts";
import { isErrno, isTemporary, makeFolder } from "../base/files.ts";
import { tryLock } from "../base/lock.ts";
import { makeMissingIndexes, missingIndexes } from "../store/indexes.ts";

/**
 * Paths that users other than the owner may open: the data folder, whose mode protects everything in it, and the
 * database with its copies.
 */
export async function openToOthers(data: string): Promise<string[]> {
  const database = basename(places(data).database);
  const names = (await readdir(data)).filter((name) => name.startsWith(database));
  const paths = [data, ...names.map((name) => join(data, name))];
  const found: string[] = [];
  for (const path of paths) if (((await modeOf(path)) & 0o077) !== 0) found.push(path);
  return found;
}

/** Mode of a file; 0 if it has disappeared in the meantime. */
const modeOf = (path: string): Promise<number> =>
  stat(path).then(
    ({ mode }) => mode,
    () => 0,
  );

/**
 * Returns the files that an appliance left when it was killed: its socket, half-written files and uploads. Files of runs are
 * not included, because runs resume from them.
 */
export async function leftoversIn(data: string): Promise<string[]> {
  const at = places(data);
  const within = async (folder: string, recursive: boolean): Promise<string[]> => {
    try {
      const entries = await readdir(folder, { withFileTypes: true, recursive });
      return entries.map((entry) => join(entry.parentPath, entry.name));
    } catch (error) {
      if (isErrno(error, "ENOENT")) return [];
      throw error;
    }
  };
  const named = [...(await within(data, false)), ...(await within(at.blobs, true)), ...(await within(at.models, true))];
  return [
    // While no appliance serves, nobody answers at the socket.
    ...named.filter((path) => path === at.adminSocket),
    ...named.filter((path) => isTemporary(path.slice(path.lastIndexOf("/") + 1))),
    ...(await within(at.uploads, false)),
  ];
}

/**
 * Runs `work` if no appliance serves from the folder; null if one does, because the files are then in use. If the folder has a
 * lock file, the lock is held until `work` has ended, so that no appliance can start.
 */
export async function whileNobodyServes<T>(data: string, work: () => Promise<T>): Promise<T | null> {
  // Without a lock file no appliance has ever served from the folder, and a check must not create one.
  if ((await stat(places(data).lock).catch(() => null)) === null) return work();
  const lock = tryLock(places(data).lock);
  if (lock === null) return null;
  try {
    return await work();
  } finally {
    lock.release();
  }
}

/** Returns the folders and indexes that a data folder lacks. Both lists are empty if the folder has no database yet. */
export async function lackingIn(data: string): Promise<{ folders: string[]; indexes: string[] }> {
  const { database, blobs, models, runs, uploads } = places(data);
  if (!(await stat(database).catch(() => null))) return { folders: [], indexes: [] };
  const folders: string[] = [];
  for (const folder of [blobs, models, runs, uploads])
    if (!(await stat(folder).catch(() => null))) folders.push(folder);
  return { folders, indexes: missingIndexes(database) };
}

/** Repairs the folder, and returns a line of text for each change. */
export async function mend(data: string): Promise<string[]> {
  const found = await stat(data).catch(() => null);
  // Only its owner or root can repair a folder. To others, the check of permissions says so.
  if (found === null || ![0, found.uid].includes(process.getuid!())) return [];
  const did: string[] = [];
  for (const path of await openToOthers(data)) {
    await chmod(path, path === data ? 0o700 : 0o600);
    did.push(`${path} is now accessible to its owner only`);
  }
  const removed = await whileNobodyServes(data, async () => {
    const leftovers = await leftoversIn(data);
    for (const path of leftovers) await rm(path, { recursive: true, force: true });
    const { folders, indexes } = await lackingIn(data);
    const { uid, gid } = await stat(data);
    for (const folder of folders) {
      await makeFolder(folder);
      // A folder that root creates would be closed to the service's user.
      await chown(folder, uid, gid);
    }
    if (indexes.length > 0) makeMissingIndexes(places(data).database);
    return [
      ...leftovers.map((path) => `${path} was left by a crash, and was removed`),
      ...folders.map((folder) => `${folder} was missing, and was created`),
      ...indexes.map((index) => `The database's index ${index} was missing, and was created`),
    ];
  });
  return [...did, ...(removed ?? [])];
}
