// Looks up which documents an owner has.
import { Failure } from "../base/errors.ts";
import type { Store } from "../store/open.ts";
import { prepareDocumentReads } from "./store.ts";

export interface DocumentCatalog {
  /** Whether the document exists and belongs to the owner. */
  has(ownerId: string, id: string): boolean;
  /** Throws not_found unless all documents exist and belong to the owner. */
  check(ownerId: string, ids: readonly string[]): void;
}

export const documentNotFound = (): Failure => new Failure("not_found", "A document was not found");

export function catalogDocuments(store: Store): DocumentCatalog {
  const rows = prepareDocumentReads(store);
  const has = (ownerId: string, id: string): boolean => rows.has.get(ownerId, id)!.any === 1;
  return {
    has,
    check(ownerId, ids) {
      if (!ids.every((id) => has(ownerId, id))) throw documentNotFound();
    },
  };
}
