// Finds the shipped writer as installed in config/writer: the adapter, and the model that it was trained for.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { installation } from "../../base/config.ts";
import { describedBy, type ShippedAdapter } from "../../engine/train/shipped-adapter.ts";
import type { WriterCard } from "./card.ts";

export interface InstalledWriter extends ShippedAdapter {
  languages: readonly string[];
}

/** The writer that `train-writer` made; null if this installation has none. */
export function installedWriter(): InstalledWriter | null {
  const folder = join(installation, "config/writer");
  const [card, path] = [join(folder, "card.json"), join(folder, "adapter.gguf")];
  if (!existsSync(card) || !existsSync(path)) return null;
  const read = JSON.parse(readFileSync(card, "utf8")) as WriterCard;
  return { ...describedBy(read, path), languages: read.languages };
}
