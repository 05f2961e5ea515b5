// Copies content. It is read from an open file, so that a file that replaces it meanwhile is not mixed in.
import { createHash } from "node:crypto";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { Failure } from "../../base/errors.ts";
import { isErrno, makeFolder, temporaryName } from "../../base/files.ts";

export interface Content {
  sha256: string;
  bytes: number;
}

/** Thrown for content that is cut short or has the wrong hash. */
export class Damaged extends Error {}

/** Reads `bytes` bytes from offset `from`. Throws Damaged if the file ends before. */
export async function* partsOf(file: FileHandle, bytes: number, from = 0): AsyncGenerator<Buffer> {
  if (bytes === 0) return;
  const range = { start: from, end: from + bytes - 1, autoClose: false, highWaterMark: 1 << 20 };
  let read = 0;
  for await (const part of file.createReadStream(range) as AsyncIterable<Buffer>) {
    read += part.length;
    yield part;
  }
  if (read < bytes) throw new Damaged(`has ${read} of ${bytes} bytes`);
}

/** Throws Damaged. */
export async function hashParts(parts: AsyncIterable<Buffer>, expected: string | null): Promise<Content> {
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const part of parts) {
    hash.update(part);
    bytes += part.length;
  }
  const sha256 = hash.digest("hex");
  if (expected !== null && sha256 !== expected) throw new Damaged(`has the SHA-256 ${sha256}, not ${expected}`);
  return { sha256, bytes };
}

/**
 * Writes and syncs a file that only its owner may read, and renames it into place once its hash is checked. The caller
 * syncs the folder.
 */
export async function writeParts(
  parts: AsyncIterable<Buffer>,
  expected: string | null,
  near: string,
  placeOf: (sha256: string) => string,
): Promise<Content> {
  const temporary = temporaryName(near);
  try {
    const file = await open(temporary, "wx", 0o600);
    let content: Content;
    try {
      content = await hashParts(written(parts, file), expected);
      await file.sync();
    } finally {
      await file.close();
    }
    const place = placeOf(content.sha256);
    await makeFolder(dirname(place));
    await rename(temporary, place);
    return content;
  } catch (error) {
    await rm(temporary, { force: true });
    throw noSpace(error);
  }
}

async function* written(parts: AsyncIterable<Buffer>, to: FileHandle): AsyncGenerator<Buffer> {
  for await (const part of parts) {
    await to.writeFile(part);
    yield part;
  }
}

export const noSpace = (error: unknown): unknown =>
  isErrno(error, "ENOSPC", "EDQUOT") ? new Failure("backup_no_space", undefined, { cause: error }) : error;
