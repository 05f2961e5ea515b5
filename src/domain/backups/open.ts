// Opens an existing backup, folder or archive.
import { stat } from "node:fs/promises";
import { Failure } from "../../base/errors.ts";
import { isErrno } from "../../base/files.ts";
import { openArchiveBackup } from "./archive.ts";
import { openFolderBackup } from "./folder.ts";
import type { Manifest } from "./manifest.ts";

export interface Backup {
  manifest: Manifest;
  /** Reads content by its hash, without checking it. Throws ENOENT if it is missing. */
  read(sha256: string): AsyncIterable<Buffer>;
  /** Files in the backup that the manifest does not name. */
  others(): Promise<string[]>;
  close(): Promise<void>;
}

/** Throws data_missing, backup_invalid. */
export async function openBackup(path: string): Promise<Backup> {
  const facts = await stat(path).catch((error) => {
    if (isErrno(error, "ENOENT", "ENOTDIR")) throw new Failure("data_missing", `There is nothing at ${path}`);
    throw error;
  });
  return facts.isDirectory() ? openFolderBackup(path) : openArchiveBackup(path);
}
