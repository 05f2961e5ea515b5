// The confidence of an answer while it is made: features of its tokens, and at its end the score of the model's calibration.
import { sha256 } from "../../base/files.ts";
import { type Calibration, scoreConfidence, voidReason } from "../../engine/confidence.ts";
import { createFeatures, featureNames } from "../../engine/confidence-features.ts";
import type { Tokenizer } from "../../engine/generator.ts";
import type { Listener } from "./answers.ts";

export interface ScoredModel {
  /** null on a base model, which gets no score. */
  calibration: Calibration | null;
  /** Of the files that serve it. */
  baseSha256: string;
  adapterSha256: string | null;
}

/** A listener per choice. Figures that were measured on something else are no measure: the score stands, uncalibrated. */
export function listenerOf(model: ScoredModel, tokenizer: Tokenizer, engine: string): () => Listener {
  const { calibration } = model;
  if (calibration === null) return () => ({ add: () => {}, score: () => null });
  const voided = voidReason(calibration, {
    base_sha256: model.baseSha256,
    adapter_sha256: model.adapterSha256!,
    template_sha256: sha256(tokenizer.chatTemplate ?? ""),
    feature_source: "A",
    engine,
  });
  return () => {
    const features = createFeatures();
    let tokens = 0;
    return {
      add(token) {
        tokens++;
        features.add(token);
      },
      score(finishReason) {
        // Nothing said is never right: 0 is what a calibration would learn of empty answers.
        if (tokens === 0) return { score: 0, calibrated: false, reason: "The answer is empty", n: 0 };
        const score = scoreConfidence(calibration, featureNames, features.values(finishReason));
        return voided === null ? score : { ...score, calibrated: false, reason: voided, n: 0 };
      },
    };
  };
}
