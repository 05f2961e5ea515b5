// `plumbline run` of an auto-align as a process of its own, for tests that kill it. The clock stands still and answers are graded by their
// letters, so that every process that decides has the same figures before it.
import { hashOf } from "../../src/base/text.ts";
import { runFolder } from "../../src/cli/run.ts";
import { partsOf } from "./run-harness.ts";

const clock = { monotonicMs: () => 0, now: () => "2026-01-01T00:00:00.000Z" };
const grade = (answer: string) => ({ correct: hashOf(answer) % 2 === 0 });
process.exit(
  await runFolder(process.argv[2]!, async (_request, _config, log, control) =>
    partsOf({ over: { control, log, clock, grade } }),
  ),
);
