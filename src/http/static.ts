// The console's files. Their paths are in a list that is made at start, so no request can read any other file.
import { readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { sha256 } from "../base/files.ts";

export interface StaticFile {
  type: string;
  content: Buffer;
  /** With its quotes, as in the header. */
  etag: string;
}

/** Files by their path. Each file is read on its first request. */
export type StaticFiles = ReadonlyMap<string, () => StaticFile>;

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/**
 * Allows our own origin only, and scripts and styles only from files. Trusted types make the browser refuse to read any text as HTML,
 * wherever it comes from.
 */
export const consolePolicy =
  "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/** Returns the files under `folder` whose type is known, with their paths under `at`. */
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
  const content = isSource ? Buffer.from(withoutNotes(bytes.toString("utf8"), extname(file))) : bytes;
  return { type: types[extname(file)]!, content, etag: `"${sha256(content).slice(0, 32)}"` };
}

/**
 * Removes what only readers of the source need: comments, indentation, line ends where a statement goes on, spaces around operators and
 * after names. About a quarter less is sent. The expressions here cannot tell code from quoted text, so a test compares each served
 * file with its source.
 */
function withoutNotes(source: string, extension: string): string {
  const bare = source
    .replace(/^[ \t]*\/\*(?:(?!\*\/)[\s\S])*\*\/[ \t]*\n/gm, "")
    .replace(/^[ \t]*\/\/.*\n/gm, "")
    .replace(/\/\*\* @type (?:(?!\*\/).)*\*\/ /g, "")
    .replace(/^[ \t]+/gm, "");
  const tight =
    extension === ".css"
      ? bare.replace(/(?<=[:,;>]) | (?=[{>])/g, "").replace(/;\n\}/g, "}")
      : bare
          .replace(/ (=>|===|!==|&&|\|\||\?\??|:|[<>]=?|[+*]) /g, "$1")
          .replace(/ = (?=["{[(\d/])/g, "=")
          .replace(/, (?=(?:\w+\(|\(|\{ ))/g, ",")
          .replace(/^((?:export )?(?:const|let) [^=\n]{1,60}?) = /gm, "$1=")
          .replace(/^((?:[\w-]+|"[\w.-]+"):) /gm, "$1")
          .replace(/^import \{ (.*) \} from /gm, (_, names: string) => `import{${names.replaceAll(", ", ",")}}from`)
          .replace(/^(if|for|while) \(/gm, "$1(")
          .replace(/ \{$/gm, "{")
          // Lines with backticks may quote code to users, so they are left as they are.
          .replace(/^[^`\n]+$/gm, (line) => line.replace(/(?<=\{) | (?=\})/g, ""));
  return tight.replace(/(?<=[,;{([]|=>)\n+|\n+(?=[)}\].?:])/g, "");
}
