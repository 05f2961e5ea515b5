// Finds the adapter from which the training of documents starts, as installed in config/warm-start: a general one, and one of a language's
// own in a folder of its code.
import { join } from "node:path";
import { installation } from "../../base/config.ts";
import { type ShippedAdapter, type ShippedCard, shippedIn } from "../../engine/train/shipped-adapter.ts";

/** Metadata of a shipped adapter: the card.json beside it. */
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

/** Where the general adapter and its card are kept. */
export const warmStartFolder = join(installation, "config/warm-start");

/**
 * Returns the adapter that this installation has for documents in a language (ISO 639-1; null: not known), otherwise the general one, and null
 * if there is neither. Throws installation_damaged.
 */
export function installedWarmStart(language: string | null, folder = warmStartFolder): ShippedAdapter | null {
  const own = language === null ? null : shippedIn<WarmStartCard>(join(folder, language));
  return (own ?? shippedIn<WarmStartCard>(folder))?.adapter ?? null;
}
