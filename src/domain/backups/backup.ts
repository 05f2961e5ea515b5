// Backs up a data folder, whether or not an appliance is serving from it.
//
//   1. a consistent snapshot of the database
//   2. every file that its rows name, by hash; files that the backup already has are not read
//   3. the run folders, file by file. A run can resume from such a copy, because stages verify themselves and events are only appended
//   4. the manifest
//
// A file or a run can be deleted, with its row, after 1. Then all of it is repeated from 1, and files already copied are kept, so each
// round has less to do. What is missing twice in a row is still named by a row, so the data is damaged.
import { mkdtemp, open, rm, stat } from "node:fs/promises";
import { join, resolve, sep } from "node:path";
import { places } from "../../base/config.ts";
import { type Content, Damaged, partsOf } from "../../base/content.ts";
import { Failure } from "../../base/errors.ts";
import { isErrno, isUnreadable } from "../../base/files.ts";
import { copyDatabase, problemsOf, schemaVersion } from "../../store/snapshot.ts";
import type { Manifest, ManifestFile } from "./manifest.ts";
import { type Named, readNamed } from "./named.ts";
import { isThere, listRun } from "./runs.ts";

/** Where a backup goes: a folder or an archive. */
export interface Target {
  /** Folder for a temporary copy of the database, on the backup's file system, which needs room for it anyway. */
  scratch: string;
  /** Manifest of the backup that is replaced; null if there is none. */
  previous: Manifest | null;
  has(content: Content): Promise<boolean>;
  /**
   * Adds content, which is durable once `finish` resolves. `parts` may be called twice. Throws Damaged if the content's
   * hash is not `expected`.
   */
  add(parts: () => AsyncIterable<Buffer>, bytes: number, expected: string | null): Promise<Content>;
  finish(manifest: Manifest): Promise<void>;
}

export interface BackupReport {
  manifest: Manifest;
  /** Files and bytes that the backup did not have already. */
  copied: { files: number; bytes: number };
}

export interface BackupParts {
  data: string;
  /** Version of plumbline. */
  version: string;
  now: () => string;
  onProgress: (phase: "database" | "files", doneBytes: number, totalBytes: number) => void;
}

/** Maximum number of attempts. Another attempt is made if files were deleted during the last one. */
const mostAttempts = 20;

export async function makeBackup(target: Target, parts: BackupParts): Promise<BackupReport> {
  const copied = { files: 0, bytes: 0 };
  let missing = new Map<string, string>();
  for (let attempt = 1; attempt <= mostAttempts; attempt++) {
    const made = await attemptBackup(target, parts, copied);
    if ("manifest" in made) {
      await target.finish(made.manifest);
      return { manifest: made.manifest, copied };
    }
    for (const [path, problem] of made.missing) if (missing.has(path)) throw new Failure("backup_incomplete", problem);
    missing = made.missing;
  }
  throw new Failure("backup_incomplete", `Files were deleted during ${mostAttempts} attempts to copy them`);
}

/** Problems of files that could not be copied, by path. */
type Missing = Map<string, string>;

async function attemptBackup(
  target: Target,
  parts: BackupParts,
  copied: BackupReport["copied"],
): Promise<{ manifest: Manifest } | { missing: Missing }> {
  const created_at = parts.now();
  const scratch = await mkdtemp(join(target.scratch, ".tmp-snapshot-"));
  try {
    const snapshot = join(scratch, "database");
    parts.onProgress("database", 0, (await stat(places(parts.data).database)).size);
    copyDatabase(places(parts.data).database, snapshot);
    const [problem] = problemsOf(snapshot);
    if (problem !== undefined) throw new Failure("backup_incomplete", `The database is damaged: ${problem}`);
    const database = await addFile(target, snapshot, null, copied, () => {});
    const { files, missing } = await addFiles(target, await readNamed(snapshot, parts.data), parts, copied);
    if (missing.size > 0) return { missing };
    const schema = schemaVersion(snapshot);
    return { manifest: { format: 1, plumbline: parts.version, schema, created_at, database, files } };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** Adds a file to the backup. Throws ENOENT, and Damaged if it cannot be read or its hash is not the expected one. */
async function addFile(
  target: Target,
  source: string,
  expected: string | null,
  copied: BackupReport["copied"],
  onBytes: (bytes: number) => void,
): Promise<Content> {
  const file = await open(source, "r").catch((error) => {
    throw readingError(error);
  });
  try {
    // Copy only the bytes that exist now. Bytes that are appended later are not part of this backup.
    const { size: bytes } = await file.stat();
    if (expected !== null && (await target.has({ sha256: expected, bytes }))) return { sha256: expected, bytes };
    const content = await target.add(() => counted(partsOf(file, bytes), onBytes), bytes, expected);
    copied.files++;
    copied.bytes += bytes;
    return content;
  } finally {
    await file.close();
  }
}

async function* counted(parts: AsyncIterable<Buffer>, onBytes: (bytes: number) => void): AsyncGenerator<Buffer> {
  let bytes = 0;
  try {
    for await (const part of parts) {
      bytes += part.length;
      onBytes(bytes);
      yield part;
    }
  } catch (error) {
    throw readingError(error);
  }
}

/** Damaged for a file that is there and cannot be read, else the same error. */
const readingError = (error: unknown): unknown =>
  isUnreadable(error) ? new Damaged(`cannot be read (${(error as NodeJS.ErrnoException).code})`) : error;

async function addFiles(
  target: Target,
  named: Named,
  { data, onProgress }: BackupParts,
  copied: BackupReport["copied"],
): Promise<{ files: ManifestFile[]; missing: Missing }> {
  const runs = (await Promise.all(named.runs.map(({ id }) => listRun(data, id)))).flat();
  const sources = [...named.files.map(({ source }) => source), ...runs.map((path) => join(data, path))];
  const sizes = new Map<string, number>();
  for (const source of sources) sizes.set(source, await sizeOf(source));
  const total = [...sizes.values()].reduce((sum, size) => sum + size, 0);
  let done = 0;
  const tell = (bytes: number): void => onProgress("files", Math.min(done + bytes, total), total);
  const files: ManifestFile[] = [];
  const missing: Missing = new Map();
  for (const { what, path, source, sha256 } of named.files) {
    tell(0);
    try {
      files.push({ path, ...(await addFile(target, source, sha256, copied, tell)) });
    } catch (error) {
      if (error instanceof Damaged) missing.set(path, `${what}: ${source} ${error.message}`);
      else if (isErrno(error, "ENOENT", "ENOTDIR")) missing.set(path, `${what}: ${source} does not exist`);
      else throw error;
    }
    done += sizes.get(source)!;
  }
  const known = new Map(target.previous?.files.map((file) => [file.path, file]));
  for (const path of runs) {
    tell(0);
    const source = join(data, path);
    const content = await addRunFile(target, source, known.get(path), copied, tell);
    // If a file is missing, its run has replaced or removed it and no longer needs it.
    if (content !== null) files.push({ path, ...content });
    done += sizes.get(source)!;
  }
  // A live run keeps its order to its end, so if the order is gone, the run was deleted after the snapshot.
  for (const { id, live } of named.runs) {
    const order = join(places(data).runs, id, "order.json");
    if (live && !(await isThere(order))) missing.set(order, `alignment ${id}: ${order} does not exist`);
  }
  tell(0);
  return { files, missing };
}

/**
 * Adds a run's file to the backup; null if the file no longer exists. Files of a run are never overwritten in place, so
 * the same size and time mean the same content.
 */
async function addRunFile(
  target: Target,
  source: string,
  known: ManifestFile | undefined,
  copied: BackupReport["copied"],
  onBytes: (bytes: number) => void,
): Promise<(Content & { modified_ms: number }) | null> {
  try {
    const { size: bytes, mtimeMs: modified_ms } = await stat(source);
    const isSame = known?.bytes === bytes && known.modified_ms === modified_ms && (await target.has(known));
    const content = isSame ? { sha256: known.sha256, bytes } : await addFile(target, source, null, copied, onBytes);
    return { ...content, modified_ms };
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    if (error instanceof Damaged) throw new Failure("backup_incomplete", `${source} ${error.message}`);
    throw error;
  }
}

const sizeOf = (path: string): Promise<number> =>
  stat(path).then(
    ({ size }) => size,
    () => 0,
  );

/**
 * Checks the paths before anything is made. A backup inside the data folder would be lost with it, and a backup folder
 * around the data folder would contain other files. Throws data_missing, usage.
 */
export async function checkPlaces(data: string, target: string): Promise<void> {
  const found = await stat(places(data).database).catch(() => null);
  if (found === null) throw new Failure("data_missing", `${data} has no plumbline data`);
  const [a, b] = [resolve(data), resolve(target)];
  const isWithin = (inner: string, outer: string): boolean => inner === outer || inner.startsWith(`${outer}${sep}`);
  if (isWithin(b, a) || isWithin(a, b))
    throw new Failure("usage", `A backup must be outside the data folder ${data}; ${target} is not`);
}
