// Holds an executor in a process of its own, so that a test can kill it.
import { createLog } from "../../src/base/log.ts";
import { startNode } from "../../src/base/processes.ts";
import { createLocalExecutor } from "../../src/jobs/executor.ts";

const [script, folder] = process.argv.slice(2) as [string, string];
const executor = createLocalExecutor({ launch: (at) => startNode(script, [at]), log: createLog("error") });
void executor.start(folder, { afterSeq: 0, onEvent: (event) => process.stdout.write(`${JSON.stringify(event)}\n`) });
