// What the answers of models are looked for in, each file read once for as long as its model answers: it is a megabyte of JSON, and
// every answer needs it. A file is named by its hash and never changes.
import { readFile } from "node:fs/promises";
import type { Log } from "../../base/log.ts";
import { type SourceReference, type SourceSpace, sourceSpace } from "../../engine/sources.ts";

/** Never rejects: an answer is worth giving without its sources. null of a file that cannot be read; it is tried again. */
export type SourcesOf = (path: string) => Promise<SourceSpace | null>;

/** Of the models that were asked last. */
const mostKept = 32;

export function createSources(log: Log): SourcesOf {
  const kept = new Map<string, Promise<SourceSpace | null>>();
  async function read(path: string): Promise<SourceSpace | null> {
    try {
      return sourceSpace(JSON.parse(await readFile(path, "utf8")) as SourceReference);
    } catch (error) {
      kept.delete(path);
      log("error", "model.sources_unread", { path, error });
      return null;
    }
  }
  return (path) => {
    const found = kept.get(path) ?? read(path);
    // The one used last is the youngest.
    kept.delete(path);
    kept.set(path, found);
    if (kept.size > mostKept) kept.delete(kept.keys().next().value!);
    return found;
  };
}
