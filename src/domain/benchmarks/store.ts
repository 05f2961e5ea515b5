// All SQL of benchmarks.
import type { itemTypes } from "../../contract/benchmarks.ts";
import type { Store } from "../../store/open.ts";

export type Split = "dev" | "sealed" | "retention";

export type ItemType = (typeof itemTypes)[number];

export interface BenchmarkRow {
  id: string;
  owner_id: string;
  document_id: string;
  name: string;
  sha256: string;
  created_seq: number;
  created_at: string;
  updated_at: string;
}

export interface ItemRow {
  benchmark_id: string;
  sample_num: number;
  instruction: string;
  response: string;
  aliases_json: string;
  type: ItemType;
  choices_json: string;
  rubric_json: string;
  citations_json: string;
  cluster: string;
  split: Split;
  tolerance: number | null;
}

export function benchmarkRows(store: Store) {
  return {
    add: store.prepare<BenchmarkRow>(
      `INSERT INTO benchmark(id, owner_id, document_id, name, sha256, created_seq, created_at, updated_at)
       VALUES(:id, :owner_id, :document_id, :name, :sha256, :created_seq, :created_at, :updated_at)`,
    ),
    addItem: store.prepare<ItemRow>(
      `INSERT INTO benchmark_item(benchmark_id, sample_num, instruction, response, aliases_json, type, choices_json, rubric_json, citations_json,
         cluster, split, tolerance)
       VALUES(:benchmark_id, :sample_num, :instruction, :response, :aliases_json, :type, :choices_json, :rubric_json, :citations_json,
         :cluster, :split, :tolerance)`,
    ),
    page: store.prepare<[string, number, number], BenchmarkRow>(
      "SELECT * FROM benchmark WHERE owner_id = ? ORDER BY created_seq DESC LIMIT ? OFFSET ?",
    ),
    count: store.prepare<[string], { n: number }>("SELECT count(*) AS n FROM benchmark WHERE owner_id = ?"),
    get: store.prepare<[string, string], BenchmarkRow>("SELECT * FROM benchmark WHERE owner_id = ? AND id = ?"),
    items: store.prepare<[string], ItemRow>("SELECT * FROM benchmark_item WHERE benchmark_id = ? ORDER BY sample_num"),
    splits: store.prepare<[string], { split: Split; n: number }>(
      "SELECT split, count(*) AS n FROM benchmark_item WHERE benchmark_id = ? GROUP BY split",
    ),
  };
}
