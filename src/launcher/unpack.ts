// Unpacks the archive into one folder, which is named after its content. The folder is created under a temporary name, synced and
// renamed, so that it exists completely or not at all. Later starts compare each file's size, mode, times and inode with those recorded
// when the file was written, which takes milliseconds. If they differ, the file is hashed, and written again if its content or mode is not
// as in the archive.

import { createHash } from "node:crypto";
import {
  closeSync,
  existsSync,
  fchmodSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { Failure } from "../base/errors.ts";
import { isErrno, isTemporary, ownerOfTemporary, temporaryName } from "../base/files.ts";
import type { Archive, ArchivedFile } from "./archive.ts";

/** What stat(2) returned for each file when its content was last known to be right, by path. */
type Seal = Record<string, string>;

const sealName = ".seal";

/** Unpacks the archive, or repairs what was unpacked, and returns the folder. Calls `say` before work that can take seconds. */
export function unpack(archive: Archive, runtime: string, say: (text: string) => void): string {
  const folder = join(runtime, archive.id);
  if (existsSync(folder)) repair(archive, folder, say);
  else {
    mkdirSync(runtime, { recursive: true, mode: 0o700 });
    // Without /proc, as in a bare chroot, it is unknown which folders are in use.
    const knowsProcesses = existsSync("/proc/self");
    if (knowsProcesses) removeUnfinished(runtime);
    say(`unpacking into ${folder} (only this once)`);
    unpackNew(archive, folder);
    if (knowsProcesses) removeUnused(runtime, archive.id);
  }
  return folder;
}

function unpackNew(archive: Archive, folder: string): void {
  const temporary = temporaryName(folder);
  const seal: Seal = {};
  const folders = new Set([temporary]);
  try {
    for (const file of archive.index.files) {
      const path = join(temporary, file.path);
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      for (let above = dirname(path); above !== temporary; above = dirname(above)) folders.add(above);
      writeContent(archive, file, path);
      seal[file.path] = stampOf(path)!;
    }
    writeSeal(temporary, seal);
    for (const one of folders) syncFolder(one);
    try {
      renameSync(temporary, folder);
    } catch (error) {
      // Another process that started at the same time has unpacked the same archive.
      if (!isErrno(error, "ENOTEMPTY", "EEXIST")) throw error;
    }
    syncFolder(dirname(folder));
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

/** Writes those files again that are not as in the archive. */
function repair(archive: Archive, folder: string, say: (text: string) => void): void {
  const seal = readSeal(folder);
  const { files } = archive.index;
  const changed = files.filter((file) => {
    const stamp = stampOf(join(folder, file.path));
    return stamp === null || stamp !== seal[file.path];
  });
  if (changed.length === 0) return;
  for (const file of changed) {
    const path = join(folder, file.path);
    if (!isSound(path, file)) {
      say(`${path} was changed since it was unpacked; writing it again`);
      replace(archive, file, path);
    }
    seal[file.path] = stampOf(path)!;
  }
  writeSeal(folder, seal);
}

function replace(archive: Archive, file: ArchivedFile, path: string): void {
  const temporary = temporaryName(path);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  try {
    writeContent(archive, file, temporary);
    if (existsSync(path) && statSync(path).isDirectory()) rmSync(path, { recursive: true });
    renameSync(temporary, path);
    syncFolder(dirname(path));
  } finally {
    rmSync(temporary, { force: true });
  }
}

/** Writes and syncs a new file. Throws release_damaged if the content does not match the hash in the index. */
function writeContent(archive: Archive, file: ArchivedFile, path: string): void {
  const hash = createHash("sha256");
  const descriptor = openSync(path, "wx", 0o600);
  try {
    for (const part of archive.content(file)) {
      hash.update(part);
      for (let done = 0; done < part.length; ) done += writeSync(descriptor, part, done);
    }
    if (hash.digest("hex") !== file.sha256) throw new Failure("release_damaged", `${file.path} is damaged`);
    fchmodSync(descriptor, file.mode);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function isSound(path: string, file: ArchivedFile): boolean {
  try {
    if ((statSync(path).mode & 0o777) !== file.mode) return false;
    return hashOf(path) === file.sha256;
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR", "EISDIR", "ELOOP")) return false;
    throw error;
  }
}

function hashOf(path: string): string {
  const hash = createHash("sha256");
  const buffer = Buffer.allocUnsafe(1 << 20);
  const descriptor = openSync(path, "r");
  try {
    for (;;) {
      const bytes = readSync(descriptor, buffer);
      if (bytes === 0) return hash.digest("hex");
      hash.update(buffer.subarray(0, bytes));
    }
  } finally {
    closeSync(descriptor);
  }
}

/** Returns a stamp that changes with every write, because no program can set a file's change time. Null if there is no file. */
function stampOf(path: string): string | null {
  try {
    const { ino, size, mode, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    return `${ino} ${size} ${mode} ${mtimeNs} ${ctimeNs}`;
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR", "ELOOP")) return null;
    throw error;
  }
}

/** Returns an empty seal if none can be read, so that all files are hashed. */
function readSeal(folder: string): Seal {
  try {
    return JSON.parse(readFileSync(join(folder, sealName), "utf8")) as Seal;
  } catch {
    return {};
  }
}

function writeSeal(folder: string, seal: Seal): void {
  const path = join(folder, sealName);
  const temporary = temporaryName(path);
  writeFileSync(temporary, JSON.stringify(seal), { mode: 0o600, flush: true });
  renameSync(temporary, path);
}

function syncFolder(folder: string): void {
  const descriptor = openSync(folder, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Removes the folders of processes that were killed while they unpacked. A folder named after this process's own id was left by an earlier
 * process, because this one has not created a folder yet. In a container, every start can have the same process id.
 */
function removeUnfinished(runtime: string): void {
  for (const name of readdirSync(runtime)) {
    if (!isTemporary(name)) continue;
    const owner = ownerOfTemporary(name);
    if (owner === process.pid || !existsSync(`/proc/${owner}`))
      rmSync(join(runtime, name), { recursive: true, force: true });
  }
}

/** Removes the folders of other versions from which no process runs. */
function removeUnused(runtime: string, id: string): void {
  const running = executablesOfProcesses();
  // The paths of the processes have no links in them.
  const real = realpathSync(runtime);
  for (const name of readdirSync(runtime)) {
    const folder = join(runtime, name);
    if (name === id || isTemporary(name) || running.some((path) => path.startsWith(`${join(real, name)}/`))) continue;
    // The folder is renamed first, so that a process that starts now finds the whole folder or none.
    const condemned = temporaryName(folder);
    renameSync(folder, condemned);
    rmSync(condemned, { recursive: true, force: true });
  }
}

function executablesOfProcesses(): string[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => {
    try {
      return [readlinkSync(`/proc/${pid}/exe`)];
    } catch {
      // The process has ended, or belongs to another user, who cannot use this folder.
      return [];
    }
  });
}
