// Finds the adapter from which the training of documents starts, as installed in config/warm-start.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { installation } from "../../base/config.ts";
import { Failure } from "../../base/errors.ts";
import { describedBy, type ShippedAdapter, type ShippedCard } from "../../engine/train/shipped-adapter.ts";

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
export function installedWarmStart(folder = warmStartFolder): ShippedAdapter | null {
  const [card, path] = [join(folder, "card.json"), join(folder, "adapter.gguf")];
  if (!existsSync(card) && !existsSync(path)) return null;
  try {
    const read = JSON.parse(readFileSync(card, "utf8")) as WarmStartCard;
    if (read.format !== 1) throw new RangeError(`its format is ${read.format}`);
    return describedBy(read, path);
  } catch (cause) {
    throw new Failure("installation_damaged", `${card} cannot be read: ${(cause as Error).message}`, { cause });
  }
}
