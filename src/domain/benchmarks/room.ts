// Assembles the room of benchmarks: the part that stores them, the worker that makes them from documents, and the endpoints.
import type { Generator, ModelRef } from "../../engine/generator.ts";
import type { Worker } from "../../jobs/runner.ts";
import { createMaker } from "./create/job.ts";
import type { MakeParts } from "./create/parts.ts";
import { type BenchmarksParts, benchmarkHandlers } from "./index.ts";
import { createKeeping, type KeepingParts } from "./keep.ts";
import { benchmarkRows } from "./store.ts";

export type BenchmarksRoomParts = Omit<BenchmarksParts, "rows" | "keeping" | "checkedOf"> &
  Pick<KeepingParts, "keepDocument"> &
  Pick<MakeParts, "documentsOf" | "grade" | "say" | "folder"> & {
    generator: Generator;
    /** Keeps a model loaded until released, for work that is not a request. */
    leaseForWork: (ref: ModelRef) => Promise<{ release(): Promise<void> }>;
  };

export interface BenchmarksRoom {
  handlers: ReturnType<typeof benchmarkHandlers>;
  workers: { generate: Worker };
  close(): Promise<void>;
}

export function createBenchmarksRoom(parts: BenchmarksRoomParts): BenchmarksRoom {
  const { models } = parts.catalog;
  const rows = benchmarkRows(parts.store);
  const keeping = createKeeping({ ...parts, rows });
  const generate = createMaker({
    ...parts,
    rows,
    findModel: models.find,
    lease: parts.leaseForWork,
    encoder() {
      const found = models.encoder();
      return found && models.encoderOf(found.sha256);
    },
    keep: keeping.draft,
  });
  return {
    handlers: benchmarkHandlers({ ...parts, rows, keeping, checkedOf: generate.checked }),
    workers: { generate },
    close: keeping.close,
  };
}
