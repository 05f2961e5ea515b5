import assert from "node:assert/strict";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Failure } from "../../src/base/errors.ts";
import { startProcess } from "../../src/base/processes.ts";
import { filesIn, isExecutable, makeRelease, type SmallRelease, unpackHere, unpackInProcess } from "./small-release.ts";

const folder = mkdtempSync(join(tmpdir(), "plumbline-launcher-"));
after(() => rmSync(folder, { recursive: true }));
const release = makeRelease(folder);

const assertWhole = (at: string, { contents }: SmallRelease): void => {
  assert.deepEqual(filesIn(at), contents);
  assert.ok(isExecutable(join(at, "bin/node")));
};

test("a first start unpacks every file, a second one says nothing", () => {
  const runtime = join(folder, "first/runtime");
  const first = unpackHere(release, runtime);
  assertWhole(first.folder, release);
  assert.equal(first.said.length, 1);
  assert.equal(statSync(runtime).mode & 0o777, 0o700);
  const again = unpackHere(release, runtime);
  assert.deepEqual(again, { folder: first.folder, said: [] });
});

/** Kills the process once the unfinished folder has this many files. */
async function killedAt(files: number, runtime: string): Promise<"killed" | "finished"> {
  const child = unpackInProcess(release, runtime);
  let over = false;
  void child.ended.then(() => {
    over = true;
  });
  while (!over) {
    const there = existsSync(runtime) ? readdirSync(runtime, { recursive: true, withFileTypes: true }) : [];
    if (there.filter((entry) => entry.isFile()).length >= files) {
      child.kill("SIGKILL");
      break;
    }
    await pause(1);
  }
  return (await child.ended).signal === "SIGKILL" ? "killed" : "finished";
}

test("killed while it unpacks, it starts over, and nothing is left of what was killed", async () => {
  let killed = 0;
  for (const files of [0, 1, 2, 5, 9, 14]) {
    const runtime = join(folder, `killed-${files}`);
    if ((await killedAt(files, runtime)) === "killed") killed++;
    const { folder: at } = unpackHere(release, runtime);
    assertWhole(at, release);
    assert.equal(readdirSync(runtime).length, 1);
  }
  assert.ok(killed >= 3, `only ${killed} were killed in time`);
});

test("what a living process unpacks is left alone", () => {
  const runtime = join(folder, "beside");
  // Of a living process, of one that is gone, and of an earlier one that had the id of this one.
  const owners = [process.ppid, 999_999_999, process.pid];
  const others = owners.map((owner) => join(runtime, `.tmp-${owner}-abc-x`));
  for (const path of others) mkdirSync(path, { recursive: true });
  unpackHere(release, runtime);
  assert.deepEqual(others.map(existsSync), [true, false, false]);
});

test("several that start at once agree on one folder", async () => {
  const runtime = join(folder, "at-once");
  const children = [1, 2, 3].map(() => unpackInProcess(release, runtime));
  for (const child of children) assert.equal((await child.ended).code, 0);
  assert.equal(readdirSync(runtime).length, 1);
  assertWhole(unpackHere(release, runtime).folder, release);
});

const changes: Record<string, (path: string) => void> = {
  "another byte, and the time set back": (path) => {
    const { atime, mtime } = statSync(path);
    const bytes = readFileSync(path);
    bytes[100]! ^= 1;
    writeFileSync(path, bytes);
    utimesSync(path, atime, mtime);
  },
  "cut off": (path) => truncateSync(path, 10),
  deleted: (path) => rmSync(path),
  "another file in its place": (path) => {
    writeFileSync(`${path}.new`, "other");
    renameSync(`${path}.new`, path);
  },
  "a folder in its place": (path) => {
    rmSync(path);
    mkdirSync(path);
    writeFileSync(join(path, "within"), "");
  },
  "a link to nowhere in its place": (path) => {
    rmSync(path);
    symlinkSync("nowhere", path);
  },
};

for (const [how, change] of Object.entries(changes))
  test(`an altered file is noticed and written anew: ${how}`, () => {
    const runtime = join(folder, `altered-${how.replaceAll(" ", "-")}`);
    const { folder: at } = unpackHere(release, runtime);
    const path = join(at, "parts/1/4.bin");
    change(path);
    const { said } = unpackHere(release, runtime);
    assert.equal(said.length, 1);
    assert.match(said[0]!, /4\.bin was changed since it was unpacked/);
    assertWhole(at, release);
    assert.deepEqual(unpackHere(release, runtime).said, []);
  });

test("a folder that was copied, or has lost its seal, is hashed once and stands", () => {
  const runtime = join(folder, "sealed");
  const { folder: at } = unpackHere(release, runtime);
  const copy = join(at, "copy");
  copyFileSync(join(at, "parts/0/0.bin"), copy);
  renameSync(copy, join(at, "parts/0/0.bin"));
  const seal = readFileSync(join(at, ".seal"), "utf8");
  assert.deepEqual(unpackHere(release, runtime).said, []);
  assert.notEqual(readFileSync(join(at, ".seal"), "utf8"), seal);
  writeFileSync(join(at, ".seal"), "{");
  assert.deepEqual(unpackHere(release, runtime).said, []);
});

test("folders of other versions are removed, unless a process runs from them", async () => {
  // The system tells where a process really runs from, so the folder is reached through a link here.
  const [real, linked] = [join(folder, "real"), join(folder, "linked")];
  mkdirSync(real);
  symlinkSync(real, linked);
  const runtime = join(linked, "versions");
  const [unused, used] = [join(runtime, "0000"), join(runtime, "1111")];
  for (const one of [unused, used]) mkdirSync(one, { recursive: true });
  copyFileSync("/bin/cat", join(used, "program"));
  const child = startProcess(join(used, "program"), []);
  const next = makeRelease(folder, 3, "second");
  const { folder: at } = unpackHere(next, runtime);
  assert.deepEqual(readdirSync(runtime).sort(), [at.slice(runtime.length + 1), "1111"].sort());
  child.stdin.end();
  await child.ended;
});

test("an executable that is cut off or damaged is refused, and leaves no folder", () => {
  const runtime = join(folder, "refused");
  const whole = readFileSync(release.executable);
  const refuses = (bytes: Buffer, message: RegExp): void => {
    const executable = join(folder, "damaged");
    writeFileSync(executable, bytes);
    assert.throws(
      () => unpackHere({ executable, contents: {} }, runtime),
      (error) => error instanceof Failure && error.code === "release_damaged" && message.test(error.message),
    );
  };
  for (const bytes of [0, 5, 40, whole.length >> 1, whole.length - 1]) refuses(whole.subarray(0, bytes), /cut off/);
  const flipped = (at: number): Buffer => {
    const copy = Buffer.from(whole);
    copy[at]! ^= 1;
    return copy;
  };
  refuses(flipped(whole.length - 100), /list of files .* damaged/);
  refuses(flipped(1000), /damaged/);
  assert.deepEqual(existsSync(runtime) ? readdirSync(runtime) : [], []);
});
