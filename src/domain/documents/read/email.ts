// Reads an e-mail into elements: subject, sender, recipients, date and body. Attachments are named but not read.
import PostalMime, { type Address } from "postal-mime";
import { Failure } from "../../../base/errors.ts";
import { columnsOf } from "../../../study/inline.ts";
import type { PlainBlock } from "../chunk.ts";
import { type Element, PageText, type Piece, type Reading, type Warning } from "../elements.ts";
import { blocksOfText } from "../text-blocks.ts";
import { readHtml } from "./html.ts";

/** Whether the text begins with header lines and a blank line, with From and at least two more usual headers. */
export function looksLikeEmail(text: string): boolean {
  // The pattern can match a carriage return in only one place. With two places, n such lines could match in 2^n ways.
  const head = /^(?:[!-9;-~]+:[^\n]*\n(?:[ \t][^\n]*\n)*)+(?=\r?\n|$)/.exec(text.slice(0, 100_000))?.[0];
  if (head === undefined) return false;
  const names = new Set([...head.matchAll(/^([!-9;-~]+):/gm)].map((match) => match[1]!.toLowerCase()));
  const usual = ["from", "to", "subject", "date", "received", "message-id", "mime-version", "return-path"];
  return names.has("from") && usual.filter((one) => names.has(one)).length >= 3;
}

/** Reads an e-mail. Throws document_limit. */
export async function readEmail(bytes: Uint8Array, name: string): Promise<Reading> {
  const mail = await PostalMime.parse(bytes as Uint8Array<ArrayBuffer>, {
    maxNestingDepth: 64,
    maxHeadersSize: 1 << 20,
  }).catch((error: Error) => {
    // The parser throws plain errors at its limits.
    if (!/^Maximum (?:MIME|header)/.test(error.message)) throw error;
    throw new Failure("document_limit", `${name} is beyond the limits for e-mail: ${error.message}`, { cause: error });
  });
  const text = new PageText(0);
  const elements: Element[] = [];
  if (mail.subject) elements.push({ type: "heading", level: 1, pieces: [text.take(mail.subject)] });
  const lines: [string, string | undefined][] = [
    ["From", mail.from && people([mail.from])],
    ["To", mail.to && people(mail.to)],
    ["Cc", mail.cc && people(mail.cc)],
    ["Date", mail.date],
  ];
  for (const [label, value] of lines) {
    if (!value) continue;
    text.part();
    elements.push({ type: "paragraph", pieces: [text.take(`${label}: ${value}`)] });
  }
  const body = mail.text?.trim()
    ? bodyElements(mail.text, text, name)
    : mail.html
      ? readHtml(mail.html, 0, name, false).elements
      : [];
  for (const element of body) elements.push(element);
  const attached = mail.attachments.map((one) => one.filename ?? one.mimeType);
  const warnings: Warning[] =
    attached.length > 0
      ? [
          {
            code: "attachments_unread",
            message: `Attachments were not read: ${attached.join(", ")}`,
            parameters: { names: attached.join(", ") },
          },
        ]
      : [];
  return { pages: null, elements, warnings };
}

/** Elements of a body in plain text, which has the headings, lists and tables of any plain text. */
function bodyElements(body: string, text: PageText, name: string): Element[] {
  const plain = unquoted(body);
  const taken = (words: string): Piece[] => {
    text.part();
    return [text.take(words)];
  };
  return blocksOfText(plain, "text/plain", name).flatMap((block): Element[] => {
    const words = plain.slice(block.start, block.end);
    if (block.type === "heading") return [{ type: "heading", level: 2, pieces: taken(words) }];
    if (block.type === "row")
      return [{ type: "row", first: block.level === 1, cells: columnsOf(words).map((cell) => taken(cell)) }];
    if (block.type === "item") return [{ type: "item", depth: 0, mark: numberOf(plain, block), pieces: taken(words) }];
    return (pairs.test(words) ? words.split("\n") : [words]).map((part) => ({
      type: "paragraph",
      pieces: taken(part),
    }));
  });
}

/** Lines of keys and values: each stays a line. */
const pairs = /^(?:[^\s:][^:\n]{0,48}:[ \t]+\S[^\n]*(?:\n|$)){2,}$/;

/** "1." before a numbered item; null before any other. */
function numberOf(text: string, { start }: PlainBlock): string | null {
  const number = /(\d{1,3})[.)][ \t]+$/.exec(text.slice(Math.max(0, start - 8), start))?.[1];
  return number === undefined ? null : `${number}.`;
}

/** The body without marks of quotation. An empty line parts what is quoted from what is not. */
function unquoted(body: string): string {
  const lines = body.split(/\r\n?|\n/).map((line) => {
    const mark = /^(?:[ \t]*>)+[ \t]?/.exec(line)?.[0] ?? "";
    return { words: line.slice(mark.length), isQuoted: mark !== "" };
  });
  return lines
    .map(({ words, isQuoted }, at) => (at > 0 && isQuoted !== lines[at - 1]!.isQuoted ? `\n${words}` : words))
    .join("\n");
}

const people = (addresses: readonly Address[]): string =>
  addresses
    .flatMap((one) => (one.group ? one.group : [one]))
    .map(({ name, address }) => (name && address ? `${name} <${address}>` : name || address || ""))
    .join(", ");
