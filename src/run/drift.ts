// What questions about the documents look like to the installed sentence encoder, so that a question unlike them can be
// reported.
import { Failure } from "../base/errors.ts";
import { sha256OfFile } from "../base/files.ts";
import type { DriftReference } from "../confidence/drift.ts";
import { fitDrift, leastQuestions } from "../confidence/drift.ts";
import type { Generator, Lease, ModelRef } from "../engine/generator.ts";
import type { Run } from "./context.ts";
import type { DevPrompt } from "./rows.ts";

export interface MeasuredDrift {
  reference: DriftReference;
  /** π of each dev question. */
  outOfDomain: number[];
}

/**
 * `passages`: some passages of the documents, with which questions are compared. Returns the reason where drift cannot
 * be measured.
 */
export async function measureDrift(
  run: Run,
  generator: Generator,
  dev: readonly DevPrompt[],
  passages: readonly string[],
): Promise<MeasuredDrift | { missing: string }> {
  const { encoder } = run.request;
  if (!encoder) return { missing: "No sentence encoder was installed when the model was aligned" };
  if (dev.length < leastQuestions)
    return {
      missing: `${dev.length} dev questions are too few to measure drift; ${leastQuestions} are needed`,
    };
  if ((await sha256OfFile(encoder.path).catch(() => null)) !== encoder.sha256)
    return { missing: "The sentence encoder was changed or removed while the model was aligned" };
  const model: ModelRef = { baseId: `encoder ${encoder.sha256}`, basePath: encoder.path };
  let lease: Lease;
  try {
    lease = await generator.pool.lease(model, "work");
  } catch (error) {
    // A model without drift detection is better than none.
    if (!(error instanceof Failure)) throw error;
    return { missing: `The sentence encoder could not be loaded: ${error.message}` };
  }
  await using _ = lease;
  const { signal } = run.parts.control;
  const embed = async (texts: readonly string[]): Promise<Float32Array[]> =>
    (await generator.embed(model, texts, { truncate: true, signal })).map(({ vector }) => vector);
  const vectors = await embed(dev.map(({ item }) => item.instruction));
  return fitDrift({
    encoderSha256: encoder.sha256,
    passages: await embed(passages),
    questions: dev.map(({ item }, at) => ({ vector: vectors[at]!, cluster: item.cluster })),
    background: await embed(run.parts.replayPrompts),
  });
}
