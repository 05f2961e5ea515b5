// Looks up documents, benchmarks, models and runs by owner and id. Every room may import the catalog, so that no room needs another room
// just to look something up. The catalog reads rows and never changes them. Only rooms change them, and main.ts passes a room's functions
// to other rooms. The contents of documents stay with the documents room, which holds files while they are read.
import type { Log } from "../base/log.ts";
import type { Store } from "../store/open.ts";
import { type BenchmarkCatalog, catalogBenchmarks } from "./benchmarks.ts";
import { catalogDocuments, type DocumentCatalog } from "./documents.ts";
import { catalogModels, type ModelCatalog } from "./models.ts";
import { catalogRuns, type RunCatalog } from "./runs.ts";

export interface Catalog {
  documents: DocumentCatalog;
  benchmarks: BenchmarkCatalog;
  models: ModelCatalog;
  runs: RunCatalog;
}

export const createCatalog = ({ store, log }: { store: Store; log: Log }): Catalog => ({
  documents: catalogDocuments(store),
  benchmarks: catalogBenchmarks(store),
  models: catalogModels(store, log),
  runs: catalogRuns(store),
});
