// What of the documents a question is about.
import { openStudyThread } from "../../study/thread.ts";
import type { Run } from "../context.ts";

/** Of each question the passage that a search by it and its answer finds; cut where both would not fit beside it. */
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
