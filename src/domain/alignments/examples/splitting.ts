// A sentence as clauses that each can stand alone, so that every statement is short and says one thing.

import { capitalised } from "../../../base/text.ts";
import { auxiliaries, embeds, readClause, tokensOf } from "./clauses.ts";
import { valuesOf } from "./values.ts";
import { baseOfParticiple, past, third } from "./verbs.ts";

/** «…; the shop …», «…, and its chair is …»: what follows has a subject of its own. */
const breaks =
  /;\s+|,\s+(?:and|but|while)\s+(?=(?:the|it|they|we|its|their|each|every|all|a|an|\p{Lu})\b)|\s+and\s+(?=(?:its|their|the)\s+\p{Ll}+\s+(?:is|are|was|were|has|have)\b)/u;
const aside = /^([^,]{3,60}), ((?:which|who)\s+)?([^,]{3,80}), ([^,].*)$/;
const apposed = /, (?:a|an|the|our|its|one of)\s[^,]*[.!]?$/;
const relation = /^(?:by|in|on|at|of|from|with|for|near)$/;

export function clausesOf(sentence: string): string[] {
  return sentence
    .split(breaks)
    .flatMap((part) => asides(part))
    .flatMap((part) => coordinated(part))
    .flatMap((part) => afterthought(part))
    .flatMap((part) => inTwo(part))
    .map(capitalised);
}

/** «The desk, which is run by Ada, is in hall 2.» is two statements about the desk; a noun put beside another is dropped. */
function asides(part: string): string[] {
  const match = aside.exec(part);
  if (match) {
    const [, subject, relative, inner, rest] = match;
    const words = tokensOf(inner!);
    const main = `${subject} ${rest}`;
    const bare = subject!.replace(/^(?:In|On|Since|By) [^,]*?\d{4} (?=\p{L})/u, "");
    if (relative && readClause(main)) return [`${bare} ${inner}`, main];
    const lemma = words[0] ? baseOfParticiple(words[0].word) : null;
    if (lemma && relation.test(words[1]?.word ?? "") && readClause(main))
      return [`${bare} ${/\d{4}|\bby\b/.test(inner!) ? "was" : "is"} ${inner}`, main];
  }
  const clause = readClause(part);
  const end = apposed.exec(part);
  return clause && end && end.index > clause.verb.end ? [part.slice(0, end.index)] : [part];
}

/** «X opened in 1987 and employs 62 people» is two with one subject; «was built in 1911 and rebuilt in 1950» shares «was» too. */
function coordinated(part: string): string[] {
  const clause = readClause(part);
  if (!clause) return [part];
  const subject = part.slice(0, clause.subject.end);
  const pieces: string[] = [];
  let at = 0;
  let lead = "";
  for (const match of part.matchAll(/,?\s+(?:and|but)\s+/g)) {
    if (match.index < clause.verb.end || embeds.test(part.slice(at, match.index))) continue;
    const after = match.index + match[0].length;
    const word = tokensOf(part.slice(after, after + 40))[0]?.word ?? "";
    const passive = clause.passive && baseOfParticiple(word) !== null && !third.has(word);
    if (!passive && !auxiliaries.has(word) && !third.has(word) && !(past.has(word) && clause.tense === "past"))
      continue;
    pieces.push(lead + part.slice(at, match.index));
    at = after;
    lead = passive ? `${subject} ${part.slice(clause.auxiliary!.start, clause.verb.start)}` : `${subject} `;
  }
  return [...pieces, lead + part.slice(at)];
}

const trailing =
  /,\s+(when\s(?:it|they|he|she)\s[^,]*|(?:(?:just|only|not|very|right|quite)\s)?(?:after|before|close|near|next|opposite|far|with|without|within|along|despite|thanks|because|on|in|at|by|under|over|from|since|beside|behind|between)\s[^,]*)$/;

/** «opened in 1981, after two years of building»: a value of its own in the tail is a second statement. */
function afterthought(part: string): string[] {
  const clause = readClause(part);
  const tail = trailing.exec(part);
  if (!clause || !tail || tail.index <= clause.verb.end) return [part];
  const main = part.slice(0, tail.index);
  if (valuesOf(tail[1]!).length === 0) return [main];
  const complete = /^\s*(?:in|on|at|by|from|near)\s/.test(part.slice(clause.verb.end));
  return complete ? [main, `${part.slice(0, clause.verb.end)} ${tail[1]}`] : [part];
}

/** «was founded as a workshop in 1949»: when, and as what. */
function inTwo(part: string): string[] {
  const clause = readClause(part);
  const match = /^\s(as an?\s(?:[\p{Ll}-]+\s){1,4}?)((?:in|on|at|by|from)\s.+)$/u.exec(
    part.slice(clause?.verb.end ?? part.length),
  );
  if (!clause || !match) return [part];
  const lead = part.slice(0, clause.verb.end);
  return [`${lead} ${match[2]}`, `${lead} ${match[1]!.trim()}`];
}
