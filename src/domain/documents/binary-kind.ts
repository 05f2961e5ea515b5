// Determines the kind of a file from its first bytes, before any reader is loaded.
import { Failure } from "../../base/errors.ts";
import { checkClaim, claimOf, inArchives, readable, shown } from "./claim.ts";

/** First bytes of files that are not text. PDF and ZIP files are read in a separate process; the others are refused. */
const beginnings: [string, "pdf" | "zip" | string][] = [
  ["%PDF-", "pdf"],
  ["PK\x03\x04", "zip"],
  ["PK\x05\x06", "an empty archive"],
  ["\x7fELF", "a program"],
  ["MZ\x90", "a program"],
  ["GGUF", "a model"],
  ["\x1f\x8b", "a gzip archive"],
  ["BZh", "a bzip2 archive"],
  ["\xfd7zXZ", "an xz archive"],
  ["7z\xbc\xaf", "a 7z archive"],
  ["Rar!", "a RAR archive"],
  ["\x89PNG", "an image"],
  ["\xff\xd8\xff", "an image"],
  ["GIF8", "an image"],
  ["II*\0", "an image"],
  ["MM\0*", "an image"],
  ["RIFF", "an audio file, a video or an image"],
  ["ID3", "an audio file"],
  ["OggS", "an audio file or a video"],
  ["SQLite format 3\0", "a database"],
  ["{\\rtf", "rich text"],
  ["\xd0\xcf\x11\xe0", "an old-format Office document, or one with a password"],
];

/**
 * The kind of file that the probe has to read, from the file's first bytes. Null if the file may be text. Throws document_type for
 * kinds that are not supported, and extension_mismatch.
 */
export function binaryKind(head: Uint8Array, name: string): "pdf" | "zip" | null {
  const text = Buffer.from(head.subarray(0, 64)).toString("latin1");
  const found = beginnings.find(([start]) => text.startsWith(start))?.[1];
  if (found === "pdf") checkClaim(name, "pdf");
  const claim = claimOf(name);
  if (found === "zip" && claim !== null && !inArchives.has(claim))
    throw new Failure("extension_mismatch", `${name} is a ZIP archive, not ${shown[claim]} as its name says`);
  if (found === undefined || found === "pdf" || found === "zip") return found ?? null;
  throw new Failure("document_type", `${name} is ${found}; ${readable}`);
}
