// What the trainer's part of a run leaves for the inference engine's: the adapter in its formats, and log-probs to verify it with.
import type { AutoAlignReport } from "./auto/report.ts";
import type { Chosen } from "./choose.ts";

export interface Exported {
  /** The temporary folder that becomes artefact/. */
  folder: string;
  chosen: Chosen;
  adapter: { bytes: number; sha256: string };
  /** The scored rows. Every token from `promptLength` on is scored. */
  rows: { tokens: number[]; promptLength: number }[];
  /** The trainer's log-probs per row, in nats: `base` without the adapter, `aligned` with it. */
  base: Float64Array[];
  aligned: Float64Array[];
  /** null for an alignment that is not an auto-align. */
  autoAlign: AutoAlignReport | null;
}
