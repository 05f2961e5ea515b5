// Documents: text that alignments learn from. An upload is kept whole or not at all. A snapshot outlives its document, unless the
// two are deleted together.
import { randomBytes } from "node:crypto";
import { Failure } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import type { Log } from "../../base/log.ts";
import type { Clock } from "../../base/time.ts";
import { documentNotFound } from "../../catalog/documents.ts";
import type {
  DocumentFormat,
  DocumentReport,
  DocumentSnapshot,
  DuplicateParagraph,
  documents as promises,
  ReadDocument,
} from "../../contract/documents.ts";
import { type Handlers, PlainText, type UploadedFile } from "../../contract/endpoint.ts";
import type { SnapshotDocument } from "../../contract/run-folder.ts";
import { prepareForgetting } from "../../store/idempotency.ts";
import type { Store } from "../../store/open.ts";
import { createBlobs } from "./blobs.ts";
import type { Duplicate } from "./duplicates.ts";
import { label } from "./label.ts";
import type { Parsed, ParseOptions } from "./parse.ts";
import { createParser } from "./parser.ts";
import { findPersonalData } from "./personal.ts";
import { type DocumentKind, type DocumentRow, documentRows } from "./store.ts";

export interface Snapshot {
  document: SnapshotDocument;
  /** SHA-256 of the original file, as in the document's record. */
  sha256: string;
}

export type KeepBenchmark = <Read, Made>(
  ownerId: string,
  file: UploadedFile,
  signal: AbortSignal,
  /** Reads the clean text. Throws if it is not a benchmark. */
  read: (text: string) => Promise<Read>,
  /** Writes the benchmark's rows in the transaction that adds the document. */
  add: (document: { id: string; name: string }, read: Read) => Made,
) => Promise<Made>;

export interface Documents {
  handlers: Handlers<typeof promises>;
  /** Snapshots of documents, each once, in the order of `ids`. Throws not_found unless every document is the owner's. */
  snapshot(ownerId: string, ids: readonly string[]): Promise<Snapshot[]>;
  /**
   * Documents with blocks and chunks, each once, in the order of `ids`. Throws not_found unless every document is the owner's.
   */
  read(ownerId: string, ids: readonly string[]): Promise<ReadDocument[]>;
  /** Personal data of known forms in a text, in order and without overlaps. */
  findPersonalData: typeof findPersonalData;
  /** Keeps an upload as one document of kind benchmark. */
  keepBenchmark: KeepBenchmark;
  /**
   * Deletes a benchmark's document within the caller's transaction. Call the returned function after the commit to
   * remove the contents.
   */
  removeBenchmark(ownerId: string, documentId: string): () => void;
  /** Must be called before any upload. */
  prepare(): Promise<void>;
  /** Removes contents that a crash left without a row. May run concurrently with everything except `prepare`. */
  sweep(): Promise<void>;
  close(): Promise<void>;
}

/** Maximum number of documents whose paragraphs are in memory at once. */
const comparedAtOnce = 200;

/** Maximum number of documents that a record lists as having the same paragraphs. */
const mostListed = 100;

interface Arrival {
  file: UploadedFile;
  name: string;
  parsed: Parsed;
}

type PersonalData = ParseOptions["personalData"];

export function createDocuments(parts: {
  store: Store;
  clock: Clock;
  log: Log;
  folder: string;
  /** Mode for uploads that do not choose one. */
  personalData: PersonalData;
  /** Alignments of the owner that hold a snapshot of a document. */
  snapshotsOf: (ownerId: string, documentId: string) => DocumentSnapshot[];
  /**
   * Deletes the document's snapshots in all alignments of the owner, with the rows made from them. Throws conflict while one of the
   * alignments is running.
   */
  removeSnapshots: (ownerId: string, documentId: string) => Promise<void>;
}): Documents {
  const { store, clock, log } = parts;
  const rows = documentRows(store);
  const forgetReplies = prepareForgetting(store);
  const blobs = createBlobs(parts.folder, (digest) => rows.isReferenced.get({ digest })?.any === 1);
  const parser = createParser();

  const read = (
    ownerId: string,
    file: UploadedFile,
    options: Omit<ParseOptions, "name" | "maskKey">,
    signal: AbortSignal,
  ): Promise<Arrival> => {
    const name = label(file.name);
    const parsed = parser.parse(ownerId, file.path, { ...options, name, maskKey: maskKey() }, signal);
    return parsed.then((parsed) => ({ file, name, parsed }));
  };

  /** The HMAC key of the stand-ins. It is constant for the life of the database, so that a value has the same stand-in in all documents. */
  const maskKey = (): string => rows.maskKey.get(randomBytes(32).toString("hex"))!.key;

  /** Runs an owner's comparisons one after the other, so that concurrent uploads find each other's paragraphs. */
  const comparing = new Map<string, Promise<unknown>>();
  function inTurn<T>(ownerId: string, work: () => Promise<T>): Promise<T> {
    const turn = (comparing.get(ownerId) ?? Promise.resolve()).then(work);
    const ended = turn
      .catch(() => {})
      .then(() => {
        if (comparing.get(ownerId) === ended) comparing.delete(ownerId);
      });
    comparing.set(ownerId, ended);
    return turn;
  }

  /**
   * Finds, for each arrival, the paragraphs that also occur in the owner's documents or in earlier arrivals. An earlier arrival is
   * given by its index.
   */
  async function compared(arrivals: readonly Arrival[], ownerId: string): Promise<Duplicate[][]> {
    const found: Duplicate[][] = arrivals.map(() => []);
    const compare = async (index: number, others: { id: string; signatures: Uint8Array }[]): Promise<void> => {
      const { name, parsed } = arrivals[index]!;
      if (others.length === 0) return;
      // A call can have only about a hundred thousand arguments, and a long document has more duplicates if it was uploaded often.
      for (const duplicate of await parser.compare(ownerId, { name, own: parsed.signatures, others }))
        found[index]!.push(duplicate);
    };
    let last = 0;
    for (let more = true; more; ) {
      const others = rows.signatures.all(ownerId, last, comparedAtOnce);
      for (const index of arrivals.keys()) await compare(index, others);
      last = others.at(-1)?.created_seq ?? last;
      more = others.length === comparedAtOnce;
    }
    const earlier: { id: string; signatures: Uint8Array }[] = [];
    for (const [index, { parsed }] of arrivals.entries()) {
      await compare(index, earlier);
      earlier.push({ id: String(index), signatures: parsed.signatures });
    }
    return found;
  }

  /** Stores the contents durably, then all rows in one transaction. If anything fails, nothing is kept. */
  async function keep<T>(
    arrivals: Arrival[],
    ownerId: string,
    kind: DocumentKind,
    also: (rows: DocumentRow[]) => T,
  ): Promise<T> {
    const digests = arrivals.flatMap(({ file, parsed }) => [file.sha256, parsed.textSha256, parsed.structureSha256]);
    const release = blobs.hold(digests);
    try {
      for (const { file, parsed } of arrivals) {
        await blobs.keepFile(file.path, file.sha256);
        if (parsed.textSha256 !== file.sha256) await blobs.keep(parsed.text, parsed.textSha256);
        await blobs.keep(parsed.structure, parsed.structureSha256);
      }
      return await inTurn(ownerId, async () => {
        const found = kind === "document" ? await compared(arrivals, ownerId) : [];
        return store.transaction(() => {
          const added = arrivals.map((arrival) => addRow(arrival, ownerId, kind));
          for (const [index, duplicates] of found.entries()) addDuplicates(added, index, arrivals[index]!, duplicates);
          return also(added);
        });
      });
    } finally {
      release();
      blobs.removeUnused(digests);
    }
  }

  function addDuplicates(
    added: readonly DocumentRow[],
    index: number,
    { parsed }: Arrival,
    duplicates: Duplicate[],
  ): void {
    const document_id = added[index]!.id;
    rows.addSignatures.run(document_id, parsed.signatures);
    for (const { document_id: other, ...duplicate } of duplicates)
      rows.addDuplicate.run({ ...duplicate, document_id, other_id: added[Number(other)]?.id ?? other });
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
      format: parsed.format,
      structure_sha256: parsed.structureSha256,
      report_json: JSON.stringify(parsed.report),
      created_seq: store.nextSeq(),
      created_at: clock.now(),
    };
    rows.add.run(row);
    return row;
  }

  /** The clean text, and the JSON of its structure. The structure is null if none was stored. */
  async function contentOf(row: DocumentRow): Promise<{ text: string; structure: string | null }> {
    const read = async (digest: string): Promise<string> => (await blobs.read(digest)).toString("utf8");
    const structure = row.structure_sha256 === null ? null : await read(row.structure_sha256);
    return { text: await read(row.text_sha256), structure };
  }

  /**
   * Returns the result of `look` for each document. The contents are held until then, even if a document is deleted in the meantime.
   * Throws not_found unless every document is the owner's.
   */
  async function held<T>(
    ownerId: string,
    ids: readonly string[],
    look: (row: DocumentRow) => Promise<T>,
  ): Promise<T[]> {
    const wanted = [...new Set(ids)].map((id) => rows.get.get(ownerId, id));
    const found = wanted.filter((row) => row !== undefined);
    if (found.length < wanted.length) throw documentNotFound();
    const digests = found.flatMap(digestsOf);
    const release = blobs.hold(digests);
    try {
      const seen: T[] = [];
      for (const row of found) seen.push(await look(row));
      return seen;
    } finally {
      release();
      blobs.removeUnused(digests);
    }
  }

  const duplicatesOf = (id: string): DuplicateParagraph[] =>
    rows.duplicates.all({ id }).map(({ start, end, other_id, other_start, other_end, similarity }) => ({
      start,
      end,
      of: { document_id: other_id, start: other_start, end: other_end },
      similarity,
    }));

  function toRecord(row: DocumentRow) {
    const { id, name, media_type, bytes, characters, sha256, created_at } = row;
    const found = duplicatesOf(id);
    const exact = new Set(found.filter((one) => one.similarity === 1).map((one) => one.start));
    const all = new Set(found.map((one) => one.start));
    const documents = [...new Set(found.map((one) => one.of.document_id))].slice(0, mostListed);
    const duplicates = { exact: exact.size, near: all.size - exact.size, documents };
    const report = reportOf(row);
    return {
      document_id: id,
      name,
      format: formatOf(row),
      media_type,
      bytes,
      characters,
      sha256,
      created_at,
      report,
      duplicates,
    };
  }

  const handlers: Documents["handlers"] = {
    "documents.upload": async ({ files, query, signal, keepReply }, { userId }) => {
      const personalData: PersonalData = query.personal_data ?? parts.personalData;
      const arrivals: Arrival[] = [];
      for (const file of files) arrivals.push(await read(userId, file, { asIs: false, personalData }, signal));
      const reply = await keep(arrivals, userId, "document", (added) => {
        const records = { documents: added.map(toRecord) };
        keepReply(
          records,
          added.map(({ id }) => id),
        );
        return records;
      });
      log("info", "documents.added", { userId, count: arrivals.length });
      return reply;
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

    "documents.text": async ({ params }, { userId }) => {
      const [text] = await held(userId, [params.document_id], async (row) => (await contentOf(row)).text);
      return new PlainText(text!);
    },

    "documents.snapshots": async ({ params }, { userId }) => {
      if (!rows.get.get(userId, params.document_id)) throw new Failure("not_found");
      return { snapshots: parts.snapshotsOf(userId, params.document_id) };
    },
    "documents.delete": async ({ params, query }, { userId }) => {
      const row = rows.get.get(userId, params.document_id);
      if (!row) throw new Failure("not_found");
      // Snapshots are deleted first. If the appliance crashes in between, the document still exists and the request can be repeated.
      if (query.snapshots) await parts.removeSnapshots(userId, row.id);
      store.transaction(() => {
        rows.remove.run(userId, row.id);
        forgetReplies(userId, row.id);
      });
      blobs.removeUnused(digestsOf(row));
      const message = query.snapshots ? "Deleted with its snapshots." : "Deleted. Alignments keep their snapshots.";
      return { document_id: row.id, message };
    },
  };

  return {
    handlers,

    snapshot: (ownerId, ids) =>
      held(ownerId, ids, async (row) => {
        const { id, name, media_type, sha256 } = row;
        const { text, structure } = await contentOf(row);
        const { pages, blocks } = await parser.parts(ownerId, { text, structure, mediaType: media_type, name });
        const plain = blocks.map(({ type, level, start, end }) => ({ type, level, start, end }));
        return { document: { id, name, media_type, text, ...(pages && { pages }), blocks: plain }, sha256 };
      }),

    read: (ownerId, ids) =>
      held(ownerId, ids, async (row) => {
        const { text, structure } = await contentOf(row);
        const { id, name, sha256, media_type } = row;
        const found = await parser.parts(ownerId, { text, structure, mediaType: media_type, name });
        const language = reportOf(row)?.language.main ?? null;
        return {
          id,
          name,
          sha256,
          format: formatOf(row),
          media_type,
          language,
          text,
          ...found,
          duplicates: duplicatesOf(id),
        };
      }),

    findPersonalData,

    async keepBenchmark(ownerId, file, signal, readText, add) {
      const arrival = await read(ownerId, file, { asIs: true, personalData: "off" }, signal);
      const made = await readText(Buffer.from(arrival.parsed.text).toString("utf8"));
      return keep([arrival], ownerId, "benchmark", ([row]) => add(row!, made));
    },

    removeBenchmark(ownerId, documentId) {
      const row = rows.removeBenchmark.get(ownerId, documentId);
      return () => {
        if (row) blobs.removeUnused(digestsOf(row));
      };
    },

    prepare: blobs.prepare,
    sweep: blobs.sweep,
    close: () => parser.close(),
  };
}

const digestsOf = ({ sha256, text_sha256, structure_sha256 }: DocumentRow): string[] =>
  [sha256, text_sha256, structure_sha256].filter((digest) => digest !== null);

const textFormats = { "text/plain": "text", "text/markdown": "markdown", "text/csv": "csv" } as const;
const formatOf = (row: DocumentRow): DocumentFormat => row.format ?? textFormats[row.media_type];

const reportOf = ({ report_json }: DocumentRow): DocumentReport | null =>
  report_json === null ? null : (JSON.parse(report_json) as DocumentReport);
