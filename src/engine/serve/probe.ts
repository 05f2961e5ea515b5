// Examines an untrusted model file in a child process. A malformed file can abort the library, a hostile template can loop for
// ever, and neither may bring down the server. With `trial`, the child is also the first process to load the weights.
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../base/errors.ts";
import { finish, startNode } from "../../base/processes.ts";
import { defaultSlotPool, type ModelFacts } from "../gguf/model-facts.ts";

export type { ModelFacts } from "../gguf/model-facts.ts";

export interface ProbeOptions {
  /** Pool of slots for which `memoryBytes` of the facts is estimated. */
  slotPool?: { slots: number; slotContext: number };
  /** Whether to load the weights and run the model; true by default. Use false if the weights would not fit beside loaded models. */
  trial?: boolean;
  timeoutMs?: number;
  /** Maximum number of bytes of memory the child may have resident. */
  memoryBytes?: number;
}

/** The child's instructions, passed as a JSON argument. */
export interface ProbeOrder {
  path: string;
  slotPool: { slots: number; slotContext: number };
  trial: boolean;
}

/** The child's progress and result: one JSON line each on its stdout. */
export type ProbeLine =
  | { stage: "header" | "vocabulary" | "template" | "trial" }
  | { facts: ModelFacts }
  | { refused: { message: string } };

const doing: Record<string, string> = {
  start: "starting the examination",
  header: "reading its header",
  vocabulary: "reading its vocabulary",
  template: "rendering its chat template",
  trial: "loading it",
};

/** Bytes per second that even a slow disk reads. A trial reads the file twice: to check its numbers, and to run the model. */
const slowDisk = 20e6;
/** An examination takes a few seconds on an idle machine. This limit allows for other work on the machine. */
const examinationMs = 120_000;
/** Memory of the process itself and of a small context. */
const childBytes = 1 << 30;

/** Examines a model file. Throws model_invalid, with what is wrong with the file as the message. */
export async function probeModel(path: string, options: ProbeOptions = {}): Promise<ModelFacts> {
  const { slotPool = defaultSlotPool, trial = true } = options;
  const { size } = await stat(path);
  const timeoutMs = options.timeoutMs ?? examinationMs + (trial ? (2 * size * 1000) / slowDisk : 0);
  // A mapped file counts as resident memory. For some types of weights, the library also keeps a copy in another order.
  const memoryBytes = options.memoryBytes ?? childBytes + (trial ? 2 * size : 0);
  const order: ProbeOrder = { path, slotPool, trial };
  const script = join(import.meta.dirname, "probe-child.ts");
  const args = [JSON.stringify(order), String(2 * timeoutMs)];
  const child = startNode(script, args, {
    nodeFlags: ["--max-old-space-size=256"],
    // The GPU's memory is for serving. When it is full, even initialising the GPU can crash a process.
    env: { CUDA_VISIBLE_DEVICES: "" },
  });
  const finished = await finish(child, { timeoutMs, maxBytes: 1 << 20, memoryBytes });
  const lines = finished.stdout.split("\n").flatMap(lineOf);
  const facts = lines.find((line) => "facts" in line);
  if (facts !== undefined && finished.code === 0) return facts.facts;
  const refused = lines.find((line) => "refused" in line);
  if (refused !== undefined) throw new Failure("model_invalid", refused.refused.message);
  const stage = lines.findLast((line) => "stage" in line)?.stage ?? "start";
  const how = finished.tooLarge
    ? `took more than ${Math.floor(memoryBytes / (1 << 20))} MiB`
    : finished.timedOut
      ? `took more than ${Math.round(timeoutMs / 10) / 100} s`
      : `crashed (${finished.signal ?? `exit ${finished.code}`})`;
  throw new Failure("model_invalid", `Not a valid model file: ${doing[stage]} ${how}`, {
    context: { stderr: finished.stderr.slice(-4000) },
  });
}

/** Reads a line of the child's stdout. Empty for other lines, which are messages of the library. */
function lineOf(text: string): ProbeLine[] {
  if (!text.startsWith("{")) return [];
  try {
    return [JSON.parse(text) as ProbeLine];
  } catch {
    return [];
  }
}
