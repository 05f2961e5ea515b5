// Examines a model file that nobody has vouched for, in a child process: a malformed file can abort the library it is loaded with,
// a hostile template can loop for ever, and neither may take the server along.
import { join } from "node:path";
import { Failure } from "../base/errors.ts";
import { finish, startNode } from "../base/processes.ts";
import { defaultSeating, type ModelFacts } from "./model-facts.ts";

export type { ModelFacts } from "./model-facts.ts";

export interface ProbeOptions {
  /** Pool of seats that memoryBytes is estimated for. */
  seating?: { seats: number; seatContext: number };
  timeoutMs?: number;
  /** Most bytes of memory the child may have resident. */
  memoryBytes?: number;
}

/** What the child says on its way, one JSON line each on its stdout. */
export type ProbeLine =
  | { stage: "header" | "vocabulary" | "template" }
  | { facts: ModelFacts }
  | { refused: { message: string } };

const doing: Record<string, string> = {
  start: "starting its examination",
  header: "reading its header",
  vocabulary: "reading its vocabulary",
  template: "rendering its chat template",
};

/** Throws model_invalid with what is wrong with the file. */
export async function probeModel(path: string, options: ProbeOptions = {}): Promise<ModelFacts> {
  const { seating = defaultSeating, timeoutMs = 30_000, memoryBytes = 1 << 30 } = options;
  const script = join(import.meta.dirname, "probe-child.ts");
  const args = [path, JSON.stringify(seating), String(2 * timeoutMs)];
  const child = startNode(script, args, { nodeFlags: ["--max-old-space-size=256"] });
  const finished = await finish(child, { timeoutMs, maxBytes: 1 << 20, memoryBytes });
  const lines = finished.stdout.split("\n").flatMap(lineOf);
  const facts = lines.find((line) => "facts" in line);
  if (facts !== undefined && finished.code === 0) return facts.facts;
  const refused = lines.find((line) => "refused" in line);
  if (refused !== undefined) throw new Failure("model_invalid", refused.refused.message);
  const stage = lines.findLast((line) => "stage" in line)?.stage ?? "start";
  const how = finished.tooLarge
    ? `took more than ${memoryBytes >> 20} MiB`
    : finished.timedOut
      ? `took more than ${timeoutMs / 1000} s`
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
