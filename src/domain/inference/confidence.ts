// The confidence of an answer while it is made: features of its tokens, how far its question is from the documents, and at its
// end what those say for it and where, and the score of the model's calibration.
import { type ThoughtMarks, thoughtMarksOf } from "../../engine/chat-format.ts";
import { type Calibration, scoreConfidence, servedVoidReason } from "../../engine/confidence.ts";
import { createFeatures, featureNames } from "../../engine/confidence-features.ts";
import type { Tokenizer } from "../../engine/generator.ts";
import { type AnswerStep, leastCertainSpan } from "../../engine/least-certain.ts";
import type { SourceSpace } from "../../engine/sources.ts";
import type { Listener } from "./answers.ts";
import type { DriftMeter } from "./drift.ts";
import { type HasDocument, namedSources } from "./sources.ts";

export interface ScoredModel {
  /** null on a base model, which gets no score. */
  calibration: Calibration | null;
  /** Of the files that serve it. */
  baseSha256: string;
  adapterSha256: string | null;
  /** What its answers are looked for in; null on a base model, and on one made before that was kept. */
  sources: (() => Promise<SourceSpace | null>) | null;
}

export interface ListenerParts {
  /** What the inference engine is: calibrations made with another are not vouched for. */
  engine: string;
  drift: DriftMeter;
  hasDocument: HasDocument;
}

/** Makes a listener per choice, of the question that it answers. Figures that were measured on something else are no measure. */
export function listenerOf(
  model: ScoredModel,
  tokenizer: Tokenizer,
  ownerId: string,
  { engine, drift, hasDocument }: ListenerParts,
): (question: string) => Listener {
  const { calibration } = model;
  if (calibration === null) return () => ({ add: () => {}, score: async () => null });
  const voided = servedVoidReason(calibration, model, tokenizer, engine);
  // Read while the prompt is, where the model is asked for the first time.
  const reading = model.sources?.() ?? null;
  const marks = thoughtMarksOf(tokenizer);
  /** Choices of one prompt have one question, which is measured once. */
  const measured = new Map<string, ReturnType<DriftMeter["of"]>>();
  const measure = (question: string): ReturnType<DriftMeter["of"]> => {
    const known = measured.get(question) ?? drift.of(calibration, question);
    measured.set(question, known);
    return known;
  };
  return (question) => {
    const features = createFeatures();
    const steps: AnswerStep[] = [];
    let text = "";
    let drawn = 0;
    return {
      add(token) {
        // With the first token the prompt is read, and the encoder does not hold it up.
        if (steps.length === 0) void measure(question);
        // Without its logits, which a long answer would fill the memory with.
        steps.push({ token: token.token, logprob: token.logprob, isForced: token.isForced });
        text += token.text;
        if (token.isForced) return;
        drawn++;
        features.add(token);
      },
      async score(finishReason) {
        // Nothing said is never right: 0 is what a calibration would learn of empty answers.
        if (drawn === 0) {
          const nothing = { score: 0, calibrated: false, reason: "The answer is empty", n: 0, date: null };
          return {
            ...nothing,
            drift: { p_value: null, reason: "The answer is empty" },
            leastCertain: null,
            sources: null,
          };
        }
        const { pValue, reason, foreign } = await measure(question);
        const space = await reading;
        const said = { question, answer: text };
        return {
          ...scoreConfidence(calibration, featureNames, features.values(finishReason), { foreign, said, voided }),
          drift: { p_value: pValue, reason },
          leastCertain: leastCertainSpan(steps, tokenizer, text.length),
          sources: space && namedSources(space, { question, answer: afterThought(text, marks) }, ownerId, hasDocument),
        };
      },
    };
  };
}

/** A thought is no part of what an answer says, and would outweigh it. */
function afterThought(text: string, marks: ThoughtMarks | null): string {
  const at = marks === null ? -1 : text.indexOf(marks.close);
  return at < 0 ? text : text.slice(at + marks!.close.length);
}
