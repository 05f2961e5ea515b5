// All SQL of documents. Statements on a user's documents also check the owner.
import type { DocumentFormat } from "../../contract/documents.ts";
import type { Store } from "../../store/open.ts";

export type DocumentKind = "document" | "benchmark";
export type MediaType = "text/plain" | "text/markdown" | "text/csv";

export interface DocumentRow {
  id: string;
  owner_id: string;
  kind: DocumentKind;
  name: string;
  media_type: MediaType;
  bytes: number;
  characters: number;
  sha256: string;
  text_sha256: string;
  /** Null in rows older than the column. Their format follows from media_type. */
  format: DocumentFormat | null;
  /** SHA-256 under which the blob store has the structure of the clean text. Null in rows older than the column. */
  structure_sha256: string | null;
  /** JSON of a DocumentReport. Null in rows older than the column. */
  report_json: string | null;
  created_seq: number;
  created_at: string;
}

export interface DuplicateRow {
  document_id: string;
  start: number;
  end: number;
  other_id: string;
  other_start: number;
  other_end: number;
  similarity: number;
}

const own = "owner_id = ? AND kind = 'document'";

export function documentRows(store: Store) {
  return {
    add: store.prepare<DocumentRow>(
      `INSERT INTO document(id, owner_id, kind, name, media_type, bytes, characters, sha256, text_sha256,
                            format, structure_sha256, report_json, created_seq, created_at)
       VALUES(:id, :owner_id, :kind, :name, :media_type, :bytes, :characters, :sha256, :text_sha256,
              :format, :structure_sha256, :report_json, :created_seq, :created_at)`,
    ),
    page: store.prepare<[string, number, number], DocumentRow>(
      `SELECT * FROM document WHERE ${own} ORDER BY created_seq DESC LIMIT ? OFFSET ?`,
    ),
    count: store.prepare<[string], { n: number }>(`SELECT count(*) AS n FROM document WHERE ${own}`),
    get: store.prepare<[string, string], DocumentRow>(`SELECT * FROM document WHERE ${own} AND id = ?`),
    remove: store.prepare<[string, string]>(`DELETE FROM document WHERE ${own} AND id = ?`),
    /** Deletes a benchmark's document and returns its row. Nothing may refer to the document any more. */
    removeBenchmark: store.prepare<[string, string], DocumentRow>(
      "DELETE FROM document WHERE owner_id = ? AND id = ? AND kind = 'benchmark' RETURNING *",
    ),
    addSignatures: store.prepare<[string, Uint8Array]>(
      "INSERT INTO document_signature(document_id, signatures) VALUES(?, ?)",
    ),
    /** Signatures of the next documents after a given created_seq, in that order. */
    signatures: store.prepare<[string, number, number], { id: string; created_seq: number; signatures: Buffer }>(
      `SELECT id, created_seq, signatures FROM document JOIN document_signature ON document_id = id
       WHERE ${own} AND created_seq > ? ORDER BY created_seq LIMIT ?`,
    ),
    addDuplicate: store.prepare<DuplicateRow>(
      `INSERT OR IGNORE INTO document_duplicate(document_id, start, end, other_id, other_start, other_end, similarity)
       SELECT :document_id, :start, :end, :other_id, :other_start, :other_end, :similarity
       WHERE EXISTS(SELECT 1 FROM document WHERE id = :other_id)`,
    ),
    /** The duplicates of one document, whichever of the two came first. */
    duplicates: store.prepare<{ id: string }, Omit<DuplicateRow, "document_id">>(
      `SELECT start, end, other_id, other_start, other_end, similarity FROM document_duplicate WHERE document_id = :id
       UNION ALL
       SELECT other_start, other_end, document_id, start, end, similarity FROM document_duplicate WHERE other_id = :id
       ORDER BY 1, 6 DESC, 3`,
    ),
    /** Stores the given key if there is none yet, and returns the stored key. */
    maskKey: store.prepare<[string], { key: string }>(
      "INSERT INTO mask_key(id, key) VALUES(1, ?) ON CONFLICT DO UPDATE SET key = key RETURNING key",
    ),
    isReferenced: store.prepare<{ digest: string }, { any: number }>(
      `SELECT EXISTS(SELECT 1 FROM document
                     WHERE sha256 = :digest OR text_sha256 = :digest OR structure_sha256 = :digest) AS any`,
    ),
  };
}
