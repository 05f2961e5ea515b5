// The hostile cases against a served appliance, a row each: `npm run test:hostile`. All of them are written into RESULTS.md; those of
// `--cases 20,53-60` are only shown.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { localHub } from "../helpers/hub.ts";
import { processorOf } from "../helpers/machine.ts";
import { resultsOf, writeSection } from "../helpers/results.ts";
import { bodies } from "./hostile/bodies.ts";
import { head } from "./hostile/head.ts";
import { inference } from "./hostile/inference.ts";
import { lists } from "./hostile/lists.ts";
import { models } from "./hostile/models.ts";
import { type Case, Target } from "./hostile/target.ts";
import { uploads } from "./hostile/uploads.ts";
import { work } from "./hostile/work.ts";

interface Row extends Pick<Case, "id" | "situation" | "expected"> {
  came: string;
  isGood: boolean;
  seconds: number;
  stallMs: number;
}

const { values } = parseArgs({ options: { cases: { type: "string" } } });
const wanted = (id: number): boolean =>
  values.cases === undefined ||
  values.cases.split(",").some((range) => {
    const [from, to = from] = range.split("-").map(Number);
    return id >= from! && id <= to!;
  });

const all = [...head, ...bodies, ...inference, ...uploads, ...models, ...work, ...lists];
const cases = all.filter(({ id }) => wanted(id));

const folder = mkdtempSync(join(tmpdir(), "plumbline-hostile-"));
const hub = await localHub();
const it = new Target(folder, hub);
const rows: Row[] = [];
const begun = performance.now();
try {
  await it.start();
  await it.furnish();
  await it.worstStall();
  for (const one of cases) rows.push(await tried(one));
} finally {
  await it.close();
  await hub.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}

const mb = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MB`;
const worst = rows.toSorted((a, b) => b.stallMs - a.stallMs)[0]!;
const minutes = ((performance.now() - begun) / 60_000).toFixed(1);
const failed = rows.filter(({ isGood }) => !isGood);
const summary = `${rows.length - failed.length} of ${rows.length} as expected, in ${minutes} minutes. Longest wait for /healthz: ${Math.round(worst.stallMs)} ms, during case ${worst.id}. Most memory: ${mb(it.peak.serve)} of the appliance itself, ${mb(it.peak.children)} of its children.`;
console.log(summary);
if (values.cases === undefined) await writeSection(resultsOf(import.meta.dirname), "hostile", section);
process.exitCode = failed.length === 0 ? 0 : 1;

async function tried({ id, situation, expected, run }: Case): Promise<Row> {
  const from = performance.now();
  let [came, isGood] = ["", true];
  try {
    came = await run(it);
    await it.mustLive();
  } catch (error) {
    [came, isGood] = [(error as Error).message, false];
  }
  const seconds = (performance.now() - from) / 1000;
  const row = { id, situation, expected, came, isGood, seconds, stallMs: await it.worstStall() };
  console.log(
    `${isGood ? "ok " : "NOT"} ${String(id).padStart(3)}  ${situation}\n         ${came}  (${seconds.toFixed(1)} s, stall ${Math.round(row.stallMs)} ms)`,
  );
  return row;
}

function section(): string {
  const cell = (text: string): string => text.replaceAll(/\s+/g, " ").replaceAll("|", "\\|").slice(0, 400);
  const lines = rows.map(
    ({ id, situation, expected, came, isGood, stallMs }) =>
      `| ${id} | ${cell(situation)} | ${cell(expected)} | ${isGood ? "" : "**NOT** "}${cell(came)} | ${Math.round(stallMs)} |`,
  );
  return `## Hostile cases against a served appliance

\`npm run test:hostile\`, ${new Date().toISOString().slice(0, 10)}, ${processorOf()}. ${summary}

| # | Request or situation | Expected | Came | Longest wait for /healthz, ms |
| --- | --- | --- | --- | --- |
${lines.join("\n")}`;
}
