// What a clause says of a value: of which thing, and as which attribute.
import { type Clause, gerundOf, prepositions } from "./clauses.ts";
import { conceptOf, conceptOfVerb, type Meaning } from "./concepts.ts";
import { type Corpus, lowered } from "./corpus.ts";
import { type Hole, isPerson } from "./mentions.ts";
import { amountQuestions } from "./questions.ts";
import type { Value } from "./values.ts";

export interface Role extends Meaning {
  entity: string;
  attribute: string | null;
  /** «returning unused goods»: what happens, for attributes of events. */
  event: string | null;
  /** Questions in place of those that the clause would answer. */
  asked?: string[];
}

const ofPhrase = /^(?:the|a|an|its|our)\s+([a-z][\w\s-]{1,40}?)\s+(?:of|for|on)\s+(.+)$/i;
/** «the notice period towards Moe», «the contact for all questions at Moe», «completion of Project Aspen» */
const related =
  /^(?:(?:the|our|its|a|an)\s+)?([A-Za-z][a-z-]*(?:\s[a-z-]+){0,2}?)(?:\s+for\s(?:all\s|any\s)?[a-z]+)?\s+(?:at|with|to|towards?|from|in|of)\s+((?:the\s)?\p{Lu}.*)$/u;
const possessive = /^(.+?)(?:['’]s|s['’])\s+([a-z][\w\s-]+)$/;
const article = /^(?:the|a|an|our|its)\s+/i;
export const hedge =
  /^(?:a|an|the|about|around|only|at least|at most|up to|exactly|over|under|more than|roughly|nearly|some)\s+/i;

/** null when the value is only part of the subject's name. */
export function roleOf(clause: Clause, value: Value, hole: Hole, heading: string | null, corpus: Corpus): Role | null {
  const subject = lowered(clause.text.slice(clause.subject.start, clause.subject.end), corpus);
  if (value.start < clause.subject.end && value.end > clause.subject.start) {
    const amount = amountOf(subject, value);
    if (amount !== null) return { ...plain(amount), asked: amountQuestions(amount) };
    return subject.replace(article, "") === value.text ? subjectRole(clause, value, heading, corpus) : null;
  }
  const between = clause.text.slice(clause.verb.end, hole.start).trim();
  const post = officeOf(clause, value, between, hole);
  if (post) return { ...plain(subject), ...post };
  const agentOfGoods = givenBy(clause, value, hole);
  if (agentOfGoods) return { ...plain(agentOfGoods), concept: "goods", exact: true };
  const numbered = numberedRole(clause, value, subject);
  if (numbered) return numbered;
  const particle = prepositions.has(between);
  const direct = between === "" || hedge.test(`${between} `) || toUs.test(between);
  const named = nounRole(clause, value, hole, heading, subject, direct);
  if (named) return named;
  if (hole.noun !== null && value.kind !== "name" && direct)
    return { ...plain(subject), attribute: hole.noun, ...conceptOf(hole.noun, value.kind, subject) };
  const said = hole.noun !== null && hole.preposition !== "" ? conceptOf(hole.noun, value.kind, subject) : null;
  if (said?.exact) return { ...plain(subject), attribute: hole.noun, ...said };
  const noun = /^(?:(?:with|in)\s+)?(?:a|an|the)\s+([a-z][a-z\s-]{2,30})$/.exec(between)?.[1] ?? null;
  if (noun !== null && /^(?:have|come|offer|carry|feature|get)$/.test(clause.lemma))
    return { ...plain(subject), attribute: noun, ...conceptOf(noun, value.kind, subject) };
  const somebody = isPerson(clause.text, clause);
  const agent = clause.passive && hole.preposition === "by";
  const state = clause.lemma === "be" && /^[a-z]+$/.test(between) ? `be ${between}` : null;
  const verb = state ?? (toUs.test(between) && somebody ? `${clause.lemma} to` : clause.lemma);
  const found =
    direct || agent || particle || state || passedOver(between, value)
      ? (conceptOfVerb(verb, hole.preposition.split(" ")[0]!, value.kind) ??
        (particle ? conceptOfVerb(clause.lemma, between, value.kind) : null))
      : null;
  const concept = somebody ? (ofPersons[found ?? ""] ?? found) : found;
  const given = concept === "supplier" && clause.passive ? /^with (.+)$/.exec(between)?.[1] : undefined;
  return { ...plain(given ?? subject), concept, exact: concept !== null, event: gerundOf(clause, hole, subject) };
}

/** What a verb means of somebody rather than of a thing. */
const ofPersons: Record<string, string> = { begin: "joined", founded: "joined", supplier: "formerEmployer" };

const toUs = /^(?:to|with|for|at) (?:us|me|you|them)$/;
const byTheWay = /^(?:as|by|at|in|on|with|under|after|for|from|near|to|over) [^,;]*$/;

/** «was founded by Ada Lund in 1931», «hangs as a loan in Lund»: other phrases may stand before a value known by its form. */
const passedOver = (between: string, { kind }: Value): boolean =>
  kind === "name" || kind === "text" ? /^as (?:an?|the|our) [^,;]*$/.test(between) : byTheWay.test(between);

const office =
  /^\p{Ll}[\p{L}-]*(?:\s(?!(?:about|and|with|that|to|for)\b)\p{Ll}[\p{L}-]*){0,3}(?:\s(?:of|for|in)\s.+)?$/u;

/** «joins us as crane operator», «Ada Lund is our crane operator»: what somebody is. */
function officeOf(clause: Clause, value: Value, between: string, hole: Hole): Meaning | null {
  if (value.kind !== "text" || !office.test(value.text) || !isPerson(clause.text, clause)) return null;
  const takes = hole.preposition === "as" || /\bas$/.test(between);
  const is = clause.lemma === "be" && /^(?:|our|the|a|an)(?: new)?$/.test(between);
  return takes || is ? { concept: "role", exact: true } : null;
}

/** «is supplied with felt pads by Lund»: the goods are Lund's. */
function givenBy(clause: Clause, value: Value, hole: Hole): string | null {
  if (!clause.passive || value.kind !== "text" || hole.preposition !== "with") return null;
  return /\sby\s((?:the\s)?\p{Lu}[^,.]*)[.]?$/u.exec(clause.text)?.[1] ?? null;
}

/** «can be found in room 318», «calls for Ada Lund go to extension 4974»: the noun before a bare number says what it is. */
function numberedRole(clause: Clause, value: Value, subject: string): Role | null {
  if ((value.kind !== "number" && value.kind !== "code") || value.noun !== null) return null;
  const before = clause.text.slice(clause.verb.end, value.start);
  const noun = /(?:^|\s)(?:in|on|at|to|into|under|from|has|with)?\s*(\p{Ll}{3,})\s$/u.exec(before)?.[1];
  if (!noun || prepositions.has(noun) || hedge.test(`${noun} `) || /(?:ly|ed|ing|than)$/.test(noun)) return null;
  const named = /\s(?:of|for)\s((?:\p{Lu}[\p{L}'’-]+\s?){2,4})$/u.exec(subject)?.[1]?.trim();
  const entity = named ?? subject;
  return { ...plain(entity), attribute: noun, ...conceptOf(noun, value.kind, entity) };
}

const plain = (entity: string): Role => ({ entity, attribute: null, concept: null, exact: false, event: null });

/** «The capacity of the silo is …», «The silo's capacity is …», «The capacity is …» under the silo's heading. */
function nounRole(
  clause: Clause,
  value: Value,
  hole: Hole,
  heading: string | null,
  subject: string,
  direct: boolean,
): Role | null {
  const where = value.kind === "name" && /^(?:in|at)$/.test(hole.preposition);
  if (!direct && !where) return null;
  const fits = ({ concept, exact }: Meaning): boolean =>
    exact && (direct || concept === "place" || concept === "headquarters");
  const near = related.exec(subject);
  if (near) {
    const [attribute, entity] = [near[1]!.toLowerCase(), near[2]!];
    const meaning = conceptOf(attribute, value.kind, entity);
    if (fits(meaning)) return { ...plain(entity), attribute, ...meaning };
  }
  const parts = ofPhrase.exec(subject);
  const owned = possessive.exec(subject);
  const attribute = parts?.[1] ?? owned?.[2] ?? null;
  if (attribute !== null) {
    const entity = (parts?.[2] ?? owned?.[1])!;
    if (/^\d/.test(entity)) return null;
    const meaning = conceptOf(attribute, value.kind, entity);
    if ((direct && equates(clause, hole)) || fits(meaning)) return { ...plain(entity), attribute, ...meaning };
  }
  if (clause.lemma !== "be" || (hole.preposition && !where) || heading === null) return null;
  const bare = subject.replace(article, "");
  const own = conceptOf(bare, value.kind, heading);
  const sites = own.concept === "place" || own.concept === "headquarters";
  const state = own.concept === "place" && value.kind === "text";
  return own.exact && !state && (!where || sites) ? { ...plain(heading), attribute: bare, ...own } : null;
}

/** «is», «comes to», «amounts to» */
const equates = ({ lemma }: Clause, { preposition }: Hole): boolean =>
  lemma === "be" || (preposition === "to" && /^(?:come|amount|add|run)$/.test(lemma));

/** «a fee of 35 euros is deducted» says how much the fee is. */
function amountOf(subject: string, value: Value): string | null {
  if (value.kind === "name" || !subject.endsWith(` of ${value.text}`)) return null;
  const thing = subject.slice(0, -value.text.length - 4).replace(article, "");
  return thing === "" || /\bof\b/.test(thing) ? null : `the ${thing}`;
}

/** «the firm with borrowed tools», «the oven in a single winter»: how it was done. */
const circumstance = /\s(?:with|as|during|within|after|in (?:an?|only|just))\s.*$/;

/** The value is the whole subject: who does it, or who holds the office that the complement names. */
function subjectRole(clause: Clause, value: Value, heading: string | null, corpus: Corpus): Role | null {
  const object = clause.text
    .slice(clause.verb.end)
    .trim()
    .replace(/[.!]+$/, "")
    .replace(/(?:,\s| since | from \d| in \d).*$/, "");
  if (clause.lemma === "be" && value.kind === "name") {
    const [office, ...owners] = object.replace(article, "").split(/\s+(?:of|for|at|with)\s+/);
    const of = owners.at(-1);
    const entity = of ?? corpus.company ?? heading;
    const meaning = office ? conceptOf(office, value.kind, entity ?? "") : { concept: null, exact: false };
    if (office && entity && (meaning.concept === "head" || (of && meaning.exact)))
      return { ...plain(entity), attribute: office, ...meaning };
  }
  const verbal =
    clause.passive || clause.lemma === "be" || /^(?:in|on|at|to|from|with|as|us|for|over)\b/.test(object)
      ? null
      : conceptOfVerb(clause.lemma, "by", value.kind);
  if (object === "" || (value.kind !== "name" && verbal === null)) return null;
  const done = verbal ? object.replace(verbal === "supplier" ? /\sto\s.*$/ : circumstance, "") : object;
  return { ...plain(lowered(done, corpus)), concept: verbal, exact: verbal !== null };
}
