// An adapter that is shipped with an installation: a GGUF file and card.json beside it, which says what it was made for.
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

/** Returns the adapter at `path` as its card describes it. The file is not read. */
export function describedBy({ base, adapter }: ShippedCard, path: string): ShippedAdapter {
  const { sha256, ...shape } = adapter;
  return { path, sha256, base, shape };
}
