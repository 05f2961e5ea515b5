// Restores a backup into a data folder.
//
//   1. restoring.json is written, with the hash of the backup's manifest; while it exists, no appliance starts on the folder
//   2. every file is written and checked; files from an earlier, interrupted restore of the same backup are kept
//   3. the database, with the files' new paths in its rows, is renamed into place last
//   4. restoring.json is removed
//
// If root restores, the folder's owner becomes the owner of everything that was written: a service that runs as this owner could not
// open files of root.
import { lchown, mkdir, open, readdir, readFile, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { places } from "../../base/config.ts";
import { Damaged, writeParts } from "../../base/content.ts";
import { Failure } from "../../base/errors.ts";
import {
  isErrno,
  isTemporary,
  makeFolder,
  removeTemporaries,
  renameDurably,
  sha256,
  sha256OfFile,
  syncFolder,
  temporaryName,
  writeFileDurably,
} from "../../base/files.ts";
import { tryLock } from "../../base/lock.ts";
import { openStore } from "../../store/open.ts";
import { problemsOf, schemaVersion } from "../../store/snapshot.ts";
import type { Backup, ManifestFile } from "./manifest.ts";
import { placeFiles, refuseNewer } from "./named.ts";
import { noSpace } from "./no-space.ts";

export interface RestoreReport {
  files: number;
  bytes: number;
  /** Number of these files that an earlier, interrupted restore had already written. */
  found: number;
}

/** Throws folder_not_empty, data_locked, backup_invalid, backup_no_space, schema_too_new. */
export async function restoreBackup(
  backup: Backup,
  data: string,
  onProgress: (doneBytes: number, totalBytes: number) => void,
): Promise<RestoreReport> {
  const { manifest } = backup;
  refuseNewer(manifest.schema);
  await makeFolder(data);
  const identity = sha256(JSON.stringify(manifest));
  await refuseOthers(data, identity);
  const lock = tryLock(places(data).lock);
  if (lock === null) throw new Failure("data_locked", `Another process uses ${data}`);
  try {
    await refuseOthers(data, identity);
    await writeFileDurably(places(data).restoring, `${JSON.stringify({ manifest_sha256: identity })}\n`);
    // These first, because a service that starts on an unfinished restore has to be able to see that it is one.
    await giveToOwner(data, [places(data).lock, places(data).restoring]);
    await removeTemporaries(data);
    const report = await restoreFiles(backup, data, onProgress);
    await restoreDatabase(backup, data);
    const files = manifest.files.map(({ path }) => join(data, path));
    await giveToOwner(data, [places(data).database, ...foldersOf(data, manifest.files), ...files]);
    await rm(places(data).restoring);
    await syncFolder(data);
    return report;
  } catch (error) {
    throw noSpace(error);
  } finally {
    lock.release();
  }
}

/** Throws folder_not_empty unless the folder is empty or holds an interrupted restore of the same backup. */
async function refuseOthers(data: string, identity: string): Promise<void> {
  const names = (await readdir(data)).filter((name) => !/^(lock(-journal)?|lost\+found|runtime)$/.test(name));
  if (names.length === 0 || names.every(isTemporary)) return;
  const marker = await readFile(places(data).restoring, "utf8").catch((error) => {
    if (isErrno(error, "ENOENT")) return null;
    throw error;
  });
  if (marker === null) throw new Failure("folder_not_empty", `${data} contains ${names[0]}`);
  const { manifest_sha256 } = JSON.parse(marker) as { manifest_sha256: string };
  if (manifest_sha256 !== identity)
    throw new Failure("folder_not_empty", `${data} contains part of another backup, whose restore was cut off`);
}

async function restoreFiles(
  backup: Backup,
  data: string,
  onProgress: (doneBytes: number, totalBytes: number) => void,
): Promise<RestoreReport> {
  const { files } = backup.manifest;
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  const report = { files: files.length, bytes: total, found: 0 };
  let done = 0;
  for (const file of files) {
    onProgress(done, total);
    if (await isRestored(data, file)) report.found++;
    else await restoreFile(backup, data, file);
    done += file.bytes;
  }
  onProgress(total, total);
  for (const folder of foldersOf(data, files)) await syncFolder(folder);
  return report;
}

/** Returns all folders that hold the files, in any order. Each is synced before the database is put in place. */
function foldersOf(data: string, files: readonly ManifestFile[]): Set<string> {
  const found = new Set([data]);
  for (const { path } of files)
    for (let folder = dirname(join(data, path)); !found.has(folder); folder = dirname(folder)) found.add(folder);
  return found;
}

async function giveToOwner(data: string, paths: readonly string[]): Promise<void> {
  // Only root can give files away.
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = await stat(data);
  // The service's user can change what is in its folder, so a link there is not followed.
  for (const path of paths) await lchown(path, uid, gid);
}

async function isRestored(data: string, { path, sha256: expected }: ManifestFile): Promise<boolean> {
  const found = await sha256OfFile(join(data, path)).catch((error) => {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    throw error;
  });
  return found === expected;
}

async function restoreFile(backup: Backup, data: string, { path, sha256: expected }: ManifestFile): Promise<void> {
  const place = join(data, path);
  await bring(backup, expected, join(data, "file"), path, () => place);
}

async function bring(
  backup: Backup,
  expected: string,
  near: string,
  what: string,
  placeOf: () => string,
): Promise<void> {
  try {
    await writeParts(backup.read(expected), expected, near, placeOf);
  } catch (error) {
    if (error instanceof Damaged) throw new Failure("backup_invalid", `The backup's copy of ${what} ${error.message}`);
    if (isErrno(error, "ENOENT")) throw new Failure("backup_invalid", `The backup has no copy of ${what}`);
    throw error;
  }
}

async function restoreDatabase(backup: Backup, data: string): Promise<void> {
  const { database } = backup.manifest;
  const folder = temporaryName(join(data, "database"));
  await mkdir(folder, { mode: 0o700 });
  try {
    const path = join(folder, "database");
    await bring(backup, database.sha256, path, "the database", () => path);
    const [problem] = problemsOf(path);
    if (problem !== undefined) throw new Failure("backup_invalid", `The backup's database is damaged: ${problem}`);
    refuseNewer(schemaVersion(path));
    const store = openStore(path);
    try {
      placeFiles(store, data);
    } finally {
      store.close();
    }
    const file = await open(path, "r");
    await file.sync().finally(() => file.close());
    await renameDurably(path, places(data).database);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
