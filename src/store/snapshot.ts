// Copies a database while others write to it, and checks whether a database is sound.
import { closeSync, fsyncSync, openSync } from "node:fs";
import Database from "better-sqlite3";
import { Failure } from "../base/errors.ts";
import { readMigrations } from "./migrate.ts";

/** Version of the schema that this version of plumbline creates. */
export const currentVersion = (): number => readMigrations().length;

/**
 * Copies everything that was committed when the copying began, and syncs the copy. `to` must not exist. Throws backup_incomplete,
 * backup_no_space.
 */
export function copyDatabase(from: string, to: string): void {
  // Created here with mode 0600, because SQLite would make it readable by everyone.
  closeSync(openSync(to, "wx", 0o600));
  const db = new Database(from, { readonly: true, timeout: 10_000 });
  try {
    db.prepare("VACUUM INTO ?").run(to);
  } catch (error) {
    if (!(error instanceof Database.SqliteError)) throw error;
    if (error.code === "SQLITE_FULL") throw new Failure("backup_no_space", undefined, { cause: error });
    if (!isDamage(error)) throw error;
    throw new Failure("backup_incomplete", `The database is damaged: ${error.message}`, { cause: error });
  } finally {
    db.close();
  }
  const copy = openSync(to, "r+");
  try {
    fsyncSync(copy);
  } finally {
    closeSync(copy);
  }
}

/** Schema version of a database; 0 if plumbline did not create it. */
export function schemaVersion(path: string): number {
  const db = new Database(path, { readonly: true, timeout: 10_000 });
  try {
    return Number(db.pragma("user_version", { simple: true }));
  } finally {
    db.close();
  }
}

/** Describes what is wrong with a database. Empty if the database is sound. */
export function problemsOf(path: string): string[] {
  try {
    const db = new Database(path, { readonly: true, timeout: 10_000 });
    try {
      const said = db.pragma("integrity_check(20)") as { integrity_check: string }[];
      const dangling = db.pragma("foreign_key_check") as { table: string; rowid: number | null; parent: string }[];
      return [
        ...said.map((row) => row.integrity_check).filter((line) => line !== "ok"),
        ...dangling.map((row) => `a row of ${row.table} refers to a row of ${row.parent} that does not exist`),
      ];
    } finally {
      db.close();
    }
  } catch (error) {
    if (error instanceof Database.SqliteError && isDamage(error)) return [error.message];
    throw error;
  }
}

const isDamage = ({ code }: { code: string }): boolean => /^SQLITE_(CORRUPT|NOTADB|IOERR)/.test(code);
