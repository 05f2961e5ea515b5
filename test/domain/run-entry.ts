// A run in a process of its own, for tests that kill it: the real loop and trainer, inference played by the harness.
import { join } from "node:path";
import { tryLock } from "../../src/base/lock.ts";
import { onParentGone } from "../../src/base/processes.ts";
import { runExit } from "../../src/contract/run-folder.ts";
import { runAlignment } from "../../src/domain/alignments/run.ts";
import { partsOf } from "./run-harness.ts";

const folder = process.argv[2]!;
onParentGone(() => process.kill(process.pid, "SIGKILL"));
const lock = tryLock(join(folder, "lock"));
if (lock === null) process.exit(runExit.locked);
const result = await runAlignment(folder, partsOf());
process.exit(runExit[result.outcome]);
