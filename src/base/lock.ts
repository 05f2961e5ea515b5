// A lock that dies with its process. Node has no flock; SQLite's exclusive lock on a small file of its own is one (fcntl), is
// not inherited by children, and is released by the kernel however the holder ends.
import Database from "better-sqlite3";

export interface Lock {
  release(): void;
}

/** null when another process holds it. */
export function tryLock(path: string): Lock | null {
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
