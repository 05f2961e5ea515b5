// The archive at the end of a release's executable. It holds the folder that the executable unpacks:
//
//   executable | packed content, in pieces | index (JSON) | trailer
//
// The trailer has a fixed size, so the index can be found from the end of the file. The index contains the SHA-256 of every file, and the
// trailer contains the SHA-256 of the index, which therefore identifies the content of the whole folder.
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { zstdDecompressSync } from "node:zlib";
import { Failure } from "../base/errors.ts";
import { sha256 } from "../base/files.ts";

/** A piece of a file's content. Each piece is compressed separately, so that unpacking a large file needs little memory. */
export interface Piece {
  /** Position in the executable. */
  offset: number;
  packedBytes: number;
  bytes: number;
}

export interface ArchivedFile {
  /** Relative to the unpacked folder. */
  path: string;
  mode: number;
  sha256: string;
  pieces: Piece[];
}

export interface Index {
  /** The file that Node runs, relative to the unpacked folder. */
  program: string;
  /** Node's executable, relative to the unpacked folder. */
  node: string;
  files: ArchivedFile[];
}

export interface Archive {
  /** Identifies the content: the first 16 hexadecimal digits of the index's SHA-256. */
  readonly id: string;
  readonly index: Index;
  content(file: ArchivedFile): Iterable<Buffer>;
  close(): void;
}

const magic = Buffer.from("PLUMBARC");
/** Size of the trailer: the magic, the index's offset and length as 64-bit little-endian numbers, and the index's SHA-256. */
const trailerBytes = magic.length + 8 + 8 + 32;

export function trailerOf(index: Buffer, offset: number): Buffer {
  const numbers = Buffer.alloc(16);
  numbers.writeBigUInt64LE(BigInt(offset), 0);
  numbers.writeBigUInt64LE(BigInt(index.length), 8);
  return Buffer.concat([magic, numbers, Buffer.from(sha256(index), "hex")]);
}

/** Opens the archive of the executable at `path`. Throws release_damaged, also while content is read. */
export function openArchive(path: string): Archive {
  const descriptor = openSync(path, "r");
  const read = (offset: number, bytes: number): Buffer => {
    const buffer = Buffer.allocUnsafe(bytes);
    let done = 0;
    while (done < bytes) {
      const got = readSync(descriptor, buffer, done, bytes - done, offset + done);
      if (got === 0) throw new Failure("release_damaged", `${path} is cut off`);
      done += got;
    }
    return buffer;
  };
  try {
    const { size } = fstatSync(descriptor);
    const trailer = read(Math.max(0, size - trailerBytes), Math.min(size, trailerBytes));
    const numbers = trailer.subarray(magic.length);
    if (!trailer.subarray(0, magic.length).equals(magic)) throw new Failure("release_damaged", `${path} is cut off`);
    const offset = Number(numbers.readBigUInt64LE(0));
    const bytes = Number(numbers.readBigUInt64LE(8));
    if (offset + bytes + trailerBytes !== size) throw new Failure("release_damaged", `${path} is cut off`);
    const index = read(offset, bytes);
    const hash = sha256(index);
    if (hash !== numbers.subarray(16).toString("hex"))
      throw new Failure("release_damaged", `The list of files in ${path} is damaged`);
    return {
      id: hash.slice(0, 16),
      index: JSON.parse(index.toString("utf8")) as Index,
      *content(file) {
        for (const piece of file.pieces) yield unpackedPiece(read(piece.offset, piece.packedBytes), piece, path, file);
      },
      close: () => closeSync(descriptor),
    };
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

function unpackedPiece(packed: Buffer, piece: Piece, archive: string, file: ArchivedFile): Buffer {
  try {
    return zstdDecompressSync(packed, { maxOutputLength: piece.bytes });
  } catch (cause) {
    throw new Failure("release_damaged", `${file.path} in ${archive} is damaged`, { cause });
  }
}
