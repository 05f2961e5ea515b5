// Reads the files in which the sources of a model's answers are looked up. Every answer needs its model's file, which is about a megabyte
// of JSON, so the most recently used files are kept. A file is named by its hash and never changes.
import { readFile } from "node:fs/promises";
import type { Log } from "../base/log.ts";
import { type SourceReference, type SourceSpace, sourceSpace } from "../confidence/sources.ts";

/**
 * Reads the file at `path`. Never rejects, because an answer is useful even without its sources. Null if the file cannot be read; the
 * next call tries again.
 */
export type SourcesOf = (path: string) => Promise<SourceSpace | null>;

/** Number of most recently used models whose file is kept. */
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
    // Moves the entry to the end, because the map is kept in order of last use.
    kept.delete(path);
    kept.set(path, found);
    if (kept.size > mostKept) kept.delete(kept.keys().next().value!);
    return found;
  };
}
