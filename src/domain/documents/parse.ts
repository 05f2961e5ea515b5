// What a file is, by its content, and its clean text. Runs in a thread of its own.
import { readFileSync } from "node:fs";
import { parse as parseCsv } from "csv-parse/sync";
import { Failure } from "../../base/errors.ts";
import { sha256 } from "../../base/files.ts";
import type { MediaType } from "./store.ts";

export interface Parsed {
  mediaType: MediaType;
  /** UTF-8 */
  text: Uint8Array;
  textSha256: string;
  characters: number;
}

/** How files that are no text begin. */
const others: [string, string][] = [
  ["\x7fELF", "a program"],
  ["%PDF-", "a PDF"],
  ["PK\x03\x04", "a ZIP archive or an Office document"],
  ["GGUF", "a model"],
  ["\x1f\x8b", "a gzip archive"],
  ["\x89PNG", "an image"],
  ["\xff\xd8\xff", "an image"],
  ["{\\rtf", "rich text"],
  ["\xd0\xcf\x11\xe0", "an old Office document"],
];

const readable = "text, Markdown and CSV in UTF-8 are read";

export function parseFile(path: string, name: string): Parsed {
  const bytes = readFileSync(path);
  refuseOthers(bytes, name);
  const text = clean(decode(bytes, name));
  if (text.trim() === "") throw new Failure("document_invalid", `${name} is empty`);
  const mediaType = typeOf(text, name);
  if (mediaType === "text/csv") checkCsv(text, name);
  const encoded = new TextEncoder().encode(text);
  return { mediaType, text: encoded, textSha256: sha256(encoded), characters: countCharacters(text) };
}

function refuseOthers(bytes: Buffer, name: string): void {
  const head = bytes.subarray(0, 16).toString("latin1");
  const what = others.find(([start]) => head.startsWith(start))?.[1];
  if (what) throw new Failure("unsupported_media_type", `${name} is ${what}; ${readable}`);
  if (bytes.includes(0)) throw new Failure("unsupported_media_type", `${name} is not text; ${readable}`);
  if (/^\s*<(!doctype html|html[\s>])/i.test(bytes.subarray(0, 512).toString("latin1")))
    throw new Failure("unsupported_media_type", `${name} is HTML; ${readable}`);
}

function decode(bytes: Buffer, name: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    throw new Failure("document_invalid", `${name} is not UTF-8; ${readable}`, { cause: error });
  }
}

/** One form of line end, no control characters, composed letters: the same words are then the same bytes. */
function clean(text: string): string {
  return text
    .replace(/\r\n?/g, "\n")
    .replace(/[\p{Cc}\u{feff}]/gu, (character) => (character === "\n" || character === "\t" ? character : ""))
    .normalize("NFC");
}

function typeOf(text: string, name: string): MediaType {
  if (/\.csv$/i.test(name)) return "text/csv";
  if (/\.(md|markdown)$/i.test(name)) return "text/markdown";
  if (/\.txt$/i.test(name)) return "text/plain";
  const looksLikeMarkdown =
    /^#{1,6} \S/m.test(text) || /^\|?( *:?-{3,}:? *\|)+ *:?-*:? *$/m.test(text) || /^```/m.test(text);
  return looksLikeMarkdown ? "text/markdown" : "text/plain";
}

/** The records are not kept: only whether they could be read matters here. */
function checkCsv(text: string, name: string): void {
  try {
    parseCsv(text, {
      relax_column_count: true,
      skip_empty_lines: true,
      max_record_size: 1 << 20,
      on_record: () => null,
    });
  } catch (error) {
    throw new Failure("document_invalid", `${name} is not readable as CSV: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

function countCharacters(text: string): number {
  let pairs = 0;
  for (let i = 0; i < text.length; i++) if ((text.charCodeAt(i) & 0xfc00) === 0xd800) pairs++;
  return text.length - pairs;
}
