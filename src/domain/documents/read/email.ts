// Reads an e-mail into elements: subject, sender, recipients, date and body. Attachments are named but not read.
import PostalMime, { type Address } from "postal-mime";
import { type Element, isBlank, PageText, type Reading, type Warning } from "../elements.ts";
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

export async function readEmail(bytes: Uint8Array, name: string): Promise<Reading> {
  const mail = await PostalMime.parse(bytes as Uint8Array<ArrayBuffer>, {
    maxNestingDepth: 64,
    maxHeadersSize: 1 << 20,
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
  if (mail.text?.trim()) {
    for (const paragraph of mail.text.split(/\r?\n(?:[ \t]*\r?\n)+/)) {
      text.part();
      const pieces = [text.take(paragraph)];
      if (!isBlank(pieces)) elements.push({ type: "paragraph", pieces });
    }
  } else if (mail.html) elements.push(...readHtml(mail.html, 0, name, false).elements);
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

const people = (addresses: readonly Address[]): string =>
  addresses
    .flatMap((one) => (one.group ? one.group : [one]))
    .map(({ name, address }) => (name && address ? `${name} <${address}>` : name || address || ""))
    .join(", ");
