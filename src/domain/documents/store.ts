// All SQL of documents. Whose a document is, is part of every predicate.
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
  created_seq: number;
  created_at: string;
}

const own = "owner_id = ? AND kind = 'document'";

export function documentRows(store: Store) {
  return {
    add: store.prepare<DocumentRow>(
      `INSERT INTO document(id, owner_id, kind, name, media_type, bytes, characters, sha256, text_sha256, created_seq, created_at)
       VALUES(:id, :owner_id, :kind, :name, :media_type, :bytes, :characters, :sha256, :text_sha256, :created_seq, :created_at)`,
    ),
    page: store.prepare<[string, number, number], DocumentRow>(
      `SELECT * FROM document WHERE ${own} ORDER BY created_seq DESC LIMIT ? OFFSET ?`,
    ),
    count: store.prepare<[string], { n: number }>(`SELECT count(*) AS n FROM document WHERE ${own}`),
    get: store.prepare<[string, string], DocumentRow>(`SELECT * FROM document WHERE ${own} AND id = ?`),
    remove: store.prepare<[string, string]>(`DELETE FROM document WHERE ${own} AND id = ?`),
    isReferenced: store.prepare<[string, string], { any: number }>(
      "SELECT EXISTS(SELECT 1 FROM document WHERE sha256 = ? OR text_sha256 = ?) AS any",
    ),
  };
}
