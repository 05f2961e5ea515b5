// Finds the shipped writer as installed in config/writer: the adapter, and the model that it was trained for.
import { join } from "node:path";
import { installation } from "../../base/config.ts";
import { type ShippedAdapter, shippedIn } from "../../engine/train/shipped-adapter.ts";
import type { WriterCard } from "./card.ts";

export interface InstalledWriter extends ShippedAdapter {
  languages: readonly string[];
}

/** The writer that `train-writer` made; null if this installation has none. Throws installation_damaged. */
export function installedWriter(): InstalledWriter | null {
  const shipped = shippedIn<WriterCard>(join(installation, "config/writer"));
  return shipped === null ? null : { ...shipped.adapter, languages: shipped.card.languages };
}
