// What a file is, by its content. Its name may be silent about that, but may not say something else.
import { Failure } from "../../base/errors.ts";
import type { DocumentFormat } from "../../contract/documents.ts";
import { looksLikeEmail } from "./read/email.ts";
import { looksLikeJson, looksLikeJsonLines } from "./read/json.ts";
import { delimiterOf } from "./text-blocks.ts";

/** How files begin that are no text. Those that are read here are read in a process of their own. */
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
  ["RIFF", "a sound, a film or an image"],
  ["ID3", "a sound"],
  ["OggS", "a sound or a film"],
  ["SQLite format 3\0", "a database"],
  ["{\\rtf", "rich text"],
  ["\xd0\xcf\x11\xe0", "an Office document of the old kind, or one with a password"],
];

const readable = "PDF, DOCX, PPTX, XLSX, HTML, Markdown, EPUB, e-mail, CSV, JSON and text are read";

/** By the first bytes: what the probe has to read; null for what may be text. Throws for what is known not to be read. */
export function binaryKind(head: Uint8Array, name: string): "pdf" | "zip" | null {
  const text = Buffer.from(head.subarray(0, 64)).toString("latin1");
  const found = beginnings.find(([start]) => text.startsWith(start))?.[1];
  if (found === "pdf") checkClaim(name, "pdf");
  const claim = claimOf(name);
  if (found === "zip" && claim !== null && !inArchives.has(claim))
    throw new Failure("extension_mismatch", `${name} is a ZIP archive, not ${shown[claim]} as its name says`);
  if (found === undefined || found === "pdf" || found === "zip") return found ?? null;
  throw new Failure("unsupported_media_type", `${name} is ${found}; ${readable}`);
}

const shown: Record<DocumentFormat, string> = {
  text: "text",
  markdown: "Markdown",
  csv: "CSV",
  json: "JSON",
  jsonl: "JSON Lines",
  html: "HTML",
  email: "an e-mail",
  pdf: "a PDF",
  docx: "a Word document",
  pptx: "a presentation",
  xlsx: "a workbook",
  epub: "an EPUB",
};

const byEnding: Record<string, DocumentFormat> = {
  txt: "text",
  text: "text",
  md: "markdown",
  markdown: "markdown",
  csv: "csv",
  tsv: "csv",
  json: "json",
  jsonl: "jsonl",
  ndjson: "jsonl",
  html: "html",
  htm: "html",
  xhtml: "html",
  eml: "email",
  pdf: "pdf",
  docx: "docx",
  docm: "docx",
  dotx: "docx",
  pptx: "pptx",
  pptm: "pptx",
  ppsx: "pptx",
  xlsx: "xlsx",
  xlsm: "xlsx",
  epub: "epub",
};

const inArchives = new Set<DocumentFormat>(["docx", "pptx", "xlsx", "epub"]);

/** What a name claims; null where it says nothing that is known. */
export const claimOf = (name: string): DocumentFormat | null =>
  byEnding[/\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? ""] ?? null;

/** Throws where the name claims another format than the content has. */
export function checkClaim(name: string, format: DocumentFormat): void {
  const claim = claimOf(name);
  if (claim !== null && claim !== format)
    throw new Failure("extension_mismatch", `${name} is ${shown[format]}, not ${shown[claim]} as its name says`);
}

const isHtml = /^(?:\s|<\?xml[^>]*>|<!--[\s\S]*?-->)*<(?:!doctype\s+html|html[\s>])/i;
const isXml = /^\s*<(?:\?xml\s|!doctype\s(?!\s*html))/i;
const hasTags = /<(?:p|div|body|table|h[1-6]|ul|ol|span|br|a)\b[^>]*>/i;
/** Formats of text of which a file may be any, whatever it looks like. */
const anyText = new Set<DocumentFormat | null>(["text", "markdown", "csv"]);

/** Of a decoded text. */
export function textFormat(text: string, name: string): DocumentFormat {
  const claim = claimOf(name);
  const start = text.slice(0, 100_000);
  if (isHtml.test(start)) return "html";
  if (claim === "html" && hasTags.test(text)) return "html";
  if (!anyText.has(claim) && isXml.test(start)) {
    if (/<!ENTITY/i.test(start)) throw new Failure("entities_refused", `${name} declares entities of its own`);
    throw new Failure("unsupported_media_type", `${name} is XML of a kind that is not read; ${readable}`);
  }
  if (anyText.has(claim)) return claim!;
  if (claim === "json" && looksLikeJsonLines(text) && !looksLikeJson(text)) return "jsonl";
  // Broken JSON under a name that promises it is reported by its reader, with the place.
  if (claim === "json" || claim === "jsonl") return /^\s*[[{"\d-]|^\s*(?:true|false|null)/.test(text) ? claim : "text";
  if (looksLikeEmail(start)) return "email";
  if (looksLikeJson(text)) return "json";
  if (looksLikeJsonLines(text)) return "jsonl";
  if (looksLikeMarkdown(text)) return "markdown";
  return looksLikeCsv(text) ? "csv" : "text";
}

const looksLikeMarkdown = (text: string): boolean =>
  /^#{1,6} \S/m.test(text) || /^\|?( *:?-{3,}:? *\|)+ *:?-*:? *$/m.test(text) || /^```/m.test(text);

/** Three lines or more, each with the same number of marks and none of them a comma of a sentence. */
function looksLikeCsv(text: string): boolean {
  const lines = text
    .slice(0, 100_000)
    .split("\n")
    .slice(0, 50)
    .filter((line) => line.trim() !== "");
  const mark = delimiterOf(text);
  const counts = new Set(lines.map((line) => line.replace(/"[^"]*"/g, "").split(mark).length));
  return (
    lines.length >= 3 && counts.size === 1 && !counts.has(1) && !lines.some((line) => /[a-z], [a-z]|[.!?]$/.test(line))
  );
}
