import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import { createLog } from "../../src/base/log.ts";
import { createBallast } from "../../src/store/ballast.ts";

const MiB = 1 << 20;

test("the ballast is taken while there is room, given up when there is none, and taken again", async () => {
  const folder = mkdtempSync(join(tmpdir(), "plumbline-ballast-"));
  const path = join(folder, "ballast");
  let free = 500 * MiB;
  const ballast = createBallast({
    path,
    bytes: 3 * MiB + 1,
    freeDisk: 100 * MiB,
    log: createLog("error", () => {}),
    free: async () => free,
  });
  const look = async (now: number) => {
    free = now;
    await ballast.look();
    const refuses = await ballast.check().then(
      () => false,
      (error) => error instanceof Failure && error.code === "disk_full",
    );
    return { low: ballast.isLow(), refuses, kept: existsSync(path) };
  };
  assert.deepEqual(await look(500 * MiB), { low: false, refuses: false, kept: true });
  const { size, blocks } = statSync(path);
  assert.equal(size, 3 * MiB + 1);
  assert.ok(blocks * 512 >= size, "it takes room");
  // Below the mark new work is refused; the ballast is for what comes after.
  assert.deepEqual(await look(99 * MiB), { low: true, refuses: true, kept: true });
  assert.deepEqual(await look(MiB), { low: true, refuses: true, kept: false });
  assert.deepEqual(await look(101 * MiB), { low: false, refuses: false, kept: false });
  assert.deepEqual(await look(500 * MiB), { low: false, refuses: false, kept: true });
  await ballast.close();
  rmSync(folder, { recursive: true });
});
