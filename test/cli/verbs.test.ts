// Every verb explains itself, says what is wrong with its use in one line, and answers programs in JSON.
import assert from "node:assert/strict";
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import Database from "better-sqlite3";
import { installation } from "../../src/base/config.ts";
import { failures } from "../../src/base/errors.ts";
import { finish, startProcess } from "../../src/base/processes.ts";
import { checkDecodeThread } from "../../src/cli/checks.ts";
import type { Grammar } from "../../src/cli/completion/scripts.ts";
import { grammarOf } from "../../src/cli/completion.ts";
import { exitCodes } from "../../src/cli/exit-codes.ts";
import { secondsText } from "../../src/cli/output.ts";
import { createProgram } from "../../src/cli/verbs.ts";
import { missingIndexes } from "../../src/store/indexes.ts";
import { many } from "./many.ts";
import { isOpen, launcher, plumbline, startServing, temporaryFolder } from "./plumbline.ts";

/** Every command that does something, by its words. */
const program = await createProgram();
const leavesOf = (grammar: Grammar) => grammar.filter(({ path, words }) => path.length > 0 && words.length === 0);
const leaves = leavesOf(grammarOf(program, { hidden: true }));

test("--help of every verb names its usage, what each part is, and the exit statuses", async () => {
  const all = await many(leaves.map(({ path }) => [...path, "--help"]));
  for (const [index, { code, stdout, stderr }] of all.entries()) {
    const { path, options } = leaves[index]!;
    assert.equal(code, 0, stderr);
    assert.ok(stdout.startsWith(`Usage: plumbline ${path.join(" ")}`), stdout);
    for (const { code, meaning } of Object.values(exitCodes)) assert.match(stdout, new RegExp(`${code} +${meaning}`));
    for (const { word, about } of options) assert.ok(about.length > 3, `${path.join(" ")} ${word} is not explained`);
  }
});

test("every verb answers programs too", () => {
  const without = leaves.filter(({ options }) => !options.some(({ word }) => word === "--json"));
  // A run's protocol is its answer.
  assert.deepEqual(
    without.map(({ path }) => path.join(" ")),
    ["run"],
  );
});

test("--help without a verb lists them", async () => {
  const { stdout } = await plumbline(["--help"]);
  for (const name of new Set(leavesOf(grammarOf(program)).map(({ path }) => path[0]!)))
    assert.match(stdout, new RegExp(`^ +${name} `, "m"));
});

test("of every verb a wrong command line is status 2 and one line, or one JSON object", async () => {
  const all = await many(
    leaves.flatMap(({ path }) => [
      [...path, "--wrong"],
      [...path, "--wrong", "--json"],
    ]),
  );
  for (const [index, { code, stdout, stderr }] of all.entries()) {
    assert.equal(code, exitCodes.usage.code, stderr);
    if (index % 2 === 0) assert.match(stderr, /^plumbline: .+\. Add --help .+\n$/);
    else assert.equal((JSON.parse(stdout) as { error: { code: string } }).error.code, "usage");
  }
});

test("whoever stops reading makes no failure of it", async () => {
  const child = startProcess(join(installation, "bin/plumbline"), ["--help"]);
  let said = "";
  child.stderr.on("data", (part: Buffer) => {
    said += part.toString("utf8");
  });
  child.stdout.destroy();
  assert.deepEqual([await child.ended, said], [{ code: 0, signal: null }, ""]);
});

test("files have more of Node's threads than there are models that step at once", async () => {
  const NODE_OPTIONS = "--import=data:text/javascript,console.error(process.env.UV_THREADPOOL_SIZE)";
  assert.equal((await plumbline(["--version"], { NODE_OPTIONS })).stderr, "16\n");
  assert.equal((await plumbline(["--version"], { NODE_OPTIONS, UV_THREADPOOL_SIZE: "5" })).stderr, "5\n");
});

test("a wrong command line is status 2, one line of message and hint, or one JSON object", async () => {
  const wrong = [
    ["fly"],
    ["key"],
    ["key", "create"],
    ["model", "import"],
    ["serve", "--loud"],
    ["bench", "train", "--rank", "0"],
  ];
  for (const args of wrong) {
    const spoken = await plumbline(args);
    assert.equal(spoken.code, exitCodes.usage.code, args.join(" "));
    assert.equal(spoken.stdout, "");
    assert.match(spoken.stderr, /(^|\n)plumbline: .+\. Add --help .+\n$/);

    const json = await plumbline([...args, "--json"]);
    assert.equal(json.code, exitCodes.usage.code);
    assert.equal((JSON.parse(json.stdout) as { error: { code: string } }).error.code, "usage");
  }
});

test("a setting that is not valid is status 2 and named", async () => {
  const { code, stderr } = await plumbline(["doctor"], { PLUMBLINE_PORT: "many" });
  assert.equal(code, exitCodes.usage.code);
  assert.match(stderr, /PLUMBLINE_PORT/);
});

test("doctor says of each thing whether it is there, with a hint for what is lacking", async (context) => {
  const folder = temporaryFolder(context);
  const settings = {
    PLUMBLINE_DATA: join(folder, "data"),
    PLUMBLINE_PORT: "0",
    PLUMBLINE_TRAINER: join(folder, "none"),
  };
  const { code, stdout } = await plumbline(["doctor", "--json"], settings);
  const { ok, checks } = JSON.parse(stdout) as { ok: boolean; checks: { name: string; ok: boolean; hint: string }[] };
  assert.equal(ok, false);
  assert.equal(code, exitCodes.failure.code);
  const names = [
    ...["node", "glibc", "trainer", "decode thread", "starter model", "memory", "disk", "permissions", "leftovers"],
    ...["parts", "port", "clock", "gpu"],
  ];
  assert.deepEqual(
    checks.map((check) => check.name),
    names,
  );
  for (const check of checks) assert.equal(check.hint === "", check.ok, check.name);
  assert.equal(checks.find((check) => check.name === "trainer")?.ok, false);
  assert.equal(checks.find((check) => check.name === "node")?.ok, true);
});

function dropIndex(database: string, name: string): void {
  const db = new Database(database);
  db.exec(`DROP INDEX ${name}`);
  db.close();
}

test("doctor --fix puts modes right and removes what was left half written, and says so; a folder that is served from it leaves alone", async (context) => {
  const data = join(temporaryFolder(context), "data");
  const settings = { PLUMBLINE_DATA: data, PLUMBLINE_PORT: "0" };
  assert.equal((await plumbline(["key", "ls"], settings)).code, 0);
  const left = [join(data, ".tmp-1-a-x"), join(data, "blobs/.tmp-1-b-text"), join(data, "uploads/upload")];
  const database = join(data, "plumbline.db");
  const leave = (): void => {
    for (const path of left) writeFileSync(path, "x");
    chmodSync(data, 0o755);
    chmodSync(join(data, "plumbline.db"), 0o644);
  };
  const told = async (...args: string[]) => {
    const { stdout } = await plumbline(["doctor", "--json", ...args], settings);
    return JSON.parse(stdout) as { mended?: string[]; checks: { name: string; ok: boolean; needed: boolean }[] };
  };
  const okOf = (checks: { name: string; ok: boolean }[], name: string) => checks.find((one) => one.name === name)?.ok;

  leave();
  rmSync(join(data, "runs"), { recursive: true });
  dropIndex(database, "document_owner");
  const names = ["permissions", "leftovers", "parts"];
  const before = await told();
  assert.deepEqual(
    names.map((name) => okOf(before.checks, name)),
    [false, false, false],
  );
  assert.equal(before.mended, undefined);
  const fixed = await told("--fix");
  assert.deepEqual(
    names.map((name) => okOf(fixed.checks, name)),
    [true, true, true],
  );
  assert.deepEqual([statSync(join(data, "runs")).mode & 0o777, missingIndexes(database)], [0o700, []]);
  assert.equal(fixed.mended?.length, 7, fixed.mended?.join("\n"));
  assert.deepEqual(left.filter(existsSync), []);
  assert.equal(statSync(join(data, "plumbline.db")).mode & 0o777, 0o600);

  const serving = await startServing({ ...settings, PLUMBLINE_STARTER_MODEL: "none.gguf" });
  try {
    leave();
    await told("--fix");
    assert.deepEqual(left.filter(existsSync), left);
  } finally {
    serving.child.kill("SIGKILL");
    await serving.child.ended;
  }
});

test("of another user's data folder doctor says what is wrong, and changes nothing", {
  skip: !(process.getuid?.() === 0 && isOpen(launcher)) && "needs root, and a tree that every user can enter",
}, async (context) => {
  const folder = temporaryFolder(context);
  const data = join(folder, "data");
  chmodSync(folder, 0o711);
  mkdirSync(join(data, "uploads"), { recursive: true, mode: 0o700 });
  writeFileSync(join(data, "lock"), "", { mode: 0o600 });
  const env = { PLUMBLINE_DATA: data, PLUMBLINE_PORT: "0", HOME: folder };
  const other = { env, cwd: "/", as: { uid: 65_534, gid: 65_534 } };
  for (const mode of [0o700, 0o755]) {
    chmodSync(data, mode);
    for (const words of [["doctor"], ["doctor", "--fix"]]) {
      const child = startProcess(launcher, [...words, "--json"], other);
      const { stdout } = await finish(child, { timeoutMs: 60_000, maxBytes: 1 << 20 });
      const { checks, mended } = JSON.parse(stdout) as {
        checks?: { name: string; ok: boolean; hint: string }[];
        mended?: string[];
      };
      for (const name of ["permissions", "leftovers"]) {
        const found = checks?.find((check) => check.name === name);
        assert.equal(found?.ok, false, stdout);
        assert.match(found.hint, /as the owner of the folder/);
      }
      assert.deepEqual(mended ?? [], []);
    }
    assert.equal(statSync(data).mode & 0o777, mode);
  }
});

test("an nvidia-smi that this user may not run is told, and is no failure", async (context) => {
  const folder = temporaryFolder(context);
  writeFileSync(join(folder, "nvidia-smi"), "", { mode: 0o644 });
  const settings = { PLUMBLINE_DATA: join(folder, "data"), PLUMBLINE_PORT: "0", PATH: `${folder}:${process.env.PATH}` };
  const { stdout } = await plumbline(["doctor", "--json"], settings);
  const { checks } = JSON.parse(stdout) as { checks: { name: string; found: string }[] };
  assert.match(checks.find(({ name }) => name === "gpu")!.found, /this user may not run it|driver \d/);
});

test("an address that is not this machine's is a wrong setting, and the hint names it", async (context) => {
  const data = temporaryFolder(context);
  const settings = { PLUMBLINE_DATA: data, PLUMBLINE_STARTER_MODEL: "none.gguf", PLUMBLINE_HOST: "192.0.2.1" };
  const told = await plumbline(["doctor", "--json"], settings);
  const { checks } = JSON.parse(told.stdout) as { checks: { name: string; hint: string }[] };
  assert.match(checks.find(({ name }) => name === "port")!.hint, /^Set PLUMBLINE_HOST /);
  // Without a key it would listen on loopback.
  assert.equal((await plumbline(["key", "create", "--user", "ann"], settings)).code, 0);
  const served = await plumbline(["serve", "--json"], settings);
  assert.equal(served.code, exitCodes.usage.code);
  const { error } = JSON.parse(served.stdout) as { error: { code: string; message: string } };
  assert.deepEqual([error.code, /Set PLUMBLINE_HOST /.test(error.message)], ["config_invalid", true], error.message);
});

test("seconds are rounded before they become minutes", () => {
  const seconds = [0.4, 59.7, 119.6, 3599.7, 7325];
  assert.deepEqual(seconds.map(secondsText), ["0 s", "1 min 0 s", "2 min 0 s", "1 h 0 min", "2 h 2 min"]);
});

test("doctor loads the decode thread, and says what to do where it is missing or broken", async (context) => {
  assert.deepEqual(await checkDecodeThread(), {
    ...{ name: "decode thread", ok: true, needed: false, hint: "" },
    found: join(installation, "build/plumbline-decode.node"),
  });
  const broken = join(temporaryFolder(context), "broken.node");
  writeFileSync(broken, "not a library");
  for (const [path, what] of [
    [join(temporaryFolder(context), "none.node"), /does not exist/],
    [broken, /invalid ELF header|file too short/],
  ] as const) {
    const { ok, found, hint } = await checkDecodeThread(path);
    assert.equal(ok, false);
    assert.match(found, what);
    assert.match(hint, /install\.sh/);
  }
});

test("what a release says names its own command, and no script of a source tree", async (context) => {
  const folder = temporaryFolder(context);
  const settings = {
    ...{ PLUMBLINE_EXECUTABLE: "/opt/plumbline/plumbline", PLUMBLINE_DATA: join(folder, "data"), PLUMBLINE_PORT: "0" },
    ...{ PLUMBLINE_TRAINER: join(folder, "none"), PLUMBLINE_STARTER_MODEL: join(folder, "none.gguf") },
  };
  const ofTree = /install\.sh|bin\/plumbline/;
  const lacking = async (more: Record<string, string>): Promise<string> =>
    (await plumbline(["doctor"], { ...settings, ...more })).stdout;
  const told = await lacking({});
  assert.match(told, /LACK {2}trainer/);
  assert.match(told, /→ Start plumbline again: it unpacks the missing files/);
  assert.doesNotMatch(told, ofTree);

  assert.equal((await plumbline(["key", "create", "--user", "ada"], settings)).code, 0);
  const serving = await startServing(settings);
  serving.child.kill("SIGTERM");
  await serving.child.ended;
  assert.match(serving.log(), /create keys with plumbline key create/);
  const helps = await many(
    leaves.map(({ path }) => [...path, "--help"]),
    settings,
  );
  for (const { stdout } of helps) assert.doesNotMatch(stdout, ofTree);
});

test("a hint or a text that names a script of a source tree says that it is of one", () => {
  for (const [code, { message, hint }] of Object.entries(failures))
    if (/install\.sh|bin\/plumbline/.test(message + hint)) assert.match(hint, /in a source tree/i, code);
  for (const language of ["en", "de"]) {
    const texts = readFileSync(join(installation, `src/console/texts/${language}.js`), "utf8");
    assert.doesNotMatch(texts, /install\.sh|bin\/plumbline/);
  }
});

test("bench train refuses rows that are none", async () => {
  const settings = ["--model", "/dev/null", "--rows", "/dev/null"];
  const { code, stderr } = await plumbline(["bench", "train", ...settings]);
  assert.equal(code, exitCodes.usage.code);
  assert.match(stderr, /has no rows/);
});
