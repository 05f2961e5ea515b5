// What a document says: one thing, one attribute, one value, at one place.

import { hashOf, normalised } from "../../../base/text.ts";
import type { SnapshotDocument } from "../../../contract/run-folder.ts";
import type { Span } from "./blocks.ts";
import { conceptOf } from "./concepts.ts";
import { kindOf, type ValueKind } from "./values.ts";

export interface Source extends Span {
  document_id: string;
}

export interface Fact {
  /** The same document gives the same id. */
  id: string;
  /** As it stands inside a question: «the night shift», «Ada Lund». */
  entity: string;
  /** Another name for the same thing: «the Sales department» beside «Sales». */
  other: string | null;
  /** «returning unused goods»: what the value limits or times, when a verb says it. */
  event: string | null;
  /** The document's own word for it («list price»), or null when a sentence says it by a verb. */
  attribute: string | null;
  /** Row of `attributes`, and whether the document's word is that attribute itself rather than one of its kinds. */
  concept: string | null;
  exact: boolean;
  value: string;
  kind: ValueKind;
  /** A sentence that says it; null in a language without rules. */
  statement: string | null;
  /** Whether the statement names no other value. */
  alone: boolean;
  /** Questions read off the sentence itself, and the sentence with the value replaced: [asked in place, left blank]. */
  asked: string[];
  inPlace: { asked: string; blank: string } | null;
  /** The heading a subject without a name belongs to. */
  context: string | null;
  /** Facts of one group share an attribute: each other's contrast. */
  group: string;
  source: Source;
  english: boolean;
}

/** What belongs together and is short enough to be recalled whole: a section, or a table's row. */
export interface Passage {
  title: string;
  text: string;
  source: Source;
  english: boolean;
}

export interface DocumentFacts {
  facts: Fact[];
  passages: Passage[];
  english: boolean;
}

export const factId = (document: string, entity: string, attribute: string, value: string): string =>
  hashOf(`${document}\n${normalised(entity)}\n${normalised(attribute)}\n${normalised(value)}`)
    .toString(16)
    .padStart(8, "0");

/** A fact that the document gives as attribute and value. */
export function attributeFact(given: {
  document: SnapshotDocument;
  entity: string;
  attribute: string;
  value: string;
  source: Source;
  english: boolean;
  group: string;
  other?: string | null;
}): Fact {
  const { document, entity, attribute, value, source, english, group } = given;
  const kind = kindOf(value);
  const { concept, exact } = english ? conceptOf(attribute, kind, entity) : { concept: null, exact: false };
  return {
    id: factId(document.id, entity, attribute, value),
    entity,
    other: given.other ?? otherName(entity),
    event: null,
    attribute,
    concept,
    exact,
    value,
    kind,
    statement: null,
    alone: true,
    asked: [],
    inPlace: null,
    context: null,
    group,
    source,
    english,
  };
}

const typed =
  /^(Project|Product|Model|Team|Department|Site|Plant|Office|Building|Room|Machine|Programme|Program|Service|Hall|Station|Campaign|Workshop) (\p{Lu}[\p{L}-]+)$/u;

/** «Project Aspen» is also «the Aspen project». */
export function otherName(entity: string): string | null {
  const match = typed.exec(entity);
  return match ? `the ${match[2]} ${match[1]!.toLowerCase()}` : null;
}
