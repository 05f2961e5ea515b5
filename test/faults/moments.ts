// kill -9 of serve at random moments of random work, and the oracle after each: `npm run test:faults -- --moments 20 --seed 7`.
// A seed has the same moments each time, and a data folder of its own, so that many may be divided: each is a row of RESULTS.md.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay, setImmediate as turn } from "node:timers/promises";
import { parseArgs } from "node:util";
import Database from "better-sqlite3";
import { places } from "../../src/base/config.ts";
import { sha256OfFile } from "../../src/base/files.ts";
import { openStore } from "../../src/store/open.ts";
import { writeAdapter } from "../helpers/adapter.ts";
import { commitNow, shortened } from "../helpers/commit.ts";
import { resultsOf, rowsBySeed, writeSection } from "../helpers/results.ts";
import { calibrationOf, insertAligned } from "../helpers/served.ts";
import { demo, Killed, randomFrom } from "./killed.ts";

const { values } = parseArgs({
  options: { moments: { type: "string", default: "200" }, seed: { type: "string", default: "1" } },
});
const moments = Number(values.moments);
const seed = Number(values.seed);
assert.ok(moments > 0 && Number.isInteger(seed), "--moments and --seed are whole numbers");

const commit = shortened(commitNow());
const random = randomFrom(seed);
const folder = mkdtempSync(join(tmpdir(), "plumbline-moments-"));
const data = join(folder, "data");
const it = new Killed(
  {
    PLUMBLINE_DATA: data,
    PLUMBLINE_LOG: "warn",
    PLUMBLINE_FREE_DISK: "0",
    PLUMBLINE_SLOTS: "2",
    PLUMBLINE_SLOT_CONTEXT: "512",
    PLUMBLINE_THREADS: "1",
  },
  random,
);
/** Work that so many kills have met is given up: each attempt may have been its fault. */
const givenUp = /The appliance ended \d+ times|crashed the appliance|restarted too many times/;

interface Moment {
  name: string;
  /** Resolves at the moment. */
  come(): Promise<unknown>;
}

async function prepare(): Promise<Moment[]> {
  await it.start();
  const baseId = await it.baseId();
  const base = (await it.client.api["models.base"]()).base_models[0]!;
  const store = openStore(places(data).database);
  const adapter = join(folder, "adapter.gguf");
  writeAdapter(adapter);
  const { modelId } = insertAligned(store, baseId, adapter, await calibrationOf(base.sha256));
  store
    .prepare<string[]>("UPDATE aligned_model SET adapter_sha256 = ? WHERE id = ?")
    .run(await sha256OfFile(adapter), modelId);
  store.close();
  const db = new Database(places(data).database, { readonly: true, timeout: 10_000 });
  const documents = db.prepare<[], { n: number }>("SELECT count(*) AS n FROM document");
  const live = db.prepare<[string], { n: number }>(
    "SELECT count(*) AS n FROM job WHERE kind = ? AND state IN('queued', 'running', 'stopping')",
  );
  const benchmarkId = await it.uploadBenchmark();
  const ids = await it.upload([
    { name: "who.md", mediaType: "text/markdown", content: demo("documents/departments.md") },
  ]);

  const params = { model_id: modelId };
  /** What the last look said while no task was under way; null once another task has begun. */
  let rested: string | null = null;
  const deploymentOf = async (): Promise<string> =>
    String(((await it.client.api["models.get"]({ params })) as { deployment_status?: string }).deployment_status);
  it.acknowledged.push({
    what: `model ${modelId}`,
    still: async () => {
      const record = (await it.client.api["models.get"]({ params })) as { deployment_status?: string; error?: unknown };
      const status = String(record.deployment_status);
      // A deployment that is lost says why.
      if (status === "UNDEPLOYED" && (record.error || rested === "DEPLOYED"))
        assert.match(String(record.error), givenUp);
      if (!/ING$/.test(status)) rested = status;
    },
  });
  const settled = (): Promise<unknown> =>
    it.until("the end of the task", async () => !/ING$/.test(await deploymentOf()));
  return [
    { name: "while it starts", come: () => it.kill().then(() => it.cutStart(() => delay(random() * 1500))) },
    {
      name: "while documents are uploaded",
      async come() {
        const load = it.uploadOnAndOn();
        await delay(20 + random() * 400);
        load.gone();
      },
    },
    { name: "right after an upload was acknowledged", come: () => it.upload([it.someDocument()]) },
    { name: "right after a benchmark was acknowledged", come: () => it.uploadBenchmark() },
    {
      name: "right after the commit of an upload",
      async come() {
        const made = documents.get()!.n;
        void it.upload([it.someDocument(100)]).catch(() => {});
        while (documents.get()!.n === made) await turn();
      },
    },
    {
      name: "around a deletion",
      async come() {
        const [spare] = await it.upload([it.someDocument()]);
        void it.deleteDocument(spare!).catch(() => {});
        await delay(random() * 10);
      },
    },
    {
      name: "while an alignment is under way",
      async come() {
        if (live.get("align")!.n === 0) await it.align(baseId, ids, benchmarkId, givenUp);
        await delay(random() * 6000);
      },
    },
    {
      name: "while an evaluation is under way",
      async come() {
        if (live.get("evaluate")!.n === 0) await it.evaluate(baseId, benchmarkId, givenUp);
        await delay(random() * 4000);
      },
    },
    {
      name: "while a model is deployed or undeployed",
      async come() {
        await settled();
        const verb = (await deploymentOf()) === "DEPLOYED" ? "models.undeploy" : "models.deploy";
        rested = null;
        await it.client.api[verb]({ params });
        await delay(random() * 500);
      },
    },
    {
      name: "while it answers",
      async come() {
        const body = { model: baseId, messages: [{ role: "user", content: "Who leads Sales?" }], max_tokens: 200 };
        void it.client.api["inference.chat"]({ body }).catch(() => {});
        await delay(random() * 2000);
      },
    },
    {
      name: "while it goes down in order",
      async come() {
        it.serving.child.kill("SIGTERM");
        await delay(random() * 300);
      },
    },
  ];
}

const begun = performance.now();
const done = new Map<string, number>();
let met = 0;
const broken: string[] = [];
try {
  const kinds = await prepare();
  for (let n = 1; n <= moments && broken.length === 0; n++) {
    const moment = kinds[Math.floor(random() * kinds.length)]!;
    try {
      await moment.come();
      await it.kill();
      await it.start();
      await it.consult();
    } catch (error) {
      broken.push(`moment ${n}, ${moment.name}: ${(error as Error).message}`);
    }
    met += it.acknowledged.length;
    done.set(moment.name, (done.get(moment.name) ?? 0) + 1);
    if (n % 10 === 0) console.log(`${n} of ${moments}: ${it.acknowledged.length} promises, ${minutes()} min`);
  }
} finally {
  await it.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
for (const [name, times] of [...done].sort()) console.log(String(times).padStart(5), name);
for (const what of broken) console.error(what);
await writeSection(resultsOf(import.meta.dirname), "moments", sectionOf);
process.exitCode = broken.length === 0 ? 0 : 1;

function minutes(): string {
  return ((performance.now() - begun) / 60_000).toFixed(1);
}

function sectionOf(old: string): string {
  const kinds = [...done].sort().map(([name, times]) => `${times} ${name}`);
  const kills = [...done.values()].reduce((sum, times) => sum + times, 0);
  const cells = [commit, kills, kinds.join(", "), met, broken.length === 0 ? "none" : broken.join("; "), minutes()];
  const rows = rowsBySeed(old, seed, cells);
  const all = rows.reduce((sum, line) => sum + Number(line.split("|")[3]), 0);
  return `## kill -9 at random moments

\`npm run test:faults -- --moments N --seed S\`, a row a seed: ${all} kills in all, each of the commit in its row. After each the appliance starts again over the same data, and the database
is sound (I1), everything that was acknowledged is there (I2), no job is stuck (I3), every history is legal (I4), files and rows agree (I5), no process is left (I6).

| Seed | Commit | Kills | When | Promises looked at | Broken | Minutes |
| --- | --- | --- | --- | --- | --- | --- |
${rows.join("\n")}`;
}
