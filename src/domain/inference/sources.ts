// The passages that support an answer, as they are told. A document that was deleted stays named, and the entry says so.
import type { SourceSpace } from "../../engine/sources.ts";

export interface NamedSource {
  document_id: string;
  start: number;
  end: number;
  support: number;
  deleted: boolean;
}

/** Whether a document is the owner's and not deleted. */
export type HasDocument = (ownerId: string, documentId: string) => boolean;

export const namedSources = (
  space: SourceSpace,
  said: { question: string; answer: string },
  ownerId: string,
  hasDocument: HasDocument,
): NamedSource[] =>
  space
    .of(said.question, said.answer)
    .map(({ document, ...place }) => ({ document_id: document, ...place, deleted: !hasDocument(ownerId, document) }));

/** Of an answer that was kept: its documents may have been deleted since. What an older version kept names none. */
export const namedNow = (
  sources: readonly NamedSource[] | null | undefined,
  ownerId: string,
  hasDocument: HasDocument,
): NamedSource[] | null =>
  sources?.map((source) => ({ ...source, deleted: !hasDocument(ownerId, source.document_id) })) ?? null;
