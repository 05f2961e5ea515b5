// What questions about the documents look like to the sentence encoder that is installed, so that a question unlike them is told,
// and what the passages near a question say for its answer.
import { Failure } from "../../base/errors.ts";
import { sha256OfFile } from "../../base/files.ts";
import type { DriftReference } from "../../engine/drift.ts";
import { fitDrift, leastQuestions } from "../../engine/drift.ts";
import type { Generator, ModelRef } from "../../engine/generator.ts";
import { type SupportReference, supportReference, supportSpace } from "../../engine/support.ts";
import type { Run } from "./context.ts";
import type { DevPrompt } from "./rows.ts";

/** Up to 600 characters, and whole words: an encoder reads some hundred of them, and a shorter text says one thing. */
const passage = /\S[\s\S]{0,599}(?=\s|$)|\S{600}/g;

export interface MeasuredDrift {
  reference: DriftReference;
  /** π of each dev question. */
  foreign: number[];
  /** null of documents without text. */
  support: MeasuredSupport | null;
}

export interface MeasuredSupport {
  reference: SupportReference;
  /** The support of an answer to a dev question, as it is measured where answers are served. */
  of(index: number, answer: string): number[];
}

/** The reason, where it cannot be measured. */
export async function measureDrift(
  run: Run,
  generator: Generator,
  dev: readonly DevPrompt[],
): Promise<MeasuredDrift | { missing: string }> {
  const { encoder } = run.request;
  if (!encoder) return { missing: "No sentence encoder was installed when the model was aligned" };
  if (dev.length < leastQuestions)
    return {
      missing: `${dev.length} dev questions are too few to know such questions by, ${leastQuestions} are needed`,
    };
  if ((await sha256OfFile(encoder.path).catch(() => null)) !== encoder.sha256)
    return { missing: "The sentence encoder was changed or removed while the model was aligned" };
  const model: ModelRef = { baseId: `encoder ${encoder.sha256}`, basePath: encoder.path };
  try {
    await generator.load(model);
  } catch (error) {
    // A model without it is worth more than none.
    if (!(error instanceof Failure)) throw error;
    return { missing: `The sentence encoder could not be loaded: ${error.message}` };
  }
  const { signal } = run.parts.control;
  const embed = async (texts: readonly string[]): Promise<Float32Array[]> =>
    (await generator.embed(model, texts, { truncate: true, signal })).map(({ vector }) => vector);
  const vectors = await embed(dev.map(({ item }) => item.instruction));
  const texts = run.snapshot.documents.flatMap(({ text }) => passagesOf(text));
  const passages = await embed(texts);
  const measured = fitDrift({
    encoderSha256: encoder.sha256,
    passages,
    questions: dev.map(({ item }, at) => ({ vector: vectors[at]!, cluster: item.cluster })),
    background: await embed(run.parts.replayPrompts),
  });
  await generator.unload(model);
  const support = supportReference(texts.map((text, at) => ({ text, vector: passages[at]! })));
  return { ...measured, support: support && measuredSupport(support, dev, vectors) };
}

function measuredSupport(
  reference: SupportReference,
  dev: readonly DevPrompt[],
  vectors: readonly Float32Array[],
): MeasuredSupport {
  const space = supportSpace(reference);
  return {
    reference,
    of: (index, answer) => space.about({ text: dev[index]!.item.instruction, vector: vectors[index]! })(answer),
  };
}

/** Paragraphs, long ones cut. */
export const passagesOf = (text: string): string[] =>
  text
    .split(/\n\s*\n/)
    .flatMap((paragraph) => paragraph.match(passage) ?? [])
    .map((found) => found.trim());
