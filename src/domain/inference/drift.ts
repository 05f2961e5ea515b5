// Measures how far a question is from the documents, with the encoder that the model's alignment used.
import { Failure } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Calibration } from "../../confidence/calibration.ts";
import { driftSpace } from "../../confidence/drift.ts";
import type { Generator, ModelRef } from "../../engine/generator.ts";

export interface Drift {
  /** Share of questions about the documents that are at least as far away; null if unknown. */
  pValue: number | null;
  /** Why it is unknown; null if it is known. */
  reason: string | null;
  /** π, the probability that the question is not about the documents; null if unknown. */
  outOfDomain: number | null;
}

export interface DriftMeter {
  /** Never rejects, because an answer is useful without its drift too. */
  of(calibration: Calibration, question: string): Promise<Drift>;
}

export interface DriftMeterParts {
  generator: Pick<Generator, "embed">;
  /** The installed model with this hash; null if there is none. */
  encoderOf: (sha256: string) => ModelRef | null;
  lease: (ref: ModelRef) => Promise<{ release(): Promise<void> }>;
  log: Log;
}

const unknown = (reason: string): Drift => ({ pValue: null, reason, outOfDomain: null });

export function createDriftMeter({ generator, encoderOf, lease, log }: DriftMeterParts): DriftMeter {
  return {
    async of(calibration, question) {
      const { drift, drift_reason: reason } = calibration;
      if (drift === null) return unknown(reason ?? "Drift was not measured");
      const encoder = encoderOf(drift.encoder_sha256);
      if (encoder === null) return unknown("The encoder that drift was measured with is not installed");
      try {
        const held = await lease(encoder);
        try {
          // Only the beginning of a long question is embedded.
          const options = { truncate: true, signal: new AbortController().signal };
          const [embedded] = await generator.embed(encoder, [question], options);
          const { pValue, outOfDomain } = driftSpace(drift).measure(embedded!.vector);
          return { pValue, outOfDomain, reason: null };
        } finally {
          await held.release();
        }
      } catch (error) {
        log("warn", "drift.failed", { error });
        return unknown(error instanceof Failure ? error.message : "The question could not be embedded");
      }
    },
  };
}
