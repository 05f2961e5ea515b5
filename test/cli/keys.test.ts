// Keys are made, listed and revoked with and without a running appliance, and one data folder has one owner at a time.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";
import { exitCodes } from "../../src/cli/exit-codes.ts";
import { plumbline, type Settings, startServing, temporaryFolder } from "./plumbline.ts";

interface MadeKey {
  id: string;
  key: string;
  user: string;
}

/** Nothing to import: these tests are about keys. */
const settingsOf = (folder: string): Settings => ({ PLUMBLINE_DATA: folder, PLUMBLINE_STARTER_MODEL: "none.gguf" });

async function createKey(settings: Settings, user: string): Promise<MadeKey> {
  const { code, stdout, stderr } = await plumbline(["key", "create", "--user", user, "--json"], settings);
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout) as MadeKey;
}

const statusWith = async (address: string, key: string): Promise<number> =>
  (await fetch(`${address}/api/v3/documents`, { headers: { authorization: `Bearer ${key}` } })).status;

test("offline: a key is printed once, listed by its beginning only, and revoked", async (context) => {
  const settings = settingsOf(temporaryFolder(context));
  const plain = await plumbline(["key", "create", "--user", "ann"], settings);
  assert.equal(plain.code, 0, plain.stderr);
  assert.match(plain.stdout, /^pl_[\w-]{43}\n$/);

  const made = await createKey(settings, "ann");
  const listed = await plumbline(["key", "ls", "--json"], settings);
  assert.ok(!listed.stdout.includes(made.key));
  const { keys } = JSON.parse(listed.stdout) as { keys: { id: string; user: string; revoked_at: string | null }[] };
  assert.equal(keys.length, 2);
  assert.ok(keys.every((key) => key.user === "ann" && key.revoked_at === null));

  assert.equal((await plumbline(["key", "revoke", made.id], settings)).code, 0);
  const after = await plumbline(["key", "ls", "--json"], settings);
  const revoked = (JSON.parse(after.stdout) as { keys: { id: string; revoked_at: string | null }[] }).keys;
  assert.notEqual(revoked.find((key) => key.id === made.id)?.revoked_at, null);
});

test("beside a running appliance keys work at once, and a revoked one no longer", async (context) => {
  const folder = temporaryFolder(context);
  const settings = settingsOf(folder);
  const serving = await startServing(settings);
  try {
    const { key, id } = await createKey(settings, "ann");
    assert.equal(await statusWith(serving.address, key), 200);
    assert.equal((await plumbline(["key", "revoke", id], settings)).code, 0);
    assert.equal(await statusWith(serving.address, key), 401);

    const unknown = await plumbline(["key", "revoke", "key_000000000000000000000000", "--json"], settings);
    assert.equal(unknown.code, exitCodes.failure.code);
    assert.equal((JSON.parse(unknown.stdout) as { error: { code: string } }).error.code, "not_found");

    const second = await plumbline(["serve"], { ...settings, PLUMBLINE_PORT: "0" });
    assert.equal(second.code, exitCodes.locked.code);
    assert.match(second.stderr, /Another plumbline uses/);
  } finally {
    serving.child.kill("SIGTERM");
  }
  assert.deepEqual(await serving.child.ended, { code: 0, signal: null });
  assert.ok(!readdirSync(folder).some((name) => name.includes("tmp")));
});

test("an address that is taken is said in one line", async (context) => {
  const serving = await startServing(settingsOf(temporaryFolder(context)));
  try {
    const port = new URL(serving.address).port;
    const other = { ...settingsOf(temporaryFolder(context)), PLUMBLINE_PORT: port };
    const { code, stderr } = await plumbline(["serve"], other);
    assert.equal(code, exitCodes.failure.code);
    assert.match(stderr, /plumbline: Cannot listen on 127\.0\.0\.1:\d+ .*PLUMBLINE_PORT/);
  } finally {
    serving.child.kill("SIGINT");
  }
  assert.equal((await serving.child.ended).code, 0);
});

test("an appliance that is attached ends with the one that started it", async (context) => {
  const serving = await startServing(settingsOf(temporaryFolder(context)));
  serving.child.stdin.end();
  assert.equal((await serving.child.ended).code, 0);
});
