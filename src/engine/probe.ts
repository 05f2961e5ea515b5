// Examines a model file that nobody has vouched for, in a child process: a malformed file can abort the library it is loaded with,
// a hostile template can loop for ever, and neither may take the server along. The file's first load of all is made there too.
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../base/errors.ts";
import { finish, startNode } from "../base/processes.ts";
import { defaultSeating, type ModelFacts } from "./model-facts.ts";

export type { ModelFacts } from "./model-facts.ts";

export interface ProbeOptions {
  /** Pool of seats that memoryBytes is estimated for. */
  seating?: { seats: number; seatContext: number };
  /** Whether the weights are loaded and asked something; not where they would not fit beside what is loaded. True without. */
  trial?: boolean;
  timeoutMs?: number;
  /** Most bytes of memory the child may have resident. */
  memoryBytes?: number;
}

/** What the child is told. */
export interface ProbeOrder {
  path: string;
  seating: { seats: number; seatContext: number };
  trial: boolean;
}

/** What the child says on its way, one JSON line each on its stdout. */
export type ProbeLine =
  | { stage: "header" | "vocabulary" | "template" | "trial" }
  | { facts: ModelFacts }
  | { refused: { message: string } };

const doing: Record<string, string> = {
  start: "starting its examination",
  header: "reading its header",
  vocabulary: "reading its vocabulary",
  template: "rendering its chat template",
  trial: "loading it",
};

/** Bytes a second that even a slow disk gives, read twice: for the check of its numbers, and when it answers. */
const slowDisk = 20e6;
/** Some seconds, were the machine its own; it has others to serve. */
const examinationMs = 120_000;
/** Of the process itself, and of a small context. */
const childBytes = 1 << 30;

/** Throws model_invalid with what is wrong with the file. */
export async function probeModel(path: string, options: ProbeOptions = {}): Promise<ModelFacts> {
  const { seating = defaultSeating, trial = true } = options;
  const { size } = await stat(path);
  const timeoutMs = options.timeoutMs ?? examinationMs + (trial ? (2 * size * 1000) / slowDisk : 0);
  // The file itself counts as resident where it is mapped, and for some types the library keeps the weights in another order too.
  const memoryBytes = options.memoryBytes ?? childBytes + (trial ? 2 * size : 0);
  const order: ProbeOrder = { path, seating, trial };
  const script = join(import.meta.dirname, "probe-child.ts");
  const args = [JSON.stringify(order), String(2 * timeoutMs)];
  const child = startNode(script, args, {
    nodeFlags: ["--max-old-space-size=256"],
    // What a GPU has is for those that serve: where it is full, even a look at it can end a process.
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
  throw new Failure("model_invalid", `Not a sound model file: ${doing[stage]} ${how}`, {
    context: { stderr: finished.stderr.slice(-4000) },
  });
}

/** Anything else on stdout is the library's chatter. */
function lineOf(text: string): ProbeLine[] {
  if (!text.startsWith("{")) return [];
  try {
    return [JSON.parse(text) as ProbeLine];
  } catch {
    return [];
  }
}
