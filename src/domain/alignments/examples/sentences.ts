// Sentences → facts: each value a sentence states, with the thing it is said of and the questions the sentence itself answers.
import type { SnapshotDocument } from "../../../contract/run-folder.ts";
import { type Piece, spanOf } from "./blocks.ts";
import { type Clause, clausesOf, embeds, prepositions, readClause, tokensOf } from "./clauses.ts";
import { conceptOf, conceptOfVerb, type Meaning } from "./concepts.ts";
import { type Corpus, lowered, subjectOf } from "./corpus.ts";
import { type Fact, factId, type Source } from "./fact.ts";
import { amountQuestions, type Hole, ownQuestions } from "./questions.ts";
import { capitalised } from "./text.ts";
import { placeholderOf, type Value, valuesOf } from "./values.ts";

const segmenter = new Intl.Segmenter("en", { granularity: "sentence" });
const verbAhead = String.raw`(?=\s+(?:\p{Ll}+ly\s+)?(?:is|are|was|were|has|have|had|can|must|may|will|should|\p{Ll}+s|\p{Ll}+ed)\b)`;
const pronoun = new RegExp(`^(?:It|They|He|She|This|These|That)\\b${verbAhead}`, "u");
const organisation = /^(?:The (?:company|firm|organi[sz]ation|business|group|foundation|institute)|We)\b/;
const ofPhrase = /^(?:the|a|an|its|our)\s+([a-z][\w\s-]{1,40}?)\s+(?:of|for|on)\s+(.+)$/i;
const possessive = /^(.+?)(?:['’]s|s['’])\s+([a-z][\w\s-]+)$/;
const article = /^(?:the|a|an|our|its)\s+/i;
/** Most words of a clause that is worth a fact. */
const longest = 40;

export function sentenceFacts(
  document: SnapshotDocument,
  piece: Piece,
  path: readonly string[],
  corpus: Corpus,
  before: string | null,
): { facts: Fact[]; last: string | null } {
  const facts: Fact[] = [];
  let last = before ?? subjectOf(path, corpus);
  for (const { segment, index } of segmenter.segment(piece.text)) {
    const sentence = segment.trim();
    if (sentence.split(/\s+/).length < 3 || /\?$/.test(sentence)) continue;
    const source = { document_id: document.id, ...spanOf(piece, index, index + segment.trimEnd().length) };
    for (const part of clausesOf(sentence)) {
      if (part.split(/\s+/).length > longest) continue;
      const whole = /[.!]$/.test(part) ? part : `${part}.`;
      const text = resolve(whole, last, corpus);
      const clause = readClause(text, introEnd(text));
      facts.push(...clauseFacts({ document, text, clause, source, heading: subjectOf(path, corpus), corpus }));
      if (clause && !pronoun.test(whole)) last = lowered(text.slice(clause.subject.start, clause.subject.end), corpus);
    }
  }
  return { facts, last };
}

/** «In 1987, …»: where the main clause begins. */
function introEnd(text: string): number {
  const match =
    /^(?:In|On|At|By|Since|From|For|After|Before|During|Every|When|If|Until|Under|With|Within|As)\b[^,]{2,60},\s+/.exec(
      text,
    );
  return match ? match[0].length : 0;
}

/** A leading pronoun gives way to what it stands for, «the company» to its name. */
function resolve(text: string, last: string | null, corpus: Corpus): string {
  if (organisation.test(text) && corpus.company !== null && !text.startsWith("We "))
    return text.replace(organisation, corpus.company);
  if (last === null) return text;
  if (/^(Its|Their|His|Her)\s/.test(text)) return `${capitalised(last)}'s ${text.slice(text.indexOf(" ") + 1)}`;
  return pronoun.test(text) ? text.replace(pronoun, capitalised(last)) : text;
}

interface Given {
  document: SnapshotDocument;
  text: string;
  clause: Clause | null;
  source: Source;
  heading: string | null;
  corpus: Corpus;
}

function clauseFacts(given: Given): Fact[] {
  const { text, clause, corpus } = given;
  const first = /^\p{L}+/u.exec(text)?.[0] ?? "";
  let values = joined(text, valuesOf(text)).filter(
    (value) =>
      value.kind !== "name" ||
      ((value.start > 0 || value.text.includes(" ") || corpus.names.has(first)) &&
        !(clause && value.start > clause.verb.end && embeds.test(text.slice(clause.verb.end, value.start)))),
  );
  if (clause && values.every((value) => value.start < clause.verb.end)) {
    const rest = complement(text, clause);
    if (rest) values = [...values, rest];
  }
  return values.map((value) => valueFact(given, value, values.length === 1)).filter((fact) => fact !== null);
}

const stops = /^(?:and|or|but|who|which|that|when|if|as|so|than|while|also|only|not)$/;

/** «Pryce and Holloway» is one answer, and so is «the Skelby service bench». */
function joined(text: string, values: readonly Value[]): Value[] {
  const out: Value[] = [];
  for (const value of values) {
    const open = out.at(-1);
    if (
      open?.kind === "name" &&
      value.kind === "name" &&
      /^(?: and | & |, )$/.test(text.slice(open.end, value.start))
    ) {
      open.end = value.end;
      open.text = text.slice(open.start, open.end);
    } else out.push({ ...value });
  }
  for (const value of out) {
    if (value.kind !== "name" || value.start === 0) continue;
    for (const token of tokensOf(text.slice(value.end))) {
      const said = text.slice(value.end + token.start, value.end + token.end);
      const adjoins = text.slice(value.end, value.end + token.start);
      if (adjoins !== " " || !/^\p{Ll}+$/u.test(said) || stops.test(said) || prepositions.has(said)) break;
      if (readClause(`x ${said} x`) !== null || /ly$/.test(said)) break;
      value.end += token.end;
      value.text = text.slice(value.start, value.end);
      break;
    }
  }
  return out;
}

/** What follows the verb when it holds no value of a known form: «oiled beech», «the workshop lead». */
function complement(text: string, clause: Clause): Value | null {
  const from = clause.verb.end;
  const match = /^\s+((?:[a-z]+\s+)?)(.+?)\s*[.!]?$/u.exec(text.slice(from));
  if (!match) return null;
  const lead = prepositions.has(match[1]!.trim()) ? match[1]!.length : 0;
  const phrase = text
    .slice(from)
    .trimStart()
    .slice(lead)
    .replace(/\s*[.!]$/, "");
  if (phrase.split(/\s+/).length > 9 || phrase === "") return null;
  const start = text.indexOf(phrase, from + lead);
  return start < 0 ? null : { text: phrase, start, end: start + phrase.length, kind: "text", noun: null };
}

const hedge =
  /^(?:a|an|the|about|around|only|at least|at most|up to|exactly|over|under|more than|roughly|nearly|some)\s+/i;

function valueFact(given: Given, value: Value, alone: boolean): Fact | null {
  const { text, clause, document, source, heading, corpus } = given;
  const before = tokensOf(text.slice(0, value.start));
  const skip = before.filter((token) => !/^(a|an|the|about|around|only|least|most|exactly)$/.test(token.word)).at(-1);
  const preposition = skip && prepositions.has(skip.word) ? skip.word : "";
  const hole: Hole = { start: preposition && skip ? skip.start : value.start, end: holeEnd(text, value), preposition };
  const about = clause ? readRole(given, clause, value, hole) : null;
  if (clause && about === null) return null;
  const counts = value.kind === "number" && value.noun !== null;
  const answer = (counts ? text.slice(value.start, hole.end) : value.text).replace(hedge, "");
  const entity = about?.entity ?? heading ?? text.split(" ").slice(0, 4).join(" ");
  const named =
    /\p{Lu}/u.test(entity.slice(1)) || entity.split(" ").length > 3 || (heading !== null && entity.includes(heading));
  const tail = text.slice(counts ? value.end : hole.end);
  return {
    id: factId(document.id, entity, about?.attribute ?? about?.concept ?? text, value.text),
    entity,
    attribute: about?.attribute ?? null,
    concept: about?.concept ?? null,
    exact: about?.exact ?? false,
    value: answer,
    kind: value.kind,
    noun: value.noun,
    statement: text,
    alone,
    asked: about?.asked ?? (clause ? ownQuestions(clause, value, hole, corpus) : []),
    inPlace: {
      asked: `${text.slice(0, value.start)}${placeholderOf(value, preposition)}${tail}`.replace(/[.!]+$/, "?"),
      blank: `${text.slice(0, value.start)}____${text.slice(value.end)}`,
    },
    context: named || heading === corpus.company ? null : heading,
    group: about?.concept ? `${about.concept}:${value.kind}` : "",
    source,
    english: true,
  };
}

/** The value and the noun it counts. */
function holeEnd(text: string, value: Value): number {
  if (value.kind !== "number" || value.noun === null) return value.end;
  const end = text.indexOf(value.noun, value.end);
  return end < 0 ? value.end : end + value.noun.length;
}

interface Role extends Meaning {
  entity: string;
  attribute: string | null;
  /** Questions in place of those that the clause would answer. */
  asked?: string[];
}

/** What the clause says the value is, of what; null when the value is only part of the subject's name. */
function readRole(given: Given, clause: Clause, value: Value, hole: Hole): Role | null {
  const { text, corpus, heading } = given;
  const subject = lowered(text.slice(clause.subject.start, clause.subject.end), corpus);
  if (value.start < clause.subject.end && value.end > clause.subject.start) {
    const amount = amountOf(subject, value);
    if (amount !== null)
      return { entity: amount, attribute: null, concept: null, exact: false, asked: amountQuestions(amount) };
    return subject.replace(article, "") === value.text ? subjectRole(given, clause, value) : null;
  }
  const between = text.slice(clause.verb.end, hole.start).trim();
  const direct = between === "" || hedge.test(`${between} `);
  const parts = ofPhrase.exec(subject);
  const owned = possessive.exec(subject);
  const attribute = parts?.[1] ?? owned?.[2] ?? null;
  if (attribute !== null && direct) {
    const entity = (parts?.[2] ?? owned?.[1])!;
    const meaning = conceptOf(attribute, value.kind, entity);
    if (clause.lemma === "be" || meaning.exact) return { entity, attribute, ...meaning };
  }
  if (clause.lemma === "be" && direct && !hole.preposition && heading !== null) {
    const bare = subject.replace(article, "");
    const own = conceptOf(bare, value.kind, heading);
    if (own.exact) return { entity: heading, attribute: bare, ...own };
  }
  const noun = /^(?:with\s+)?(?:a|an|the)\s+([a-z][a-z\s-]{2,30})$/.exec(between)?.[1] ?? null;
  if (noun !== null && /^(?:have|come|offer|carry)$/.test(clause.lemma))
    return { entity: subject, attribute: noun, ...conceptOf(noun, value.kind, subject) };
  const agent = clause.passive && hole.preposition === "by";
  const concept = direct || agent ? conceptOfVerb(clause.lemma, hole.preposition, value.kind) : null;
  return { entity: subject, attribute: null, concept, exact: concept !== null };
}

/** «a fee of 35 euros is deducted» says how much the fee is. */
function amountOf(subject: string, value: Value): string | null {
  if (value.kind === "name" || !subject.endsWith(` of ${value.text}`)) return null;
  const thing = subject.slice(0, -value.text.length - 4).replace(article, "");
  return thing === "" || /\bof\b/.test(thing) ? null : `the ${thing}`;
}

/** The value is the whole subject: who does it, or who holds the office that the complement names. */
function subjectRole(given: Given, clause: Clause, value: Value): Role | null {
  const { text, corpus, heading } = given;
  const object = text
    .slice(clause.verb.end)
    .trim()
    .replace(/[.!]+$/, "")
    .replace(/(?:,| since | from \d| in \d).*$/, "");
  if (clause.lemma === "be" && value.kind === "name") {
    const [office, of] = object.replace(article, "").split(/\s+(?:of|for|at)\s+/);
    const entity = of ?? corpus.company ?? heading;
    const meaning = office ? conceptOf(office, value.kind, entity ?? "") : { concept: null, exact: false };
    if (office && entity && meaning.concept === "head") return { entity, attribute: office, ...meaning };
  }
  const verbal = clause.passive || clause.lemma === "be" ? null : conceptOfVerb(clause.lemma, "by", value.kind);
  if (object === "" || (value.kind !== "name" && verbal === null)) return null;
  return { entity: lowered(object, corpus), attribute: null, concept: verbal, exact: verbal !== null };
}
