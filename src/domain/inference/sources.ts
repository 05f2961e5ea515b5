// The passages that support an answer, as the API reports them. A deleted document is still named, with `deleted` set.
import type { SourceSpace } from "../../confidence/sources.ts";

export interface NamedSource {
  document_id: string;
  start: number;
  end: number;
  grounding: number;
  deleted: boolean;
}

/** Whether the document belongs to the owner and is not deleted. */
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

/** A source as it is stored. Older versions stored its grounding under the name `support`. */
export type StoredSource = NamedSource | (Omit<NamedSource, "grounding"> & { support: number });

/**
 * The sources of a stored answer, with `deleted` updated. Null if no sources were stored, as in answers of older
 * versions.
 */
export const namedNow = (
  sources: readonly StoredSource[] | null | undefined,
  ownerId: string,
  hasDocument: HasDocument,
): NamedSource[] | null =>
  sources?.map((source) => ({ ...current(source), deleted: !hasDocument(ownerId, source.document_id) })) ?? null;

function current(source: StoredSource): NamedSource {
  if ("grounding" in source) return source;
  const { support, ...rest } = source;
  return { ...rest, grounding: support };
}
