// npm run prove:promises [-- --only demo,start,vets,training,serving --dir FOLDER --no-write]
//                        [--peft-python PYTHON] [--llama-server FILE --peers FOLDER]
//
// Whether the product still keeps what it promises: a table on standard output, a line a promise, beside the best figures so far on the
// same processor. Exit status 1 is an alarm: a figure worse than 0.85 of the best, or a measurement that failed. Without an alarm, better
// figures are written to test/e2e/promises.json. To accept a worse figure, remove its promise from that file.
//
// PYTHON has torch, transformers, peft and gguf (native/bench/compare.py); in the folder --peers is load.mjs (test/bench/load.ts). Without
// them, the promises «training» and «serving» are not measured. Nothing else should run on the machine meanwhile.
//
// Start it again after an interruption, and it goes on where it was: what was measured of a commit, or of changes that are not committed,
// stands in a folder of DIR for each processor. Remove that folder to measure anew.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { installation } from "../../src/base/config.ts";
import { sha256, writeJsonDurably } from "../../src/base/files.ts";
import { commitNow } from "../helpers/commit.ts";
import { processorOf } from "../helpers/machine.ts";
import { isAlarm, type Known, type Line, tableOf, updated } from "./promises/judge.ts";
import { measurementsIn } from "./promises/measurements.ts";
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
const commit = commitNow();
const folder = join(resolve(values.dir), `${commit}-${sha256(processor).slice(0, 8)}`);

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
