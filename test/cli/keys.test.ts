// Keys are made, listed and revoked with and without a running appliance, and one data folder has one owner at a time.
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { exitCodes } from "../../src/cli/exit-codes.ts";
import { openStore } from "../../src/store/open.ts";
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

test("a key that cannot be saved is printed, and the failure is told", async (context) => {
  const folder = temporaryFolder(context);
  const home = join(folder, "home");
  mkdirSync(home);
  writeFileSync(join(home, ".config"), "");
  const settings = { ...settingsOf(join(folder, "data")), HOME: home };
  const { code, stdout, stderr } = await plumbline(["key", "create", "--user", "ann", "--save"], settings);
  assert.match(stdout, /^pl_[\w-]{43}\n$/);
  assert.equal(code, exitCodes.failure.code);
  assert.match(stderr, /could not be saved: ENOTDIR.* Keep the key that was printed/);

  const asJson = await plumbline(["key", "create", "--user", "ann", "--save", "--json"], settings);
  assert.equal(asJson.code, exitCodes.failure.code);
  const { key, saved } = JSON.parse(asJson.stdout) as MadeKey & { saved: string | null };
  assert.deepEqual([key.slice(0, 3), saved], ["pl_", null]);
});

test("names cannot steer the terminal that lists them", async (context) => {
  const settings = settingsOf(temporaryFolder(context));
  const made = await createKey(settings, "ann");
  const steering = "\u001b]0;owned\u0007\u202e\r\nmore\u009b2J";
  const refused = await plumbline(["key", "create", "--user", "ann", "--name", steering], settings);
  assert.notEqual(refused.code, 0);
  assert.match(refused.stderr, /name: contains a control character/);

  // As an older version took it.
  const store = openStore(join(settings.PLUMBLINE_DATA!, "plumbline.db"));
  store.prepare<[string, string]>("UPDATE api_key SET name = ? WHERE id = ?").run(steering, made.id);
  store.close();
  const listed = await plumbline(["key", "ls"], settings);
  assert.equal(listed.code, 0, listed.stderr);
  assert.ok(listed.stdout.includes("\\u001b]0;owned\\u0007\\u202e\\u000d\\u000amore\\u009b2J"), listed.stdout);
  const asJson = await plumbline(["key", "ls", "--json"], settings);
  assert.equal((JSON.parse(asJson.stdout) as { keys: { name: string }[] }).keys[0]!.name, steering);
  for (const { stdout } of [listed, asJson]) assert.doesNotMatch(stdout, /[^\P{Cc}\n]|\u202e/u);
});

test("a key has the scopes, limits and end that it was made with, and rotates", async (context) => {
  const settings = settingsOf(temporaryFolder(context));
  const create = async (...options: string[]) =>
    plumbline(["key", "create", "--user", "ann", "--json", ...options], settings);
  const limits = ["--requests-per-minute", "60", "--tokens-per-minute", "1000", "--tokens-per-day", "50000"];
  const made = await create("--name", "ci", "--scopes", "inference, documents", "--expires", "90d", ...limits);
  assert.equal(made.code, 0, made.stderr);
  const key = JSON.parse(made.stdout) as Record<string, unknown> & MadeKey;
  assert.deepEqual(key.scopes, ["inference", "documents"]);
  assert.deepEqual(
    [key.name, key.requests_per_minute, key.tokens_per_minute, key.tokens_per_day],
    ["ci", 60, 1000, 50_000],
  );
  const days = (Date.parse(String(key.expires_at)) - Date.now()) / 86_400_000;
  assert.ok(days > 89.9 && days <= 90, `${days}`);

  const rotated = await plumbline(["key", "rotate", key.id, "--grace", "60", "--json"], settings);
  assert.equal(rotated.code, 0, rotated.stderr);
  const fresh = JSON.parse(rotated.stdout) as Record<string, unknown> & MadeKey;
  assert.equal(fresh.id, key.id);
  assert.notEqual(fresh.key, key.key);
  const listed = await plumbline(["key", "ls"], settings);
  assert.match(listed.stdout, /ci +inference,documents +60 req\/min, 1000 tok\/min, 50000 tok\/day/);

  for (const [options, words] of [
    [["--scopes", "everything"], /scopes/],
    [["--expires", "soon"], /expires_at/],
    [["--expires", "2001-01-01T00:00:00Z"], /in the past/],
    [["--requests-per-minute", "many"], /--requests-per-minute needs a whole number/],
    [["--tokens-per-day", "0"], /tokens_per_day/],
  ] as const) {
    const refused = await create(...options);
    assert.notEqual(refused.code, 0);
    assert.match(refused.stdout, words);
  }
});

test("serve names a link while there is no key, and none afterwards", async (context) => {
  const settings = settingsOf(temporaryFolder(context));
  const first = await startServing(settings);
  assert.ok(first.claim?.startsWith(`${first.address}/first-key#`), String(first.claim));
  const init = {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ token: first.claim!.split("#")[1], user: "ann" }),
  };
  const claimed = await fetch(`${first.address}/claim`, init);
  assert.equal(claimed.status, 200);
  const { key } = (await claimed.json()) as { key: string };
  assert.equal((await fetch(`${first.address}/claim`, init)).status, 409);
  first.child.kill("SIGTERM");
  await first.child.ended;
  const second = await startServing(settings);
  assert.equal(second.claim, null);
  assert.equal(await statusWith(second.address, key), 200);
  second.child.kill("SIGTERM");
  await second.child.ended;
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
    assert.match(second.stderr, /Another plumbline process uses/);
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
