// Indexes that a database should have and lacks: every statement works without them, ever more slowly.
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

/** None is missing in a database of another version: its own plumbline knows what belongs there. */
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
  // A connection that may only read would leave the files of its log behind.
  const db = new Database(path, { fileMustExist: true, timeout: 10_000 });
  try {
    db.pragma("query_only = ON");
    return lackingIn(db).map(({ name }) => name);
  } finally {
    db.close();
  }
}

/** Makes them, and returns their names. Throws where rows break what a unique index promises. */
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
