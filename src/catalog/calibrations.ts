// Reads and parses calibrations, and keeps the most recently used ones. Every request needs its model's calibration, which is up to a
// megabyte of JSON because it holds the drift exemplars and the words of the passages.
import { type Calibration, readCalibration, type StoredCalibration } from "../confidence/calibration.ts";
import type { AlignedRow, ModelReads } from "./store.ts";

/** Returns the same object while the calibration is unchanged. Callers must not change it. */
export type CalibrationOf = (model: Pick<AlignedRow, "id" | "calibration_version">) => Calibration;

/** Number of most recently used models whose calibration is kept. */
const mostKept = 32;

export function createCalibrations({ calibration }: Pick<ModelReads, "calibration">): CalibrationOf {
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
    // Moves the entry to the end, because the map is kept in order of last use.
    kept.delete(id);
    kept.set(id, entry);
    if (kept.size > mostKept) kept.delete(kept.keys().next().value!);
    return entry.calibration;
  };
}
