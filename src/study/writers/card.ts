// What is known of the shipped writer: config/writer/card.json, beside its adapter.
import type { AdapterShape } from "../../engine/trainer.ts";

export interface WriterCard {
  format: 1;
  /** The model it was trained for; for any other it is worth nothing. */
  base: { name: string; sha256: string };
  adapter: AdapterShape & { sha256: string };
  /** ISO 639-1, of its material. */
  languages: string[];
  material: { trained: number; held_out: number };
  training: {
    epochs: number;
    passages: number;
    rate: number;
    seed: number;
    steps: number;
    /** Nats a token, of the last steps. */
    loss: number;
    /** The same of passages that are never trained. */
    held_out_loss: number;
  };
}
