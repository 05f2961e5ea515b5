// kill -9 at random moments of unpacking, backup, restore and upgrade, while documents are uploaded: npm run test:operations --
// --moments 40 --seed 1. What was cut off is done again or undone, and after each moment everything acknowledged is there.
// A seed has the same moments each time; each is a row of RESULTS.md.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import Database from "better-sqlite3";
import { places } from "../../src/base/config.ts";
import { exitCodes } from "../../src/cli/exit-codes.ts";
import type { Journal } from "../../src/cli/installation/journal.ts";
import { commitNow, shortened } from "../helpers/commit.ts";
import { Installed, makeVersion } from "../helpers/installed.ts";
import { resultsOf, rowsBySeed, writeSection } from "../helpers/results.ts";
import { filesIn, makeRelease, unpackHere, unpackInProcess } from "../launcher/small-release.ts";
import { killedAfter, randomFrom } from "./killed.ts";
import { databaseIsSound } from "./oracle.ts";

const { values } = parseArgs({
  options: { moments: { type: "string", default: "40" }, seed: { type: "string", default: "1" } },
});
const moments = Number(values.moments);
const seed = Number(values.seed);
assert.ok(moments > 0 && Number.isInteger(seed), "--moments and --seed are whole numbers");

const commit = shortened(commitNow());
const random = randomFrom(seed);
const folder = mkdtempSync(join(tmpdir(), "plumbline-operations-"));
const it = new Installed(folder);
/** Names of documents whose upload was answered. */
const acknowledged: string[] = [];
let version = "1.0.0";
/** The last whole backup, and what was acknowledged before it began. */
let lastBackup = { place: "", holds: [] as string[] };
let number = 0;

/** Uploads on and on; what fails while the service is down was never acknowledged. */
function uploading(): { end(): Promise<void> } {
  let isOver = false;
  const work = (async () => {
    for (; !isOver; await delay(100)) {
      const name = `note-${++number}`;
      await it.upload(name).then(
        () => acknowledged.push(`${name}.md`),
        () => {},
      );
    }
  })();
  return {
    async end() {
      isOver = true;
      await work;
    },
  };
}

async function succeeds(...words: string[]): Promise<void> {
  const { code, stdout, stderr } = await it.run(...words);
  assert.equal(code, exitCodes.ok.code, `${words.join(" ")}: ${stdout}${stderr}`);
}

/** Everything acknowledged is in a data folder, with its files, and the database is sound. */
async function holds(data: string, names: readonly string[]): Promise<void> {
  assert.deepEqual(databaseIsSound(data), []);
  const db = new Database(places(data).database, { readonly: true, timeout: 10_000 });
  const found = new Set(
    db
      .prepare<[], { name: string }>("SELECT name FROM document")
      .all()
      .map(({ name }) => name),
  );
  db.close();
  assert.deepEqual(
    names.filter((name) => !found.has(name)),
    [],
  );
  await succeeds("verify", data);
}

/** A time at which an operation of a kind is killed: anywhere in the time that it took the last time. */
const tookMs = new Map([
  ["unpacking", 700],
  ["backup", 4000],
  ["restore", 3000],
  ["upgrade", 25_000],
]);
const momentOf = (kind: string): number => random() * tookMs.get(kind)!;
let kills = 0;
let late = 0;
const ended = (kind: string, done: { ms: number } | null): void => {
  if (done === null) {
    kills++;
    return;
  }
  tookMs.set(kind, done.ms);
  late++;
};

/** How many upgrades were killed when they had reached which step. */
const upgradesCut = new Map<string, number>();
const release = makeRelease(folder, 60);

const kinds: Record<string, () => Promise<void>> = {
  async unpacking() {
    const runtime = join(folder, `runtime-${++number}`);
    ended("unpacking", await killedAfter(unpackInProcess(release, runtime), momentOf("unpacking")));
    const { folder: at } = unpackHere(release, runtime);
    assert.deepEqual(filesIn(at), release.contents);
    assert.equal(readdirSync(runtime).length, 1);
    rmSync(runtime, { recursive: true });
  },

  async backup() {
    const place = join(folder, random() < 0.5 ? "backup" : "backup.tar");
    const wasThere = existsSync(place) && (await it.run("verify", place)).code === exitCodes.ok.code;
    const done = await killedAfter(it.starting("backup", place), momentOf("backup"));
    if (done !== null) assert.equal(done.code, exitCodes.ok.code);
    ended("backup", done);
    if (wasThere) await succeeds("verify", place);
    const before = [...acknowledged];
    await succeeds("backup", place);
    await succeeds("verify", place);
    lastBackup = { place, holds: before };
  },

  async restore() {
    if (lastBackup.place === "") await kinds.backup!();
    const { place, holds: names } = lastBackup;
    const data = join(folder, `restored-${++number}`);
    const words = ["restore", place, "--to", data];
    const done = await killedAfter(it.starting(...words), momentOf("restore"));
    if (done !== null) assert.equal(done.code, exitCodes.ok.code);
    ended("restore", done);
    const isWhole = existsSync(places(data).database) && !existsSync(places(data).restoring);
    // A second restore over a whole one is refused, as over any data.
    if (!isWhole) await succeeds(...words);
    await holds(data, names);
    rmSync(data, { recursive: true });
  },

  async upgrade() {
    const next = `1.${++number}.0`;
    const failsToStart = random() < 0.3;
    const program = makeVersion(folder, next, { migrates: true, failsToStart });
    const done = await killedAfter(it.upgrading(program), momentOf("upgrade"));
    ended("upgrade", done);
    if (done !== null) assert.equal(done.code, failsToStart ? exitCodes.failure.code : exitCodes.ok.code);
    const wasCut = existsSync(it.at.journal);
    if (done === null) {
      const step = wasCut ? (JSON.parse(readFileSync(it.at.journal, "utf8")) as Journal).reached : "before or after";
      upgradesCut.set(step, (upgradesCut.get(step) ?? 0) + 1);
    }
    const way = random() < 0.5 ? "--resume" : "--undo";
    if (wasCut) {
      const { code, stderr } = await it.upgrade(way);
      if (way === "--undo" || !failsToStart) assert.equal(code, exitCodes.ok.code, stderr);
    }
    assert.deepEqual([existsSync(it.at.journal), existsSync(places(it.data).upgrading)], [false, false]);
    const answers = await it.version();
    if (answers === null) await it.start(currentVersion());
    const now = await it.version();
    assert.ok(now === version || (now === next && !failsToStart), `${now} runs, after ${version} and ${next}`);
    assert.equal(now, currentVersion());
    version = now;
  },
};

const currentVersion = (): string => readlinkSync(it.at.current);

const begun = performance.now();
const done = new Map<string, number>();
const broken: string[] = [];
await it.begin(makeVersion(folder, version), version);
acknowledged.push("first.md");
try {
  const names = Object.keys(kinds);
  // What ended before it could be killed is checked, too, and does not count.
  for (let n = 1; kills < moments && broken.length === 0; n++) {
    const kind = names[(n - 1) % names.length]!;
    const load = uploading();
    try {
      // Some are acknowledged before the moment begins.
      await delay(300);
      await kinds[kind]!();
      await load.end();
      await holds(it.data, acknowledged);
    } catch (error) {
      broken.push(`moment ${n}, ${kind}: ${(error as Error).message}`);
      await load.end();
    }
    done.set(kind, (done.get(kind) ?? 0) + 1);
    console.log(
      `${kills} of ${moments}, ${kind}: ${acknowledged.length} acknowledged, ${late} ended first, ${minutes()} min`,
    );
  }
} finally {
  await it.stop();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
for (const what of broken) console.error(what);
await writeSection(resultsOf(import.meta.dirname), "operations", sectionOf);
process.exitCode = broken.length === 0 ? 0 : 1;

function minutes(): string {
  return ((performance.now() - begun) / 60_000).toFixed(1);
}

function sectionOf(old: string): string {
  const counted = (counts: Map<string, number>): string =>
    [...counts].map(([name, count]) => `${count} ${name}`).join(", ");
  const what = `${counted(done)} (reached when killed: ${counted(upgradesCut)})`;
  const misses = broken.length === 0 ? "none" : broken.join("; ");
  const cells = [commit, kills, late, what, acknowledged.length, misses, minutes()];
  return `## kill -9 in unpacking, backup, restore and upgrade

\`npm run test:operations -- --moments N --seed S\`, a row a seed. Documents are uploaded all the while. What was cut off is begun again, resumed or undone; after each
moment the database is sound, every acknowledged document is there with its files (\`verify\`), and of an upgrade one of the two versions serves.

| Seed | Commit | Kills | Ended before | Moments | Documents acknowledged | Broken | Minutes |
| --- | --- | --- | --- | --- | --- | --- | --- |
${rowsBySeed(old, seed, cells).join("\n")}`;
}
