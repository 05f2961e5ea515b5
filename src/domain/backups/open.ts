// Opens an existing backup, either a folder or an archive.
import { stat } from "node:fs/promises";
import { Failure } from "../../base/errors.ts";
import { isErrno } from "../../base/files.ts";
import { openArchiveBackup } from "./archive.ts";
import { openFolderBackup } from "./folder.ts";
import type { Backup } from "./manifest.ts";

/** Throws data_missing, backup_invalid. */
export async function openBackup(path: string): Promise<Backup> {
  const facts = await stat(path).catch((error) => {
    if (isErrno(error, "ENOENT", "ENOTDIR")) throw new Failure("data_missing", `${path} does not exist`);
    throw error;
  });
  return facts.isDirectory() ? openFolderBackup(path) : openArchiveBackup(path);
}
