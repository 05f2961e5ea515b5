// Measures with the installed sentence encoder what questions about the documents are like, so that the served model can report a question
// that is unlike them.
import { Failure } from "../base/errors.ts";
import { sha256OfFile } from "../base/files.ts";
import type { DriftReference } from "../confidence/drift.ts";
import { fitDrift, leastQuestions } from "../confidence/drift.ts";
import type { Generator, Lease, ModelRef } from "../engine/generator.ts";
import type { Run } from "./context.ts";
import type { DevPrompt } from "./rows.ts";

export interface MeasuredDrift {
  reference: DriftReference;
  /** π of each dev question, the probability that it is out of domain (confidence/drift.ts). */
  outOfDomain: number[];
}

/**
 * Fits the drift reference. Questions are compared with the given passages of the documents. Returns the reason if drift cannot be
 * measured.
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
    // A model without drift detection is better than no model.
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
