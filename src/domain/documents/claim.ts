// The format that a file's name claims. A name need not claim a format, but must not contradict the content.
import { Failure } from "../../base/errors.ts";
import type { DocumentFormat } from "../../contract/documents.ts";

export const readable = "supported are PDF, DOCX, PPTX, XLSX, HTML, Markdown, EPUB, e-mail, CSV, JSON and text";

export const shown: Record<DocumentFormat, string> = {
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

export const inArchives = new Set<DocumentFormat>(["docx", "pptx", "xlsx", "epub"]);

/** The format that a name claims; null if its ending is unknown. */
export const claimOf = (name: string): DocumentFormat | null =>
  byEnding[/\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? ""] ?? null;

/** Throws extension_mismatch if the name claims a format that differs from the content's. */
export function checkClaim(name: string, format: DocumentFormat): void {
  const claim = claimOf(name);
  if (claim !== null && claim !== format)
    throw new Failure("extension_mismatch", `${name} is ${shown[format]}, not ${shown[claim]} as its name says`);
}
