// An upgrade ends with the new version and everything in place, or with the old version and everything in place.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { places } from "../../src/base/config.ts";
import { exitCodes } from "../../src/cli/exit-codes.ts";
import { compareVersions } from "../../src/cli/installation/program.ts";
import { systemdService } from "../../src/cli/installation/service.ts";
import { Installed, makeVersion } from "../helpers/installed.ts";
import { plumbline, startServing, temporaryFolder } from "./plumbline.ts";

test("versions are compared as semantic versions are", () => {
  const inOrder = [
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0",
    "1.2.0",
    "1.10.0",
  ];
  for (const [at, version] of inOrder.entries()) {
    assert.equal(compareVersions(version, version), 0);
    for (const later of inOrder.slice(at + 1)) {
      assert.ok(compareVersions(version, later) < 0, `${version} < ${later}`);
      assert.ok(compareVersions(later, version) > 0, `${later} > ${version}`);
    }
  }
  assert.equal(compareVersions("1.0.0+a", "1.0.0+b"), 0);
});

test("a version does not start when the upgrade that has started it was killed meanwhile", async (context) => {
  const settings = { PLUMBLINE_DATA: join(temporaryFolder(context), "data"), PLUMBLINE_STARTER_MODEL: "none.gguf" };
  const left = await plumbline(["serve", "--json"], { ...settings, _PLUMBLINE_STARTED_BY: "999999999" });
  assert.equal((JSON.parse(left.stdout) as { error: { code: string } }).error.code, "upgrade_unfinished");
  const serving = await startServing({ ...settings, _PLUMBLINE_STARTED_BY: String(process.pid) });
  serving.child.kill("SIGTERM");
  await serving.child.ended;
});

test("an undo that systemd runs before it starts the service does not stop its own unit", async (context) => {
  const folder = temporaryFolder(context);
  const [calls, control] = [join(folder, "calls"), join(folder, "control")];
  const script = `#!/bin/sh\necho "$1" >> '${calls}'\ntest "$1" != show || echo "ControlPID=$(cat '${control}')"\n`;
  writeFileSync(join(folder, "systemctl"), script, { mode: 0o755 });
  const { PATH } = process.env;
  process.env.PATH = `${folder}:${PATH}`;
  context.after(() => {
    process.env.PATH = PATH;
  });
  const stopped = async (controlPid: number): Promise<boolean> => {
    writeFileSync(calls, "");
    writeFileSync(control, String(controlPid));
    await systemdService({ data: join(folder, "data") }).stop();
    return readFileSync(calls, "utf8").split("\n").includes("stop");
  };
  assert.equal(await stopped(process.pid), false);
  assert.equal(await stopped(0), true);
});

test("an upgrade goes through, or comes back; what is no newer program is refused", async (context) => {
  // Hooks run in the order in which they were registered, and a service can be stopped only while its folder is there.
  context.after(() => it.stop());
  const folder = temporaryFolder(context);
  const it = new Installed(folder);
  const old = makeVersion(folder, "1.0.0");
  await it.begin(old, "1.0.0");
  const schema = it.schema();

  await context.test("refused: no program, another's program, the same version, an older one", async () => {
    const text = join(folder, "text");
    writeFileSync(text, "text\n", { mode: 0o755 });
    const other = join(folder, "other");
    writeFileSync(other, "#!/bin/sh\necho 9.9.9\n", { mode: 0o755 });
    const older = makeVersion(folder, "0.9.0");
    const cases: [string, string, number][] = [
      [join(folder, "none"), "file_missing", exitCodes.failure.code],
      [text, "program_invalid", exitCodes.usage.code],
      ["/usr/bin/true", "program_invalid", exitCodes.usage.code],
      [other, "program_invalid", exitCodes.usage.code],
      [old, "upgrade_refused", exitCodes.failure.code],
      [older, "upgrade_refused", exitCodes.failure.code],
    ];
    const pid = it.pid();
    for (const [file, code, status] of cases) {
      const refused = await it.upgrade(file, "--json");
      assert.equal(refused.code, status, `${file}: ${refused.stdout}${refused.stderr}`);
      assert.equal((JSON.parse(refused.stdout) as { error: { code: string } }).error.code, code, file);
    }
    assert.equal(it.pid(), pid);
    assert.equal(existsSync(it.at.journal), false);
  });

  await context.test(
    "a version that migrates and does not start: the old one runs again, on its database",
    async () => {
      const { code, stderr } = await it.upgrade(makeVersion(folder, "1.1.0", { migrates: true, failsToStart: true }));
      assert.equal(code, exitCodes.failure.code, stderr);
      assert.match(stderr, /The upgrade to 1\.1\.0 failed: .*did not start.*Version 1\.0\.0 runs again/);
      assert.deepEqual([await it.version(), it.schema()], ["1.0.0", schema]);
      assert.deepEqual(await it.documents(), ["first.md"]);
      assert.ok(existsSync(`${places(it.data).database}.of-1.1.0`));
      assert.deepEqual(readdirSync(it.at.library).sort(), [
        "1.0.0",
        "current",
        "installation.json",
        "serve.log",
        "upgrade.lock",
      ]);
    },
  );

  await context.test("a newer version takes over, with what was there", async () => {
    await it.upload("second");
    const { code, stdout, stderr } = await it.upgrade(makeVersion(folder, "1.2.0", { migrates: true }), "--json");
    assert.equal(code, 0, stdout + stderr);
    const { backup, ...report } = JSON.parse(stdout) as Record<string, string>;
    assert.deepEqual(report, { from: "1.0.0", to: "1.2.0", outcome: "upgraded" });
    assert.deepEqual([await it.version(), it.schema()], ["1.2.0", schema + 1]);
    assert.deepEqual(await it.documents(), ["first.md", "second.md"]);
    assert.equal((await it.run("verify", backup!)).code, 0);
    assert.equal(existsSync(places(it.data).upgrading), false);
  });
});
