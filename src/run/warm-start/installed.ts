// Finds the adapter from which the training of documents starts, as installed in config/warm-start.
import { join } from "node:path";
import { installation } from "../../base/config.ts";
import { type ShippedAdapter, type ShippedCard, shippedIn } from "../../engine/train/shipped-adapter.ts";

/** Metadata of the shipped adapter: config/warm-start/card.json. */
export interface WarmStartCard extends ShippedCard {
  material: { passages: number; facts: number };
  /**
   * Right answers to `n` questions in wordings that were not trained, in per cent: by the base and by the adapter before it was shrunk. The
   * same questions chose the adapter.
   */
  held_out: { n: number; base: number; adapter: number };
  /** Divergence of the adapter from the base, as in a run's report. */
  drift: { kl: number; perplexity_rise: number };
  /** The step at which the adapter was taken. */
  step: number;
}

/** Where the adapter and its card are kept. */
export const warmStartFolder = join(installation, "config/warm-start");

/** Returns the adapter that is shipped with this installation; null if there is none. Throws installation_damaged. */
export const installedWarmStart = (folder = warmStartFolder): ShippedAdapter | null =>
  shippedIn<WarmStartCard>(folder)?.adapter ?? null;
