// A lock that is released when its process ends. Node has no flock, so this uses SQLite's exclusive lock (fcntl) on a small separate
// file. Child processes do not inherit such a lock, and the kernel releases it however the holder ends.
import { closeSync, existsSync, openSync } from "node:fs";
import Database from "better-sqlite3";
import { isErrno } from "./files.ts";

export interface Lock {
  release(): void;
}

/**
 * Creates the file with mode 0600, because SQLite would create a file that any user can open and so lock. An existing file is not
 * opened, because closing it would release a lock that this process holds.
 */
function makePrivate(path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if (!isErrno(error, "EEXIST")) throw error;
  }
}

/** Takes the lock on the file at `path`, which is created if necessary. Returns null if the lock is already held. */
export function tryLock(path: string): Lock | null {
  makePrivate(path);
  const file = new Database(path, { timeout: 0 });
  try {
    file.pragma("locking_mode = EXCLUSIVE");
    file.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    file.close();
    if (error instanceof Database.SqliteError && error.code.startsWith("SQLITE_BUSY")) return null;
    throw error;
  }
  return { release: () => void file.close() };
}

/** Whether any process, this one included, holds the lock on the file at `path`. The file is not created. */
export function isLocked(path: string): boolean {
  if (!existsSync(path)) return false;
  const lock = tryLock(path);
  lock?.release();
  return lock === null;
}
