// Documents: text that alignments learn from. An upload is kept whole or not at all; a snapshot outlives its document.
import { Failure } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import type { Log } from "../../base/log.ts";
import type { Clock } from "../../base/time.ts";
import type { documents as promises } from "../../contract/documents.ts";
import type { Handlers, UploadedFile } from "../../contract/endpoint.ts";
import type { SnapshotDocument } from "../../contract/run-folder.ts";
import type { Store } from "../../store/open.ts";
import { createBlobs } from "./blobs.ts";
import { label } from "./label.ts";
import type { Parsed } from "./parse.ts";
import { createParser } from "./parser.ts";
import { type DocumentKind, type DocumentRow, documentRows } from "./store.ts";

export interface Snapshot {
  document: SnapshotDocument;
  /** Of the original file, as in the document's record. */
  sha256: string;
}

export type KeepBenchmark = <Read, Made>(
  ownerId: string,
  file: UploadedFile,
  signal: AbortSignal,
  /** Sees the clean text; throws when it is no benchmark. */
  read: (text: string) => Promise<Read>,
  /** Writes its own rows in the transaction of the document's. */
  add: (document: { id: string; name: string }, read: Read) => Made,
) => Promise<Made>;

export interface Documents {
  handlers: Handlers<typeof promises>;
  /** Clean texts in the order asked, each once. Throws not_found unless every one is the owner's. */
  snapshot(ownerId: string, ids: readonly string[]): Promise<Snapshot[]>;
  /** Keeps an upload as one document of kind benchmark. */
  keepBenchmark: KeepBenchmark;
  /** Before anything is taken in. */
  prepare(): Promise<void>;
  /** After the start, beside everything else: removes contents that a crash left without a row. */
  sweep(): Promise<void>;
  close(): Promise<void>;
}

interface Arrival {
  file: UploadedFile;
  name: string;
  parsed: Parsed;
}

export function createDocuments(parts: { store: Store; clock: Clock; log: Log; folder: string }): Documents {
  const { store, clock, log } = parts;
  const rows = documentRows(store);
  const blobs = createBlobs(parts.folder, (digest) => rows.isReferenced.get(digest, digest)?.any === 1);
  const parser = createParser();

  const read = (file: UploadedFile, signal: AbortSignal): Promise<Arrival> => {
    const name = label(file.name);
    return parser.parse(file.path, name, signal).then((parsed) => ({ file, name, parsed }));
  };

  /** Contents first, durably; then all rows in one transaction; or nothing of either. */
  async function keep<T>(
    arrivals: Arrival[],
    ownerId: string,
    kind: DocumentKind,
    also: (rows: DocumentRow[]) => T,
  ): Promise<T> {
    const digests = arrivals.flatMap(({ file, parsed }) => [file.sha256, parsed.textSha256]);
    const release = blobs.hold(digests);
    try {
      for (const { file, parsed } of arrivals) {
        await blobs.keepFile(file.path, file.sha256);
        if (parsed.textSha256 !== file.sha256) await blobs.keep(parsed.text, parsed.textSha256);
      }
      return store.transaction(() => also(arrivals.map((arrival) => addRow(arrival, ownerId, kind))));
    } finally {
      release();
      blobs.removeUnused(digests);
    }
  }

  function addRow({ file, name, parsed }: Arrival, ownerId: string, kind: DocumentKind): DocumentRow {
    const row: DocumentRow = {
      id: newId("document"),
      owner_id: ownerId,
      kind,
      name,
      media_type: parsed.mediaType,
      bytes: file.bytes,
      characters: parsed.characters,
      sha256: file.sha256,
      text_sha256: parsed.textSha256,
      created_seq: store.nextSeq(),
      created_at: clock.now(),
    };
    rows.add.run(row);
    return row;
  }

  const handlers: Documents["handlers"] = {
    "documents.upload": async ({ files, signal }, { userId }) => {
      const arrivals: Arrival[] = [];
      for (const file of files) arrivals.push(await read(file, signal));
      const kept = await keep(arrivals, userId, "document", (added) => added);
      log("info", "documents.added", { userId, count: kept.length });
      return { documents: kept.map(toRecord) };
    },

    "documents.list": async ({ query: { limit, offset } }, { userId }) => ({
      documents: rows.page.all(userId, limit, offset).map(toRecord),
      total: rows.count.get(userId)?.n ?? 0,
    }),

    "documents.get": async ({ params }, { userId }) => {
      const row = rows.get.get(userId, params.document_id);
      if (!row) throw new Failure("not_found");
      return toRecord(row);
    },

    "documents.delete": async ({ params }, { userId }) => {
      const row = rows.get.get(userId, params.document_id);
      if (!row || rows.remove.run(userId, row.id).changes === 0) throw new Failure("not_found");
      blobs.removeUnused([row.sha256, row.text_sha256]);
      return { document_id: row.id, message: "Deleted. Alignments keep the snapshot they took." };
    },
  };

  return {
    handlers,

    async snapshot(ownerId, ids) {
      const wanted = [...new Set(ids)].map((id) => rows.get.get(ownerId, id));
      const found = wanted.filter((row) => row !== undefined);
      if (found.length < wanted.length) throw new Failure("not_found", "A document was not found");
      const release = blobs.hold(found.map((row) => row.text_sha256));
      try {
        const snapshots: Snapshot[] = [];
        for (const { id, name, media_type, sha256, text_sha256 } of found) {
          const text = (await blobs.read(text_sha256)).toString("utf8");
          snapshots.push({ document: { id, name, media_type, text }, sha256 });
        }
        return snapshots;
      } finally {
        release();
        blobs.removeUnused(found.map((row) => row.text_sha256));
      }
    },

    async keepBenchmark(ownerId, file, signal, readText, add) {
      const arrival = await read(file, signal);
      const made = await readText(Buffer.from(arrival.parsed.text).toString("utf8"));
      return keep([arrival], ownerId, "benchmark", ([row]) => add(row!, made));
    },

    prepare: blobs.prepare,
    sweep: blobs.sweep,
    close: () => parser.close(),
  };
}

const toRecord = ({ id, name, media_type, bytes, characters, sha256, created_at }: DocumentRow) => ({
  document_id: id,
  name,
  media_type,
  bytes,
  characters,
  sha256,
  created_at,
});
