// Finds the passages of the documents that questions are about.
import { openStudyThread } from "../../study/thread.ts";
import type { Run } from "../context.ts";

/** For each question, the passage that a search by the question and its answer finds; null where none is found. */
export async function passagesFor(
  run: Run,
  questions: readonly { instruction: string; response: string }[],
): Promise<(string | null)[]> {
  const { documents } = run.snapshot;
  const thread = openStudyThread(run.parts.control.signal);
  try {
    return await thread.passagesFor({
      documents,
      organisation: run.request.organisation ?? null,
      questions: questions.map(({ instruction, response }) => `${instruction} ${response}`),
    });
  } finally {
    await thread.close();
  }
}
