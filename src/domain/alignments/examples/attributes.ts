// What organisations write about their things, and the many ways people ask for it. A document says it in one wording; a
// question seldom uses the same one, and wordings are what a small model has to be shown. Data only.
//
// nouns: how a column, key or noun phrase names it (its last words count).  verbs: «lemma» with the value as its object,
// «lemma preposition» with the value after that; «lemma by» is the one who does it, in the active and the passive.
// {e} the thing, {v} the value, {a} the document's own word. kinds: the values that the verbs mean this with.
//
// ask: wordings that share as few words with each other as they can, so that the meaning is learnt and not the words. None
// may fit another attribute of the same thing, nor name a value.
import { business } from "./attributes-business.ts";
import { measures } from "./attributes-measures.ts";
import { money } from "./attributes-money.ts";
import { people } from "./attributes-people.ts";
import { things } from "./attributes-things.ts";
import { times } from "./attributes-times.ts";
import type { ValueKind } from "./values.ts";

export interface Attribute {
  nouns: string;
  verbs: string;
  kinds?: ValueKind[];
  ask: string[];
  tell: string;
  /** A sentence says it of something that happens («returning goods»), not of its subject. */
  event?: true;
  /** Asks for the thing by its value. */
  which?: string;
}

/** Of several that a word may mean, the first whose kinds have the value's is taken: the order counts. */
export const attributes: Readonly<Record<string, Attribute>> = {
  ...business,
  ...things,
  ...measures,
  ...people,
  ...times,
  ...money,
};
