// The confidence of an answer while it is made: features of its tokens, how far its question is from the documents, and at its
// end what those say for it, and the score of the model's calibration.
import { type Calibration, scoreConfidence, servedVoidReason } from "../../engine/confidence.ts";
import { createFeatures, featureNames } from "../../engine/confidence-features.ts";
import type { Tokenizer } from "../../engine/generator.ts";
import { type AnswerStep, leastCertainSpan } from "../../engine/least-certain.ts";
import type { Listener } from "./answers.ts";
import type { DriftMeter } from "./drift.ts";

export interface ScoredModel {
  /** null on a base model, which gets no score. */
  calibration: Calibration | null;
  /** Of the files that serve it. */
  baseSha256: string;
  adapterSha256: string | null;
}

export interface ListenerParts {
  /** What the inference engine is: calibrations made with another are not vouched for. */
  engine: string;
  drift: DriftMeter;
}

/** Makes a listener per choice, of the question that it answers. Figures that were measured on something else are no measure. */
export function listenerOf(
  model: ScoredModel,
  tokenizer: Tokenizer,
  { engine, drift }: ListenerParts,
): (question: string) => Listener {
  const { calibration } = model;
  if (calibration === null) return () => ({ add: () => {}, score: async () => null });
  const voided = servedVoidReason(calibration, model, tokenizer, engine);
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
          return { ...nothing, drift: { p_value: null, reason: "The answer is empty" }, leastCertain: null };
        }
        const { pValue, reason, foreign } = await measure(question);
        const said = { question, answer: text };
        return {
          ...scoreConfidence(calibration, featureNames, features.values(finishReason), { foreign, said, voided }),
          drift: { p_value: pValue, reason },
          leastCertain: leastCertainSpan(steps, tokenizer, text.length),
        };
      },
    };
  };
}
