// An adapter that is shipped with an installation: a GGUF file and card.json beside it, which says what it was made for.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "../../base/errors.ts";
import type { AdapterShape } from "./trainer.ts";

/** What every card says. */
export interface ShippedCard {
  format: 1;
  /** The model that the adapter was trained for, and the only one that it works with. */
  base: { name: string; sha256: string };
  adapter: AdapterShape & { sha256: string };
  /** Languages of the training material, as ISO 639-1 codes. */
  languages: string[];
}

export interface ShippedAdapter {
  path: string;
  sha256: string;
  base: { sha256: string };
  shape: AdapterShape;
}

/** Returns the adapter in `folder` with its card; null if the folder has neither. Its weights are not read. Throws installation_damaged. */
export function shippedIn<Card extends ShippedCard>(folder: string): { card: Card; adapter: ShippedAdapter } | null {
  const [file, path] = [join(folder, "card.json"), join(folder, "adapter.gguf")];
  if (!existsSync(file) && !existsSync(path)) return null;
  try {
    const card = JSON.parse(readFileSync(file, "utf8")) as Card;
    if (card.format !== 1) throw new RangeError(`its format is ${card.format}`);
    const { sha256, ...shape } = card.adapter;
    return { card, adapter: { path, sha256, base: card.base, shape } };
  } catch (cause) {
    throw new Failure("installation_damaged", `${file} cannot be read: ${(cause as Error).message}`, { cause });
  }
}
