// A support file says how an appliance is, and nothing that a person wrote, named or keeps secret.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { installation, places } from "../../src/base/config.ts";
import { createClient } from "../../src/cli/client.ts";
import { leftOut, redacted, redactedLine } from "../../src/cli/support/redact.ts";
import type { RunEvent } from "../../src/contract/run-folder.ts";
import { openStore } from "../../src/store/open.ts";
import { insertAlignment, insertBase } from "../helpers/rows.ts";
import { plumbline, startServing, temporaryFolder } from "./plumbline.ts";

/** In no word of ours, so that it can be looked for anywhere. */
const theirs = "quokka";

interface Bundle {
  versions: { version: string; schema: number };
  settings: Record<string, string | number>;
  checks: { name: string; ok: boolean; found: string }[];
  database: { problems: number };
  rows: Record<string, number>;
  requests: { outcome: string }[];
  jobs: { kind: string; state: string; error_code: string | null }[];
  runs: { counts: Record<string, number>; seconds: Record<string, number>; warnings: { code: string }[] }[];
  log: { lines: { event: string }[]; others: number };
}

test("a support file of an appliance that was used has its state and none of its content", async (context) => {
  const folder = temporaryFolder(context);
  const data = join(folder, theirs);
  const env = { PLUMBLINE_DATA: data, PLUMBLINE_LOG: "debug", PLUMBLINE_UPSTREAM_KEYS: `${theirs}=secret-${theirs}` };
  const serving = await startServing({ ...env, PLUMBLINE_UPSTREAMS: `${theirs}=http://${theirs}.invalid` });
  const made = await plumbline(["key", "create", "--user", theirs], env);
  const key = made.stdout.trim();
  const client = createClient(serving.address, key);
  const file = (name: string, content: string) => ({ files: [{ name, mediaType: "text/plain", content }] });
  await client.api["documents.upload"](file(`${theirs}.txt`, `A ${theirs} costs 17 florins.`));
  await client.api["benchmarks.upload"](
    file(`${theirs}.jsonl`, JSON.stringify({ instruction: `What does a ${theirs} cost?`, response: "17 florins" })),
  );
  await assert.rejects(client.api["models.get"]({ params: { model_id: theirs } }));
  serving.child.kill("SIGTERM");
  await serving.child.ended;
  const log = join(folder, "served.log");
  writeFileSync(log, `${serving.log()}\na ${theirs} wrote this line\n`);
  const store = openStore(places(data).database);
  const id = insertAlignment(store, theirs, insertBase(store, theirs), "failed");
  store.prepare<[string]>("UPDATE job SET error_text = ?").run(`no ${theirs} was found`);
  store.close();
  const run = join(places(data).runs, id);
  mkdirSync(run, { recursive: true });
  const event = (seq: number, more: Partial<RunEvent>): string =>
    JSON.stringify({ seq, fence: 1, at: `2026-01-01T00:00:0${seq}.000Z`, phase: "preparing", ...more });
  writeFileSync(
    join(run, "events.jsonl"),
    [
      event(1, { kind: "progress", done: 1, total: 2, unit: "passages" }),
      event(4, { kind: "warning", code: "small_passes", message: `of ${theirs}` }),
      // The run was cut off while it wrote this.
      '{"seq":3,"fen',
    ].join("\n"),
  );

  const path = join(folder, "support.json");
  const { code, stdout, stderr } = await plumbline(["support", path, "--log", log, "--json"], env);
  assert.equal(code, 0, stderr);
  const text = readFileSync(path, "utf8");
  assert.equal((JSON.parse(stdout) as { bytes: number }).bytes, Buffer.byteLength(text));
  assert.equal(statSync(path).mode & 0o777, 0o600);
  for (const hidden of [theirs, "florins", key, folder, installation])
    assert.ok(
      !text.includes(hidden),
      `${hidden} stands in it: ${text.slice(text.indexOf(hidden) - 200).slice(0, 300)}`,
    );

  assert.doesNotMatch(text, new RegExp(`(?<![\\w.])${RegExp.escape(hostname())}(?!\\w)`));

  const bundle = JSON.parse(text) as Bundle;
  assert.match(bundle.versions.version, /^\d+\.\d+\.\d+/);
  assert.equal(bundle.settings.PLUMBLINE_LOG, "debug");
  assert.equal(bundle.settings.PLUMBLINE_PORT, 8642);
  assert.equal(bundle.settings.PLUMBLINE_DATA, "set");
  assert.equal(bundle.settings.PLUMBLINE_UPSTREAM_KEYS, "set");
  assert.equal(bundle.settings.PLUMBLINE_WEBHOOKS, "default");
  assert.ok(bundle.checks.some(({ name, ok }) => name === "trainer" && ok));
  assert.equal(bundle.database.problems, 0);
  assert.deepEqual([bundle.rows.benchmark, bundle.rows.benchmark_item, bundle.rows.alignment], [1, 1, 1]);
  const failed = bundle.jobs.find(({ kind }) => kind === "align");
  assert.deepEqual([failed?.state, failed?.error_code], ["failed", "run_failed"]);
  assert.deepEqual(bundle.runs[0]!.counts, { progress: 1, warning: 1 });
  assert.deepEqual(bundle.runs[0]!.seconds, { preparing: 3 });
  assert.equal(bundle.runs[0]!.warnings[0]!.code, "small_passes");
  assert.ok(bundle.log.lines.some(({ event }) => event === "request"));
  assert.ok(bundle.log.others >= 1);

  const again = await plumbline(["support", path], env);
  assert.equal(again.code, 2);
  assert.match(again.stderr, /already exists/);
  assert.equal(readFileSync(path, "utf8"), text);
});

test("an appliance that cannot even be opened still gives a file", async (context) => {
  const folder = temporaryFolder(context);
  const path = join(folder, "support.json");
  const data = join(folder, "data");
  mkdirSync(data);
  writeFileSync(places(data).database, "this was a database");
  const { code, stderr } = await plumbline(["support", path], { PLUMBLINE_DATA: data });
  assert.equal(code, 0, stderr);
  const { database, machine } = JSON.parse(readFileSync(path, "utf8"));
  assert.equal(database.not_made, "SQLITE_NOTADB");
  assert.ok(machine.cores > 0);
});

test("of a value only numbers and our own words stay, whatever its shape", () => {
  assert.deepEqual(
    redacted({
      event: "request",
      status: 404,
      path: "/a",
      jobId: "job_1",
      phase: "two words",
      more: [{ name: "x" }],
      "a b": 1,
    }),
    {
      event: "request",
      status: 404,
      path: leftOut,
      jobId: "job_1",
      phase: leftOut,
      more: [{ name: leftOut }],
      [leftOut]: leftOut,
    },
  );
  const stack =
    "Error: about a cat\n    at read (file:///home/ann/app/src/base/files.ts:1:2)\n    at node:fs:3:4\n    at /home/ann/x.js:1:1";
  assert.deepEqual(redacted({ error: { name: "Error", message: "about a cat", stack } }), {
    error: { name: "Error", frames: ["read src/base/files.ts:1:2", "node", leftOut] },
  });
  for (const line of ["plain words", "[1]", '{"no":"event"}', "3"]) assert.equal(redactedLine(line), null);
});
