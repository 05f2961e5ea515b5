// All SQL of backups. It reads which files the rows name, and sets the new paths in a restored database.
import { isLive } from "../../jobs/states.ts";
import type { Store } from "../../store/open.ts";

export const prepareNamed = (store: Store) => ({
  documents: store.prepare<[], { id: string; sha256: string; text_sha256: string; structure_sha256: string | null }>(
    "SELECT id, sha256, text_sha256, structure_sha256 FROM document",
  ),
  bases: store.prepare<[], { id: string; path: string; sha256: string }>("SELECT id, path, sha256 FROM base_model"),
  aligned: store.prepare<[], { id: string; adapter_path: string; adapter_sha256: string; sources_path: string | null }>(
    "SELECT id, adapter_path, adapter_sha256, sources_path FROM aligned_model",
  ),
  /** Alignments whose run folders are kept; `live` if unfinished work needs the folder. */
  alignments: store.prepare<[], { id: string; live: 0 | 1 }>(
    `SELECT a.id, EXISTS(SELECT 1 FROM job AS j WHERE j.subject_id = a.id AND ${isLive}) AS live
     FROM alignment AS a WHERE a.deleted_at IS NULL OR live`,
  ),
});

export const preparePlacing = (store: Store) => ({
  ...prepareNamed(store),
  placeBase: store.prepare<[string, string]>("UPDATE base_model SET path = ? WHERE id = ?"),
  placeAligned: store.prepare<[string, string | null, string]>(
    "UPDATE aligned_model SET adapter_path = ?, sources_path = ? WHERE id = ?",
  ),
});
