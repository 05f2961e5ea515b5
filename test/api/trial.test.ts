// A version that an upgrade tries out acknowledges no write, from wherever it comes, and takes them once the upgrade is over.
import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { after, before, test } from "node:test";
import { places } from "../../src/base/config.ts";
import { Failure } from "../../src/base/errors.ts";
import { type Lock, tryLock } from "../../src/base/lock.ts";
import { askAdmin } from "../../src/http/admin.ts";
import { type TestHouse, testHouse } from "../helpers/house.ts";

let it: TestHouse;
let upgrade: Lock | null = null;
before(async () => {
  it = await testHouse();
  upgrade = tryLock(places(it.data).upgrading);
  assert.ok(upgrade);
  await it.restart();
});
after(async () => {
  upgrade?.release();
  await it.close();
});

const upload = () => it.call("documents.upload", { files: [{ name: "a.md", content: "The harbour opens at six.\n" }] });
const isOnTrial = (error: unknown): boolean => error instanceof Failure && error.code === "upgrade_on_trial";

test("while it is tried out, reading works and writing is refused, to be sent again", async () => {
  assert.deepEqual((await it.call("documents.list")).body.documents, []);
  const { status, body, headers } = await upload();
  assert.deepEqual([status, body.error.code, headers.get("retry-after")], [503, "upgrade_on_trial", "1"]);
  assert.equal((await it.call("documents.delete", { params: { document_id: "document_x" } })).status, 503);
  const health = (await it.call("system.health")).body;
  assert.deepEqual([health.status, health.degraded], ["degraded", ["An upgrade is not finished: writes are refused"]]);
  await assert.rejects(it.house.admin("key.create", { user: "eve" }), isOnTrial);
  await assert.rejects(askAdmin(places(it.data).adminSocket, "key.create", { user: "eve" }), isOnTrial);
});

test("once the upgrade is over, it writes", async () => {
  upgrade!.release();
  rmSync(places(it.data).upgrading);
  assert.equal((await upload()).status, 200);
  assert.equal((await it.call("system.health")).body.status, "ok");
  assert.ok(await askAdmin(places(it.data).adminSocket, "key.create", { user: "eve" }));
});
