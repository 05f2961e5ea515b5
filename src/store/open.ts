// The appliance's database connection. Commits are synced before they are acknowledged (synchronous=FULL), because better-sqlite3's
// default for WAL can lose acknowledged commits in a power cut.
import { closeSync, openSync } from "node:fs";
import Database from "better-sqlite3";
import { Failure } from "../base/errors.ts";
import { type Migration, migrate } from "./migrate.ts";

/** Parameters are a tuple (for ?) or one object (for :name). */
type Given<Params> = Params extends readonly unknown[] ? Params : [Params];

export interface Statement<Params, Row> {
  get(...params: Given<Params>): Row | undefined;
  all(...params: Given<Params>): Row[];
  run(...params: Given<Params>): { changes: number };
}

export interface Store {
  /** Prepares a statement. Each SQL text is prepared only once, so this can be called at each use, or the result can be kept. */
  prepare<Params = [], Row = never>(sql: string): Statement<Params, Row>;
  /** Runs `fn`, which must be synchronous, in BEGIN IMMEDIATE … COMMIT, or in a savepoint inside another transaction. */
  transaction<T>(fn: () => T): T;
  /** The next number in the order of creation, independent of the wall clock. Part of the caller's transaction. */
  nextSeq(): number;
  close(): void;
}

export interface StoreOptions {
  /** Called once when the disk fails under the database. Which writes were committed is then unknown until it is opened again. */
  onIoError?: (error: Error) => void;
  migrations?: Migration[];
}

export function openStore(path: string, options: StoreOptions = {}): Store {
  // Created here with mode 0600, so that only the owner can access the database, its -wal and its -shm.
  closeSync(openSync(path, "a", 0o600));
  const first = connect(path);
  try {
    migrate(first, options.migrations);
  } finally {
    first.close();
  }
  const db = connect(path);
  assertSynced(db);
  return storeOver(db, options.onIoError ?? (() => {}));
}

/** Opens a database read-only, while another process may write to it. Nothing is migrated, so statements must fit the schema as it is. */
export const openToRead = (path: string): Store =>
  storeOver(new Database(path, { readonly: true, timeout: 10_000 }), () => {});

function connect(path: string): Database.Database {
  const db = new Database(path, { timeout: 10_000 });
  for (const pragma of [
    "busy_timeout = 10000",
    "journal_mode = WAL",
    "synchronous = FULL",
    "foreign_keys = ON",
    "trusted_schema = OFF",
    "cell_size_check = ON",
    "mmap_size = 0",
    "journal_size_limit = 67108864",
    "wal_autocheckpoint = 1000",
  ])
    db.pragma(pragma);
  return db;
}

/**
 * Throws if commits are not synced. On a new file, the pragma reads FULL and becomes NORMAL at the first write, so it is read after a
 * write, on a reopened file.
 */
function assertSynced(db: Database.Database): void {
  db.exec("BEGIN IMMEDIATE; UPDATE sequence SET value = value; COMMIT");
  const synchronous = db.pragma("synchronous", { simple: true });
  const mode = db.pragma("journal_mode", { simple: true });
  if (synchronous !== 2 || mode !== "wal")
    throw new Error(`the database would lose commits: synchronous=${synchronous}, journal_mode=${mode}`);
}

function storeOver(db: Database.Database, onIoError: (error: Error) => void): Store {
  const statements = new Map<string, Statement<never, unknown>>();
  let broken = false;
  const guard = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      const failure = diskFailure(error);
      if (failure?.code === "internal" && !broken) {
        broken = true;
        onIoError(failure);
      }
      throw failure ?? error;
    }
  };
  const inTransaction = db.transaction((fn: () => unknown) => fn());
  const prepare = (sql: string): Statement<never, unknown> => {
    const known = statements.get(sql);
    if (known) return known;
    const raw = db.prepare<unknown[], unknown>(sql);
    const statement: Statement<never, unknown> = {
      get: (...params: unknown[]) => guard(() => raw.get(...params)),
      all: (...params: unknown[]) => guard(() => raw.all(...params)),
      run: (...params: unknown[]) => guard(() => ({ changes: raw.run(...params).changes })),
    };
    statements.set(sql, statement);
    return statement;
  };
  const next = prepare("UPDATE sequence SET value = value + 1 RETURNING value") as Statement<[], { value: number }>;
  return {
    prepare: <Params, Row>(sql: string) => prepare(sql) as unknown as Statement<Params, Row>,
    transaction: <T>(fn: () => T): T => guard(() => inTransaction.immediate(fn) as T),
    nextSeq: () => next.get()!.value,
    close: () => void db.close(),
  };
}

/** Returns a disk error as a Failure: disk_full if the disk is full, otherwise internal. Null for any other error. */
function diskFailure(error: unknown): Failure | null {
  if (!(error instanceof Database.SqliteError)) return null;
  if (error.code === "SQLITE_FULL") return new Failure("disk_full", undefined, { cause: error });
  if (/^SQLITE_(IOERR|CORRUPT|NOTADB)/.test(error.code)) return new Failure("internal", undefined, { cause: error });
  return null;
}

/** Whether a write was refused because the row already exists. */
export const isDuplicate = (error: unknown): boolean =>
  error instanceof Database.SqliteError && /^SQLITE_CONSTRAINT_(UNIQUE|PRIMARYKEY)$/.test(error.code);
