// The console's files. Each has one path in a list that is made at start, so a request can name no other file.
import { readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { sha256 } from "../base/files.ts";

export interface StaticFile {
  type: string;
  content: Buffer;
  /** In quotes, as in the header. */
  etag: string;
}

/** Files by their path; each is read on its first request. */
export type StaticFiles = ReadonlyMap<string, () => StaticFile>;

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/**
 * Only our own origin, and scripts and styles in files alone. Trusted types make the browser refuse text that is read as HTML,
 * wherever it comes from.
 */
export const consolePolicy =
  "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/** The files under `folder` whose type is known, by their path under `at`. */
export function filesUnder(at: string, folder: string): [path: string, file: string][] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && extname(entry.name) in types)
    .map((entry) => join(entry.parentPath, entry.name))
    .map((file) => [`${at}${file.slice(folder.length + 1)}`, file]);
}

export function staticFiles(list: readonly (readonly [path: string, file: string])[]): StaticFiles {
  return new Map(
    list.map(([path, file]) => {
      let read: StaticFile | null = null;
      return [
        path,
        () => {
          read ??= readStatic(file);
          return read;
        },
      ];
    }),
  );
}

function readStatic(file: string): StaticFile {
  const bytes = readFileSync(file);
  const isSource = file.endsWith(".js") || file.endsWith(".css");
  const content = isSource ? Buffer.from(withoutNotes(bytes.toString("utf8"))) : bytes;
  return { type: types[extname(file)]!, content, etag: `"${sha256(content).slice(0, 32)}"` };
}

/**
 * Without the comments, the indentation and line ends where a line goes on, which are for readers of the source: a fifth less to send.
 * Only whole lines and types between brackets are looked at, so no text within quotes is touched; the house test sees that none spans
 * lines or names a type, and that no line has its comment at its end.
 */
const withoutNotes = (source: string): string =>
  source
    .replace(/^[ \t]*\/\*(?:(?!\*\/)[\s\S])*\*\/[ \t]*\n/gm, "")
    .replace(/^[ \t]*\/\/.*\n/gm, "")
    .replace(/\/\*\* @type (?:(?!\*\/).)*\*\/ /g, "")
    .replace(/^[ \t]+/gm, "")
    .replace(/(?<=[,;{([]|=>)\n+|\n+(?=[)}\].?:])/g, "");
