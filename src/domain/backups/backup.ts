// Backs a data folder up, whether or not an appliance serves from it.
//
//   1. the database as of now, in one piece
//   2. every file that its rows name, by hash; what the backup has already is not read
//   3. the run folders, file by file: stages verify themselves, events only grow, so a run goes on from any such copy
//   4. the manifest
//
// A file can be deleted, with its row, between 1 and 2. Then both are done again, and what was copied stays copied: each time there is
// less to do. A file that is still lacking, and still named, is damage.
import { mkdtemp, open, rm, stat } from "node:fs/promises";
import { join, resolve, sep } from "node:path";
import { places } from "../../base/config.ts";
import { Failure } from "../../base/errors.ts";
import { isErrno } from "../../base/files.ts";
import { copyDatabase, problemsOf, schemaVersion } from "../../store/snapshot.ts";
import { type Content, Damaged, partsOf } from "./content.ts";
import type { Manifest, ManifestFile } from "./manifest.ts";
import { type Named, readNamed } from "./named.ts";
import { listRun } from "./runs.ts";

/** Where a backup goes: a folder or an archive. */
export interface Target {
  /** A folder that the database is copied to first: on the file system that has room for it. */
  scratch: string;
  /** Of the backup that is replaced; null where there is none. */
  previous: Manifest | null;
  has(content: Content): Promise<boolean>;
  /** Durable once `finish` resolves. `parts` may be read twice. Throws Damaged where another hash is expected. */
  add(parts: () => AsyncIterable<Buffer>, bytes: number, expected: string | null): Promise<Content>;
  finish(manifest: Manifest): Promise<void>;
}

export interface BackupReport {
  manifest: Manifest;
  /** What was not there already. */
  copied: { files: number; bytes: number };
}

export interface BackupParts {
  data: string;
  /** Of plumbline. */
  version: string;
  now: () => string;
  onProgress: (phase: "database" | "files", doneBytes: number, totalBytes: number) => void;
}

/** In a row, each after something was deleted. */
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
  throw new Failure("backup_incomplete", `Files were deleted ${mostAttempts} times while they were copied`);
}

/** By its path in a data folder, what is wrong with each named file that could not be copied. */
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

/** Throws ENOENT, and Damaged where a hash is expected and another one is found. */
async function addFile(
  target: Target,
  source: string,
  expected: string | null,
  copied: BackupReport["copied"],
  onBytes: (bytes: number) => void,
): Promise<Content> {
  const file = await open(source, "r");
  try {
    // What is appended from now on is of a later time.
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
  for await (const part of parts) {
    bytes += part.length;
    onBytes(bytes);
    yield part;
  }
}

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
      else if (isErrno(error, "ENOENT", "ENOTDIR")) missing.set(path, `${what}: ${source} is not there`);
      else throw error;
    }
    done += sizes.get(source)!;
  }
  const known = new Map(target.previous?.files.map((file) => [file.path, file]));
  for (const path of runs) {
    tell(0);
    const source = join(data, path);
    const content = await addRunFile(target, source, known.get(path), copied, tell);
    // One that is gone was replaced or cleared by its run, which needs it no more.
    if (content !== null) files.push({ path, ...content });
    done += sizes.get(source)!;
  }
  tell(0);
  return { files, missing };
}

/** Nothing of a run is written over in place, so the same size and time are the same content. */
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
    throw error;
  }
}

const sizeOf = (path: string): Promise<number> =>
  stat(path).then(
    ({ size }) => size,
    () => 0,
  );

/**
 * Before anything is made. A backup within what it backs up would be lost with it, and one around it would hold other things. Throws
 * data_missing, usage.
 */
export async function checkPlaces(data: string, target: string): Promise<void> {
  const found = await stat(places(data).database).catch(() => null);
  if (found === null) throw new Failure("data_missing", `There is no data of plumbline in ${data}`);
  const [a, b] = [resolve(data), resolve(target)];
  const isWithin = (inner: string, outer: string): boolean => inner === outer || inner.startsWith(`${outer}${sep}`);
  if (isWithin(b, a) || isWithin(a, b))
    throw new Failure("usage", `A backup must lie apart from the data folder ${data}, and ${target} does not`);
}
