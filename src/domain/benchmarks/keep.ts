// Stores benchmarks, whether uploaded, made from documents, or new versions of another. The items become rows. The file of an upload
// or of a finished draft becomes a hidden document; a new version shares that document.

import { sha256 } from "../../base/files.ts";
import { newId } from "../../base/ids.ts";
import type { Clock } from "../../base/time.ts";
import type { Item } from "../../catalog/benchmarks.ts";
import type { BenchmarkRow, ItemRow } from "../../catalog/store.ts";
import type { UploadedFile } from "../../contract/endpoint.ts";
import type { Store } from "../../store/open.ts";
import { createBenchmarkReader } from "./reader.ts";
import type { BenchmarkRows, DraftRow } from "./store.ts";

export interface KeepingParts {
  store: Store;
  clock: Clock;
  rows: BenchmarkRows;
  /** Keeps the upload as a hidden document; see documents/index.ts. */
  keepDocument: <Read, Made>(
    ownerId: string,
    file: UploadedFile,
    signal: AbortSignal,
    read: (text: string) => Promise<Read>,
    add: (document: { id: string; name: string }, read: Read) => Made,
  ) => Promise<Made>;
}

export interface Keeping {
  /** Adds a benchmark within the caller's transaction. */
  add(
    given: Pick<BenchmarkRow, "owner_id" | "document_id" | "name"> & Partial<BenchmarkRow>,
    items: Item[],
  ): BenchmarkRow;
  /** Keeps an upload. `made` runs in the same transaction, and its value is returned. Throws document_invalid, benchmark_invalid. */
  upload<T>(ownerId: string, file: UploadedFile, signal: AbortSignal, made: (row: BenchmarkRow) => T): Promise<T>;
  /** Keeps a finished draft like an upload; `also` runs in the same transaction. */
  draft(draft: DraftRow, file: UploadedFile, signal: AbortSignal, also: () => void): Promise<void>;
  close(): Promise<void>;
}

export function createKeeping({ store, clock, rows, keepDocument }: KeepingParts): Keeping {
  const reader = createBenchmarkReader();

  const readFor =
    (ownerId: string, { name }: UploadedFile, signal: AbortSignal) =>
    (text: string) =>
      reader.read(ownerId, name || "The file", text, signal);

  const add: Keeping["add"] = (given, items) => {
    const now = clock.now();
    const row: BenchmarkRow = {
      id: newId("benchmark"),
      sha256: sha256(JSON.stringify(items)),
      version: 1,
      previous_id: null,
      struck_json: null,
      draft_id: null,
      created_seq: store.nextSeq(),
      created_at: now,
      updated_at: now,
      ...given,
    };
    rows.add.run(row);
    for (const item of items) rows.addItem.run(toRow(row.id, item));
    return row;
  };

  return {
    add,
    upload: (ownerId, file, signal, made) =>
      keepDocument(ownerId, file, signal, readFor(ownerId, file, signal), (document, items) =>
        made(add({ owner_id: ownerId, document_id: document.id, name: titleOf(document.name) }, items)),
      ),
    async draft(draft, file, signal, also) {
      const { id, owner_id, name, created_seq, created_at } = draft;
      await keepDocument(owner_id, file, signal, readFor(owner_id, file, signal), (document, made) => {
        add({ id, owner_id, document_id: document.id, name, draft_id: id, created_seq, created_at }, made);
        also();
      });
    },
    close: () => reader.close(),
  };
}

const titleOf = (fileName: string): string => fileName.replace(/\.(jsonl|json|csv|txt)$/i, "") || fileName;

const toRow = (benchmark_id: string, { aliases, choices, rubric, citations, ...item }: Item): ItemRow => ({
  ...item,
  benchmark_id,
  aliases_json: JSON.stringify(aliases),
  choices_json: JSON.stringify(choices),
  rubric_json: JSON.stringify(rubric),
  citations_json: JSON.stringify(citations),
});
