// How unlike the documents a question is, and what they say for its answers, by the encoder that the model's alignment measured
// with: the question is read once for both.
import { Failure } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Calibration } from "../../engine/confidence.ts";
import { type DriftReference, type DriftSpace, driftSpace } from "../../engine/drift.ts";
import type { Generator, ModelRef } from "../../engine/generator.ts";
import { type SupportOf, type SupportReference, type SupportSpace, supportSpace } from "../../engine/support.ts";

export interface Drift {
  /** Share of questions about the documents that are at least as far away; null where it is not known. */
  pValue: number | null;
  /** Why it is not. */
  reason: string | null;
  /** π, the chance that the question is none of the documents'; null where it is not known. */
  foreign: number | null;
  /** Of each answer to the question; null where it is not known. */
  support: SupportOf | null;
}

export interface DriftMeter {
  /** Never rejects: an answer is worth giving without it. */
  of(calibration: Calibration, question: string): Promise<Drift>;
}

export interface DriftMeterParts {
  generator: Pick<Generator, "embed">;
  /** The installed model of this hash; null when there is none. */
  encoderOf: (sha256: string) => ModelRef | null;
  lease: (ref: ModelRef) => Promise<{ release(): Promise<void> }>;
  log: Log;
}

const unknown = (reason: string): Drift => ({ pValue: null, reason, foreign: null, support: null });

export function createDriftMeter({ generator, encoderOf, lease, log }: DriftMeterParts): DriftMeter {
  /** Kept decoded for as long as their calibrations are kept. */
  const decoded = new WeakMap<DriftReference, { near: DriftSpace; said: SupportSpace | null }>();

  function spacesOf(drift: DriftReference, support: SupportReference | null) {
    const spaces = decoded.get(drift) ?? { near: driftSpace(drift), said: support && supportSpace(support) };
    decoded.set(drift, spaces);
    return spaces;
  }

  return {
    async of(calibration, question) {
      const { drift, drift_reason: reason, support } = calibration;
      if (drift === null) return unknown(reason ?? "It was not measured");
      const encoder = encoderOf(drift.encoder_sha256);
      if (encoder === null) return unknown("The encoder that it was measured with is not installed");
      try {
        const held = await lease(encoder);
        try {
          // A long question is judged by its beginning.
          const options = { truncate: true, signal: new AbortController().signal };
          const [embedded] = await generator.embed(encoder, [question], options);
          const { vector } = embedded!;
          const { near, said } = spacesOf(drift, support);
          const { pValue, foreign } = near.measure(vector);
          return { pValue, foreign, reason: null, support: said?.about({ text: question, vector }) ?? null };
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
