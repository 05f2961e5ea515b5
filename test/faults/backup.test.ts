// kill -9 of a backup and of a restore at random moments, while uploads go on: what is there is valid or is told not to be, and the same
// command again comes to the end. BACKUP_KILLS says how many of each.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { places } from "../../src/base/config.ts";
import { startProcess } from "../../src/base/processes.ts";
import { exitCodes } from "../../src/cli/exit-codes.ts";
import { launcher, plumbline } from "../cli/plumbline.ts";
import { Killed, killedAfter, randomFrom } from "./killed.ts";
import { databaseIsSound } from "./oracle.ts";

const kills = Number(process.env.BACKUP_KILLS ?? 6);
const folder = mkdtempSync(join(tmpdir(), "plumbline-backup-"));
const random = randomFrom(20_261_126);
const settings = (data: string) => ({ PLUMBLINE_DATA: data, PLUMBLINE_LOG: "warn", PLUMBLINE_FREE_DISK: "0" });
const data = join(folder, "data");
const it = new Killed(settings(data), random);

after(async () => {
  await it.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

/** How long it took, where it came to its end before it could be killed; null where it was killed. */
async function killed(args: string[], env: Record<string, string>, afterMs: number): Promise<number | null> {
  const done = await killedAfter(startProcess(launcher, args, { env }), afterMs);
  if (done !== null) assert.equal(done.code, exitCodes.ok.code);
  return done?.ms ?? null;
}

/** A small load, all the while. */
function uploading(): { end(): Promise<void> } {
  let isOver = false;
  const work = (async () => {
    for (; !isOver; await delay(100)) await it.upload([it.someDocument(10)]);
  })();
  return {
    async end() {
      isOver = true;
      await work;
    },
  };
}

async function succeeds(args: string[], env: Record<string, string>): Promise<string> {
  const { code, stdout, stderr } = await plumbline(args, env);
  assert.equal(code, exitCodes.ok.code, `${args.join(" ")}: ${stdout}${stderr}`);
  return stdout;
}

for (const form of ["folder", "file.tar"])
  test(`killed at any moment, a backup as ${form} and its restore lose nothing`, async () => {
    if (it.key === "") {
      await it.start();
      await it.baseId();
    }
    for (let n = 0; n < 5; n++) await it.upload([it.someDocument(50)]);
    const place = join(folder, form);
    const env = settings(data);
    const load = uploading();
    let isThere = false;
    let ms = 3000;
    for (let round = 1; round <= kills; round++) {
      ms = (await killed(["backup", place], env, random() * ms)) ?? ms;
      const { code, stdout, stderr } = await plumbline(["verify", place, "--json"], env);
      isThere ||= code === exitCodes.ok.code;
      const said = isThere ? [exitCodes.ok.code] : [exitCodes.usage.code, exitCodes.failure.code];
      assert.ok(said.includes(code as never), `round ${round}: exit ${code}: ${stdout}${stderr}`);
      if (!isThere) assert.match(stdout, /"(backup_invalid|data_missing)"/);
    }
    const before = [...it.acknowledged];
    await succeeds(["backup", place], env);
    await load.end();
    await succeeds(["verify", place], env);
    await succeeds(["verify", data], env);

    const restored = join(folder, `restored-${form}`);
    let isRestored = false;
    ms = 3000;
    for (let round = 1; round <= kills && !isRestored; round++) {
      ms = (await killed(["restore", place, "--to", restored], env, random() * ms)) ?? ms;
      isRestored = existsSync(places(restored).database) && !existsSync(places(restored).restoring);
      const { code, stdout } = await plumbline(["key", "ls", "--json"], settings(restored));
      if (existsSync(places(restored).restoring)) assert.match(stdout, /"restore_unfinished"/);
      else if (isRestored) assert.equal(code, exitCodes.ok.code, stdout);
      else rmSync(restored, { recursive: true, force: true });
    }
    if (!isRestored) await succeeds(["restore", place, "--to", restored], env);
    await succeeds(["verify", restored], env);
    assert.deepEqual(databaseIsSound(restored), []);
    assert.deepEqual(await it.missingFrom(restored, before), []);
  });
