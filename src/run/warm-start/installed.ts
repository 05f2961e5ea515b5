// Finds the adapter from which the training of documents starts, as installed in config/warm-start.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { installation } from "../../base/config.ts";
import type { AdapterShape } from "../../engine/train/trainer.ts";

/** Metadata of the shipped adapter: config/warm-start/card.json. */
export interface WarmStartCard {
  format: 1;
  /** The model that the adapter was trained for, and the only one that it works with. */
  base: { name: string; sha256: string };
  adapter: AdapterShape & { sha256: string };
  /** Languages of the training material, as ISO 639-1 codes. */
  languages: string[];
  material: { passages: number; facts: number; held_out_questions: number };
  /** Per cent of the questions in wordings that were not trained, before and after. */
  held_out: { base: number; adapter: number };
  steps: number;
}

export interface InstalledWarmStart {
  path: string;
  sha256: string;
  base: { sha256: string };
  shape: AdapterShape;
}

/** Where the adapter and its card are kept. */
export const warmStartFolder = join(installation, "config/warm-start");

/** Returns the adapter that is shipped with this installation; null if there is none. */
export function installedWarmStart(): InstalledWarmStart | null {
  const [card, path] = [join(warmStartFolder, "card.json"), join(warmStartFolder, "adapter.gguf")];
  if (!existsSync(card) || !existsSync(path)) return null;
  const { base, adapter } = JSON.parse(readFileSync(card, "utf8")) as WarmStartCard;
  const { sha256, ...shape } = adapter;
  return { path, sha256, base, shape };
}
