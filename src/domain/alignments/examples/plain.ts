// A sentence in its plain form: subject first, nothing fronted, cleft or reported, so that one reading of clauses fits all.

import { capitalised } from "../../../base/text.ts";
import { readClause } from "./clauses.ts";
import { conceptOf } from "./concepts.ts";
import { type Corpus, lowered } from "./corpus.ts";
import { participleFor, third, thirdOf } from "./verbs.ts";

const opening =
  /^(?:(?:(?:Under|In|At|By|During|According to)\s(?:this|these|the|our)\s\p{Ll}+|(?:For|Over|Within)\s(?:(?:many|some|several|a few)\s)?(?:years|decades|months|generations|centuries))\s(?=\p{Lu})|(?:Every|Each)\s(?:year|month|week|season)\s(?=\p{Lu}))/u;
const presenting = /^(?:Please )?(?:welcome|meet|note that) ([^,]+), who (.+)$/i;
const chronicle = /^The (?:hi)?story of (.+?) ((?:begins|began|starts|started|goes back|went back)\s)/;
const reporting =
  /^(?!(?:If|When|What|That|This)\b)(?:\S+\s){1,4}?(?:knows?|says?|notes?|remembers?|finds?|reports?|explains?|confirms?|reads?)\sthat\s(.+)$/u;
const cleft =
  /^It\s(?:is|was)\s(?:(in|on|at|by|from|for|with|to|since|under|near)\s)?((?:(?!\b(?:that|who|which|where|when)\b)[^,]){2,60}?)\s(?:that|who|which|where|when)\s(.+)$/u;
const used = /^For the (\p{Ll}+) of (.+?) (?:we|they|one) uses? (.+)$/u;
const fronted = /^For ((?:\p{Lu}[\p{L}&'’-]*\s|and\s)+)(?=(?:the|a|an)\s)/u;
const passive = /^(.+?) (?:is|are|has been|have been) sponsored by (\p{Lu}.+?)([.!]?)$/u;
const frontedPlain =
  /^For ((?:(?!(?:in|on|at|of|by|from|with|to|every|each|all)\s)\p{Ll}+\s){1,3})(?=(?:the|an?)\s\p{Ll})/u;
const located =
  /^At ((?:\p{Lu}[\p{L}&'’-]*|and)(?:\s(?:\p{Lu}[\p{L}&'’-]*|and))*), (\p{Lu}[^,]* (?:is|are) [^,]+?)([.!]?)$/u;

/** «Please welcome Ada Lund, who leads the shop.» says that she does; «For Lund the fee is 5 euros.» says it of Lund. */
export function plainForm(said: string, corpus: Corpus): string {
  const bare = capitalised(said.replace(opening, "").replace(reporting, "$1"));
  const text = uncleft(bare)
    .replace(presenting, "$1 $2")
    .replace(chronicle, "$1 $2")
    .replace(passive, (_, whom: string, who: string, end: string) => `${who} sponsors ${lowered(whom, corpus)}${end}`)
    .replace(used, (whole, noun: string, of: string, stuff: string) =>
      conceptOf(noun, "text", "").concept === "material" ? `The ${noun} of ${of} is made of ${stuff}` : whole,
    )
    .replace(located, "$2 at $1$3");
  return ofTheHouse(ofThing(text), corpus);
}

/** «It was in 1966 that the yard was opened.» → «The yard was opened in 1966.» */
function uncleft(text: string): string {
  const match = cleft.exec(text);
  if (!match) return text;
  const [, preposition, value, rest] = match;
  const clause = rest!.replace(/[.!]+$/, "");
  const [first, next] = clause.toLowerCase().split(/\s+/);
  const headless = third.has(first!) || !readClause(clause) || /^(?:is|are|was|were|has|have|had)$/.test(first!);
  if (headless && !preposition && next) return `${capitalised(value!)} ${clause}.`;
  if (!readClause(clause)) return text;
  return `${capitalised(clause)} ${preposition ? `${preposition} ` : ""}${value}.`;
}

function ofThing(text: string): string {
  const front = fronted.exec(text) ?? frontedPlain.exec(text);
  const rest = front ? capitalised(text.slice(front[0].length)) : "";
  const clause = front ? readClause(rest) : null;
  if (!front || !clause) return text;
  return `${rest.slice(0, clause.subject.end)} ${/^\p{Lu}/u.test(front[1]!) ? "of" : "for"} ${front[1]!.trim()}${rest.slice(clause.subject.end)}`;
}

/** «We are glad» is said of nobody in particular. */
const mood = /^We (?:are|were|feel|hope|know|think|believe|look forward) (?!(?:in|at|an?|the|based|located|\d)\b)/;

const single: Record<string, string> = { are: "is", were: "was", have: "has", do: "does" };

/** «We build the oven at Moe Yard.» says where the oven is built; else what «we» do is what the organisation does. */
function ofTheHouse(text: string, corpus: Corpus): string {
  const clause = /^We\s/.test(text) ? readClause(text) : null;
  if (!clause || mood.test(text)) return text;
  const rest = text.slice(clause.verb.end);
  const object = /^\s((?:the|our|all|\p{Lu})[^,]*?)\s((?:at|in|from|by|near)\s.+)$/u.exec(rest);
  if (object && clause.auxiliary === null && !/^(?:have|be|know|hope|want)$/.test(clause.lemma)) {
    const [, thing, place] = object;
    const many = /[^su]s$|\sand\s/.test(thing!);
    const be = clause.tense === "past" ? (many ? "were" : "was") : many ? "are" : "is";
    return `${capitalised(thing!)} ${be} ${participleFor(clause.lemma)} ${place}`;
  }
  if (corpus.company === null) return text;
  const head = clause.auxiliary ?? clause.verb;
  const said = text.slice(head.start, head.end);
  const plain = single[said] ?? (clause.auxiliary || clause.tense === "past" ? said : thirdOf(clause.lemma));
  return `${corpus.company}${text.slice(2, head.start)}${plain}${text.slice(head.end)}`;
}
