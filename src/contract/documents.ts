import { idParam, name, pageQuery, timestamp } from "./common.ts";
import { endpoint } from "./endpoint.ts";

export const documentRecord = {
  type: "object",
  additionalProperties: false,
  required: ["document_id", "name", "media_type", "bytes", "characters", "sha256", "created_at"],
  properties: {
    document_id: { type: "string" },
    name,
    media_type: { enum: ["text/plain", "text/markdown", "text/csv"] },
    bytes: { type: "integer", minimum: 0 },
    characters: { type: "integer", minimum: 0 },
    sha256: { type: "string" },
    created_at: timestamp,
  },
} as const;

export const documents = {
  "documents.upload": endpoint({
    method: "POST",
    path: "/api/v3/documents/upload",
    tag: "documents",
    summary: "Upload documents: text, Markdown or CSV in UTF-8. All are kept, or none.",
    upload: { many: true },
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["documents"],
      properties: { documents: { type: "array", items: documentRecord } },
    },
    errors: ["document_invalid", "too_large", "disk_full", "unsupported_media_type"],
  }),
  "documents.list": endpoint({
    method: "GET",
    path: "/api/v3/documents",
    tag: "documents",
    summary: "Your documents, newest first.",
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
    summary: "One document's record.",
    params: idParam("document_id"),
    reply: documentRecord,
    errors: ["not_found"],
  }),
  "documents.delete": endpoint({
    method: "DELETE",
    path: "/api/v3/documents/{document_id}",
    tag: "documents",
    summary: "Delete a document for good. Alignments keep the snapshot they took.",
    params: idParam("document_id"),
    reply: {
      type: "object",
      additionalProperties: false,
      required: ["document_id", "message"],
      properties: { document_id: { type: "string" }, message: { type: "string" } },
    },
    errors: ["not_found"],
  }),
} as const;
