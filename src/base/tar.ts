// A tar archive (POSIX ustar) of a few files, made while it is read: nothing is written to disk for it.
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { Readable } from "node:stream";

export interface TarEntry {
  /** In the archive; at most 100 bytes of ASCII. */
  name: string;
  path: string;
}

const block = 512;
const padded = (bytes: number): number => Math.ceil(bytes / block) * block;

/** Regular files, readable by all, in the order given. Rejects when one is not there. */
export async function tarOf(entries: readonly TarEntry[]): Promise<{ bytes: number; content: Readable }> {
  const files = await Promise.all(
    entries.map(async (entry) => {
      const { size, mtimeMs } = await stat(entry.path);
      return { ...entry, size, seconds: Math.floor(mtimeMs / 1000) };
    }),
  );
  async function* archive(): AsyncGenerator<Buffer> {
    for (const file of files) {
      yield header(file.name, file.size, file.seconds);
      let read = 0;
      for await (const part of createReadStream(file.path) as AsyncIterable<Buffer>) {
        read += part.length;
        yield part;
      }
      if (read !== file.size) throw new Error(`${file.name} changed while it was read`);
      yield Buffer.alloc(padded(file.size) - file.size);
    }
    yield Buffer.alloc(2 * block);
  }
  const bytes = files.reduce((sum, { size }) => sum + block + padded(size), 2 * block);
  return { bytes, content: Readable.from(archive(), { objectMode: false }) };
}

function header(name: string, size: number, seconds: number): Buffer {
  if (Buffer.byteLength(name) > 100) throw new RangeError(`${name} is too long for a tar archive`);
  const bytes = Buffer.alloc(block);
  const octal = (value: number, at: number, width: number): void => {
    bytes.write(value.toString(8).padStart(width - 1, "0"), at, "latin1");
  };
  bytes.write(name, 0, "latin1");
  octal(0o644, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(seconds, 136, 12);
  bytes.write("0", 156, "latin1");
  bytes.write("ustar\0", 257, "latin1");
  bytes.write("00", 263, "latin1");
  // The sum over the header is made with spaces where it will stand.
  bytes.fill(" ", 148, 156);
  octal(
    bytes.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  );
  return bytes;
}
