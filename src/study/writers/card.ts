// Metadata of the shipped writer: config/writer/card.json, beside its adapter.
import type { AdapterShape } from "../../engine/train/trainer.ts";

export interface WriterCard {
  format: 1;
  /** The only model that the adapter works with: the one it was trained for. */
  base: { name: string; sha256: string };
  adapter: AdapterShape & { sha256: string };
  /** Languages of its material, ISO 639-1. */
  languages: string[];
  material: { trained: number; held_out: number };
  training: {
    epochs: number;
    passages: number;
    rate: number;
    seed: number;
    steps: number;
    /** Loss of the last steps, nats a token. */
    loss: number;
    /** The same for passages that are never trained. */
    held_out_loss: number;
  };
}
