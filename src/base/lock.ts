// A lock that dies with its process. Node has no flock; SQLite's exclusive lock on a small file of its own is one (fcntl), is
// not inherited by children, and is released by the kernel however the holder ends.
import { closeSync, openSync } from "node:fs";
import Database from "better-sqlite3";
import { isErrno } from "./files.ts";

export interface Lock {
  release(): void;
}

/** SQLite would let everybody open it, and so hold it. One that is there is not opened: to close it would let go of it. */
function makePrivate(path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if (!isErrno(error, "EEXIST")) throw error;
  }
}

/** null when another process holds it. */
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
