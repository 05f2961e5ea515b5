// From a document's word or verb to the row of `attributes` that it means.
import { attributes } from "./attributes.ts";
import type { ValueKind } from "./values.ts";

function index(key: "nouns" | "verbs"): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const [name, attribute] of Object.entries(attributes))
    for (const word of attribute[key].split("|")) found.set(word, [...(found.get(word) ?? []), name]);
  return found;
}

const byNoun = index("nouns");
const byVerb = index("verbs");

/** A noun is taken at its word when the value has no form of its own; a verb needs a value of its kind. */
function fitting(names: readonly string[] | undefined, kind: ValueKind, strict: boolean): string | null {
  const fits = names?.find((name) => attributes[name]!.kinds?.includes(kind));
  return fits ?? names?.find((name) => !attributes[name]!.kinds || (!strict && kind === "text")) ?? null;
}

export interface Meaning {
  concept: string | null;
  /** Whether the document's word is that attribute itself rather than one of its kinds («express fee»). */
  exact: boolean;
}

/** By the whole phrase or by its last words; a qualifier that the thing's own name already says does not count. */
export function conceptOf(attribute: string, kind: ValueKind, entity: string): Meaning {
  const words = attribute.toLowerCase().split(/\s+/);
  const said = new Set(entity.toLowerCase().split(/\s+/));
  for (let from = 0; from < words.length; from++) {
    const concept = fitting(byNoun.get(words.slice(from).join(" ")), kind, false);
    if (concept) return { concept, exact: words.slice(0, from).every((word) => said.has(word)) };
  }
  return { concept: null, exact: false };
}

/** By a verb and its preposition; «» = plain object. */
export function conceptOfVerb(lemma: string, preposition: string, kind: ValueKind): string | null {
  return fitting(byVerb.get(`${lemma} ${preposition}`.trim()), kind, true);
}
