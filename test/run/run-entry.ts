// `plumbline run` as a process of its own, for tests that kill it: everything is real but inference, which the harness plays. A
// second argument is the file of the shipped writer.
import { readFileSync } from "node:fs";
import { Failure } from "../../src/base/errors.ts";
import { runFolder } from "../../src/cli/run.ts";
import { runExit } from "../../src/contract/run-lines.ts";
import { partsOf } from "./run-harness.ts";

const locked = (error: unknown): number => {
  if (error instanceof Failure && error.code === "run_locked") return runExit.locked;
  throw error;
};
const [, , folder, writerFile] = process.argv;
const writer = writerFile === undefined ? null : JSON.parse(readFileSync(writerFile, "utf8"));
process.exit(
  await runFolder(folder!, async (_request, _config, log, control) =>
    partsOf({ over: { control, log, writer: () => writer } }),
  ).catch(locked),
);
