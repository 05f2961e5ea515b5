// What others may know of how rows are made: the facts that documents state, and whether a question stands in the rows. Both in
// a thread: large documents take seconds.
import { Piscina } from "piscina";
import type { SnapshotDocument } from "../../contract/run-folder.ts";
import type { Fact } from "./examples/fact.ts";
import type { MaterialTask } from "./material.worker.ts";

export interface Material {
  facts(documents: readonly SnapshotDocument[]): Promise<Fact[]>;
  /** For each question, whether a row made of the documents gives it away. */
  leaks(documents: readonly SnapshotDocument[], questions: readonly string[]): Promise<boolean[]>;
  close(): Promise<void>;
}

export function createMaterial(): Material {
  const pool = new Piscina({
    filename: new URL("./material.worker.ts", import.meta.url).href,
    minThreads: 0,
    maxThreads: 1,
    idleTimeout: 1000,
    resourceLimits: { maxOldGenerationSizeMb: 2048 },
  });
  return {
    facts: (documents) => pool.run({ documents } satisfies MaterialTask) as Promise<Fact[]>,
    leaks: (documents, questions) => pool.run({ documents, questions } satisfies MaterialTask) as Promise<boolean[]>,
    close: () => pool.destroy(),
  };
}
