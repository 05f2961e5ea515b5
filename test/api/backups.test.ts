// A backup of a house that serves meanwhile holds what was acknowledged before it began, and nothing else is restored.
import assert from "node:assert/strict";
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from "node:fs";
import { chown, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { contentPaths, places, readConfig } from "../../src/base/config.ts";
import { Failure } from "../../src/base/errors.ts";
import { sha256 } from "../../src/base/files.ts";
import { createLog } from "../../src/base/log.ts";
import { finish, startProcess } from "../../src/base/processes.ts";
import type { Target } from "../../src/domain/backups/backup.ts";
import {
  checkPlaces,
  makeBackup,
  openArchiveTarget,
  openBackup,
  openFolderTarget,
  restoreBackup,
  verifyBackup,
  verifyData,
} from "../../src/domain/backups/index.ts";
import { createHouse } from "../../src/main.ts";
import { readMigrations } from "../../src/store/migrate.ts";
import { openStore } from "../../src/store/open.ts";
import { copyDatabase } from "../../src/store/snapshot.ts";
import { temporaryFolder } from "../cli/plumbline.ts";
import { type TestHouse, testHouse } from "../helpers/house.ts";
import { insertModels } from "../helpers/unloadable.ts";
import { alignmentsHouse } from "./alignments-house.ts";

let it: TestHouse;
beforeEach(async () => {
  it = await testHouse();
});
afterEach(() => it.close());

const parts = (data: string) => ({ data, version: "0", now: () => new Date().toISOString(), onProgress: () => {} });
const silent = (): void => {};

async function backup(path: string, data = it.data) {
  const target = path.endsWith(".tar") ? await openArchiveTarget(path) : await openFolderTarget(path);
  try {
    return await makeBackup(target, parts(data));
  } finally {
    await target.close();
  }
}

async function withBackup<T>(
  path: string,
  work: (it: Awaited<ReturnType<typeof openBackup>>) => Promise<T>,
): Promise<T> {
  const opened = await openBackup(path);
  try {
    return await work(opened);
  } finally {
    await opened.close();
  }
}

const verified = (path: string) => withBackup(path, (opened) => verifyBackup(opened, silent));
const restore = (path: string, data: string) => withBackup(path, (opened) => restoreBackup(opened, data, silent));
const isFailure = (code: string) => (error: unknown) => error instanceof Failure && error.code === code;

async function upload(name: string, content = `# ${name}\n\nThe pump of ${name} was inspected by Ada Brook.\n`) {
  const { status, body } = await it.call("documents.upload", { files: [{ name: `${name}.md`, content }] });
  assert.equal(status, 200);
  return body.documents[0] as { document_id: string; sha256: string };
}

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

for (const form of ["folder", "archive.tar"])
  describe(`a backup as ${form}`, () => {
    test("restored, it has every write acknowledged before it began, while uploads and deletions went on", async (context) => {
      const folder = temporaryFolder(context);
      const place = join(folder, form);
      const before = [];
      for (let n = 0; n < 6; n++) before.push(await upload(`hall-${n}`));
      let isOver = false;
      const load = (async () => {
        for (let n = 0; !isOver; n++) {
          const { document_id } = await upload(`later-${n}`);
          if (n % 2 === 0) await it.call("documents.delete", { params: { document_id } });
        }
      })();
      await backup(place);
      isOver = true;
      await load;
      assert.deepEqual(await verified(place).then(({ problems }) => problems), []);

      const data = join(folder, "restored");
      await restore(place, data);
      const { problems, others } = await verifyData(data, silent);
      assert.deepEqual([problems, others], [[], []]);
      const other = await testHouse({ PLUMBLINE_DATA: data });
      context.after(() => other.close());
      for (const record of before) {
        const params = { document_id: record.document_id };
        assert.deepEqual((await other.call("documents.get", { params })).body, record);
        const text = (await other.call("documents.text", { params })).body;
        assert.deepEqual(text, (await it.call("documents.text", { params })).body);
      }
      // Keys open it as before: their hashes are in the database.
      assert.equal((await other.call("documents.list", { key: it.key })).status, 200);
    });

    test("models, adapters and sources are found where they were restored, wherever they lay", async (context) => {
      const folder = temporaryFolder(context);
      const { base, adapter, modelId } = insertModels(it.data, folder);
      await backup(join(folder, form));
      for (const path of [base, adapter]) rmSync(path);
      const data = join(folder, "restored");
      await restore(join(folder, form), data);
      assert.deepEqual((await verifyData(data, silent)).problems, []);
      const at = places(data).models;
      const store = openStore(places(data).database);
      const row = store
        .prepare<[string], Record<string, string>>(
          `SELECT m.adapter_path, m.sources_path, b.path FROM aligned_model AS m JOIN base_model AS b ON b.id = base_model_id
           WHERE m.id = ?`,
        )
        .get(modelId);
      store.close();
      assert.deepEqual(row, {
        adapter_path: join(at, contentPaths.adapter(sha256("adapter"))),
        sources_path: join(at, contentPaths.sources(sha256("sources"))),
        path: join(at, contentPaths.base(sha256("base"))),
      });
      assert.equal(readFileSync(row!.adapter_path!, "utf8"), "adapter");
    });

    test("everything of it, and of what is restored, is the owner's alone", async (context) => {
      const folder = temporaryFolder(context);
      await upload("hall");
      await backup(join(folder, form));
      await restore(join(folder, form), join(folder, "restored"));
      const made = form === "folder" ? filesIn(join(folder, form)) : [join(folder, form)];
      for (const path of [...made, ...filesIn(join(folder, "restored"))])
        assert.equal(statSync(path).mode & 0o777, 0o600, path);
      assert.equal(statSync(join(folder, "restored")).mode & 0o777, 0o700);
    });

    test("damage and loss in it are told by verify, and are not restored", async (context) => {
      const folder = temporaryFolder(context);
      const place = join(folder, form);
      const { sha256: digest } = await upload("hall");
      await backup(place);
      if (form === "folder") appendFileSync(join(place, "content", contentPaths.blob(digest)), "x");
      else {
        const bytes = readFileSync(place);
        bytes[bytes.indexOf("The pump of hall")] = "X".charCodeAt(0);
        await writeFile(place, bytes);
      }
      const { problems } = await verified(place);
      assert.equal(problems.length >= 1, true);
      assert.match(problems[0]!, /^blobs\/.* has the SHA-256/);
      await assert.rejects(restore(place, join(folder, "restored")), isFailure("backup_invalid"));
      assert.equal(existsSync(places(join(folder, "restored")).database), false);
    });
  });

test("a second backup into a folder copies what is new, and clears what was deleted", async (context) => {
  const place = join(temporaryFolder(context), "backup");
  const [kept, gone] = [await upload("kept"), await upload("gone")];
  const first = await backup(place);
  assert.equal(first.copied.files, first.manifest.files.length + 1);
  const again = await backup(place);
  assert.ok(again.copied.files <= 1, "the database alone may be another one");

  await it.call("documents.delete", { params: { document_id: gone.document_id } });
  const added = await upload("added");
  const second = await backup(place);
  const holds = (digest: string): boolean => existsSync(join(place, "content", contentPaths.blob(digest)));
  assert.deepEqual(
    [kept, gone, added].map(({ sha256 }) => holds(sha256)),
    [true, false, true],
  );
  assert.ok(second.copied.files < second.manifest.files.length);
  assert.deepEqual(await verified(place), { files: second.manifest.files.length, problems: [], others: [] });
});

test("system tar reads an archive, and an archive of a backup's folder that tar made is a backup", async (context) => {
  const folder = temporaryFolder(context);
  await upload("hall");
  await backup(join(folder, "a.tar"));
  const limits = { timeoutMs: 10_000, maxBytes: 1 << 20 };
  const listed = await finish(startProcess("tar", ["tf", join(folder, "a.tar")]), limits);
  assert.match(listed.stdout, /^manifest\.json$/m);
  await backup(join(folder, "b"));
  const packed = await finish(startProcess("tar", ["cf", join(folder, "b.tar"), "-C", join(folder, "b"), "."]), limits);
  assert.equal(packed.code, 0, packed.stderr);
  assert.deepEqual((await verified(join(folder, "b.tar"))).problems, []);
});

/** Does something before the first file of models or documents is copied, after the database was. */
function meddled(target: Target, meddle: () => Promise<unknown>): Target {
  let calls = 0;
  return {
    ...target,
    async add(...given) {
      if (++calls === 2) await meddle();
      return target.add(...given);
    },
  };
}

test("what is deleted between the database and its file is in neither", async (context) => {
  const folder = temporaryFolder(context);
  const place = join(folder, "backup");
  const [first, second] = [await upload("first"), await upload("second")];
  const { document_id } = second;
  const target = await openFolderTarget(place);
  const params = { document_id };
  const { manifest } = await makeBackup(
    meddled(target, () => it.call("documents.delete", { params })),
    parts(it.data),
  );
  target.close();
  assert.deepEqual((await verified(place)).problems, []);
  await restore(place, join(folder, "restored"));
  assert.deepEqual((await verifyData(join(folder, "restored"), silent)).problems, []);
  assert.deepEqual(
    [first, second].map((one) => manifest.files.some((file) => file.sha256 === one.sha256)),
    [true, false],
  );
});

test("a run that is deleted between the database and its folder is in neither", async (context) => {
  const folder = temporaryFolder(context);
  const place = join(folder, "backup");
  const { alignmentId } = insertModels(it.data, folder);
  const run = join(places(it.data).runs, alignmentId);
  mkdirSync(run);
  await writeFile(join(run, "order.json"), JSON.stringify({ documents: [], dev: null }));
  const store = openStore(places(it.data).database);
  context.after(() => store.close());
  store
    .prepare<string[]>(
      `INSERT INTO job(id, owner_id, kind, subject_id, state, epoch, created_seq, created_at)
       SELECT 'job_y', owner_id, kind, subject_id, 'running', 1, created_seq, '' FROM job WHERE subject_id = ?`,
    )
    .run(alignmentId);
  const target = await openFolderTarget(place);
  await makeBackup(
    meddled(target, async () => {
      store.prepare<[]>("DELETE FROM job WHERE id = 'job_y'").run();
      store.prepare<string[]>("UPDATE alignment SET deleted_at = 'now' WHERE id = ?").run(alignmentId);
      rmSync(run, { recursive: true });
    }),
    parts(it.data),
  );
  await target.close();
  assert.deepEqual((await verified(place)).problems, []);
});

test("a file that the data folder lacks, or that is damaged, is no backup but a failure that names it", async (context) => {
  const folder = temporaryFolder(context);
  const { document_id, sha256: digest } = await upload("hall");
  const blob = join(places(it.data).blobs, contentPaths.blob(digest));
  for (const [meddle, problem] of [
    [() => appendFileSync(blob, "x"), /has the SHA-256/],
    [() => rmSync(blob), /does not exist/],
    [() => mkdirSync(blob), /cannot be read/],
  ] as const) {
    meddle();
    await assert.rejects(backup(join(folder, "backup")), (error: Failure) => {
      assert.equal(error.code, "backup_incomplete");
      assert.match(error.message, problem);
      return error.message.includes(document_id);
    });
    assert.equal(existsSync(join(folder, "backup", "manifest.json")), false);
    const { problems } = await verifyData(it.data, silent);
    assert.equal(problems.length, 1);
    assert.match(problems[0]!, problem);
  }
});

test("a file that cannot be read is told by verify, with what else is wrong", async (context) => {
  const { base, adapter, modelId } = insertModels(it.data, temporaryFolder(context));
  rmSync(base);
  mkdirSync(base);
  rmSync(adapter);
  assert.deepEqual((await verifyData(it.data, silent)).problems, [
    `base model model_base: ${base} cannot be read`,
    `the adapter of model ${modelId}: ${adapter} does not exist`,
  ]);
});

test("the backup that was there stays until the new one is whole", async (context) => {
  const place = join(temporaryFolder(context), "backup");
  await upload("hall");
  await backup(place);
  const { sha256: digest } = await upload("added");
  rmSync(join(places(it.data).blobs, contentPaths.blob(digest)));
  await assert.rejects(backup(place), isFailure("backup_incomplete"));
  assert.deepEqual((await verified(place)).problems, []);
});

test("run folders come along, without locks and what is half written", async (context) => {
  const folder = temporaryFolder(context);
  const { alignmentId } = insertModels(it.data, folder);
  const run = join(places(it.data).runs, alignmentId);
  mkdirSync(join(run, "snapshot/documents"), { recursive: true });
  const document = "{}\n";
  await writeFile(join(run, "snapshot/documents/0.json"), document);
  await writeFile(join(run, "order.json"), JSON.stringify({ documents: [{ sha256: sha256(document) }], dev: null }));
  await writeFile(join(run, "events.jsonl"), '{"seq":1}\n');
  await writeFile(join(run, "lock"), "");
  await writeFile(join(run, ".tmp-1-x-result.json"), "");
  mkdirSync(join(places(it.data).runs, "alignment_nobody"));
  await writeFile(join(places(it.data).runs, "alignment_nobody/order.json"), "");
  const place = join(folder, "backup");
  await backup(place);
  appendFileSync(join(run, "events.jsonl"), '{"seq":2}\n');
  const second = await backup(place);
  assert.ok(second.copied.files <= 2, "the database and the events");
  const data = join(folder, "restored");
  await restore(place, data);
  assert.deepEqual(readdirSync(places(data).runs), [alignmentId]);
  assert.deepEqual(readdirSync(join(places(data).runs, alignmentId)).sort(), [
    "events.jsonl",
    "order.json",
    "snapshot",
  ]);
  assert.equal(readFileSync(join(places(data).runs, alignmentId, "events.jsonl"), "utf8"), '{"seq":1}\n{"seq":2}\n');
  assert.deepEqual((await verifyData(data, silent)).problems, []);

  appendFileSync(join(places(data).runs, alignmentId, "snapshot/documents/0.json"), " ");
  assert.match(
    (await verifyData(data, silent)).problems[0]!,
    /snapshot\/documents\/0\.json was changed since it was made/,
  );
  assert.deepEqual((await verifyData(it.data, silent)).others, [join(places(it.data).runs, "alignment_nobody")]);
});

test("files that nothing names are told, and are no problem", async (context) => {
  const place = join(temporaryFolder(context), "backup");
  await upload("hall");
  await backup(place);
  const strangers = [join(it.data, "blobs", "ab", "stranger"), join(place, "content", "stranger")];
  mkdirSync(join(it.data, "blobs", "ab"), { recursive: true });
  for (const path of strangers) appendFileSync(path, "x");
  const [data, copy] = [await verifyData(it.data, silent), await verified(place)];
  assert.deepEqual([data.problems, data.others, copy.problems, copy.others], [[], [strangers[0]], [], [strangers[1]]]);
});

test("a folder that has only what a release unpacked there is empty enough to be restored into", async (context) => {
  const folder = temporaryFolder(context);
  await upload("hall");
  await backup(join(folder, "backup"));
  mkdirSync(join(folder, "data", "runtime", "0123"), { recursive: true });
  await restore(join(folder, "backup"), join(folder, "data"));
  assert.ok(readdirSync(join(folder, "data")).includes("plumbline.db"));
  assert.deepEqual((await verifyData(join(folder, "data"), silent)).others, []);
});

test("nothing is restored over anything, and nothing is backed up into what is no backup", async (context) => {
  const folder = temporaryFolder(context);
  await upload("hall");
  await backup(join(folder, "backup"));
  await assert.rejects(restore(join(folder, "backup"), it.data), isFailure("folder_not_empty"));
  mkdirSync(join(folder, "full"));
  appendFileSync(join(folder, "full", "letter.txt"), "x");
  await assert.rejects(restore(join(folder, "backup"), join(folder, "full")), isFailure("folder_not_empty"));
  await assert.rejects(backup(join(folder, "full")), isFailure("folder_not_empty"));
  assert.deepEqual(readdirSync(join(folder, "full")), ["letter.txt"]);
  for (const place of [it.data, join(it.data, "backup"), join(it.data, "..")])
    await assert.rejects(checkPlaces(it.data, place), isFailure("usage"));
  await assert.rejects(checkPlaces(join(folder, "none"), join(folder, "b")), isFailure("data_missing"));
  await assert.rejects(openBackup(join(folder, "none")), isFailure("data_missing"));
  mkdirSync(join(folder, "unfinished"));
  await assert.rejects(openBackup(join(folder, "unfinished")), isFailure("backup_invalid"));
});

test("one backup at a time uses a folder", async (context) => {
  const folder = temporaryFolder(context);
  for (const open of [() => openFolderTarget(join(folder, "a")), () => openArchiveTarget(join(folder, "a.tar"))]) {
    const first = await open();
    await assert.rejects(open(), isFailure("backup_locked"));
    await first.close();
    await (await open()).close();
  }
});

test("what root restores into the folder of another user is that user's, from its beginning on", {
  skip: process.getuid?.() !== 0 && "needs root",
}, async (context) => {
  const folder = temporaryFolder(context);
  const place = join(folder, "backup");
  insertModels(it.data, folder);
  const { sha256: digest } = await upload("hall");
  await backup(place);
  const data = join(folder, "restored");
  mkdirSync(data, { mode: 0o700 });
  await chown(data, 65_534, 65_533);
  const ownerOf = (path: string) => [path, statSync(path).uid, statSync(path).gid];
  const theirs = (path: string) => [path, 65_534, 65_533];

  const content = join(place, "content", contentPaths.blob(digest));
  await rename(content, `${content}.away`);
  await assert.rejects(restore(place, data), isFailure("backup_invalid"));
  const first = [places(data).lock, places(data).restoring];
  assert.deepEqual(first.map(ownerOf), first.map(theirs));

  await rename(`${content}.away`, content);
  await restore(place, data);
  const all = readdirSync(data, { recursive: true, encoding: "utf8" }).map((name) => join(data, name));
  assert.ok(all.length > 10, all.join(" "));
  assert.deepEqual(all.map(ownerOf), all.map(theirs));
});

test("a restore that was cut off is gone on with, and nothing starts on it before its end", async (context) => {
  const folder = temporaryFolder(context);
  const place = join(folder, "backup");
  await upload("hall");
  const { sha256: digest } = await upload("yard");
  await backup(place);
  const content = join(place, "content", contentPaths.blob(digest));
  await rename(content, `${content}.away`);
  const data = join(folder, "restored");
  await assert.rejects(restore(place, data), isFailure("backup_invalid"));
  const config = readConfig({ PLUMBLINE_DATA: data, PLUMBLINE_PORT: "0" });
  await assert.rejects(createHouse({ config, log: createLog("error") }), isFailure("restore_unfinished"));
  await upload("other");
  await backup(join(folder, "another"));
  await assert.rejects(restore(join(folder, "another"), data), isFailure("folder_not_empty"));

  await rename(`${content}.away`, content);
  const { found } = await restore(place, data);
  assert.ok(found >= 1, "what is there already stays");
  assert.equal(existsSync(places(data).restoring), false);
  assert.deepEqual((await verifyData(data, silent)).problems, []);
  await (await createHouse({ config, log: createLog("error") })).close();
});

test("a database of an older plumbline is backed up as it is, and brought up to date when it is restored", async (context) => {
  const folder = temporaryFolder(context);
  const older = join(folder, "older");
  mkdirSync(older, { mode: 0o700 });
  const migrations = readMigrations().slice(0, -1);
  openStore(places(older).database, { migrations }).close();
  const { manifest } = await backup(join(folder, "backup"), older);
  assert.equal(manifest.schema, migrations.length);
  assert.deepEqual((await verified(join(folder, "backup"))).problems, []);
  await restore(join(folder, "backup"), join(folder, "restored"));
  await (
    await createHouse({ config: readConfig({ PLUMBLINE_DATA: join(folder, "restored") }), log: createLog("error") })
  ).close();
});

test("a backup of a newer plumbline, and a manifest that leads elsewhere, are refused", async (context) => {
  const folder = temporaryFolder(context);
  const place = join(folder, "backup");
  await upload("hall");
  const { manifest } = await backup(place);
  const withManifest = async (change: object): Promise<void> =>
    writeFile(join(place, "manifest.json"), JSON.stringify({ ...manifest, ...change }));
  await withManifest({ schema: 9999 });
  await assert.rejects(restore(place, join(folder, "restored")), isFailure("schema_too_new"));
  for (const path of ["../outside", "blobs/../../outside", "/etc/passwd", "lock", "blobs/./x", "runs/"]) {
    await withManifest({ files: [{ ...manifest.files[0], path }] });
    await assert.rejects(openBackup(place), isFailure("backup_invalid"), path);
  }
});

test("a run goes on whose folder is of a later time than the database, as a backup's is", async (context) => {
  const house = await alignmentsHouse();
  context.after(() => house.close());
  const id = await house.training(await house.align({ steps: 40, stepMs: 20 }));
  const snapshot = join(temporaryFolder(context), "snapshot");
  copyDatabase(join(house.data, "db"), snapshot);
  await house.until(id, "COMPLETED");
  await house.restart((data) => {
    for (const name of ["db", "db-wal", "db-shm"]) rmSync(join(data, name), { force: true });
    copyFileSync(snapshot, join(data, "db"));
  });
  assert.notEqual((await house.call("alignments.status", { params: { alignment_id: id } })).status, "COMPLETED");
  const { model_id } = await house.until(id, "COMPLETED");
  assert.deepEqual(house.made.models, [model_id]);
});
