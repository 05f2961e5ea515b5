// A backup as a folder. Each backup into the folder copies only what the folder lacks, and removes what is no longer
// needed.
import { open, readdir, readFile, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { contentPaths } from "../../base/config.ts";
import { partsOf, writeParts } from "../../base/content.ts";
import { Failure } from "../../base/errors.ts";
import { isErrno, isTemporary, makeFolder, removeTemporaries, syncFolder, writeJsonDurably } from "../../base/files.ts";
import { type Lock, tryLock } from "../../base/lock.ts";
import type { Target } from "./backup.ts";
import { type Backup, type Manifest, manifestName, readManifest } from "./manifest.ts";
import { noSpace } from "./no-space.ts";

const contentName = "content";
const lockName = "lock";

/** Returns the names that belong neither to a backup nor to the file system. */
const strangersIn = (names: readonly string[]): string[] =>
  names.filter(
    (name) =>
      ![manifestName, contentName, lockName, `${lockName}-journal`, "lost+found"].includes(name) && !isTemporary(name),
  );

/** Throws folder_not_empty, backup_locked. */
export async function openFolderTarget(folder: string): Promise<Target & { close(): void }> {
  await makeFolder(folder);
  const [stranger] = strangersIn(await readdir(folder));
  if (stranger !== undefined)
    throw new Failure("folder_not_empty", `${folder} contains ${stranger}, which is not part of a backup`);
  const lock = lockBackup(join(folder, lockName));
  try {
    await removeTemporaries(folder);
    const contents = join(folder, contentName);
    await makeFolder(contents);
    const placeOf = (sha256: string): string => join(contents, contentPaths.blob(sha256));
    return {
      scratch: folder,
      previous: await previousIn(folder),
      async has({ sha256, bytes }) {
        return (await sizeOf(placeOf(sha256))) === bytes;
      },
      add: (parts, _, expected) =>
        writeParts(parts(), expected, join(contents, "content"), placeOf).catch((error) => {
          throw noSpace(error);
        }),
      async finish(manifest) {
        // These include folders whose content was written by an earlier backup that was killed before it synced them.
        const places = new Set([...hashesOf(manifest)].map((sha256) => dirname(placeOf(sha256))));
        for (const place of [...places, contents, folder]) await syncFolder(place);
        await writeJsonDurably(join(folder, manifestName), manifest).catch((error) => {
          throw noSpace(error);
        });
        await prune(contents, manifest);
      },
      close: () => lock.release(),
    };
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** Reads the previous manifest; null if there is none, or if it is damaged, in which case the backup simply replaces it. */
async function previousIn(folder: string): Promise<Manifest | null> {
  try {
    return readManifest(await readFile(join(folder, manifestName), "utf8"));
  } catch (error) {
    if (error instanceof Failure || isErrno(error, "ENOENT")) return null;
    throw error;
  }
}

export function lockBackup(path: string): Lock {
  const lock = tryLock(path);
  if (lock === null) throw new Failure("backup_locked", `Another backup or restore uses ${dirname(path)}`);
  return lock;
}

const sizeOf = (path: string): Promise<number | null> =>
  stat(path).then(
    ({ size }) => size,
    () => null,
  );

const hashesOf = ({ database, files }: Manifest): Set<string> =>
  new Set([database.sha256, ...files.map(({ sha256 }) => sha256)]);

/** Removes content that the manifest does not name, because what was deleted from the appliance must not stay in its backup. */
async function prune(contents: string, manifest: Manifest): Promise<void> {
  const wanted = hashesOf(manifest);
  for (const path of await contentIn(contents)) {
    const name = path.slice(path.lastIndexOf("/") + 1);
    if (!wanted.has(name)) await rm(path, { force: true });
  }
}

async function contentIn(contents: string): Promise<string[]> {
  const entries = await readdir(contents, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

/** Throws backup_invalid if the manifest is missing or damaged. */
export async function openFolderBackup(folder: string): Promise<Backup> {
  const text = await readFile(join(folder, manifestName), "utf8").catch((error) => {
    if (!isErrno(error, "ENOENT")) throw error;
    throw new Failure(
      "backup_invalid",
      `${folder} is neither a data folder nor a complete backup: it has no ${manifestName}`,
    );
  });
  const manifest = readManifest(text);
  const contents = join(folder, contentName);
  return {
    manifest,
    async *read(sha256) {
      const file = await open(join(contents, contentPaths.blob(sha256)), "r");
      try {
        yield* partsOf(file, (await file.stat()).size);
      } finally {
        await file.close();
      }
    },
    async others() {
      const wanted = new Set([...hashesOf(manifest)].map((sha256) => join(contents, contentPaths.blob(sha256))));
      const strangers = strangersIn(await readdir(folder)).map((name) => join(folder, name));
      return [...strangers, ...(await contentIn(contents)).filter((path) => !wanted.has(path))];
    },
    close: async () => {},
  };
}
