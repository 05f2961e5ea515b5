// Computes the confidence of an answer while it is generated, from features of its tokens and the distance of its
// question from the documents. At the end it adds the sources that support the answer, its least certain span, and the
// score of the model's calibration.

import { type Calibration, scoreConfidence, servedVoidReason } from "../../confidence/calibration.ts";
import { createFeatures, featureNames } from "../../confidence/features.ts";
import { type AnswerStep, leastCertainSpan } from "../../confidence/least-certain.ts";
import type { SourceSpace } from "../../confidence/sources.ts";
import { type ThoughtMarks, thoughtMarksOf } from "../../engine/format/chat-format.ts";
import type { Tokenizer } from "../../engine/generator.ts";
import type { Listen, ThoughtForm } from "./answers.ts";
import type { DriftMeter } from "./drift.ts";
import { type HasDocument, namedSources } from "./sources.ts";

export interface ScoredModel {
  /** Null for a base model, which gets no score. */
  calibration: Calibration | null;
  /** SHA-256 of the base's file. */
  baseSha256: string;
  adapterSha256: string | null;
  /**
   * Loads the texts in which the sources of an answer are looked up. Null for a base model, and for a model that was made
   * before these texts were stored.
   */
  sources: (() => Promise<SourceSpace | null>) | null;
}

export interface ListenerParts {
  /** The inference engine. Calibrations made with another engine are void. */
  engine: string;
  drift: DriftMeter;
  hasDocument: HasDocument;
}

/** Returns the listeners of a model's answers. A calibration that was made with other files or another engine is void. */
export function listenerOf(
  model: ScoredModel,
  tokenizer: Tokenizer,
  ownerId: string,
  { engine, drift, hasDocument }: ListenerParts,
): Listen {
  const { calibration } = model;
  if (calibration === null) return () => ({ add: () => {}, score: async () => null });
  const voided = servedVoidReason(calibration, model, tokenizer, engine);
  // The texts are loaded while the prompt is read, unless an earlier request has loaded them.
  const reading = model.sources?.() ?? null;
  const marks = thoughtMarksOf(tokenizer);
  /** Drift by question, so that the choices of one prompt share one measurement. */
  const measured = new Map<string, ReturnType<DriftMeter["of"]>>();
  const measure = (question: string): ReturnType<DriftMeter["of"]> => {
    const known = measured.get(question) ?? drift.of(calibration, question);
    measured.set(question, known);
    return known;
  };
  return (question, thought = null) => {
    const features = createFeatures();
    const steps: AnswerStep[] = [];
    let text = "";
    let drawn = 0;
    return {
      add(token) {
        // Measure at the first token: the prompt has then been read, so the encoder does not delay the reading.
        if (steps.length === 0) void measure(question);
        // Logits are not kept, because the logits of a long answer would fill the memory.
        steps.push({ token: token.token, logprob: token.logprob, isForced: token.isForced });
        text += token.text;
        if (token.isForced) return;
        drawn++;
        features.add(token);
      },
      async score(finishReason) {
        // An empty answer is never right, so it scores 0 without the calibration.
        if (drawn === 0) {
          const nothing = { score: 0, calibrated: false, reason: "The answer is empty", n: 0, date: null };
          return {
            ...nothing,
            drift: { p_value: null, reason: "The answer is empty" },
            leastCertain: null,
            sources: null,
          };
        }
        const { pValue, reason, outOfDomain } = await measure(question);
        const space = await reading;
        const said = { question, answer: text };
        const before = thought === null ? 0 : stepsOfThought(steps, tokenizer, thought);
        const shown = before === 0 ? text : afterThought(text, marks);
        return {
          ...scoreConfidence(calibration, featureNames, features.values(finishReason), { outOfDomain, said, voided }),
          drift: { p_value: pValue, reason },
          leastCertain: leastCertainSpan(steps.slice(before), tokenizer, shown.length, before > 0),
          sources: space && namedSources(space, { question, answer: afterThought(text, marks) }, ownerId, hasDocument),
        };
      },
    };
  };
}

/** Number of steps at the beginning that belong to a thought, as the reader of the answer tells it. */
function stepsOfThought(steps: readonly AnswerStep[], tokenizer: Tokenizer, { marks, isOpen }: ThoughtForm): number {
  const pieces = steps.map(({ token }) => tokenizer.pieceOf(token));
  const text = pieces.join("");
  if (!isOpen && !text.trimStart().startsWith(marks.open)) return 0;
  const at = text.indexOf(marks.close);
  if (at < 0) return steps.length;
  let [count, length] = [0, 0];
  while (length < at + marks.close.length) length += pieces[count++]!.length;
  return count;
}

/** Returns the answer without its thought. The thought is not part of what the answer states, and is often much longer. */
function afterThought(text: string, marks: ThoughtMarks | null): string {
  const at = marks === null ? -1 : text.indexOf(marks.close);
  return at < 0 ? text : text.slice(at + marks!.close.length);
}
