// What the trainer hands over of a run: the adapter in its formats, and log-probs by which it is verified.
import type { AutoAlignReport } from "./auto/report.ts";
import type { Chosen } from "./choose.ts";

export interface Exported {
  /** The temporary folder that becomes artefact/. */
  folder: string;
  chosen: Chosen;
  adapter: { bytes: number; sha256: string };
  /** The scored rows: every token from `promptLength` on. */
  rows: { tokens: number[]; promptLength: number }[];
  /** The trainer's log-probs per row, without and with the adapter, in nats. */
  base: Float64Array[];
  aligned: Float64Array[];
  /** null for an alignment that followed its recipe. */
  autoAlign: AutoAlignReport | null;
}
