// Copies and hashes content. Content is read from an open file, so that a file that meanwhile takes its name is not mixed in.
import { createHash } from "node:crypto";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { makeFolder, temporaryName } from "./files.ts";

export interface Content {
  sha256: string;
  bytes: number;
}

/** Thrown for content that is cut short or has the wrong hash. */
export class Damaged extends Error {}

const partBytes = 1 << 20;

/** Reads `bytes` bytes from offset `from`. Throws Damaged if the file ends earlier. */
export async function* partsOf(file: FileHandle, bytes: number, from = 0): AsyncGenerator<Buffer> {
  // Streams are not used, because each stream would leave a listener on the handle, and one file may be read in thousands of parts.
  for (let read = 0; read < bytes; ) {
    const wanted = Math.min(partBytes, bytes - read);
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(wanted), 0, wanted, from + read);
    if (bytesRead === 0) throw new Damaged(`has ${read} of ${bytes} bytes`);
    read += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/** Reads all parts and returns their hash and size. Throws Damaged if `expected` is not null and differs from the hash. */
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
 * Writes and syncs a file that only its owner may read, and renames it into place after checking its hash. Throws Damaged if the hash
 * is not `expected`. The caller syncs the folder.
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
    throw error;
  }
}

async function* written(parts: AsyncIterable<Buffer>, to: FileHandle): AsyncGenerator<Buffer> {
  for await (const part of parts) {
    await to.writeFile(part);
    yield part;
  }
}
