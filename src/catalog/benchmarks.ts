// Benchmarks and their items.
import type { Store } from "../store/open.ts";
import { type ItemRow, type ItemType, prepareBenchmarkReads, type Split } from "./store.ts";

export interface RubricPoint {
  id: string;
  text: string;
  weight: number;
  /** A failed essential point caps the score of the answer. */
  level: "essential" | "important" | "optional";
}

/** `start` and `end` are offsets in the document's clean text, in UTF-16 units; null if only the quoted words are known. */
export interface Citation {
  document: string;
  page: number | null;
  start: number | null;
  end: number | null;
  quote: string;
}

export interface Item {
  sample_num: number;
  instruction: string;
  response: string;
  aliases: string[];
  type: ItemType;
  /** The choices in the order in which they are shown. The response is one of them. Empty unless the type is choice. */
  choices: string[];
  rubric: RubricPoint[];
  citations: Citation[];
  cluster: string;
  split: Split;
  /** Absolute tolerance; null if numbers must be exact. */
  tolerance: number | null;
}

export interface Benchmark {
  id: string;
  name: string;
  sha256: string;
  /** Number of items in all splits. */
  samples: number;
}

export interface BenchmarkCatalog {
  /** Null if no benchmark has that id or it belongs to another user. */
  owned(ownerId: string, benchmarkId: string): Benchmark | null;
  /** All items, in order. The caller has already checked the owner. */
  items(benchmarkId: string): Item[];
}

export function catalogBenchmarks(store: Store): BenchmarkCatalog {
  const rows = prepareBenchmarkReads(store);
  return {
    owned(ownerId, benchmarkId) {
      const row = rows.get.get(ownerId, benchmarkId);
      if (row === undefined) return null;
      const samples = rows.splits.all(row.id).reduce((sum, { n }) => sum + n, 0);
      return { id: row.id, name: row.name, sha256: row.sha256, samples };
    },
    items: (benchmarkId) => rows.items.all(benchmarkId).map(fromRow),
  };
}

function fromRow(row: ItemRow): Item {
  const { benchmark_id: _, aliases_json, choices_json, rubric_json, citations_json, ...item } = row;
  return {
    ...item,
    aliases: JSON.parse(aliases_json) as Item["aliases"],
    choices: JSON.parse(choices_json) as Item["choices"],
    rubric: JSON.parse(rubric_json) as Item["rubric"],
    citations: JSON.parse(citations_json) as Item["citations"],
  };
}
