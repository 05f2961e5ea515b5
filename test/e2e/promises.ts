// npm run prove:promises [-- --only demo,start,vets,training,serving --dir FOLDER --no-write]
//                        [--peft-python PYTHON] [--llama-server FILE --peers FOLDER]
//
// Whether the product still keeps what it promises: a table on standard output, a line a promise, beside the figures that the same
// processor gave the last time. Exit status 1 is an alarm: a figure worse than 0.85 of the last, or a measurement that failed. Without
// one the figures become the last ones, in test/e2e/promises.json. Who accepts a worse figure takes its promise out of that file.
//
// PYTHON has torch, transformers, peft and gguf (native/bench/compare.py); in the folder --peers is load.mjs (test/bench/load.ts). Without
// them these lines are not measured. Nothing else should run on the machine meanwhile.
//
// Start it again after an interruption, and it goes on where it was: what was measured of a commit stands in DIR/<commit>, or
// DIR/<commit>-dirty with changes that are not committed. Remove that folder to measure anew.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { installation } from "../../src/base/config.ts";
import { writeJsonDurably } from "../../src/base/files.ts";
import { startProcess } from "../../src/base/processes.ts";
import { processorOf } from "../helpers/machine.ts";
import { isAlarm, type Known, type Line, tableOf, updated } from "./promises/judge.ts";
import { measurementsIn, printed } from "./promises/measurements.ts";
import { take } from "./promises/take.ts";

const { values } = parseArgs({
  options: {
    only: { type: "string" },
    dir: { type: "string", default: join(installation, ".cache/promises") },
    "peft-python": { type: "string" },
    peers: { type: "string" },
    "llama-server": { type: "string" },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});
// A signal alone brings about no exit event, by which the processes under measurement are ended.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

const startedMs = performance.now();
const say = (text: string): void =>
  void process.stderr.write(`${((performance.now() - startedMs) / 60_000).toFixed(1).padStart(5)} min  ${text}\n`);

const path = join(import.meta.dirname, "promises.json");
const known = JSON.parse(readFileSync(path, "utf8")) as Known;
const processor = processorOf();
const commit = await commitNow();
const folder = join(resolve(values.dir), commit);

const all = measurementsIn(folder, values);
const names = values.only?.split(",") ?? all.map(({ name }) => name);
for (const name of names)
  if (!all.some((one) => one.name === name))
    throw new Error(`--only ${name}: is none of ${all.map((one) => one.name).join(", ")}`);

say(`${processor}, ${commit}`);
const lines: Line[] = [];
for (const measurement of all.filter(({ name }) => names.includes(name)))
  lines.push(...(await take(measurement, { folder, last: known[processor] ?? {}, say })));
process.stdout.write(`${tableOf(lines)}\n`);
if (lines.some(isAlarm)) process.exitCode = 1;
else if (values.write) await writeJsonDurably(path, updated(known, processor, commit, lines));

async function commitNow(): Promise<string> {
  const git = async (...args: string[]): Promise<string> =>
    (await printed(`git ${args[0]}`, startProcess("git", args, { cwd: installation }), 1)).trim();
  // The figures written here are no other state of what they are about.
  const changed = await git("status", "--porcelain", "--", ".", ":(exclude)test/e2e/promises.json");
  return `${await git("rev-parse", "HEAD")}${changed === "" ? "" : "-dirty"}`;
}
