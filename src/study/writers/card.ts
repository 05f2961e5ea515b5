// Metadata of the shipped writer: config/writer/card.json, beside its adapter.
import type { AdapterShape } from "../../engine/train/trainer.ts";

export interface WriterCard {
  format: 1;
  /** The model that the adapter was trained for, and the only one that it works with. */
  base: { name: string; sha256: string };
  adapter: AdapterShape & { sha256: string };
  /** Languages of the training material, as ISO 639-1 codes. */
  languages: string[];
  material: { trained: number; held_out: number };
  training: {
    epochs: number;
    passages: number;
    rate: number;
    seed: number;
    steps: number;
    /** Loss of the last steps, in nats per token. */
    loss: number;
    /** The same for passages that are never trained. */
    held_out_loss: number;
  };
}
