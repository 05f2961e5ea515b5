// A stage is a piece of a run's work that is done once. What it makes is a folder of files that says what it was made of; whoever comes
// after a kill reads it back, and nobody makes it twice.
//
//   <place>/manifest.json   written last: the stage's identity, and the size and sha256 of every other file
//
// The folder is made under a temporary name, synced and renamed, so a folder that has its name is complete. Sizes and hashes are
// checked all the same before it is used, for a disk can lose what it acknowledged.
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
  /** Within the stage's folder. */
  name: string;
  bytes: number;
  sha256: string;
}

/** A stage that is there and whole. */
export interface Kept {
  folder: string;
  files: StageFile[];
}

interface Manifest {
  /** What the stage was made of. A stage with another one is of no use to this run. */
  identity: string;
  files: StageFile[];
}

const manifestName = "manifest.json";

/** How what a stage makes becomes files, and what a run has of them. */
export interface Form<Made, T> {
  /** Durable once it resolves. The folder is there and empty. */
  write(folder: string, made: Made): Promise<void>;
  read(kept: Kept): Promise<T>;
}

/** What the files of a stage say: those that an earlier process kept of the same things, else what `make` makes now. */
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

/** One value in one file. */
export const json = <T>(): Form<T, T> => ({
  write: (folder, made) => writeJsonDurably(join(folder, jsonName), made),
  read: async ({ folder }) => JSON.parse(await readFile(join(folder, jsonName), "utf8")) as T,
});

/** Takes the place of what stood there. `write` fills a folder, durably. */
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

/** null where none is kept, it was made of other things, or a file of it is damaged. */
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
