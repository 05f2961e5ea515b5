// A backup as one file: a tar archive with the same content as a backup folder, written anew each time. It is written in
// the folder `<archive>.partial` beside its final place. The next backup to the same place removes what a killed backup
// left there.
import { type FileHandle, mkdir, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { contentPaths } from "../../base/config.ts";
import { hashParts, partsOf } from "../../base/content.ts";
import { Failure } from "../../base/errors.ts";
import { isErrno, syncFolder } from "../../base/files.ts";
import { listTar, type TarPlace, tarEnd, tarHeader, tarPadding } from "../../base/tar.ts";
import type { Target } from "./backup.ts";
import { lockBackup } from "./folder.ts";
import { type Backup, manifestName, readManifest } from "./manifest.ts";
import { noSpace } from "./no-space.ts";

const nameOf = (sha256: string): string => join("content", contentPaths.blob(sha256));
const mostManifestBytes = 1 << 29;

/** Throws backup_locked. */
export async function openArchiveTarget(path: string): Promise<Target & { close(): Promise<void> }> {
  const partial = `${path}.partial`;
  await mkdir(partial, { recursive: true, mode: 0o700 });
  const lock = lockBackup(join(partial, "lock"));
  const file = await open(join(partial, basename(path)), "w", 0o600);
  const written = new Set<string>();

  const append = async (name: string, bytes: number, parts: AsyncIterable<Buffer> | Buffer[]): Promise<void> => {
    try {
      await file.writeFile(tarHeader(name, bytes, Math.floor(Date.now() / 1000), 0o600));
      for await (const part of parts) await file.writeFile(part);
      await file.writeFile(tarPadding(bytes));
    } catch (error) {
      throw noSpace(error);
    }
  };

  return {
    scratch: partial,
    previous: null,
    has: async ({ sha256 }) => written.has(sha256),
    async add(parts, bytes, expected) {
      const content = await hashParts(parts(), expected);
      if (written.has(content.sha256)) return content;
      await append(nameOf(content.sha256), bytes, parts());
      written.add(content.sha256);
      return content;
    },
    async finish(manifest) {
      const text = Buffer.from(`${JSON.stringify(manifest)}\n`);
      await append(manifestName, text.length, [text]);
      await file.writeFile(tarEnd);
      await file.sync();
      await rename(join(partial, basename(path)), path);
      await syncFolder(dirname(path));
    },
    async close() {
      await file.close();
      lock.release();
      await rm(partial, { recursive: true, force: true });
    },
  };
}

/** Throws backup_invalid. */
export async function openArchiveBackup(path: string): Promise<Backup> {
  const file = await open(path, "r");
  try {
    const places = await listTar(file).catch((error: Error) => {
      if (isErrno(error, "EIO")) throw error;
      throw new Failure("backup_invalid", `${path}: ${error.message}`, { cause: error });
    });
    const place = places.get(manifestName);
    if (place === undefined || place.bytes > mostManifestBytes)
      throw new Failure("backup_invalid", `${path} has no ${manifestName}: it is not a backup`);
    const manifest = readManifest((await wholeOf(file, place)).toString("utf8"));
    const wanted = new Set([manifest.database, ...manifest.files].map(({ sha256 }) => nameOf(sha256)));
    return {
      manifest,
      async *read(sha256) {
        const found = places.get(nameOf(sha256));
        if (found === undefined) throw Object.assign(new Error("not in the archive"), { code: "ENOENT" });
        yield* partsOf(file, found.bytes, found.offset);
      },
      others: async () => [...places.keys()].filter((name) => name !== manifestName && !wanted.has(name)),
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function wholeOf(file: FileHandle, { offset, bytes }: TarPlace): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of partsOf(file, bytes, offset)) parts.push(part);
  return Buffer.concat(parts);
}
