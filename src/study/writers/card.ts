// Metadata of the shipped writer: config/writer/card.json, beside its adapter.
import type { ShippedCard } from "../../engine/train/shipped-adapter.ts";

export interface WriterCard extends ShippedCard {
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
