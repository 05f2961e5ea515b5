// Turns a file into its clean text and its structure, which includes the map from the clean text back to the original. Runs in a
// worker thread.
import { readFile } from "node:fs/promises";
import { Failure } from "../../base/errors.ts";
import { sha256 } from "../../base/files.ts";
import type { DocumentFormat, DocumentReport } from "../../contract/documents.ts";
import { decode, decodeUtf8 } from "./charset.ts";
import type { PlainBlock } from "./chunk.ts";
import { checkClaim, claimOf } from "./claim.ts";
import { signaturesOf } from "./duplicates.ts";
import { type Page, pagesWithoutText, type Reading, type Warning } from "./elements.ts";
import { languagesOf } from "./language.ts";
import { mostColumns } from "./limits.ts";
import { cleanOriginal } from "./normalise.ts";
import { countKinds, findPersonalData, mask, type PersonalDataMode } from "./personal.ts";
import { qualityOf } from "./quality.ts";
import { readEmail } from "./read/email.ts";
import { readHtml } from "./read/html.ts";
import { readJson, readJsonLines } from "./read/json.ts";
import { tooWide } from "./refusal.ts";
import { render } from "./render.ts";
import type { SourceMap } from "./source-map.ts";
import type { MediaType } from "./store.ts";
import { type Structure, structureOf } from "./structure.ts";
import { blocksOfText } from "./text-blocks.ts";
import { textFormat } from "./text-format.ts";

export interface Parsed {
  format: DocumentFormat;
  /** Media type of the clean text. */
  mediaType: MediaType;
  /** The clean text in UTF-8. */
  text: Uint8Array;
  textSha256: string;
  characters: number;
  /** JSON of a Structure. */
  structure: Uint8Array;
  structureSha256: string;
  report: DocumentReport;
  /** Signatures of the paragraphs; see duplicates.ts. */
  signatures: Uint8Array;
}

export interface ParseOptions {
  name: string;
  /** Whether to accept only UTF-8 text, and not to change its words. */
  asIs: boolean;
  personalData: PersonalDataMode;
  /** HMAC key of the stand-ins for personal data. */
  maskKey: string;
}

interface Clean {
  text: string;
  blocks: PlainBlock[];
  map: SourceMap;
}

/** Parses a text file. */
export async function parseText(path: string, options: ParseOptions): Promise<Parsed> {
  const { name, asIs } = options;
  const bytes = await readFile(path);
  const original = asIs ? decodeUtf8(bytes, name) : decode(bytes, name, declaredCharset(bytes));
  if (original.trim() === "") throw new Failure("document_invalid", `${name} is empty`);
  const format = asIs ? (claimOf(name) === "csv" ? "csv" : "text") : textFormat(original, name);
  if (!asIs) checkClaim(name, format);
  switch (format) {
    case "html":
      return parsedReading(
        "html",
        { pages: null, elements: readHtml(original, 0, name).elements, warnings: [] },
        options,
      );
    case "json":
      return parsedReading("json", readJson(original, name), options);
    case "jsonl":
      return parsedReading("jsonl", readJsonLines(original, name), options);
    case "email":
      return parsedReading("email", await readEmail(bytes, name), options);
    default: {
      const mediaType = format === "csv" ? "text/csv" : format === "markdown" ? "text/markdown" : "text/plain";
      const { text, map } = cleanOriginal(original);
      if (text.trim() === "") throw new Failure("document_invalid", `${name} is empty`);
      const clean = { text, map, blocks: blocksOfText(text, mediaType, name) };
      return finished(format, mediaType, clean, null, [], options);
    }
  }
}

/** Turns what a format's reader returned into a parsed document. */
export function parsedReading(format: DocumentFormat, reading: Reading, options: ParseOptions): Parsed {
  const { name } = options;
  checkClaim(name, format);
  if (reading.elements.some((element) => element.type === "row" && element.cells.length > mostColumns))
    throw tooWide(name);
  const clean = render(reading.elements);
  if (clean.text.trim() === "") {
    const pages = reading.pages?.length ?? 0;
    if (format === "pdf") throw new Failure("document_no_text", `None of the ${pages} pages of ${name} has text`);
    throw new Failure("document_invalid", `${name} has no text`);
  }
  return finished(format, "text/markdown", clean, reading.pages, reading.warnings, options);
}

function finished(
  format: DocumentFormat,
  mediaType: MediaType,
  read: Clean,
  pages: readonly Page[] | null,
  warnings: readonly Warning[],
  { personalData, maskKey }: ParseOptions,
): Parsed {
  const found = personalData === "off" ? [] : findPersonalData(read.text);
  const { text, blocks, map } = personalData === "mask" ? mask(read, found, maskKey) : read;
  const language = languagesOf(text, blocks);
  const { quality, warnings: doubts } = qualityOf(text, blocks, language.main);
  const encode = (content: string): Uint8Array => new TextEncoder().encode(content);
  const [encoded, parts] = [encode(text), encode(JSON.stringify(structureOf(blocks, map, pages !== null)))];
  return {
    format,
    mediaType,
    text: encoded,
    textSha256: sha256(encoded),
    characters: countCharacters(text),
    structure: parts,
    structureSha256: sha256(parts),
    report: {
      pages: pages && pagesReport(pages),
      language,
      quality,
      personal_data: { mode: personalData, found: countKinds(found) },
      warnings: [...emptyPages(pages), ...warnings, ...doubts],
    },
    signatures: signaturesOf(text, blocks),
  };
}

const pagesReport = (pages: readonly Page[]): DocumentReport["pages"] => ({
  count: pages.length,
  characters: pages.map((page) => page.characters),
  without_text: pagesWithoutText(pages),
});

function emptyPages(pages: readonly Page[] | null): Warning[] {
  const empty = pagesWithoutText(pages ?? []);
  return empty.length === 0
    ? []
    : [
        {
          code: "pages_without_text",
          message: `${empty.length} of ${pages!.length} pages have no text: ${empty.join(", ")}`,
        },
      ];
}

/** The structure of a clean text that an older version stored without one. The text itself serves as the original. */
export function structureOfText(text: string, mediaType: MediaType, name: string): Structure {
  const { map } = cleanOriginal(text);
  return structureOf(blocksOfText(text, mediaType, name), map, false);
}

/** The charset that an HTML or XML file declares in its first 2048 bytes. Null if it declares none. */
function declaredCharset(bytes: Uint8Array): string | null {
  const head = Buffer.from(bytes.subarray(0, 2048)).toString("latin1");
  const found =
    /<meta[^>]+charset\s*=\s*["']?\s*([\w-]+)/i.exec(head) ?? /^<\?xml[^>]+encoding\s*=\s*["']([\w-]+)/.exec(head);
  return found?.[1] ?? null;
}

function countCharacters(text: string): number {
  let pairs = 0;
  for (let i = 0; i < text.length; i++) if ((text.charCodeAt(i) & 0xfc00) === 0xd800) pairs++;
  return text.length - pairs;
}
