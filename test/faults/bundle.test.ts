// kill -9 of the application of a bundle at any moment: what is there is whole, and the same command again comes to the end.
import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { places } from "../../src/base/config.ts";
import { sha256OfFile } from "../../src/base/files.ts";
import { startProcess } from "../../src/base/processes.ts";
import { verifyData } from "../../src/domain/backups/index.ts";
import { launcher } from "../cli/plumbline.ts";
import { type Applied, answerOf, makeBundle, modelsOf, names } from "../helpers/bundle.ts";
import { killedAfter } from "./killed.ts";

test("killed at any moment, the same command goes on: every model once, the program whole", async (context) => {
  const { folder, data, out, settings, apply, run } = await makeBundle(context);
  const program = join(out, "plumbline-9.9.9-linux-x64");
  const whole = await sha256OfFile(join(folder, "executable-9.9.9"));
  let ms = 9000;
  let killed = 0;
  for (const share of [0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95]) {
    const child = startProcess(launcher, apply("--prefix", join(folder, "none"), "--json"), {
      env: settings,
      cwd: out,
    });
    const done = await killedAfter(child, share * ms);
    if (done === null) killed++;
    else {
      assert.equal(done.code, 0);
      ms = done.ms;
    }
    if (existsSync(program)) assert.equal(await sha256OfFile(program), whole);
    if (existsSync(places(data).database)) assert.deepEqual((await verifyData(data, () => {})).problems, []);
  }
  assert.ok(killed >= 3, `only ${killed} were killed in time`);
  answerOf<Applied>(await run(["--json"]));
  assert.deepEqual(await modelsOf(settings), names);
  assert.equal(await sha256OfFile(program), whole);
  assert.equal(existsSync(places(data).bundle), false);
  const left = readdirSync(data, { recursive: true, encoding: "utf8" }).filter((name) => name.includes(".tmp-"));
  assert.deepEqual([left, readdirSync(out)], [[], ["plumbline-9.9.9-linux-x64"]]);
});
