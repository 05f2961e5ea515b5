// What the appliance tells of itself to a key: whose it is, what requests may name here, memory by holder, the log's last lines; and
// how long lists are.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { insertAlignment } from "../helpers/rows.ts";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";

interface Line {
  level: string;
  event: string;
}

let it: Scripted;
let adminKey: string;
before(async () => {
  it = await scriptedHouse({
    PLUMBLINE_UPSTREAMS: "elsewhere=http://127.0.0.1:9/v1",
    PLUMBLINE_MEMORY: String(3 * 2 ** 30),
    PLUMBLINE_THREADS: "2",
  });
  adminKey = ((await it.house.admin("key.create", { user: "eve", scopes: ["admin"] })) as { key: string }).key;
});
after(() => it.close());

test("a key of any scope is told whose it is and what it may", async () => {
  const { key } = (await it.house.admin("key.create", { user: "ada", scopes: ["inference"], name: "desk" })) as {
    key: string;
  };
  const { status, body } = await it.call("keys.current", { key });
  assert.equal(status, 200);
  assert.deepEqual([body.user, body.name, body.scopes], ["ada", "desk", ["inference"]]);
  assert.equal(body.prefix, key.slice(0, body.prefix.length));
  assert.equal("key" in body, false);
  assert.equal((await it.call("keys.current", { key: null })).status, 422);
  assert.equal((await it.call("keys.current", { key: `${key}x` })).status, 401);
});

test("any key is told the presets and the upstreams that requests may name", async () => {
  const { body } = await it.call("system.choices");
  assert.deepEqual(body, { presets: ["quick", "standard", "thorough"], upstreams: ["elsewhere"] });
});

test("memory and log are for administrators; the log is newest first, by level, and has no debug lines", async () => {
  for (const name of ["system.memory", "system.log"] as const) assert.equal((await it.call(name)).status, 403);
  const { body: memory } = await it.call("system.memory", { key: adminKey });
  assert.deepEqual(memory.devices, [{ device: "machine", total_bytes: 3 * 2 ** 30, free_bytes: 3 * 2 ** 30 }]);
  assert.deepEqual([memory.threads, memory.grants], [{ total: 2, free: 2 }, []]);

  assert.equal((await it.get("/api/v3/documents/none")).status, 404);
  const { body: log } = await it.call("system.log", { key: adminKey });
  assert.ok(log.lines.some(({ event }: { event: string }) => event === "listening"));
  assert.ok(log.lines[0].at >= log.lines.at(-1).at);
  assert.ok(log.lines.some(({ fields }: { fields: { status?: number } }) => fields.status === 404));
  it.store.prepare("CREATE TRIGGER no BEFORE INSERT ON agent BEGIN SELECT RAISE(ABORT, 'no'); END").run();
  assert.equal((await it.call("agents.create", { body: { name: "desk", base_model: it.baseId } })).status, 500);
  it.store.prepare("DROP TRIGGER no").run();
  for (const [level, told] of [
    ["error", ["error"]],
    ["warn", ["warn", "error"]],
    ["info", ["info", "warn", "error"]],
  ] as const) {
    const { lines } = (await it.call("system.log", { key: adminKey, query: `level=${level}&limit=500` })).body;
    assert.ok(
      lines.some((line: Line) => line.level === "error" && line.event === "request.failed"),
      level,
    );
    assert.equal(
      lines.some((line: Line) => line.event === "listening"),
      level === "info",
    );
    assert.ok(lines.every((line: Line) => (told as readonly string[]).includes(line.level)));
  }
  assert.equal((await it.call("system.log", { key: adminKey, query: "limit=1" })).body.lines.length, 1);
  assert.equal((await it.call("system.log", { key: adminKey, query: "limit=501" })).status, 422);
});

test("lists of alignments and of models say how many there are of what was asked for", async () => {
  for (let n = 0; n < 3; n++) await it.align();
  insertAlignment(it.store, "ada", it.baseId, "failed");
  const alignments = (await it.call("alignments.list", { query: "limit=2" })).body;
  assert.deepEqual([alignments.alignment_projects.length, alignments.total], [2, 4]);
  assert.equal((await it.call("alignments.list", { query: "status=FAILED" })).body.total, 1);
  const models = (await it.call("models.aligned", { query: "limit=2" })).body;
  assert.deepEqual([models.domain_aligned_models.length, models.total], [2, 3]);
  assert.equal((await it.call("models.aligned", { query: "deployment_status=DEPLOYING" })).body.total, 0);
});
