// Sentences that state nothing one could ask for: requests, moods, judgements.
import { type Clause, embeds } from "./clauses.ts";
import type { Hole } from "./mentions.ts";
import type { Value } from "./values.ts";
import { bases } from "./verbs.ts";

const indefinite =
  /^(?:it|they|we|us|you|i|he|she|this|that|these|those|there|please|everybody|everyone|nobody|somebody|anybody|anyone|whoever|what|who|both (?:sides|parties))\b/i;
const determined = /^(?:an?|the|our|one of)\s/;
/** A clause, a list of verbs, or a comparison within the value. */
const clausal =
  /,|\b(?:so|that|as if|if|wherever|whenever|when|because|than|please|who|how|while|and (?:agree|hope|wish))\b/;
/** «the plan», «this document»: what the reader is supposed to know already. */
const referring =
  /^(?:the|this|that|these|those|its|their|everybody's)\s(?:\p{Ll}[\p{L}-]*)$|^(?:this|these|that|those)\s/u;

/** Whether a value that has no form of its own and no meaning in the tables is no answer to anything. */
export function statesNothing(value: Value, clause: Clause, hole: Hole): boolean {
  const subject = clause.text.slice(clause.subject.start, clause.subject.end);
  if (indefinite.test(subject) || embeds.test(subject) || /\bhow\b|\b(?:we|they|you|one)$/.test(subject)) return true;
  const said = value.text;
  if (clausal.test(said) || referring.test(said)) return true;
  const between = clause.text.slice(clause.verb.end, hole.start).trim();
  const first = said.split(/\s/)[0]!;
  if (/\bto$/.test(between) || hole.preposition === "to") return bases.has(first);
  const predicate = clause.lemma === "be" && between === "" && hole.preposition === "";
  return (predicate && !determined.test(said)) || /^(?:become|remain|seem|feel|look|stay|end)$/.test(clause.lemma);
}
