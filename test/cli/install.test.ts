// plumbline install and uninstall: what a dry run says is what is done, a second time changes nothing, and data goes with --purge alone.
// The real ones need root. They see folders of their own in the place of /etc, /run and /var/cache, so that the machine that
// tests has nothing of it.
import assert from "node:assert/strict";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { settings } from "../../src/base/config.ts";
import { type Finished, finish, startProcess } from "../../src/base/processes.ts";
import { exitCodes } from "../../src/cli/exit-codes.ts";
import { makeVersion } from "../helpers/installed.ts";
import { isOpen, launcher, plumbline, temporaryFolder } from "./plumbline.ts";

interface Report {
  version: string;
  changed: boolean;
  steps: { what: string; outcome: string; content?: string }[];
}

/** What useradd and systemd read in /etc. */
const systemFiles = ["passwd", "group", "shadow", "gshadow", "login.defs", "nsswitch.conf", "ld.so.cache", "systemd"];

/** A machine to install on: commands see its /etc, and no systemd that runs. */
function makeMachine(context: TestContext, umask = "022") {
  const folder = temporaryFolder(context);
  const etc = join(folder, "etc");
  for (const name of ["etc/systemd/system", "cache"]) mkdirSync(join(folder, name), { recursive: true });
  for (const name of systemFiles)
    if (existsSync(join("/etc", name)))
      cpSync(join("/etc", name), join(etc, name), { recursive: true, dereference: false });
  const prepare = `umask ${umask} && mount --bind ${etc} /etc && mount --bind ${folder}/cache /var/cache && mount -t tmpfs none /run && exec "$@"`;
  const run = (...words: string[]): Promise<Finished> => {
    const child = startProcess("unshare", [
      "--mount",
      "--propagation",
      "private",
      "--",
      "sh",
      "-c",
      prepare,
      "sh",
      ...words,
    ]);
    return finish(child, { timeoutMs: 240_000, maxBytes: 1 << 20 });
  };
  const where = ["--prefix", join(folder, "usr")];
  const wanted = ["--user", "plumbline-test", "--data", join(folder, "var/lib/data"), ...where];
  const answer = async (...words: string[]): Promise<Report> => {
    const { code, stdout, stderr } = await run(launcher, ...words, "--json");
    assert.equal(code, 0, stdout + stderr);
    return JSON.parse(stdout) as Report;
  };
  return { folder, etc, where, wanted, run, answer };
}

/** What keeps a service that was taken over from the machine, and from its neighbours' memory, files and processes. */
const hardening = [
  ...["User=plumbline", "UMask=0077", "NoNewPrivileges=yes", "CapabilityBoundingSet=", "RestrictSUIDSGID=yes"],
  ...["ProtectSystem=strict", "PrivateTmp=yes", "ProtectProc=invisible", "DevicePolicy=closed"],
  ...["ProtectKernelTunables=yes", "ProtectKernelModules=yes", "ProtectKernelLogs=yes", "ProtectControlGroups=yes"],
  ...["RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX", "SystemCallFilter=@system-service", "LockPersonality=yes"],
  ...["SystemCallArchitectures=native", "MemoryMax=90%", "TasksMax=512", "LimitCORE=0", "Restart=always"],
];

// The service runs this tree where it is, so its user must be able to enter it.
const canInstall = process.getuid?.() === 0 && existsSync("/usr/sbin/useradd") && isOpen(launcher);
const needed = "needs root, and a tree that every user can enter";

test("a dry run names every step and the content of every file, and changes nothing", async (context) => {
  const folder = temporaryFolder(context);
  const words = ["install", "--dry-run", "--prefix", join(folder, "usr"), "--data", join(folder, "data"), "--json"];
  const { code, stdout, stderr } = await plumbline(words);
  assert.equal(code, 0, stderr);
  const { steps } = JSON.parse(stdout) as Report;
  const contentOf = (path: string): string =>
    steps.find(({ what }) => what.startsWith(`write the settings ${path}`) || what === `write ${path}`)!.content!;
  const file = contentOf("/etc/plumbline/plumbline.env");
  for (const { name } of Object.values(settings)) assert.match(file, new RegExp(`^#?${name}=`, "m"));
  assert.match(file, new RegExp(`^PLUMBLINE_DATA=${folder}/data$`, "m"));
  const unit = contentOf("/etc/systemd/system/plumbline.service");
  assert.match(unit, new RegExp(`^ExecStart=${folder}/usr/lib/plumbline/current/plumbline serve$`, "m"));
  assert.match(unit, new RegExp(`^ReadWritePaths=${folder}/data$`, "m"));
  for (const line of hardening) assert.ok(unit.split("\n").includes(line), `${line} is not in the unit`);
  assert.deepEqual([existsSync(join(folder, "usr")), existsSync(join(folder, "data"))], [false, false]);
});

test("a release's executable is copied as a file", async (context) => {
  const executable = join(temporaryFolder(context), "plumbline-linux-x64");
  writeFileSync(executable, "#!/bin/sh\n", { mode: 0o755 });
  const { stdout } = await plumbline(["install", "--dry-run"], { PLUMBLINE_EXECUTABLE: executable });
  assert.match(stdout, new RegExp(`^would +copy the program ${executable} to /usr/local/lib/plumbline/`, "m"));
  assert.match(stdout, /^ {2}\| ProtectHome=yes$/m);
});

test("what cannot be written into a unit is refused", async () => {
  for (const words of [
    ["--data", "relative"],
    ["--data", "/with space"],
    ["--user", "Not A User"],
    ["--prefix", "/"],
  ])
    assert.equal((await plumbline(["install", "--dry-run", ...words])).code, exitCodes.usage.code, words.join(" "));
});

test("whatever the umask, the service's user reaches what was installed", {
  skip: !canInstall && needed,
}, async (context) => {
  const { folder, etc, wanted, answer } = makeMachine(context, "077");
  await answer("install", ...wanted);
  const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8);
  for (const path of ["usr", "usr/bin", "usr/lib", "usr/lib/plumbline", "usr/lib/plumbline/current", "var", "var/lib"])
    assert.equal(modeOf(join(folder, path)), "755", path);
  assert.deepEqual([modeOf(join(folder, "var/lib/data")), modeOf(join(etc, "plumbline"))], ["700", "755"]);
});

test("a source tree that the service's user cannot enter is refused before anything is changed", {
  skip: !canInstall && needed,
}, async (context) => {
  const { folder, etc, wanted, run } = makeMachine(context);
  chmodSync(folder, 0o711);
  const home = join(folder, "home");
  mkdirSync(home, { mode: 0o700 });
  const program = makeVersion(home, "1.0.0");
  const refused = await run(program, "install", ...wanted);
  assert.equal(refused.code, exitCodes.usage.code, refused.stdout);
  assert.match(refused.stderr, new RegExp(`plumbline-test cannot run ${program}: .*/opt`));
  assert.ok(!readFileSync(join(etc, "passwd"), "utf8").includes("plumbline-test"));
  assert.equal(existsSync(join(folder, "var")), false);

  chmodSync(home, 0o711);
  assert.equal((await run(program, "install", ...wanted)).code, 0);
  chmodSync(home, 0o700);
  assert.equal((await run(program, "install", ...wanted)).code, exitCodes.usage.code, "its user is there by now");
});

test("beside an installed service, no key is made in a new data folder", {
  skip: !canInstall && needed,
}, async (context) => {
  const { folder, wanted, run, answer } = makeMachine(context);
  await answer("install", ...wanted);
  // Only this command sees it where services are installed. Without another choice, a release's data is beside its executable.
  const there = `mount --bind ${join(folder, "usr")} /usr/local && exec "$@"`;
  const create = (...env: string[]) =>
    run("sh", "-c", there, "sh", "env", ...env, launcher, "key", "create", "--user", "ann");
  const release = join(folder, "release");
  const refused = await create(`PLUMBLINE_EXECUTABLE=${release}/plumbline`, `PLUMBLINE_DATA=${release}/data`);
  assert.equal(refused.code, exitCodes.usage.code, refused.stdout);
  const data = join(folder, "var/lib/data");
  const command = `runuser -u plumbline-test -- env PLUMBLINE_DATA=${data} /usr/local/bin/plumbline`;
  assert.ok(refused.stderr.includes(`as root, begin the command with ${command}`), refused.stderr);
  assert.equal(existsSync(release), false);
  const named = await create(`PLUMBLINE_DATA=${data}`, "PLUMBLINE_STARTER_MODEL=none.gguf");
  assert.match(named.stdout, /^pl_/, named.stderr);
});

test("the service's user opens what root restored, before the installation or after it", {
  skip: !canInstall && needed,
}, async (context) => {
  const { folder, wanted, run, answer } = makeMachine(context);
  chmodSync(folder, 0o711);
  const [source, backup, data] = ["source", "backup", "var/lib/data"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  mkdirSync(dirname(data), { recursive: true });
  const on = (place: string) => ["env", `PLUMBLINE_DATA=${place}`, "PLUMBLINE_STARTER_MODEL=none.gguf", launcher];
  for (const words of [
    ["key", "create", "--user", "ann"],
    ["backup", backup],
  ])
    assert.equal((await run(...on(source), ...words)).code, 0, words.join(" "));
  const user = ["setpriv", "--reuid=plumbline-test", "--regid=plumbline-test", "--clear-groups"];
  const opens = async (): Promise<void> => {
    const { uid } = statSync(data);
    assert.notEqual(uid, 0);
    for (const name of readdirSync(data, { recursive: true, encoding: "utf8" }))
      assert.equal(statSync(join(data, name)).uid, uid, name);
    const { stdout, stderr } = await run(...user, ...on(data), "key", "ls");
    assert.match(stdout, /\bann\b/, stderr);
  };

  await answer("restore", backup, "--to", data);
  await answer("install", ...wanted);
  await opens();

  const { uid, gid } = statSync(data);
  renameSync(data, `${data}.old`);
  mkdirSync(data, { mode: 0o700 });
  chownSync(data, uid, gid);
  await answer("restore", backup, "--to", data);
  await opens();
});

test("installed, installed again, uninstalled, purged", { skip: !canInstall && needed }, async (context) => {
  const { folder, etc, where, wanted, run, answer } = makeMachine(context);
  const data = join(folder, "var/lib/data");
  const installed = await answer("install", ...wanted);
  assert.equal(installed.changed, true);
  assert.equal(statSync(data).mode & 0o777, 0o700);
  assert.notEqual(statSync(data).uid, 0);
  assert.equal(statSync(join(etc, "plumbline/plumbline.env")).mode & 0o777, 0o640);
  assert.equal(readlinkSync(join(folder, "usr/lib/plumbline/current")), installed.version);
  const told = await run(join(folder, "usr/bin/plumbline"), "--version");
  assert.equal(told.stdout.trim(), installed.version);
  const unit = "/etc/systemd/system/plumbline.service";
  if (existsSync("/usr/bin/systemd-analyze")) {
    const checked = await run("systemd-analyze", "verify", unit);
    assert.deepEqual([checked.code, checked.stderr], [0, ""]);
    // Exposure of 10 is a service without any protection; above 3.0 one of the protections has been lost.
    const scored = await run("systemd-analyze", "security", "--offline=true", "--threshold=30", unit);
    assert.equal(scored.code, 0, scored.stdout);
  }

  writeFileSync(join(etc, "plumbline/plumbline.env"), `PLUMBLINE_DATA=${data}\nPLUMBLINE_PORT=1234\n`);
  const again = await answer("install", ...where);
  assert.equal(again.changed, false, JSON.stringify(again.steps));
  assert.match(readFileSync(join(etc, "plumbline/plumbline.env"), "utf8"), /PORT=1234/);

  mkdirSync(join(data, "models"));
  await answer("uninstall", ...where);
  assert.deepEqual(
    [unit.replace("/etc", etc), join(folder, "usr/lib/plumbline"), join(folder, "usr/bin/plumbline")].filter(
      existsSync,
    ),
    [],
  );
  assert.ok(existsSync(join(data, "models")));

  await answer("install", ...wanted);
  writeFileSync(join(data, "holiday.jpg"), "");
  const refused = await run(launcher, "uninstall", ...where, "--purge");
  assert.match(refused.stderr, /holiday\.jpg is not a file of plumbline/);
  rmSync(join(data, "holiday.jpg"));
  await answer("uninstall", ...where, "--purge", "--dry-run");
  assert.ok(existsSync(join(data, "models")));
  await answer("uninstall", ...where, "--purge");
  assert.deepEqual([existsSync(data), existsSync(join(etc, "plumbline"))], [false, false]);
});
