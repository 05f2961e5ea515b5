// Appends the archive that src/launcher/archive.ts reads to an executable.
import { createHash } from "node:crypto";
import { closeSync, fstatSync, fsyncSync, openSync, readSync, statSync, writeSync } from "node:fs";
import { constants, zstdCompressSync } from "node:zlib";
import { type ArchivedFile, type Index, type Piece, trailerOf } from "../src/launcher/archive.ts";
import type { Contents } from "./contents.ts";

const pieceBytes = 16 << 20;
/** Most of the bytes are GPU code that is compressed already: level 19 takes ten times as long for 0.5 % of them (measured). */
const options = { params: { [constants.ZSTD_c_compressionLevel]: 12 } };

/** Returns the number of unpacked bytes. Files with the same content are stored once. */
export function appendArchive(executable: string, { program, node, files }: Contents): number {
  const descriptor = openSync(executable, "r+");
  try {
    let end = fstatSync(descriptor).size;
    const append = (bytes: Buffer): number => {
      const at = end;
      for (let done = 0; done < bytes.length; )
        done += writeSync(descriptor, bytes, done, bytes.length - done, at + done);
      end += bytes.length;
      return at;
    };
    const stored = new Map<string, Piece[]>();
    let total = 0;
    const archived = files.map(({ path, from }): ArchivedFile => {
      total += statSync(from).size;
      const sha256 = hashOf(from);
      let pieces = stored.get(sha256);
      if (pieces === undefined) {
        pieces = [];
        for (const bytes of piecesOf(from)) {
          const packed = zstdCompressSync(bytes, options);
          pieces.push({ offset: append(packed), packedBytes: packed.length, bytes: bytes.length });
        }
        stored.set(sha256, pieces);
      }
      const isExecutable = (statSync(from).mode & 0o100) !== 0;
      return { path, mode: isExecutable ? 0o755 : 0o644, sha256, pieces };
    });
    const index: Index = { program, node, files: archived };
    const bytes = Buffer.from(JSON.stringify(index));
    append(trailerOf(bytes, append(bytes)));
    fsyncSync(descriptor);
    return total;
  } finally {
    closeSync(descriptor);
  }
}

function* piecesOf(path: string): Generator<Buffer> {
  const descriptor = openSync(path, "r");
  try {
    for (;;) {
      const buffer = Buffer.allocUnsafe(pieceBytes);
      const bytes = readSync(descriptor, buffer);
      if (bytes === 0) return;
      yield buffer.subarray(0, bytes);
    }
  } finally {
    closeSync(descriptor);
  }
}

function hashOf(path: string): string {
  const hash = createHash("sha256");
  for (const piece of piecesOf(path)) hash.update(piece);
  return hash.digest("hex");
}
