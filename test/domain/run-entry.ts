// `plumbline run` as a process of its own, for tests that kill it: everything is real but inference, which the harness plays.
import { Failure } from "../../src/base/errors.ts";
import { runFolder } from "../../src/cli/run.ts";
import { runExit } from "../../src/contract/run-folder.ts";
import { partsOf } from "./run-harness.ts";

const locked = (error: unknown): number => {
  if (error instanceof Failure && error.code === "run_locked") return runExit.locked;
  throw error;
};
process.exit(
  await runFolder(process.argv[2]!, async (_request, _config, log, control) =>
    partsOf({ over: { control, log } }),
  ).catch(locked),
);
