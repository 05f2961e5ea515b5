// Calibrations as objects, each read from its row once for as long as it is the same: with the questions that drift is measured by
// and the words that speak for answers one is up to a megabyte of JSON, and every request needs it.
import { type Calibration, readCalibration, type StoredCalibration } from "../../engine/confidence.ts";
import type { AlignedRow, ModelsSql } from "./store.ts";

/** The same object while the calibration is the same. Nobody changes it. */
export type CalibrationOf = (model: Pick<AlignedRow, "id" | "calibration_version">) => Calibration;

/** Of the models that were asked last. */
const mostKept = 32;

export function createCalibrations({ calibration }: Pick<ModelsSql, "calibration">): CalibrationOf {
  const kept = new Map<string, { version: number; calibration: Calibration }>();
  return ({ id, calibration_version: version }) => {
    const known = kept.get(id);
    const entry =
      known?.version === version
        ? known
        : {
            version,
            calibration: readCalibration(JSON.parse(calibration.get(id)!.calibration_json) as StoredCalibration),
          };
    // The one used last is the youngest.
    kept.delete(id);
    kept.set(id, entry);
    if (kept.size > mostKept) kept.delete(kept.keys().next().value!);
    return entry.calibration;
  };
}
