// A backup while the appliance that serves is written to in every way: restored into an empty folder, it has every write that was
// acknowledged before it began.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { exitCodes } from "../../src/cli/exit-codes.ts";
import { plumbline } from "../cli/plumbline.ts";
import { Killed, randomFrom } from "./killed.ts";
import { databaseIsSound } from "./oracle.ts";

const folder = mkdtempSync(join(tmpdir(), "plumbline-backup-load-"));
const random = randomFrom(20_261_127);
const settings = (data: string) => ({ PLUMBLINE_DATA: data, PLUMBLINE_LOG: "warn", PLUMBLINE_FREE_DISK: "0" });
const data = join(folder, "data");
const it = new Killed(settings(data), random);

after(async () => {
  await it.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

/** Four clients that write one thing after the other. */
function writing(baseId: string, agentId: string): { end(): Promise<void> } {
  let isOver = false;
  let changes = 0;
  const ways: (() => Promise<unknown>)[] = [
    () => it.upload([it.someDocument(1 + Math.floor(random() * 200))]),
    () => it.deleteOne(),
    () => it.uploadBenchmark(),
    () => it.makeKey(),
    () => it.revokeOne(),
    () => it.rate(baseId),
  ];
  const client = async (): Promise<void> => {
    while (!isOver) await ways[Math.floor(random() * ways.length)]!();
  };
  // One client alone changes the agent, so that its changes have an order.
  const changer = async (): Promise<void> => {
    for (; !isOver; await delay(50)) await it.change(agentId, ++changes);
  };
  const work = Promise.all([client(), client(), client(), changer()]);
  return {
    async end() {
      isOver = true;
      await work;
    },
  };
}

async function succeeds(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await plumbline(args, settings(data));
  assert.equal(code, exitCodes.ok.code, `${args.join(" ")}: ${stdout}${stderr}`);
  return stdout;
}

const kinds = ["document", "deletion", "benchmark", "key", "revocation", "rating", "change"];

/** How many there are of each kind. */
function kindsOf(promises: readonly { what: string }[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { what } of promises) {
    const kind = what.split(" ")[0]!;
    counts[kind] = (counts[kind] ?? 0) + 1;
  }
  return counts;
}

test("a backup under load has every write that was acknowledged before it began", async (context) => {
  await it.start();
  const baseId = await it.baseId();
  for (const form of ["folder", "file.tar"])
    await context.test(`as ${form}`, async (context) => {
      const place = join(folder, form);
      const load = writing(baseId, await it.rate(baseId));
      const begun = it.acknowledged.length;
      const isEnough = (): boolean => {
        const counts = kindsOf(it.acknowledged.slice(begun));
        return kinds.every((kind) => (counts[kind] ?? 0) >= 5);
      };
      await it.until("some writes of each kind", async () => isEnough());
      const before = [...it.acknowledged];
      await succeeds("backup", place);
      const during = it.acknowledged.length - before.length;
      // Some more, which the backup need not have.
      await delay(300);
      await load.end();
      assert.ok(during > 20, `only ${during} writes were acknowledged while it was made`);
      context.diagnostic(`${JSON.stringify(kindsOf(before))} before, ${during} writes during the backup`);
      await succeeds("verify", place);

      const restored = join(folder, `restored-${form}`);
      await succeeds("restore", place, "--to", restored);
      await succeeds("verify", restored);
      assert.deepEqual(databaseIsSound(restored), []);
      assert.deepEqual(await it.missingFrom(restored, before), []);
    });
});
