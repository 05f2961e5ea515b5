// A stage is a piece of a run's work that is done once. Its result is a folder of files, which also records what it was made from. If the
// process is killed, the next process reads the folder instead of doing the work again.
//
//   <place>/manifest.json   written last: the stage's identity, and the size and sha256 of every other file
//
// The folder is made under a temporary name, synced and renamed, so a folder with its final name is complete. Sizes and
// hashes are still checked before it is used, because a disk can lose data that it has acknowledged.
import { readdir, readFile, rm, stat } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import {
  isErrno,
  makeFolder,
  renameDurably,
  sha256OfFile,
  syncFolder,
  temporaryName,
  writeJsonDurably,
} from "../base/files.ts";

export interface StageFile {
  /** Path within the stage's folder. */
  name: string;
  bytes: number;
  sha256: string;
}

/** A stage that exists and is whole. */
export interface Kept {
  folder: string;
  files: StageFile[];
}

interface Manifest {
  /** What the stage was made from. A run does not use a stage with another identity. */
  identity: string;
  files: StageFile[];
}

const manifestName = "manifest.json";

/** How the result of a stage is written to files and read back. */
export interface Form<Made, T> {
  /** Writes into the folder, which exists and is empty. Resolves once the files are durable. */
  write(folder: string, made: Made): Promise<void>;
  read(kept: Kept): Promise<T>;
}

/** Returns the result of a stage. If none is kept under the same identity, makes it with `make` and keeps it. */
export async function stage<Made, T>(
  place: string,
  identity: string,
  make: () => Promise<Made>,
  form: Form<Made, T>,
): Promise<T> {
  const kept = await keptAt(place, identity);
  if (kept !== null) return form.read(kept);
  const made = await make();
  return form.read(await keep(place, identity, (folder) => form.write(folder, made)));
}

const jsonName = "said.json";

/** Returns the form of a stage whose result is one value in one JSON file. */
export const json = <T>(): Form<T, T> => ({
  write: (folder, made) => writeJsonDurably(join(folder, jsonName), made),
  read: async ({ folder }) => JSON.parse(await readFile(join(folder, jsonName), "utf8")) as T,
});

/** Writes a stage, replacing any earlier one. `write` must write durably into the folder that it is given. */
export async function keep(
  place: string,
  identity: string,
  write: (folder: string) => Promise<unknown>,
): Promise<Kept> {
  const temporary = temporaryName(place);
  await makeFolder(temporary);
  await write(temporary);
  const files: StageFile[] = [];
  for (const name of await filesUnder(temporary)) {
    const path = join(temporary, name);
    files.push({ name, bytes: (await stat(path)).size, sha256: await sha256OfFile(path) });
  }
  const manifest: Manifest = { identity, files };
  await writeJsonDurably(join(temporary, manifestName), manifest);
  for (const folder of new Set(files.map(({ name }) => dirname(name)))) await syncFolder(join(temporary, folder));
  await syncFolder(temporary);
  await rm(place, { recursive: true, force: true });
  await renameDurably(temporary, place);
  return { folder: place, files };
}

/** Returns the kept stage; null if there is none, its identity differs, or one of its files is missing or damaged. */
export async function keptAt(place: string, identity: string): Promise<Kept | null> {
  try {
    const manifest = JSON.parse(await readFile(join(place, manifestName), "utf8")) as Manifest;
    if (manifest.identity !== identity) return null;
    for (const { name, bytes, sha256 } of manifest.files) {
      const path = join(place, name);
      if ((await stat(path)).size !== bytes || (await sha256OfFile(path)) !== sha256) return null;
    }
    return { folder: place, files: manifest.files };
  } catch (error) {
    if (error instanceof SyntaxError || isErrno(error, "ENOENT", "ENOTDIR", "EIO")) return null;
    throw error;
  }
}

async function filesUnder(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .sort();
}
