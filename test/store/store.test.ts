import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import Database from "better-sqlite3";
import { Failure } from "../../src/base/errors.ts";
import { readMigrations } from "../../src/store/migrate.ts";
import { isDuplicate, openStore, type Store } from "../../src/store/open.ts";
import { renderSchema, schemaFile } from "../../src/store/schema.ts";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "plumbline-store-"));
  path = join(folder, "plumbline.db");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const ids = (store: Store): number[] =>
  store
    .prepare<[], { value: number }>("SELECT value FROM sequence")
    .all()
    .map((r) => r.value);

describe("open", () => {
  test("commits are synced: FULL and WAL hold after a write, on a reopened file", () => {
    for (const _ of [1, 2]) {
      const store = openStore(path);
      store.nextSeq();
      assert.equal(store.prepare<[], { synchronous: number }>("PRAGMA synchronous").get()?.synchronous, 2);
      assert.equal(store.prepare<[], { journal_mode: string }>("PRAGMA journal_mode").get()?.journal_mode, "wal");
      assert.equal(store.prepare<[], { foreign_keys: number }>("PRAGMA foreign_keys").get()?.foreign_keys, 1);
      assert.equal(store.prepare<[], { trusted_schema: number }>("PRAGMA trusted_schema").get()?.trusted_schema, 0);
      store.close();
    }
  });

  test("the files are the owner's alone", () => {
    const store = openStore(path);
    store.nextSeq();
    for (const name of readdirSync(folder)) assert.equal(statSync(join(folder, name)).mode & 0o077, 0, name);
    store.close();
  });

  test("nextSeq counts on after a reopening, and a rolled back transaction takes its number back", () => {
    let store = openStore(path);
    assert.deepEqual([store.nextSeq(), store.nextSeq()], [1, 2]);
    assert.throws(() =>
      store.transaction(() => {
        store.nextSeq();
        throw new Error("no");
      }),
    );
    assert.deepEqual(ids(store), [2]);
    store.close();
    store = openStore(path);
    assert.equal(store.nextSeq(), 3);
    store.close();
  });

  test("a transaction inside another is part of it", () => {
    const store = openStore(path);
    assert.throws(() =>
      store.transaction(() => {
        store.transaction(() => store.nextSeq());
        throw new Error("no");
      }),
    );
    assert.deepEqual(ids(store), [0]);
    store.close();
  });

  test("an asynchronous transaction is refused", () => {
    const store = openStore(path);
    assert.throws(() => store.transaction(async () => store.nextSeq()), /promise/);
    assert.deepEqual(ids(store), [0]);
    store.close();
  });

  test("a full database is disk_full, a duplicate is told apart", () => {
    const store = openStore(path);
    store.prepare("PRAGMA max_page_count = 1").get();
    assert.throws(
      () => store.prepare<[string], never>("INSERT INTO user VALUES('u', ?, '')").run("x".repeat(1 << 20)),
      (error) => error instanceof Failure && error.code === "disk_full",
    );
    store.prepare("PRAGMA max_page_count = 1000000").get();
    const insert = store.prepare<[string, string]>("INSERT INTO user VALUES(?, ?, '')");
    insert.run("a", "a");
    assert.throws(() => insert.run("b", "a"), isDuplicate);
    assert.throws(
      () =>
        store
          .prepare<[]>(
            "INSERT INTO api_key(id, user_id, prefix, sha256, created_at) VALUES('k', 'nobody', 'p', 's', '')",
          )
          .run(),
      (error) => !isDuplicate(error),
    );
    store.close();
  });
});

describe("migrations", () => {
  test("schema.sql is what they make", () => assert.equal(readFileSync(schemaFile, "utf8"), renderSchema()));

  test("a database of a newer version is refused and left alone", () => {
    openStore(path).close();
    const db = new Database(path);
    db.pragma("user_version = 9999");
    db.close();
    assert.throws(
      () => openStore(path),
      (error) => error instanceof Failure && error.code === "schema_too_new",
    );
  });

  const more = (sql: string) => [...readMigrations(), { name: "next.sql", sql }];

  test("an existing database is copied before it is changed", () => {
    const before = openStore(path);
    before.nextSeq();
    before.close();
    const version = readMigrations().length + 1;
    const mask = process.umask(0o022);
    openStore(path, { migrations: more("CREATE TABLE fruit(id TEXT) STRICT;") }).close();
    process.umask(mask);
    assert.equal(statSync(`${path}.before-${version}`).mode & 0o077, 0);
    copyFileSync(`${path}.before-${version}`, join(folder, "old.db"));
    const old = openStore(join(folder, "old.db"));
    assert.equal(old.nextSeq(), 2);
    assert.throws(() => old.prepare("SELECT * FROM fruit"), /no such table/);
    old.close();
  });

  test("one that fails in the middle leaves the old schema", () => {
    openStore(path).close();
    assert.throws(() => openStore(path, { migrations: more("CREATE TABLE fruit(id TEXT) STRICT; SELECT nonsense;") }));
    const store = openStore(path);
    assert.throws(() => store.prepare("SELECT * FROM fruit"), /no such table/);
    store.close();
  });

  test("answers of an older version keep what they scored, and their look at the sealed split comes on record", () => {
    const all = readMigrations();
    const place = all.findIndex(({ name }) => name.endsWith("_proof_promotion.sql"));
    const old = openStore(path, { migrations: all.slice(0, place) });
    for (const sql of [
      "INSERT INTO user VALUES('u', 'ada', '')",
      `INSERT INTO base_model(id, name, architecture, context_length, parameters, file_type, bytes, memory_bytes,
       can_be_aligned, sha256, path, created_seq, created_at) VALUES('m', 'm', 'llama', 1, 1, 'F32', 1, 1, 1, 'x', '/', 1, '')`,
      `INSERT INTO document(id, owner_id, kind, name, media_type, bytes, characters, sha256, text_sha256, created_seq, created_at)
       VALUES('d', 'u', 'benchmark', 'd', 't', 1, 1, 'x', 'x', 1, '')`,
      "INSERT INTO benchmark VALUES('b', 'u', 'd', 'b', 'x', 1, '', '')",
      ...["seen", "unseen"].map(
        (
          id,
          at,
        ) => `INSERT INTO evaluation(id, owner_id, name, model_id, base_model_id, benchmark_id, n_samples, settings_json,
         created_seq, created_at, updated_at) VALUES('${id}', 'u', 'e', 'm', 'm', 'b', 2, '{}', ${at}, 'then', '')`,
      ),
      ...[1, 2].map(
        (
          n,
        ) => `INSERT INTO evaluation_answer(evaluation_id, sample_num, split, answer, correct, features_json, prompt_sha256)
         VALUES('seen', ${n}, '${n === 1 ? "dev" : "sealed"}', 'a', ${n - 1}, '[]', 'p')`,
      ),
    ])
      old.transaction(() => old.prepare(sql).run());
    old.close();
    const store = openStore(path);
    assert.deepEqual(store.prepare("SELECT sample_num, type, score FROM evaluation_answer").all(), [
      { sample_num: 1, type: "short", score: 0 },
      { sample_num: 2, type: "short", score: 1 },
    ]);
    assert.deepEqual(store.prepare("SELECT evaluation_id, model_id, purpose, at FROM sealed_touch").all(), [
      { evaluation_id: "seen", model_id: "m", purpose: "evaluation", at: "then" },
    ]);
    store.close();
  });

  test("the pauses of an auto-align of an older version that were ended by hand become its resumes", () => {
    const all = readMigrations();
    const place = all.findIndex(({ name }) => name.endsWith("_auto_align_resumes.sql"));
    const old = openStore(path, { migrations: all.slice(0, place) });
    const card = (id: string, step: number, looks: number): string =>
      `INSERT INTO auto_align_card VALUES('${id}', ${step}, 'end', '${JSON.stringify({
        next: { kind: "end", status: "PAUSED" },
        looks: Array.from({ length: looks }, () => ({})),
      })}', ${step}, '')`;
    for (const sql of [
      "INSERT INTO user VALUES('u', 'ada', '')",
      `INSERT INTO base_model(id, name, architecture, context_length, parameters, file_type, bytes, memory_bytes,
       can_be_aligned, sha256, path, created_seq, created_at) VALUES('m', 'm', 'llama', 1, 1, 'F32', 1, 1, 1, 'x', '/', 1, '')`,
      `INSERT INTO alignment(id, owner_id, name, workflow_id, base_model_id, document_ids_json, document_names_json,
       document_sha256s_json, created_seq, created_at) VALUES('a', 'u', 'a', 'quick', 'm', '[]', '[]', '[]', 1, '')`,
      ...["once", "never"].map(
        (id) => `INSERT INTO auto_align(id, owner_id, alignment_id, request_json, config_text, created_seq, created_at,
         updated_at) VALUES('${id}', 'u', 'a', '{}', 'null', 1, '', '')`,
      ),
      card("once", 2, 0),
      card("once", 5, 1),
      card("once", 9, 2),
      card("never", 2, 0),
      "UPDATE auto_align SET phases = 7, resumed_after = 4 WHERE id = 'once'",
    ])
      old.transaction(() => old.prepare(sql).run());
    old.close();
    const store = openStore(path);
    assert.deepEqual(store.prepare("SELECT id, resumes_json FROM auto_align ORDER BY id").all(), [
      { id: "never", resumes_json: "[]" },
      { id: "once", resumes_json: '[{"phases":2,"looks":0},{"phases":4,"looks":1}]' },
    ]);
    store.close();
  });

  test("histories of an older version stay when what they tell of is deleted", () => {
    const all = readMigrations();
    const place = all.findIndex(({ name }) => name.endsWith("_deleting.sql"));
    const old = openStore(path, { migrations: all.slice(0, place) });
    for (const sql of [
      "INSERT INTO user VALUES('u', 'ada', '')",
      `INSERT INTO base_model(id, name, architecture, context_length, parameters, file_type, bytes, memory_bytes,
       can_be_aligned, sha256, path, created_seq, created_at) VALUES('m', 'm', 'llama', 1, 1, 'F32', 1, 1, 1, 'x', '/', 1, '')`,
      `INSERT INTO document(id, owner_id, kind, name, media_type, bytes, characters, sha256, text_sha256, created_seq, created_at)
       VALUES('d', 'u', 'benchmark', 'd', 't', 1, 1, 'x', 'x', 1, '')`,
      `INSERT INTO benchmark(id, owner_id, document_id, name, sha256, created_seq, created_at, updated_at)
       VALUES('b', 'u', 'd', 'b', 'x', 1, '', '')`,
      `INSERT INTO evaluation(id, owner_id, name, model_id, base_model_id, benchmark_id, n_samples, settings_json,
       created_seq, created_at, updated_at) VALUES('e', 'u', 'e', 'm', 'm', 'b', 2, '{}', 1, '', '')`,
      "INSERT INTO sealed_touch(benchmark_id, evaluation_id, model_id, purpose, at) VALUES('b', 'e', 'm', 'evaluation', 'then')",
      ...[1, 2].flatMap((n) => [
        `INSERT INTO alignment(id, owner_id, name, workflow_id, base_model_id, document_ids_json, document_names_json,
         document_sha256s_json, created_seq, created_at) VALUES('a${n}', 'u', 'a', 'quick', 'm', '[]', '[]', '[]', 1, '')`,
        `INSERT INTO aligned_model(id, owner_id, alignment_id, base_model_id, name, adapter_path, adapter_sha256, calibration_json,
         created_seq, created_at) VALUES('x${n}', 'u', 'a${n}', 'm', 'x', '/', 'x', '{}', 1, '')`,
        `INSERT INTO promotion(owner_id, base_model_id, line, act, model_id, replaced_model_id, before_seq, overridden, reason,
         verdict_json, key_id, at) VALUES('u', 'm', 'l', 'promote', 'x${n}', ${n === 1 ? "NULL, NULL" : "'x1', 1"}, 0, NULL, '{}', 'k', 'at${n}')`,
      ]),
      "INSERT INTO promoted VALUES('u', 'm', 'l', 'x2', 2)",
    ])
      old.transaction(() => old.prepare(sql).run());
    old.close();
    const store = openStore(path);
    const history = () =>
      store.prepare("SELECT seq, channel, model_id, replaced_model_id, before_seq, at FROM promotion").all();
    const before = history();
    assert.deepEqual(before, [
      { seq: 1, channel: "l", model_id: "x1", replaced_model_id: null, before_seq: null, at: "at1" },
      { seq: 2, channel: "l", model_id: "x2", replaced_model_id: "x1", before_seq: 1, at: "at2" },
    ]);
    assert.deepEqual(store.prepare("SELECT channel, model_id, promotion_seq FROM promoted").all(), [
      { channel: "l", model_id: "x2", promotion_seq: 2 },
    ]);
    for (const sql of [
      "DELETE FROM aligned_model WHERE id = 'x1'",
      "DELETE FROM alignment WHERE id = 'a1'",
      "DELETE FROM evaluation WHERE id = 'e'",
      "DELETE FROM benchmark WHERE id = 'b'",
    ])
      assert.equal(store.prepare(sql).run().changes, 1, sql);
    assert.deepEqual(history(), before);
    assert.deepEqual(store.prepare("SELECT benchmark_id, evaluation_id, at FROM sealed_touch").all(), [
      { benchmark_id: "b", evaluation_id: "e", at: "then" },
    ]);
    for (const sql of [
      "DELETE FROM promotion",
      "UPDATE promotion SET channel = 'other'",
      "DELETE FROM sealed_touch",
      "UPDATE sealed_touch SET at = 'now'",
    ])
      assert.throws(() => store.prepare(sql).run(), /append-only/, sql);
    // What is promoted cannot go.
    assert.throws(() => store.prepare("DELETE FROM aligned_model WHERE id = 'x2'").run(), /FOREIGN KEY/);
    assert.deepEqual(store.prepare("PRAGMA foreign_key_check").all(), []);
    store.close();
  });

  test("every move of work that states.ts allows is an edge in the database", async () => {
    const { edges } = await import("../../src/jobs/states.ts");
    const store = openStore(path);
    const rows = store.prepare<[], { from_state: string; to_state: string }>("SELECT * FROM job_edge").all();
    const expected = Object.entries(edges).flatMap(([from, to]) => to.map((state) => `${from} ${state}`));
    assert.deepEqual(rows.map((row) => `${row.from_state} ${row.to_state}`).sort(), expected.sort());
    store.close();
  });
});
