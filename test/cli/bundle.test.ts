// The verbs of bundles: a key, a bundle of a release with models, and its application.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { installation, places } from "../../src/base/config.ts";
import { sha256OfFile } from "../../src/base/files.ts";
import { type Finished, finish, startProcess } from "../../src/base/processes.ts";
import { answerOf as answerOfVerb } from "../../src/cli/bundle/site.ts";
import { exitCodes } from "../../src/cli/exit-codes.ts";
import {
  type Applied,
  answerOf,
  encoder,
  limits,
  makeBundle,
  makeReleaseTree,
  modelsOf,
  names,
} from "../helpers/bundle.ts";
import { Installed, makeVersion } from "../helpers/installed.ts";
import { plumbline, startServing, temporaryFolder } from "./plumbline.ts";

test("a verb of the service that fails is told with its own code, and an unknown code as work that failed", () => {
  const failed = (code: string) => () =>
    answerOfVerb(["model", "ls"], JSON.stringify({ error: { code, message: "no room" } }), "");
  assert.throws(failed("disk_full"), { code: "disk_full", message: "plumbline model ls: no room" });
  assert.throws(failed("of_tomorrow"), { code: "work_failed", message: "plumbline model ls: no room" });
  assert.throws(failed("toString"), { code: "work_failed" });
  assert.throws(() => answerOfVerb(["model", "ls"], "", "broken\n"), { code: "work_failed", message: /broken$/ });
  assert.deepEqual(answerOfVerb(["model", "ls"], '{"base_models":[]}', ""), { base_models: [] });
});

test("applied, a bundle's models are there and its program lies ready; applied again, nothing is left to do", async (context) => {
  const { run, data, out, settings, folder } = await makeBundle(context);
  const dry = answerOf<Applied>(await run(["--dry-run", "--json"]));
  assert.deepEqual(
    [dry.models.map(({ outcome }) => outcome), dry.program.outcome, dry.next],
    [["would import", "would import"], "would write", []],
  );
  assert.deepEqual([existsSync(data), readdirSync(out)], [false, []]);

  const done = answerOf<Applied>(await run(["--json"]));
  const program = join(out, "plumbline-9.9.9-linux-x64");
  assert.deepEqual(
    [done.models.map(({ outcome }) => outcome), done.program],
    [["imported", "imported"], { version: "9.9.9", outcome: "written", path: program }],
  );
  assert.match(done.next[0]!, new RegExp(`^Version 9\\.9\\.9 is at ${program}: stop plumbline`));
  assert.equal(await sha256OfFile(program), await sha256OfFile(join(folder, "executable-9.9.9")));
  assert.equal(statSync(program).mode & 0o777, 0o755);
  assert.deepEqual(await modelsOf(settings), names);
  assert.equal(existsSync(places(data).bundle), false);

  const again = answerOf<Applied>(await run(["--json"]));
  assert.deepEqual(
    [again.models.map(({ outcome, model_id }) => [outcome, model_id]), again.program.outcome],
    [done.models.map(({ model_id }) => ["there already", model_id]), "there already"],
  );
  assert.deepEqual(await modelsOf(settings), names);
});

test("where there is no plumbline, the README's commands extract the program and run it", async (context) => {
  const { path, out, folder } = await makeBundle(context, []);
  const commands = [
    "tar -xf plumbline.bundle program",
    "sha256sum program/*",
    "chmod +x program/*",
    "sudo program/plumbline-VERSION-linux-x64 install",
  ];
  const readme = readFileSync(join(installation, "README.md"), "utf8");
  const places = commands.map((line) => readme.indexOf(`\`${line}\``));
  assert.deepEqual(
    places,
    places.filter((place) => place >= 0).sort((a, b) => a - b),
  );
  symlinkSync(path, join(out, "plumbline.bundle"));
  const script = commands.join(" && ").replace("VERSION", "9.9.9").replace("sudo ", "");
  const { code, stdout, stderr } = await finish(startProcess("sh", ["-c", script], { cwd: out }), limits);
  assert.equal(code, 0, stderr);
  assert.ok(stdout.startsWith(await sha256OfFile(join(folder, "executable-9.9.9"))), stdout);
});

test("beside an appliance that serves, it imports the models", async (context) => {
  const { run, settings } = await makeBundle(context, [encoder]);
  const serving = await startServing(settings);
  context.after(async () => {
    serving.child.kill("SIGKILL");
    await serving.child.ended;
  });
  const { models } = answerOf<Applied>(await run(["--json"]));
  assert.deepEqual(
    models.map(({ outcome }) => outcome),
    ["imported"],
  );
  assert.deepEqual(await modelsOf(settings), ["tiny-cross-encoder"]);
});

test("refused, it changes nothing: no key, another key, altered, another file in the program's place", async (context) => {
  const { run, path, data, out, settings, key } = await makeBundle(context, [encoder]);
  const code = ({ stdout }: Finished): string => (JSON.parse(stdout) as { error: { code: string } }).error.code;
  const { PLUMBLINE_BUNDLE_KEYS: _, ...unpinned } = settings;
  const other = `ed25519:${"A".repeat(43)}`;
  const cases: [string, string[], Record<string, string>][] = [
    ["bundle_key_missing", [], unpinned],
    ["bundle_key_unpinned", ["--trust", other], unpinned],
    // The flag stands in place of the setting.
    ["bundle_key_unpinned", ["--trust", other], settings],
    ["usage", ["--trust", "ed25519:short"], settings],
    ["usage", ["--program", join(out, "none/program")], settings],
    ["config_invalid", [], { ...settings, PLUMBLINE_BUNDLE_KEYS: "ed25519:short" }],
  ];
  for (const [expected, words, env] of cases) {
    const refused = await run([...words, "--json"], env);
    assert.deepEqual([code(refused), refused.code], [expected, exitCodes.usage.code], refused.stdout);
  }
  const occupied = join(out, "plumbline-9.9.9-linux-x64");
  writeFileSync(occupied, "mine");
  assert.equal(code(await run(["--json"])), "usage");
  assert.equal(readFileSync(occupied, "utf8"), "mine");

  const bytes = readFileSync(path);
  bytes[bytes.length >> 1]! ^= 1;
  writeFileSync(path, bytes);
  const altered = await run(["--program", join(out, "program"), "--json"]);
  assert.deepEqual([code(altered), altered.code], ["bundle_altered", exitCodes.usage.code]);
  assert.deepEqual([existsSync(data), readdirSync(out)], [false, ["plumbline-9.9.9-linux-x64"]]);
  assert.ok(key.startsWith("ed25519:"));
});

test("a version that is not newer is not handed out", async (context) => {
  const { out, path, key, settings } = await makeBundle(context, []);
  const newest = makeVersion(temporaryFolder(context), "10.0.0");
  const words = ["bundle", "apply", path, "--trust", key, "--json"];
  const done = answerOf<Applied>(await finish(startProcess(newest, words, { env: settings, cwd: out }), limits));
  assert.deepEqual(done.program, { version: "9.9.9", outcome: "not newer", path: null });
  assert.deepEqual([done.models, done.next, readdirSync(out)], [[], [], []]);
});

test("a source tree is no release, and cannot be bundled", async (context) => {
  const folder = temporaryFolder(context);
  const told = await plumbline(["bundle", "create", join(folder, "a.tar"), "--sign-with", join(folder, "k"), "--json"]);
  assert.equal((JSON.parse(told.stdout) as { error: { code: string } }).error.code, "not_a_release");
  for (const when of ["tomorrow", "2027-01-31", "1999-01-01T00:00:00Z"]) {
    const release = makeReleaseTree(temporaryFolder(context), "1.0.0");
    const keyFile = join(folder, `${when.length}.pem`);
    if (!existsSync(keyFile)) await plumbline(["bundle", "key", keyFile]);
    const words = ["bundle", "create", join(folder, "a.tar"), "--sign-with", keyFile, "--not-after", when];
    const refused = await release(...words);
    assert.equal(refused.code, exitCodes.usage.code, refused.stderr);
    assert.match(refused.stderr, /--not-after/);
  }
});

const canBeRoot = process.getuid?.() === 0;

test("root applies it to the installed service, as the service's user", {
  skip: !canBeRoot && "needs root",
}, async (context) => {
  // Hooks run in the order in which they were registered, and a service can be stopped only while its folder is there.
  context.after(() => it.stop());
  const { folder, key, apply, out } = await makeBundle(context, [encoder]);
  const it = new Installed(join(folder, "installed"));
  mkdirSync(join(folder, "installed"));
  await it.begin(makeVersion(folder, "1.0.0"), "1.0.0");
  const file = it.installed.environment;
  writeFileSync(file, `${readFileSync(file, "utf8")}PLUMBLINE_BUNDLE_KEYS=${key}\n`);
  const words = apply("--prefix", it.at.prefix, "--json");
  const done = answerOf<Applied>(await finish(startProcess(it.at.program, words, { cwd: out }), limits));
  assert.deepEqual([done.models.map(({ outcome }) => outcome), done.program.outcome], [["imported"], "written"]);
  assert.match(done.next[0]!, /^To replace 1\.0\.0 with 9\.9\.9, run: plumbline upgrade \//);
  assert.equal(existsSync(`${it.data}.bundle`), false);
  const listed = await it.run("model", "ls", "--json");
  assert.match(listed.stdout, /tiny-cross-encoder/);
});
