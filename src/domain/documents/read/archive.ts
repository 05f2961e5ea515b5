// Opens an untrusted ZIP archive. yauzl checks each part's name, and its size against its entry. The limits here are on the
// archive as a whole. Nothing is ever written to disk, and an archive inside the archive is not opened.
import { crc32 } from "node:zlib";
import { type Entry, fromBuffer, type ZipFile } from "yauzl";
import { Failure } from "../../../base/errors.ts";

export interface Archive {
  names: ReadonlySet<string>;
  /** Null if there is no such part. */
  read(name: string): Promise<Buffer | null>;
}

const mostEntries = 10_000;
const mostBytes = 512 << 20;
/** Maximum compression ratio. Office files shrink to a tenth. A file that shrinks more than this was made as an attack. */
const mostRatio = 200;
/** An archive that unpacks to at most this many bytes may have any ratio. */
const freeBytes = 16 << 20;

const problem = (name: string, error: unknown): Failure =>
  error instanceof Failure
    ? error
    : new Failure("document_invalid", `${name} is a damaged archive: ${(error as Error).message}`, { cause: error });

export async function openArchive(bytes: Buffer, name: string): Promise<Archive> {
  const zip = await new Promise<ZipFile>((resolve, reject) =>
    fromBuffer(bytes, { lazyEntries: true, validateEntrySizes: true }, (error, opened) =>
      error ? reject(problem(name, error)) : resolve(opened),
    ),
  );
  const entries = await entriesOf(zip, name);
  checkSizes(entries, bytes.length, name);
  const byName = new Map(entries.map((entry) => [entry.fileName, entry]));
  return {
    names: new Set(byName.keys()),
    async read(part) {
      const entry = byName.get(part.replace(/^\/+/, ""));
      return entry === undefined ? null : contentOf(zip, entry, name);
    },
  };
}

function entriesOf(zip: ZipFile, name: string): Promise<Entry[]> {
  if (zip.entryCount > mostEntries)
    throw new Failure("archive_limit", `${name} has ${zip.entryCount} parts; the limit is ${mostEntries}`);
  return new Promise((resolve, reject) => {
    const entries: Entry[] = [];
    zip.on("entry", (entry: Entry) => {
      entries.push(entry);
      zip.readEntry();
    });
    zip.on("end", () => resolve(entries));
    zip.on("error", (error) => reject(problem(name, error)));
    zip.readEntry();
  });
}

function checkSizes(entries: readonly Entry[], archiveBytes: number, name: string): void {
  if (entries.some((entry) => entry.isEncrypted())) throw new Failure("document_encrypted", `${name} is encrypted`);
  const bytes = entries.reduce((sum, entry) => sum + entry.uncompressedSize, 0);
  if (bytes > mostBytes)
    throw new Failure("archive_limit", `${name} unpacks to ${bytes} bytes; the limit is ${mostBytes}`);
  if (bytes > freeBytes && bytes > archiveBytes * mostRatio)
    throw new Failure("archive_limit", `${name} unpacks to more than ${mostRatio} times its size`);
  const placed = entries.toSorted((a, b) => a.relativeOffsetOfLocalHeader - b.relativeOffsetOfLocalHeader);
  for (const [index, entry] of placed.entries()) {
    const next = placed[index + 1]?.relativeOffsetOfLocalHeader ?? archiveBytes;
    if (entry.relativeOffsetOfLocalHeader + entry.compressedSize > next)
      throw new Failure("archive_limit", `${name} has overlapping parts`);
  }
}

function contentOf(zip: ZipFile, entry: Entry, name: string): Promise<Buffer> {
  return new Promise((resolve, reject) =>
    zip.openReadStream(entry, (error, stream) => {
      if (error) {
        reject(problem(name, error));
        return;
      }
      const parts: Buffer[] = [];
      stream.on("data", (part: Buffer) => parts.push(part));
      stream.on("end", () => {
        const content = Buffer.concat(parts);
        if (crc32(content) === entry.crc32) resolve(content);
        else
          reject(
            new Failure("document_invalid", `${name} is a damaged archive: the checksum of ${entry.fileName} is wrong`),
          );
      });
      stream.on("error", (cause) => reject(problem(name, cause)));
    }),
  );
}
