// Keys, the administrators' door, and one house per data folder.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { places, readConfig } from "../../src/base/config.ts";
import { Failure, type FailureCode } from "../../src/base/errors.ts";
import { tryLock } from "../../src/base/lock.ts";
import { createLog } from "../../src/base/log.ts";
import { callAdmin } from "../../src/cli/admin.ts";
import { askAdmin } from "../../src/http/admin.ts";
import { createHouse } from "../../src/main.ts";
import { openStore } from "../../src/store/open.ts";
import { eventually, type TestHouse, testHouse } from "../helpers/house.ts";

const log = createLog("error", () => {});
const code = (wanted: FailureCode) => (error: unknown) => error instanceof Failure && error.code === wanted;
const configOf = (data: string, more: Record<string, string> = {}) =>
  readConfig({
    PLUMBLINE_DATA: data,
    PLUMBLINE_PORT: "0",
    PLUMBLINE_FREE_DISK: "0",
    PLUMBLINE_STARTER_MODEL: "none.gguf",
    ...more,
  });

let it: TestHouse;
before(async () => {
  it = await testHouse();
});
after(() => it.close());

interface Made {
  key: string;
  id: string;
  prefix: string;
  user: string;
}

describe("keys", () => {
  test("are shown once and kept as digests only", async () => {
    const made = (await callAdmin(configOf(it.data), log, "key.create", { user: "dora" })) as Made;
    assert.match(made.key, /^pl_[A-Za-z0-9_-]{43}$/);
    assert.ok(made.key.startsWith(made.prefix));
    assert.equal((await it.call("documents.list", { key: made.key })).status, 200);
    const listed = (await callAdmin(configOf(it.data), log, "key.list")) as Record<string, unknown>[];
    assert.ok(listed.some((one) => one.id === made.id && one.user === "dora" && one.revoked_at === null));
    assert.ok(!JSON.stringify(listed).includes(made.key));
    const store = openStore(places(it.data).database);
    const rows = store.prepare<[], object>("SELECT * FROM api_key").all();
    store.close();
    assert.ok(!JSON.stringify(rows).includes(made.key));
  });

  test("two of one user are one user", async () => {
    const [a, b] = [
      (await it.house.admin("key.create", { user: "eve" })) as Made,
      (await it.house.admin("key.create", { user: "eve" })) as Made,
    ];
    await it.call("documents.upload", { key: a.key, files: [{ name: "a", content: "words" }] });
    assert.equal((await it.call("documents.list", { key: b.key })).body.total, 1);
  });

  test("revoked twice or unknown are not found; a bad name is refused", async () => {
    const made = (await it.house.admin("key.create", { user: "fay" })) as Made;
    await it.house.admin("key.revoke", { id: made.id });
    await assert.rejects(it.house.admin("key.revoke", { id: made.id }), code("not_found"));
    await assert.rejects(it.house.admin("key.revoke", { id: "key_x" }), code("not_found"));
    for (const user of ["", "a b", "\u0000", "x".repeat(101), "-a", "a\nb"])
      await assert.rejects(it.house.admin("key.create", { user }), code("bad_request"));
    await assert.rejects(it.house.admin("key.create", {}), code("bad_request"));
  });
});

describe("the administrators' door", () => {
  test("is its owner's alone", () => {
    assert.equal(statSync(places(it.data).adminSocket).mode & 0o777, 0o600);
    assert.equal(statSync(it.data).mode & 0o077, 0);
  });

  test("answers failures as failures, and survives garbage", async () => {
    await assert.rejects(askAdmin(places(it.data).adminSocket, "no.such", {}), code("bad_request"));
    await assert.rejects(askAdmin(places(it.data).adminSocket, "__proto__", {}), code("bad_request"));
    for (const bytes of ["garbage\n", "{}\n", "x".repeat(2 << 20)]) {
      const socket = createConnection(places(it.data).adminSocket);
      socket.on("error", () => {});
      socket.write(bytes);
      await new Promise((resolve) => socket.once("data", resolve).once("close", resolve));
      socket.destroy();
    }
    assert.ok(await askAdmin(places(it.data).adminSocket, "key.list", {}));
  });

  test("works at a path longer than a socket's may be", async () => {
    const base = mkdtempSync(join(tmpdir(), "plumbline-long-"));
    const data = join(base, "d".repeat(90), "e".repeat(60));
    // The first command makes the folder.
    assert.ok((await callAdmin(configOf(data), log, "key.create", { user: "ada" })) as Made);
    const house = await createHouse({ config: configOf(data), log, ballastBytes: 0 });
    await house.listen();
    assert.ok((await callAdmin(configOf(data), log, "key.create", { user: "ada" })) as Made);
    await house.close();
    rmSync(base, { recursive: true });
  });
});

describe("one house per data folder", () => {
  test("a second one is refused", async () => {
    await assert.rejects(createHouse({ config: configOf(it.data), log }), code("data_locked"));
    assert.equal((await it.call("documents.list")).status, 200);
  });

  test("a verb without a running house is done all the same, and its lock is given back", async () => {
    const data = mkdtempSync(join(tmpdir(), "plumbline-offline-"));
    writeFileSync(places(data).adminSocket, "");
    const made = (await callAdmin(configOf(data), log, "key.create", { user: "ada" })) as Made;
    const listed = (await callAdmin(configOf(data), log, "key.list")) as object[];
    assert.equal(listed.length, 1);
    const house = await createHouse({ config: configOf(data), log, ballastBytes: 0 });
    const url = await house.listen();
    const response = await fetch(`${url}/api/v3/documents`, { headers: { authorization: `Bearer ${made.key}` } });
    assert.equal(response.status, 200);
    await house.close();
    assert.ok(!existsSync(places(data).adminSocket));
    rmSync(data, { recursive: true });
  });
});

/** Local addresses of this machine on which somebody listens at that port, as the kernel writes them. */
const listening = (port: string): string[] =>
  readFileSync("/proc/net/tcp", "utf8")
    .split("\n")
    .flatMap((line) => {
      const [, local = "", , state] = line.trim().split(/\s+/);
      const [address, hex] = local.split(":");
      return state === "0A" && Number.parseInt(hex!, 16) === Number(port) ? [address!] : [];
    });

describe("the address", () => {
  test("is loopback until the first key is made, and then at once the one that was asked for", async () => {
    const data = mkdtempSync(join(tmpdir(), "plumbline-address-"));
    const config = configOf(data, { PLUMBLINE_HOST: "0.0.0.0" });
    const house = await createHouse({ config, log, ballastBytes: 0 });
    try {
      const { port } = new URL(await house.listen());
      assert.deepEqual(listening(port), ["0100007F"]);
      const [, token] = house.claimLink()!.split("#");
      const claimed = await fetch(`http://127.0.0.1:${port}/claim`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ token, user: "ada" }),
      });
      assert.equal(claimed.status, 200);
      await eventually(() => listening(port).includes("00000000"));
      const { key } = (await claimed.json()) as { key: string };
      const headers = { authorization: `Bearer ${key}` };
      assert.equal((await fetch(`http://127.0.0.1:${port}/api/v3/documents`, { headers })).status, 200);
    } finally {
      await house.close();
      rmSync(data, { recursive: true });
    }
  });

  test("stays loopback where the one that was asked for cannot be had", async () => {
    const data = mkdtempSync(join(tmpdir(), "plumbline-address-"));
    const lines: string[] = [];
    // Of the addresses for documentation (RFC 5737): no machine's own.
    const config = configOf(data, { PLUMBLINE_HOST: "192.0.2.1" });
    const logged = createLog("info", (line) => void lines.push(line));
    const house = await createHouse({ config, log: logged, ballastBytes: 0 });
    try {
      const url = await house.listen();
      const { key } = (await house.admin("key.create", { user: "ada" })) as { key: string };
      await eventually(() => lines.some((line) => line.includes("address_failed")));
      const headers = { authorization: `Bearer ${key}` };
      assert.equal((await fetch(`${url}/api/v3/documents`, { headers })).status, 200);
    } finally {
      await house.close();
      rmSync(data, { recursive: true });
    }
  });

  test("is the one that was asked for from the start where there is a key", async () => {
    const data = mkdtempSync(join(tmpdir(), "plumbline-address-"));
    const lines: string[] = [];
    const config = configOf(data, { PLUMBLINE_HOST: "0.0.0.0" });
    const start = async () => {
      const house = await createHouse({
        config,
        log: createLog("info", (line) => void lines.push(line)),
        ballastBytes: 0,
      });
      await house.listen();
      return house;
    };
    let house = await start();
    assert.match(lines.join(""), /loopback_only.*plumbline key create/);
    await house.admin("key.create", { user: "ada" });
    await house.close();
    lines.length = 0;
    house = await start();
    assert.doesNotMatch(lines.join(""), /loopback_only/);
    await house.close();
    rmSync(data, { recursive: true });
  });
});

test("health and readiness need no key", async () => {
  assert.deepEqual((await it.call("system.ready", { key: null })).body, { ready: true, waiting_for: [] });
  const health = await it.call("system.health", { key: null });
  assert.equal(health.body.status, "ok");
});

test("a house that is closed leaves nothing open", async () => {
  const own = await testHouse();
  // One connection that is kept alive, and one that has sent nothing.
  assert.equal((await own.call("documents.list")).status, 200);
  const silent = createConnection(Number(new URL(own.url).port), "127.0.0.1");
  const ended = new Promise((resolve) => silent.once("close", resolve).once("error", () => {}));
  await new Promise((resolve) => silent.once("connect", resolve));
  const started = performance.now();
  await own.house.close();
  assert.ok(performance.now() - started < 2000);
  await ended;
  await assert.rejects(fetch(own.url));
  assert.ok(!existsSync(places(own.data).adminSocket));
  const lock = tryLock(places(own.data).lock);
  assert.ok(lock);
  lock.release();
  rmSync(own.data, { recursive: true });
});
