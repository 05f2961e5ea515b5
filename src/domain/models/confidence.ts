// GET models/{id}/confidence: how reliable a calibration is, from the counts that are stored with it.
import type { AlignedRow } from "../../catalog/store.ts";
import { type Calibration, voidReason } from "../../confidence/calibration.ts";
import { reliabilityTable, riskCoverage, suggestThreshold } from "../../confidence/report.ts";
import type { confidences } from "../../contract/confidence.ts";
import type { Reply } from "../../contract/endpoint.ts";

type Record = Reply<(typeof confidences)["models.confidence"]>;

const noCounts = { n: [], right: [] };

/**
 * The reason why a model's calibration does not apply to the files and the engine that are now in use; null if it applies.
 * The base's hash covers its chat template too, which is part of the file.
 */
export const voidNow = (calibration: Calibration, row: AlignedRow, engine: string): string | null =>
  voidReason(calibration, { base_sha256: row.base_sha256, adapter_sha256: row.adapter_sha256, engine });

/** The reply of the endpoint. `engine` is the inference library in use; `maxError` is in per cent. */
export function confidenceRecord(row: AlignedRow, calibration: Calibration, engine: string, maxError: number): Record {
  const { identity, statistics, held_out: held, prior, drift, drift_reason } = calibration;
  const voided = voidNow(calibration, row, engine);
  const counts = held?.counts ?? noCounts;
  const isTrusted = calibration.calibrated && voided === null;
  const { model } = calibration;
  return {
    model_id: row.id,
    calibrated: isTrusted,
    reason: voided ?? calibration.reason,
    n: statistics.n,
    date: held === null ? null : calibration.date,
    calibrator: !isTrusted ? "prior" : (model.mixed ?? model).isotonic ? "isotonic" : "platt",
    features: isTrusted ? model.features : prior.model.features,
    depends_on: { ...identity, ...(drift && { encoder_sha256: drift.encoder_sha256 }) },
    prior: { family: prior.family, is_own_family: prior.is_own_family, about: prior.about },
    statistics: {
      accuracy: statistics.accuracy,
      auroc: statistics.auroc,
      prr: held?.prr ?? null,
      brier: statistics.brier,
      brier_skill: held?.brier_skill ?? null,
      calibration_error: held?.calibration_error ?? null,
      perfect_calibration_error: held?.perfect_calibration_error ?? null,
      debiased_calibration_error: held?.debiased_calibration_error ?? null,
    },
    reliability: reliabilityTable(counts),
    risk_coverage: riskCoverage(counts),
    // A threshold that was measured with other files or another engine would be meaningless.
    threshold: voided === null ? suggestThreshold(counts, maxError / 100) : null,
    drift: {
      n: drift?.distances.length ?? 0,
      reason: drift_reason,
      encoder_sha256: drift?.encoder_sha256 ?? null,
    },
  };
}
