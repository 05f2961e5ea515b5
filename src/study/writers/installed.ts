// Finds the shipped writer as installed in config/writer: the adapter, and the model that it was trained for.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { installation } from "../../base/config.ts";
import type { AdapterShape } from "../../engine/train/trainer.ts";
import type { WriterCard } from "./card.ts";

export interface InstalledWriter {
  path: string;
  sha256: string;
  base: { sha256: string };
  shape: AdapterShape;
  languages: readonly string[];
}

/** The writer that `train-writer` made; null if this installation has none. */
export function installedWriter(): InstalledWriter | null {
  const folder = join(installation, "config/writer");
  const [card, path] = [join(folder, "card.json"), join(folder, "adapter.gguf")];
  if (!existsSync(card) || !existsSync(path)) return null;
  const { base, adapter, languages } = JSON.parse(readFileSync(card, "utf8")) as WriterCard;
  const { sha256, ...shape } = adapter;
  return { path, sha256, base, shape, languages };
}
