// Determines the format of a text by its content and by what its name claims.
import { Failure } from "../../base/errors.ts";
import type { DocumentFormat } from "../../contract/documents.ts";
import { delimiterOf } from "../../study/inline.ts";
import { claimOf, readable } from "./claim.ts";
import { looksLikeEmail } from "./read/email.ts";
import { looksLikeJson, looksLikeJsonLines } from "./read/json.ts";

/** A comment ends at the first possible place: otherwise n comments could be read in 2^n ways. */
const isHtml = /^(?:\s|<\?xml[^>]*>|<!--(?:(?!-->)[\s\S])*-->)*<(?:!doctype\s+html|html[\s>])/i;
const isXml = /^\s*<(?:\?xml\s|!doctype\s(?!\s*html))/i;
const hasTags = /<(?:p|div|body|table|h[1-6]|ul|ol|span|br|a)\b[^<>]*>/i;
/** Formats that a name may claim for any text, whatever it looks like. */
const anyText = new Set<DocumentFormat | null>(["text", "markdown", "csv"]);

/** The format of a decoded text. Throws entities_refused or document_type for other XML. */
export function textFormat(text: string, name: string): DocumentFormat {
  const claim = claimOf(name);
  const start = text.slice(0, 100_000);
  if (isHtml.test(start)) return "html";
  if (claim === "html" && hasTags.test(text)) return "html";
  if (!anyText.has(claim) && isXml.test(start)) {
    if (/<!ENTITY/i.test(start)) throw new Failure("entities_refused", `${name} declares its own entities`);
    throw new Failure("document_type", `${name} is XML of an unsupported kind; ${readable}`);
  }
  if (anyText.has(claim)) return claim!;
  if (claim === "json" && looksLikeJsonLines(text) && !looksLikeJson(text)) return "jsonl";
  // Broken JSON under a JSON name is reported by its reader, with the position.
  if (claim === "json" || claim === "jsonl") return /^\s*[[{"\d-]|^\s*(?:true|false|null)/.test(text) ? claim : "text";
  if (looksLikeEmail(start)) return "email";
  if (looksLikeJson(text)) return "json";
  if (looksLikeJsonLines(text)) return "jsonl";
  if (looksLikeMarkdown(text)) return "markdown";
  return looksLikeCsv(text) ? "csv" : "text";
}

const looksLikeMarkdown = (text: string): boolean =>
  /^#{1,6} \S/m.test(text) || /^\|?( *:?-{3,}:? *\|)+ *:?-*:? *$/m.test(text) || /^```/m.test(text);

/**
 * Whether there are three lines or more with the same number of delimiters, and no comma or full stop of a sentence.
 */
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
