// kill -9 of an upgrade after each of its steps: what is left is finished by --resume or undone by --undo, nothing that was
// acknowledged is lost, and meanwhile no appliance starts on data that is between two versions.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { places } from "../../src/base/config.ts";
import { exitCodes } from "../../src/cli/exit-codes.ts";
import { type Journal, type Reached, steps } from "../../src/cli/installation/journal.ts";
import { Installed, makeVersion } from "../helpers/installed.ts";

const folder = mkdtempSync(join(tmpdir(), "plumbline-upgrade-"));
const it = new Installed(folder);

after(async () => {
  await it.stop();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

const order: readonly Reached[] = ["begun", ...steps];
/** Whether an upgrade is at a step or beyond: on a busy machine a short one may go by unseen. */
const isAt = (step: Reached): boolean => {
  const now = reached();
  if (step === "undoing" || now === "undoing" || now === null) return now === step;
  return order.indexOf(now) >= order.indexOf(step);
};

/** Starts an upgrade, and kills it as soon as its journal says that it has reached `step`. */
async function killedAt(step: Reached, ...words: string[]): Promise<void> {
  const child = it.upgrading(...words);
  child.stdout.resume();
  let said = "";
  child.stderr.on("data", (part: Buffer) => {
    said += part.toString("utf8");
  });
  let over = false;
  void child.ended.then(() => {
    over = true;
  });
  while (!isAt(step)) {
    assert.equal(over, false, `it ended before it was ${step}: ${said}`);
    await delay(2);
  }
  child.kill("SIGKILL");
  await child.ended;
}

function reached(): Reached | null {
  try {
    return (JSON.parse(readFileSync(it.at.journal, "utf8")) as Journal).reached;
  } catch {
    return null;
  }
}

const settled = (): void => {
  assert.deepEqual([existsSync(it.at.journal), existsSync(places(it.data).upgrading)], [false, false]);
};

test("an upgrade that is killed after any step is finished or undone", async (context) => {
  await it.begin(makeVersion(folder, "1.0.0"), "1.0.0");
  const schema = it.schema();
  const documents = ["first.md"];
  const uploads = async (name: string): Promise<void> => {
    await it.upload(name);
    documents.push(`${name}.md`);
    documents.sort();
  };

  const next = makeVersion(folder, "1.1.0", { migrates: true });
  for (const step of ["begun", "placed", "backed_up", "stopped", "switched", "started"] as const)
    await context.test(`undone, from ${step} on`, async () => {
      await killedAt(step, next);
      // Acknowledged after the backup: it must be there when the old version is back.
      if (reached() === "backed_up") await uploads("late");
      // The new version answers, and acknowledges nothing that would be lost with it.
      if (step === "started")
        await assert.rejects(it.upload("tried"), /503: Writes are refused while an upgrade tests this version/);
      if (step === "stopped") {
        const refused = await it.run("serve", "--json");
        assert.equal(refused.code, exitCodes.failure.code);
        assert.equal((JSON.parse(refused.stdout) as { error: { code: string } }).error.code, "upgrade_unfinished");
      }
      const { code, stderr } = await it.upgrade("--undo");
      assert.equal(code, 0, stderr);
      settled();
      if ((await it.version()) === null) await it.start("1.0.0");
      assert.deepEqual([await it.version(), it.schema()], ["1.0.0", schema]);
      assert.deepEqual(await it.documents(), documents);
    });

  await context.test("killed while it goes back, it goes back all the way", async () => {
    await killedAt("undoing", makeVersion(folder, "1.1.1", { migrates: true, failsToStart: true }));
    const { code, stderr } = await it.upgrade("--resume");
    assert.equal(code, exitCodes.failure.code, stderr);
    settled();
    assert.deepEqual([await it.version(), it.schema()], ["1.0.0", schema]);
    assert.deepEqual(await it.documents(), documents);
  });

  let minor = 1;
  for (const step of ["begun", "backed_up", "stopped", "switched", "started", "confirmed"] as const)
    await context.test(`resumed, from ${step} on`, async () => {
      const version = `1.${++minor}.0`;
      await killedAt(step, makeVersion(folder, version, { migrates: true }));
      const { code, stderr } = await it.upgrade("--resume");
      assert.equal(code, 0, stderr);
      settled();
      assert.deepEqual([await it.version(), it.schema()], [version, schema + 1]);
      assert.deepEqual(await it.documents(), documents);
      await uploads(`in-${version}`);
    });
});
