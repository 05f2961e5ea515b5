// Creates and lists tar archives (POSIX ustar) of regular files. An archive is created while it is being read, so that nothing is written
// to disk. An archive is listed by seeking from header to header.
import { createReadStream } from "node:fs";
import { type FileHandle, stat } from "node:fs/promises";
import { Readable } from "node:stream";

export interface TarEntry {
  /** Name in the archive; at most 100 bytes of ASCII. */
  name: string;
  path: string;
}

/** Position of a file in an archive. */
export interface TarPlace {
  /** Offset of the file's first byte. */
  offset: number;
  bytes: number;
}

const block = 512;
const padded = (bytes: number): number => Math.ceil(bytes / block) * block;

/** The two empty blocks that end an archive. */
export const tarEnd = Buffer.alloc(2 * block);

/** The padding after a file's content, up to the next block. */
export const tarPadding = (bytes: number): Buffer => Buffer.alloc(padded(bytes) - bytes);

/**
 * Returns the size and content of an archive of regular files in the given order, readable by all users. Rejects if a file does not
 * exist; the content fails if a file's size changes before it is read.
 */
export async function tarOf(entries: readonly TarEntry[]): Promise<{ bytes: number; content: Readable }> {
  const files = await Promise.all(
    entries.map(async (entry) => {
      const { size, mtimeMs } = await stat(entry.path);
      return { ...entry, size, seconds: Math.floor(mtimeMs / 1000) };
    }),
  );
  async function* archive(): AsyncGenerator<Buffer> {
    for (const file of files) {
      yield tarHeader(file.name, file.size, file.seconds);
      let read = 0;
      for await (const part of createReadStream(file.path) as AsyncIterable<Buffer>) {
        read += part.length;
        yield part;
      }
      if (read !== file.size) throw new Error(`${file.name} changed while it was being read`);
      yield tarPadding(file.size);
    }
    yield tarEnd;
  }
  const bytes = files.reduce((sum, { size }) => sum + block + padded(size), 2 * block);
  return { bytes, content: Readable.from(archive(), { objectMode: false }) };
}

/** A size too large for eleven octal digits is written in GNU's form, a mark and an eight-byte number, which every tar reads. */
const largeSize = { mark: 0x80, at: 128 };
const sizeField = { at: 124, width: 12 };
const sumField = { at: 148, width: 8 };

export function tarHeader(name: string, size: number, seconds: number, mode = 0o644): Buffer {
  if (Buffer.byteLength(name) > 100) throw new RangeError(`${name} is too long for a tar archive`);
  const bytes = Buffer.alloc(block);
  const octal = (value: number, at: number, width: number): void => {
    bytes.write(value.toString(8).padStart(width - 1, "0"), at, "latin1");
  };
  bytes.write(name, 0, "latin1");
  octal(mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  if (size < 8 ** 11) octal(size, sizeField.at, sizeField.width);
  else {
    bytes[sizeField.at] = largeSize.mark;
    bytes.writeBigUInt64BE(BigInt(size), largeSize.at);
  }
  octal(seconds, 136, 12);
  bytes.write("0", 156, "latin1");
  bytes.write("ustar\0", 257, "latin1");
  bytes.write("00", 263, "latin1");
  octal(sumOf(bytes), sumField.at, sumField.width - 1);
  bytes.write(" ", sumField.at + sumField.width - 1, "latin1");
  return bytes;
}

/** The header's checksum, computed with spaces in place of the checksum itself. */
function sumOf(header: Buffer): number {
  const bytes = Buffer.from(header);
  bytes.fill(" ", sumField.at, sumField.at + sumField.width);
  return bytes.reduce((sum, byte) => sum + byte, 0);
}

/**
 * Returns the positions of an archive's regular files by their names. If two files have the same name, the later one is returned. Folders
 * are skipped. Throws if the file is not a tar archive, is cut off, or contains anything but files and folders.
 */
export async function listTar(file: FileHandle): Promise<Map<string, TarPlace>> {
  const { size: end } = await file.stat();
  const found = new Map<string, TarPlace>();
  const header = Buffer.alloc(block);
  for (let at = 0; ; ) {
    const { bytesRead } = await file.read(header, 0, block, at);
    if (bytesRead < block) throw new Error("the archive is cut off");
    if (header.every((byte) => byte === 0)) return found;
    const { name, type, bytes } = readHeader(header);
    if (at + block + padded(bytes) > end) throw new Error("the archive is cut off");
    if (type === "0") found.set(name, { offset: at + block, bytes });
    else if (type !== "5") throw new Error(`${name} is neither a file nor a folder`);
    at += block + padded(bytes);
  }
}

function readHeader(header: Buffer): { name: string; type: string; bytes: number } {
  const text = (at: number, width: number): string => header.toString("latin1", at, at + width).split("\0")[0]!;
  const octal = (at: number, width: number): number => Number.parseInt(text(at, width).trim(), 8);
  if (octal(sumField.at, sumField.width) !== sumOf(header))
    throw new Error("it is not a tar archive, or it is damaged");
  const isLarge = header[sizeField.at] === largeSize.mark;
  const bytes = isLarge ? Number(header.readBigUInt64BE(largeSize.at)) : octal(sizeField.at, sizeField.width);
  if (!Number.isSafeInteger(bytes) || bytes < 0) throw new Error("a file size in the archive is not valid");
  // Tar puts ./ before the names when a whole folder is packed.
  return { name: text(0, 100).replace(/^\.\//, ""), type: text(156, 1) || "0", bytes };
}
