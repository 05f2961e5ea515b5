import type { FromSchema } from "json-schema-to-ts";
import { idempotencyHeaders, idParam, name, pageQuery, timestamp, warnings } from "./common.ts";
import { endpoint } from "./endpoint.ts";

/** Formats of a document, detected from its content. */
export const documentFormats = [
  "text",
  "markdown",
  "csv",
  "json",
  "jsonl",
  "html",
  "email",
  "pdf",
  "docx",
  "pptx",
  "xlsx",
  "epub",
] as const;
export type DocumentFormat = (typeof documentFormats)[number];

export const personalDataModes = ["off", "flag", "mask"] as const;
const mediaTypes = ["text/plain", "text/markdown", "text/csv"] as const;

const count = { type: "integer", minimum: 0 } as const;
const share = { type: "number", minimum: 0, maximum: 1 } as const;
const language = { type: "string", description: "ISO 639-1." } as const;

/** What was found out while reading a document. A record has null instead if an older version read the document. */
export const documentReport = {
  type: "object",
  additionalProperties: false,
  required: ["pages", "language", "quality", "personal_data", "warnings"],
  properties: {
    pages: {
      description: "Pages, slides, sheets or chapters; null if the format has none.",
      anyOf: [
        { type: "null" },
        {
          type: "object",
          additionalProperties: false,
          required: ["count", "characters", "without_text"],
          properties: {
            count,
            characters: { type: "array", items: count, description: "Characters on each page, as it was read." },
            without_text: { type: "array", items: { type: "integer", minimum: 1 }, description: "Page numbers." },
          },
        },
      ],
    },
    language: {
      type: "object",
      additionalProperties: false,
      required: ["main", "share", "others"],
      properties: {
        main: { anyOf: [language, { type: "null" }] },
        share: { ...share, description: "Share of the characters whose language was recognised." },
        others: {
          type: "array",
          items: {
            type: "object",
            additionalProperties: false,
            required: ["language", "share"],
            properties: { language, share },
          },
        },
      },
    },
    quality: {
      type: "object",
      additionalProperties: false,
      required: [
        "words",
        "mean_word_length",
        "symbols",
        "wordless",
        "stop_words",
        "repeated_lines",
        "repeated_phrases",
      ],
      properties: {
        words: {
          ...count,
          description: "Words in the whole text; the other measures cover its first two million characters.",
        },
        mean_word_length: { type: "number", minimum: 0 },
        symbols: { type: "number", minimum: 0, description: "Symbols (#, …) per word." },
        wordless: { ...share, description: "Share of words without a letter." },
        stop_words: {
          anyOf: [share, { type: "null" }],
          description: "Share of all words; null if there is no list for the language.",
        },
        repeated_lines: { ...share, description: "Share of lines that repeat an earlier line." },
        repeated_phrases: {
          ...share,
          description: "Share of characters in runs of ten words that repeat an earlier run.",
        },
      },
    },
    personal_data: {
      type: "object",
      additionalProperties: false,
      required: ["mode", "found"],
      properties: {
        mode: { enum: personalDataModes },
        found: { type: "object", additionalProperties: count, description: "How many of each kind." },
      },
    },
    warnings,
  },
} as const;

export type DocumentReport = FromSchema<typeof documentReport>;
export type DocumentWarning = DocumentReport["warnings"][number];

/**
 * Where a span of clean text is in the original. Offsets count UTF-16 code units. What they count in depends on the format:
 * - text, Markdown, CSV, JSON and HTML: the decoded file;
 * - EPUB: the decoded file of the chapter;
 * - PDF, PPTX and XLSX: the text of the page, slide or sheet, in reading order;
 * - DOCX: the text of the page if Word marked the pages, otherwise the whole text;
 * - e-mail: the whole text.
 */
export interface Place {
  /** Page of the first character, from 1; null if the format has no pages. */
  page: number | null;
  start: number;
  /** The page of the last character. */
  last_page: number | null;
  /** Offset after the last character, on last_page. */
  end: number;
}

/** A paragraph, a heading, an item of a list, a row of a table, or lines kept as they are. */
export interface Block {
  type: "heading" | "paragraph" | "item" | "row" | "code";
  /** Heading level, from 1. For rows: 1 for the first row of a table, else 2. 0 for all other types. */
  level: number;
  /** Offsets in the clean text, in UTF-16 code units; Markdown marks around the words are left out. */
  start: number;
  end: number;
  place: Place;
}

/** Adjacent blocks, or a part of a long block, from which questions are made. Chunks do not overlap. */
export interface Chunk {
  /** A hash of the text and its headings, so the same text under the same headings has the same id. */
  id: string;
  /** Offsets in the clean text, in UTF-16 code units. */
  start: number;
  end: number;
  /** The clean text from start to end. */
  text: string;
  /** Headings above the chunk, outermost first. */
  path: string[];
  /** First row of the table that the chunk begins in, if that row is in an earlier chunk; otherwise null. */
  header: string | null;
  place: Place;
}

/** A paragraph that also occurs in another of the owner's documents. */
export interface DuplicateParagraph {
  /** Offsets in the clean text, in UTF-16 code units. */
  start: number;
  end: number;
  of: { document_id: string; start: number; end: number };
  /** Estimated Jaccard similarity of the runs of five words; 1 only when the words are the same. */
  similarity: number;
}

/** A document as other modules read it. */
export interface ReadDocument {
  id: string;
  name: string;
  /** SHA-256 of the original file. */
  sha256: string;
  format: DocumentFormat;
  /** Media type of the clean text. */
  media_type: (typeof mediaTypes)[number];
  /** ISO 639-1 code; null when the language was not recognised. */
  language: string | null;
  /** The clean text. */
  text: string;
  /** Offset at which each page begins in the text; absent if the format has no pages. */
  pages?: number[];
  blocks: Block[];
  chunks: Chunk[];
  duplicates: DuplicateParagraph[];
}

export const documentSnapshot = {
  type: "object",
  additionalProperties: false,
  required: ["alignment_id", "name", "under_way", "created_date"],
  properties: {
    alignment_id: { type: "string" },
    name,
    under_way: { type: "boolean" },
    created_date: timestamp,
  },
} as const;

export type DocumentSnapshot = FromSchema<typeof documentSnapshot>;

export const documentRecord = {
  type: "object",
  additionalProperties: false,
  required: [
    "document_id",
    "name",
    "format",
    "media_type",
    "bytes",
    "characters",
    "sha256",
    "created_at",
    "report",
    "duplicates",
  ],
  properties: {
    document_id: { type: "string" },
    name,
    format: { enum: documentFormats, description: "Format of the original, detected from its content." },
    media_type: { enum: mediaTypes, description: "Media type of the clean text." },
    bytes: { type: "integer", minimum: 0 },
    characters: { type: "integer", minimum: 0, description: "Number of characters of the clean text." },
    sha256: { type: "string", description: "SHA-256 of the original." },
    created_at: timestamp,
    report: {
      anyOf: [documentReport, { type: "null" }],
      description: "What was found out while reading it; null for documents uploaded to an older version.",
    },
    duplicates: {
      type: "object",
      additionalProperties: false,
      required: ["exact", "near", "documents"],
      description: "Paragraphs that also occur in other documents of yours, word for word or nearly.",
      properties: {
        exact: count,
        near: count,
        documents: {
          type: "array",
          items: { type: "string" },
          description: "Ids of those documents, at most a hundred.",
        },
      },
    },
  },
} as const;

export const documents = {
  "documents.upload": endpoint({
    method: "POST",
    path: "/api/v3/documents/upload",
    tag: "documents",
    summary:
      "Upload documents: PDF, DOCX, PPTX, XLSX, HTML, Markdown, EPUB, e-mail, CSV, JSON, JSON Lines or text in any charset. Either all of them are stored, or none.",
    headers: idempotencyHeaders,
    query: {
      type: "object",
      additionalProperties: false,
      properties: {
        personal_data: {
          enum: personalDataModes,
          description:
            "Count personal data, or mask it by replacing the same value with the same placeholder in all documents. Default: the setting PLUMBLINE_PERSONAL_DATA.",
        },
      },
    },
    upload: { many: true },
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["documents"],
      properties: { documents: { type: "array", items: documentRecord } },
    },
    errors: [
      "document_invalid",
      "document_limit",
      "document_encrypted",
      "document_no_text",
      "archive_limit",
      "entities_refused",
      "too_many_pages",
      "document_type",
      "extension_mismatch",
      "too_large",
      "disk_full",
      "unsupported_media_type",
    ],
  }),
  "documents.list": endpoint({
    method: "GET",
    path: "/api/v3/documents",
    tag: "documents",
    summary: "List your documents, newest first.",
    query: pageQuery,
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["documents", "total"],
      properties: { documents: { type: "array", items: documentRecord }, total: { type: "integer" } },
    },
    errors: [],
  }),
  "documents.get": endpoint({
    method: "GET",
    path: "/api/v3/documents/{document_id}",
    tag: "documents",
    summary: "Get a document's record.",
    params: idParam("document_id"),
    reply: documentRecord,
    errors: ["not_found"],
  }),
  "documents.text": endpoint({
    method: "GET",
    path: "/api/v3/documents/{document_id}/text",
    tag: "documents",
    summary:
      "Get the clean text of a document, from which alignments and benchmarks are made. Offsets of citations and passages count its UTF-16 code units.",
    params: idParam("document_id"),
    reply: { type: "string" },
    text: "text/plain",
    errors: ["not_found"],
  }),
  "documents.snapshots": endpoint({
    method: "GET",
    path: "/api/v3/documents/{document_id}/snapshots",
    tag: "documents",
    summary:
      "List the alignments that hold a snapshot of a document, and would lose it if the document is deleted with its snapshots.",
    params: idParam("document_id"),
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["snapshots"],
      properties: { snapshots: { type: "array", items: documentSnapshot } },
    },
    errors: ["not_found"],
  }),
  "documents.delete": endpoint({
    method: "DELETE",
    path: "/api/v3/documents/{document_id}",
    tag: "documents",
    summary: "Delete a document permanently. Alignments keep their snapshot of it unless snapshots is true.",
    params: idParam("document_id"),
    query: {
      type: "object",
      additionalProperties: false,
      properties: {
        snapshots: {
          type: "boolean",
          default: false,
          description:
            "Also delete its snapshots and the training rows made from them. Models are kept. Refused while an alignment that holds a snapshot is running.",
        },
      },
    },
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["document_id", "message"],
      properties: { document_id: { type: "string" }, message: { type: "string" } },
    },
    errors: ["not_found", "conflict"],
  }),
} as const;
