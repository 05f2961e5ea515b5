// Renders the schema that all migrations together produce, as one readable file. `node src/store/schema.ts` writes the file.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { migrate } from "./migrate.ts";

export const schemaFile = join(import.meta.dirname, "schema.sql");

export function renderSchema(): string {
  const db = new Database(":memory:");
  try {
    migrate(db);
    const rows = db
      .prepare<[], { sql: string }>("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")
      .all();
    return `-- Generated from migrations/ by schema.ts; do not edit.\n\n${rows.map((row) => `${row.sql};\n`).join("\n")}`;
  } finally {
    db.close();
  }
}

if (process.argv[1] === import.meta.filename) writeFileSync(schemaFile, renderSchema());
