// The probe's child process. It examines the header with our own strict reader, then the vocabulary with the library, and then
// the template. Last comes the trial, which loads the file's weights for the first time. At first, only the modules for the
// header are imported, because most refused files need no others.
import { Worker } from "node:worker_threads";
import { Failure } from "../../base/errors.ts";
import { type GgufHeader, readGgufHeader } from "../gguf/header.ts";
import { refuseSegments } from "../gguf/segments.ts";
import { checkModel } from "../gguf/soundness.ts";
import type { ProbeLine, ProbeOrder } from "./probe.ts";

const say = (line: ProbeLine): Promise<void> =>
  new Promise((resolve) => process.stdout.write(`${JSON.stringify(line)}\n`, () => resolve()));

/** Throws model_invalid. */
function examineHeader(path: string): GgufHeader {
  const header = readGgufHeader(path);
  checkModel(header);
  refuseSegments(path, header);
  return header;
}

async function examine({ path, slotPool, trial }: ProbeOrder): Promise<void> {
  await say({ stage: "header" });
  const header = examineHeader(path);
  const { factsOf } = await import("../gguf/model-facts.ts");
  const { openSuspect, readEverything, templateProblemOf, tryOut } = await import("./trial.ts");
  await say({ stage: "vocabulary" });
  const suspect = await openSuspect(path);
  const { tokenizer } = suspect;
  readEverything(tokenizer);
  await say({ stage: "template" });
  const facts = factsOf(header, templateProblemOf(tokenizer), slotPool);
  await suspect.dispose();
  if (trial) {
    await say({ stage: "trial" });
    await tryOut(path);
  }
  await say({ facts });
}

const [order, deadlineMs] = process.argv.slice(2);
// If the parent dies, it can no longer stop a template's endless loop. Therefore this thread kills the process at the deadline.
new Worker("setTimeout(() => process.kill(process.pid, 'SIGKILL'), require('node:worker_threads').workerData)", {
  eval: true,
  workerData: Number(deadlineMs),
}).unref();
try {
  await examine(JSON.parse(order!) as ProbeOrder);
  process.exit(0);
} catch (error) {
  const message = error instanceof Failure ? error.message : `Not a valid model file: ${(error as Error).message}`;
  await say({ refused: { message } });
  process.exit(1);
}
