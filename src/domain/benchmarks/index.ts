// Benchmarks: questions with their right answers. Dev items may be seen while training, sealed ones only by evaluations.
import { Piscina } from "piscina";
import { Failure } from "../../base/errors.ts";
import { sha256 } from "../../base/files.ts";
import { newId } from "../../base/ids.ts";
import type { Clock } from "../../base/time.ts";
import type { benchmarks as promises } from "../../contract/benchmarks.ts";
import type { Handlers, UploadedFile } from "../../contract/endpoint.ts";
import type { Store } from "../../store/open.ts";
import type { Item } from "./read.ts";
import type { ReadResult } from "./read.worker.ts";
import { type BenchmarkRow, benchmarkRows, type ItemRow } from "./store.ts";

export type { Item } from "./read.ts";

export interface BenchmarksParts {
  store: Store;
  clock: Clock;
  /** Keeps the upload as a hidden document; see the documents. */
  keepDocument: <Read, Made>(
    ownerId: string,
    file: UploadedFile,
    signal: AbortSignal,
    read: (text: string) => Promise<Read>,
    add: (document: { id: string; name: string }, read: Read) => Made,
  ) => Promise<Made>;
}

export interface Benchmark {
  id: string;
  name: string;
  sha256: string;
  /** Items in all splits. */
  samples: number;
}

export interface Benchmarks {
  handlers: Handlers<typeof promises>;
  /** Null when there is none of that id, or it is another's. */
  owned(ownerId: string, benchmarkId: string): Benchmark | null;
  /** All of them, in order. Whose they are was asked before. */
  items(benchmarkId: string): Item[];
  close(): Promise<void>;
}

export function createBenchmarks({ store, clock, keepDocument }: BenchmarksParts): Benchmarks {
  const rows = benchmarkRows(store);
  const pool = new Piscina({
    filename: new URL("./read.worker.ts", import.meta.url).href,
    minThreads: 0,
    maxThreads: 1,
    idleTimeout: 30_000,
    resourceLimits: { maxOldGenerationSizeMb: 1024 },
  });

  async function read(text: string): Promise<Item[]> {
    const result = (await pool.run(text)) as ReadResult;
    if ("items" in result) return result.items;
    throw new Failure(
      "benchmark_invalid",
      result.message,
      result.details.length > 0 ? { details: result.details } : {},
    );
  }

  /** Within the transaction of its document. */
  function add(ownerId: string, document: { id: string; name: string }, items: Item[]): BenchmarkRow {
    const now = clock.now();
    const row: BenchmarkRow = {
      id: newId("benchmark"),
      owner_id: ownerId,
      document_id: document.id,
      name: document.name.replace(/\.(jsonl|json|csv|txt)$/i, "") || document.name,
      sha256: sha256(JSON.stringify(items)),
      created_seq: store.nextSeq(),
      created_at: now,
      updated_at: now,
    };
    rows.add.run(row);
    for (const item of items) rows.addItem.run(toRow(row.id, item));
    return row;
  }

  const items = (benchmarkId: string): Item[] => rows.items.all(benchmarkId).map(fromRow);

  function toRecord(row: BenchmarkRow) {
    const splits = { dev: 0, sealed: 0, retention: 0 };
    for (const { split, n } of rows.splits.all(row.id)) splits[split] = n;
    return {
      benchmark_id: row.id,
      name: row.name,
      document_ids: [row.document_id],
      status: "READY" as const,
      n_samples: splits.dev + splits.sealed + splits.retention,
      splits,
      sha256: row.sha256,
      created_at: row.created_at,
      updated_at: row.updated_at,
    };
  }

  function get(ownerId: string, id: string): BenchmarkRow {
    const row = rows.get.get(ownerId, id);
    if (!row) throw new Failure("not_found");
    return row;
  }

  const handlers: Benchmarks["handlers"] = {
    "benchmarks.upload": async ({ files, signal }, { userId }) => {
      const row = await keepDocument(userId, files[0]!, signal, read, (document, read) =>
        add(userId, document, read),
      ).catch((error) => {
        if (error instanceof Failure && error.code === "document_invalid")
          throw new Failure("benchmark_invalid", error.message, { cause: error });
        throw error;
      });
      return toRecord(row);
    },

    "benchmarks.list": async ({ query: { limit, offset } }, { userId }) => ({
      benchmarks: rows.page.all(userId, limit, offset).map(toRecord),
      total: rows.count.get(userId)?.n ?? 0,
    }),

    "benchmarks.get": async ({ params }, { userId }) => toRecord(get(userId, params.benchmark_id)),

    "benchmarks.data": async ({ params }, { userId }) => {
      const row = get(userId, params.benchmark_id);
      const { n_samples, splits, sha256, name } = toRecord(row);
      return {
        benchmark_id: row.id,
        document_ids: [row.document_id],
        samples: items(row.id),
        metadata: { name, n_samples, splits, sha256 },
      };
    },
  };

  return {
    handlers,
    owned(ownerId, benchmarkId) {
      const row = rows.get.get(ownerId, benchmarkId);
      return row ? { id: row.id, name: row.name, sha256: row.sha256, samples: toRecord(row).n_samples } : null;
    },
    items,
    close: () => pool.destroy(),
  };
}

const toRow = (benchmark_id: string, { aliases, choices, rubric, citations, ...item }: Item): ItemRow => ({
  ...item,
  benchmark_id,
  aliases_json: JSON.stringify(aliases),
  choices_json: JSON.stringify(choices),
  rubric_json: JSON.stringify(rubric),
  citations_json: JSON.stringify(citations),
});

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
