// A calibration that no fitting made: the score is the logistic of one feature.
import type { Calibration, CalibratorModel } from "../../src/confidence/calibration.ts";
import type { featureNames } from "../../src/confidence/features.ts";
import type { groundingFeatureNames } from "../../src/confidence/grounding.ts";

export const modelOf = (
  feature: (typeof featureNames | typeof groundingFeatureNames)[number],
  weight: number,
): CalibratorModel => ({
  features: [feature],
  means: [0],
  scales: [1],
  weights: [weight],
  bias: 0,
  platt: { a: 1, b: 0 },
});

/** Its prior says 50 of everything. */
export const calibrationWith = (over: Partial<Calibration>): Calibration => ({
  format: 4,
  identity: { base_sha256: "", adapter_sha256: "", template_sha256: "", feature_source: "A", engine: "" },
  calibrated: true,
  reason: null,
  model: modelOf("logprob_sum", 0.5),
  statistics: { n: 120, accuracy: 0.5, auroc: 0.7, brier: 0.2 },
  held_out: null,
  prior: { family: "test", is_own_family: true, about: "for tests", model: modelOf("logprob_sum", 0) },
  drift: null,
  drift_reason: "No encoder is installed",
  grounding: null,
  date: "2026-01-01T00:00:00.000Z",
  ...over,
});
