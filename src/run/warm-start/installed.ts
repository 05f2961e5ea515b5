// Finds the adapter from which the training of documents starts, as installed in config/warm-start.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { installation } from "../../base/config.ts";
import { Failure } from "../../base/errors.ts";
import type { AdapterShape } from "../../engine/train/trainer.ts";

/** Metadata of the shipped adapter: config/warm-start/card.json. */
export interface WarmStartCard {
  format: 1;
  /** The model that the adapter was trained for, and the only one that it works with. */
  base: { name: string; sha256: string };
  adapter: AdapterShape & { sha256: string };
  /** Languages of the training material, as ISO 639-1 codes. */
  languages: string[];
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

export interface InstalledWarmStart {
  path: string;
  sha256: string;
  base: { sha256: string };
  shape: AdapterShape;
}

/** Where the adapter and its card are kept. */
export const warmStartFolder = join(installation, "config/warm-start");

/** Returns the adapter that is shipped with this installation; null if there is none. Throws installation_damaged. */
export function installedWarmStart(folder = warmStartFolder): InstalledWarmStart | null {
  const [card, path] = [join(folder, "card.json"), join(folder, "adapter.gguf")];
  if (!existsSync(card) && !existsSync(path)) return null;
  try {
    const { format, base, adapter } = JSON.parse(readFileSync(card, "utf8")) as WarmStartCard;
    if (format !== 1) throw new RangeError(`its format is ${format}`);
    const { sha256, ...shape } = adapter;
    return { path, sha256, base, shape };
  } catch (cause) {
    throw new Failure("installation_damaged", `${card} cannot be read: ${(cause as Error).message}`, { cause });
  }
}
