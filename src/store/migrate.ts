// Brings a database up to this version with migrations/NNNN_name.sql. Migrations are only added, never changed. Each is one transaction,
// which also sets PRAGMA user_version to the migration's number, so an interrupted migration leaves no trace.
import { closeSync, openSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Database } from "better-sqlite3";
import { Failure } from "../base/errors.ts";

export interface Migration {
  name: string;
  sql: string;
}

const folder = join(import.meta.dirname, "migrations");

/** Reads the migrations in order. Throws if their numbers do not run from 1 without a gap. */
export function readMigrations(from = folder): Migration[] {
  const names = readdirSync(from)
    .filter((name) => /^\d{4}_[a-z0-9_]+\.sql$/.test(name))
    .sort();
  names.forEach((name, index) => {
    if (Number(name.slice(0, 4)) !== index + 1) throw new Error(`migration ${name} should have number ${index + 1}`);
  });
  return names.map((name) => ({ name, sql: readFileSync(join(from, name), "utf8") }));
}

const versionOf = (db: Database): number => Number(db.pragma("user_version", { simple: true }));

/** Applies the missing migrations. An existing database is first copied to a file beside it. Throws schema_too_new. */
export function migrate(db: Database, migrations: Migration[] = readMigrations()): void {
  const version = versionOf(db);
  if (version > migrations.length)
    throw new Failure("schema_too_new", undefined, { context: { version, known: migrations.length } });
  if (version === migrations.length) return;
  if (version > 0) backUp(db, version);
  migrations.slice(version).forEach((migration, index) => {
    db.transaction(() => {
      db.exec(migration.sql);
      db.pragma(`user_version = ${version + index + 1}`);
    }).immediate();
  });
}

/** Copies the database to a file beside it. Does nothing for an in-memory database. */
function backUp(db: Database, version: number): void {
  if (db.memory) return;
  const copy = `${db.name}.before-${version + 1}`;
  rmSync(`${copy}.part`, { force: true });
  // Created here with mode 0600, because SQLite would make it readable by everyone.
  closeSync(openSync(`${copy}.part`, "wx", 0o600));
  db.prepare("VACUUM INTO ?").run(`${copy}.part`);
  renameSync(`${copy}.part`, copy);
}
