// Examines an untrusted model file in a child process: a malformed file can abort the library, a hostile template can loop
// for ever, and neither may bring down the server. The file's first load is made there too.
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../base/errors.ts";
import { finish, startNode } from "../../base/processes.ts";
import { defaultSlotPool, type ModelFacts } from "../gguf/model-facts.ts";

export type { ModelFacts } from "../gguf/model-facts.ts";

export interface ProbeOptions {
  /** Pool of slots that memoryBytes is estimated for. */
  slotPool?: { slots: number; slotContext: number };
  /** Whether to load the weights and run the model; default true. false where they would not fit beside what is loaded. */
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

/** Bytes per second of even a slow disk. A trial reads the file twice: to check its numbers, and to run the model. */
const slowDisk = 20e6;
/** An examination takes a few seconds on an idle machine; this allows for other load. */
const examinationMs = 120_000;
/** Memory of the process itself and of a small context. */
const childBytes = 1 << 30;

/** Throws model_invalid with what is wrong with the file. */
export async function probeModel(path: string, options: ProbeOptions = {}): Promise<ModelFacts> {
  const { slotPool = defaultSlotPool, trial = true } = options;
  const { size } = await stat(path);
  const timeoutMs = options.timeoutMs ?? examinationMs + (trial ? (2 * size * 1000) / slowDisk : 0);
  // A mapped file counts as resident memory, and for some types the library also keeps the weights in another order.
  const memoryBytes = options.memoryBytes ?? childBytes + (trial ? 2 * size : 0);
  const order: ProbeOrder = { path, slotPool, trial };
  const script = join(import.meta.dirname, "probe-child.ts");
  const args = [JSON.stringify(order), String(2 * timeoutMs)];
  const child = startNode(script, args, {
    nodeFlags: ["--max-old-space-size=256"],
    // The GPU's memory is for serving; when it is full, even opening the GPU can end a process.
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

/** Reads a line of the child; other lines on stdout are messages of the library. */
function lineOf(text: string): ProbeLine[] {
  if (!text.startsWith("{")) return [];
  try {
    return [JSON.parse(text) as ProbeLine];
  } catch {
    return [];
  }
}
