// Writes files so that they survive a power cut: a file is written under a temporary name, synced and renamed, and its folder is synced.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, readdir, rename, rm, statfs } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** The start of the names of files that a crash may leave behind. `removeTemporaries` removes such files. */
const temporaryMark = ".tmp-";

export function temporaryName(path: string): string {
  return join(dirname(path), `${temporaryMark}${process.pid}-${Math.random().toString(36).slice(2)}-${basename(path)}`);
}

/** Id of the process that made a temporary name; `name` is the file's name without its folder. */
export const ownerOfTemporary = (name: string): number => Number.parseInt(name.slice(temporaryMark.length), 10);

export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export async function writeFileDurably(path: string, content: string | Uint8Array): Promise<void> {
  const temporary = temporaryName(path);
  try {
    const handle = await open(temporary, "wx", 0o600);
    try {
      await handle.writeFile(content);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncFolder(dirname(path));
}

export const writeJsonDurably = (path: string, value: unknown): Promise<void> =>
  writeFileDurably(path, `${JSON.stringify(value, null, 2)}\n`);

/** Gives a finished file or folder its final name durably. The content must already be synced. */
export async function renameDurably(from: string, to: string): Promise<void> {
  await rename(from, to);
  await syncFolder(dirname(to));
}

export async function removeTemporaries(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true }))
    if (entry.name.startsWith(temporaryMark))
      await rm(join(entry.parentPath, entry.name), { recursive: true, force: true });
}

export const isTemporary = (name: string): boolean => name.startsWith(temporaryMark);

/** Returns the complete lines of a growing file from byte `offset` on, each with the offset of its end. Empty if there is no file yet. */
export async function linesFrom(path: string, offset: number): Promise<{ text: string; end: number }[]> {
  const file = await open(path, "r").catch((error) => {
    if (isErrno(error, "ENOENT")) return null;
    throw error;
  });
  if (file === null) return [];
  try {
    const size = Math.max((await file.stat()).size - offset, 0);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size), 0, size, offset);
    const gained = buffer.subarray(0, bytesRead);
    const lines: { text: string; end: number }[] = [];
    let from = 0;
    for (let end = gained.indexOf(10); end >= 0; end = gained.indexOf(10, from)) {
      lines.push({ text: gained.toString("utf8", from, end), end: offset + end + 1 });
      from = end + 1;
    }
    return lines;
  } finally {
    await file.close();
  }
}

export async function sha256OfFile(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const part of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(part as Buffer);
  return hash.digest("hex");
}

export const sha256 = (content: string | Uint8Array): string => createHash("sha256").update(content).digest("hex");

export async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

export const makeFolder = (folder: string): Promise<unknown> => mkdir(folder, { recursive: true, mode: 0o700 });

export const isErrno = (error: unknown, ...codes: string[]): boolean =>
  error instanceof Error && codes.includes(String((error as NodeJS.ErrnoException).code));

/** Whether a file is there and cannot be read. */
export const isUnreadable = (error: unknown): boolean => isErrno(error, "EIO", "EACCES", "EPERM", "EISDIR");
