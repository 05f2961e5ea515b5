// Determines the format of a text from its content and from the format that its name claims.
import { Failure } from "../../base/errors.ts";
import type { DocumentFormat } from "../../contract/documents.ts";
import { delimiterOf } from "../../study/inline.ts";
import { claimOf, readable } from "./claim.ts";
import { looksLikeEmail } from "./read/email.ts";
import { looksLikeJson, looksLikeJsonLines } from "./read/json.ts";

/** Matches the start of HTML. A comment ends at the first possible place; otherwise n comments could match in 2^n ways. */
const isHtml = /^(?:\s|<\?xml[^>]*>|<!--(?:(?!-->)[\s\S])*-->)*<(?:!doctype\s+html|html[\s>])/i;
const isXml = /^\s*<(?:\?xml\s|!doctype\s(?!\s*html))/i;
const hasTags = /<(?:p|div|body|table|h[1-6]|ul|ol|span|br|a)\b[^<>]*>/i;
/** Formats that a name may claim for any text except HTML, whatever the text looks like. */
const anyText = new Set<DocumentFormat | null>(["text", "markdown", "csv"]);

/** The format of a decoded text. Throws entities_refused or document_type for XML other than HTML. */
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
  // If the name claims JSON, broken JSON is left to the JSON reader, which reports the position of the error.
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
 * Whether the first lines, at least three of them, all have the same number of delimiters, and none looks like a sentence (by a comma
 * between words, or a full stop, question mark or exclamation mark at its end).
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
