// Checks that every file of a backup or of a data folder exists and is unchanged. An appliance may serve from the data
// folder meanwhile.
import { access, constants, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { places } from "../../base/config.ts";
import { Damaged, hashParts, writeParts } from "../../base/content.ts";
import { isErrno, isUnreadable, sha256OfFile } from "../../base/files.ts";
import { problemsOf } from "../../store/snapshot.ts";
import type { Backup } from "./manifest.ts";
import { type Named, type NamedFile, readNamed } from "./named.ts";
import { noSpace } from "./no-space.ts";
import { problemsOfRun } from "./runs.ts";

export interface VerifyReport {
  files: number;
  /** Descriptions of what is wrong. */
  problems: string[];
  /** Paths of files that nothing names. They are unused and harmless. */
  others: string[];
}

type Tell = (done: number, total: number) => void;

/**
 * Checks every file against the manifest, then the database, and then the files that its rows name against the
 * manifest.
 */
export async function verifyBackup(backup: Backup, onProgress: Tell): Promise<VerifyReport> {
  const { database, files } = backup.manifest;
  const problems: string[] = [];
  const checked = new Map<string, string | null>();
  for (const [index, { path, sha256, bytes }] of files.entries()) {
    onProgress(index, files.length);
    // Content that several files share is stored and checked once.
    if (!checked.has(sha256)) checked.set(sha256, await problemOfContent(backup, sha256, bytes));
    const problem = checked.get(sha256);
    if (typeof problem === "string") problems.push(`${path} ${problem}`);
  }
  onProgress(files.length, files.length);
  problems.push(...(await problemsOfDatabase(backup, database.sha256)));
  return { files: files.length, problems, others: await backup.others() };
}

async function problemOfContent(backup: Backup, sha256: string, bytes: number): Promise<string | null> {
  try {
    const found = await hashParts(backup.read(sha256), sha256);
    return found.bytes === bytes ? null : `has ${found.bytes} bytes, not ${bytes}`;
  } catch (error) {
    return wordsOf(error);
  }
}

function wordsOf(error: unknown): string {
  if (error instanceof Damaged) return error.message;
  if (isErrno(error, "ENOENT", "ENOTDIR")) return "does not exist";
  if (isUnreadable(error)) return "cannot be read";
  throw error;
}

async function problemsOfDatabase(backup: Backup, sha256: string): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), "plumbline-verify-"));
  try {
    const path = join(folder, "database");
    try {
      await writeParts(backup.read(sha256), sha256, path, () => path);
    } catch (error) {
      return [`the database ${wordsOf(noSpace(error))}`];
    }
    const problems = problemsOf(path).map((problem) => `the database: ${problem}`);
    if (problems.length > 0) return problems;
    const kept = new Map(backup.manifest.files.map((file) => [file.path, file.sha256]));
    // The root does not matter, because paths in a backup are relative.
    const { files, runs } = await readNamed(path, "/");
    const isLost = ({ id, live }: Named["runs"][number]): boolean => live && !kept.has(`runs/${id}/order.json`);
    return [
      ...files
        .filter((file) => kept.get(file.path) !== file.sha256)
        .map(({ what, path }) => `${what}: the backup has no ${path} with its hash`),
      ...runs.filter(isLost).map(({ id }) => `alignment ${id}: the backup lacks its run folder`),
    ];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * Checks the database, the files that its rows name, and the run folders. If `quick`, the named files are only checked
 * for being readable, but the files of run folders are still read.
 */
export async function verifyData(data: string, onProgress: Tell, { quick = false } = {}): Promise<VerifyReport> {
  const { database } = places(data);
  const problems = problemsOf(database).map((problem) => `the database: ${problem}`);
  if (problems.length > 0) return { files: 0, problems, others: [] };
  // The files are listed before the rows are read, so that a file stored meanwhile is either named by a row or not listed.
  const listed = [...(await filesUnder(places(data).blobs)), ...(await filesUnder(places(data).models))];
  const named = await readNamed(database, data);
  const total = named.files.length + named.runs.length;
  const broken: { file: NamedFile; problem: string }[] = [];
  let done = 0;
  for (const file of named.files) {
    onProgress(done++, total);
    const problem = await (quick ? problemOfPlace(file) : problemOfFile(file));
    if (problem !== null) broken.push({ file, problem: `${file.what}: ${file.source} ${problem}` });
  }
  const runs: { id: string; problem: string }[] = [];
  for (const { id, live } of named.runs) {
    onProgress(done++, total);
    runs.push(...(await problemsOfRun(data, id, live)).map((problem) => ({ id, problem })));
  }
  onProgress(total, total);
  // Read the rows again, so that files deleted meanwhile are not reported as missing.
  const now = broken.length + runs.length > 0 ? await readNamed(database, data) : named;
  const stillNamed = new Set(now.files.map(({ path }) => path));
  const stillKept = new Set(now.runs.map(({ id }) => id));
  return {
    files: named.files.length,
    problems: [
      ...broken.filter(({ file }) => stillNamed.has(file.path)).map(({ problem }) => problem),
      ...runs.filter(({ id }) => stillKept.has(id)).map(({ problem }) => problem),
    ],
    others: [...othersIn(listed, named), ...(await runsOfNobody(data, named))],
  };
}

async function problemOfFile({ source, sha256 }: NamedFile): Promise<string | null> {
  try {
    const found = await sha256OfFile(source);
    return found === sha256 ? null : `has the SHA-256 ${found}, not ${sha256}`;
  } catch (error) {
    return wordsOf(error);
  }
}

const problemOfPlace = ({ source }: NamedFile): Promise<string | null> =>
  access(source, constants.R_OK).then(() => null, wordsOf);

function othersIn(listed: readonly string[], { files }: Named): string[] {
  const sources = new Set(files.map(({ source }) => source));
  return listed.filter((path) => !sources.has(path));
}

async function runsOfNobody(data: string, { runs }: Named): Promise<string[]> {
  const known = new Set(runs.map(({ id }) => id));
  const folders = await readdir(places(data).runs).catch(nothingThere);
  return folders.filter((name) => !known.has(name)).map((name) => join(places(data).runs, name));
}

async function filesUnder(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(nothingThere);
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

function nothingThere(error: unknown): [] {
  if (isErrno(error, "ENOENT")) return [];
  throw error;
}
