// Finds and creates indexes that a database lacks. Every statement works without them, but becomes slower as the database grows.
import Database from "better-sqlite3";
import { migrate, readMigrations } from "./migrate.ts";

interface Index {
  name: string;
  sql: string;
}

const indexesOf = (db: Database.Database): Index[] =>
  db
    .prepare<[], Index>("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY name")
    .all();

/** Returns the missing indexes. Empty for a database of another version, because only that version of plumbline knows its indexes. */
function lackingIn(db: Database.Database): Index[] {
  if (Number(db.pragma("user_version", { simple: true })) !== readMigrations().length) return [];
  const fresh = new Database(":memory:");
  try {
    migrate(fresh);
    const there = new Set(indexesOf(db).map(({ name }) => name));
    return indexesOf(fresh).filter(({ name }) => !there.has(name));
  } finally {
    fresh.close();
  }
}

export function missingIndexes(path: string): string[] {
  // The connection is not read-only, because a read-only one would leave the files of the write-ahead log behind.
  const db = new Database(path, { fileMustExist: true, timeout: 10_000 });
  try {
    db.pragma("query_only = ON");
    return lackingIn(db).map(({ name }) => name);
  } finally {
    db.close();
  }
}

/** Creates the missing indexes and returns their names. Throws if existing rows violate a unique index. */
export function makeMissingIndexes(path: string): string[] {
  const db = new Database(path, { fileMustExist: true, timeout: 10_000 });
  try {
    const lacking = lackingIn(db);
    db.transaction(() => {
      for (const { sql } of lacking) db.exec(sql);
    }).immediate();
    return lacking.map(({ name }) => name);
  } finally {
    db.close();
  }
}
