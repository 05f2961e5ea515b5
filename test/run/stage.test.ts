import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { isTemporary } from "../../src/base/files.ts";
import { json, keep, keptAt, stage } from "../../src/run/stage.ts";

const folder = mkdtempSync(join(tmpdir(), "stage-"));
after(() => rmSync(folder, { recursive: true }));

/** A stage that counts how often it is made. */
function counted(name: string) {
  let made = 0;
  const run = (identity: string): Promise<{ made: number }> =>
    stage(join(folder, name), identity, async () => ({ made: ++made }), json());
  return { run, place: join(folder, name) };
}

test("what is kept of the same things is not made again, and of other things it is", async () => {
  const { run } = counted("once");
  assert.deepEqual(await run("a"), { made: 1 });
  assert.deepEqual(await run("a"), { made: 1 });
  assert.deepEqual(await run("b"), { made: 2 });
  assert.deepEqual(await run("a"), { made: 3 });
});

test("a file that is damaged, cut short or gone makes the stage anew", async () => {
  const { run, place } = counted("damaged");
  const damages: ((file: string) => void)[] = [
    (file) => writeFileSync(file, '{\n  "made": 7\n}\n'),
    (file) => writeFileSync(file, "{"),
    (file) => rmSync(file),
    () => writeFileSync(join(place, "manifest.json"), "{"),
    () => rmSync(place, { recursive: true }),
  ];
  for (const [index, damage] of damages.entries()) {
    assert.deepEqual(await run("a"), { made: index + 1 });
    damage(join(place, "said.json"));
  }
  assert.deepEqual(await run("a"), { made: damages.length + 1 });
});

test("a stage that breaks off while it is written leaves what was kept before", async () => {
  const { run, place } = counted("broken");
  await run("a");
  await assert.rejects(
    keep(place, "b", async (within) => {
      writeFileSync(join(within, "half"), "");
      throw new Error("disk");
    }),
    /disk/,
  );
  assert.ok(readdirSync(folder).some(isTemporary));
  assert.deepEqual(await run("a"), { made: 1 });
});

test("files in folders are kept too, with their sizes and hashes", async () => {
  const place = join(folder, "nested");
  await keep(place, "a", async (within) => {
    mkdirSync(join(within, "trainer"));
    writeFileSync(join(within, "trainer", "abc"), "abc");
  });
  // FIPS 180-2, B.1.
  const sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  assert.deepEqual(await keptAt(place, "a"), { folder: place, files: [{ name: "trainer/abc", bytes: 3, sha256 }] });
  assert.equal(await keptAt(place, "b"), null);
  writeFileSync(join(place, "trainer", "abc"), "abd");
  assert.equal(await keptAt(place, "a"), null);
});
