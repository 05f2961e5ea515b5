// The shipped writer as a model that the generator can load: its adapter over the base that it was trained for.
import type { ModelRef } from "../../../engine/generator.ts";
import { installedWriter } from "../../../study/writers/installed.ts";
import type { WriterModel } from "./parts.ts";

interface ShippedParts {
  /** The installed base of this hash; null where there is none. */
  findBase: (sha256: string) => ModelRef | null;
  /** Copies an adapter to where its name carries its hash. The same one again is the same. */
  storeAdapter: (file: string) => Promise<{ path: string; sha256: string }>;
}

export const createShipped =
  ({ findBase, storeAdapter }: ShippedParts) =>
  async (): Promise<WriterModel | null> => {
    const writer = installedWriter();
    const base = writer && findBase(writer.base.sha256);
    if (!base) return null;
    const { path, sha256 } = await storeAdapter(writer.path);
    return { ref: { ...base, adapter: { id: `writer-${sha256}`, path } }, languages: writer.languages };
  };
