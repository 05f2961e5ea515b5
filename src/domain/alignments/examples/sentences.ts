// Sentences → facts: each value a sentence states, with the thing it is said of and the questions the sentence itself answers.
import type { SnapshotDocument } from "../../../contract/run-folder.ts";
import { type Piece, spanOf } from "./blocks.ts";
import { askFor, askSubject, type Clause, clausesOf, lowered, prepositions, readClause, tokensOf } from "./clauses.ts";
import { type Corpus, conceptOf, conceptOfVerb, type Fact, factId, type Source, subjectOf } from "./facts.ts";
import { capitalised } from "./text.ts";
import { placeholderOf, type Value, type ValueKind, valuesOf } from "./values.ts";

const segmenter = new Intl.Segmenter("en", { granularity: "sentence" });
const pronoun = /^(It|They|He|She|This|These|That)\b(?!\s+\p{L}+\s+(?:is|are|was|were|has|have|can|must|may|will)\b)/u;
const ofPhrase = /^(?:the|a|an|its|our)\s+([a-z][\w\s-]{1,40}?)\s+(?:of|for|on)\s+(.+)$/i;
const possessive = /^(.+?)(?:['’]s|s['’])\s+([a-z][\w\s-]+)$/;
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
      const text = last === null ? whole : resolve(whole, last);
      const clause = readClause(text, introEnd(text));
      facts.push(...clauseFacts({ document, text, clause, source, path, corpus }));
      if (clause && text === whole) last = lowered(text.slice(clause.subject.start, clause.subject.end));
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

/** A leading pronoun gives way to what it stands for. */
function resolve(text: string, last: string): string {
  if (/^(Its|Their|His|Her)\s/.test(text)) return `${capitalised(last)}'s ${text.slice(text.indexOf(" ") + 1)}`;
  return pronoun.test(text) ? text.replace(pronoun, capitalised(last)) : text;
}

interface Given {
  document: SnapshotDocument;
  text: string;
  clause: Clause | null;
  source: Source;
  path: readonly string[];
  corpus: Corpus;
}

function clauseFacts(given: Given): Fact[] {
  const { text, clause } = given;
  let values = valuesOf(text);
  if (clause && values.every((value) => value.start < clause.verb.end)) {
    const rest = complement(text, clause);
    if (rest) values = [...values, rest];
  }
  return values.map((value) => valueFact(given, value)).filter((fact) => fact !== null);
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

const leading =
  /^(?:a|an|the|about|around|only|at least|at most|up to|exactly|over|under|more than|roughly|nearly|some)\s+/i;

function valueFact(given: Given, value: Value): Fact | null {
  const { text, clause, document, source } = given;
  const before = tokensOf(text.slice(0, value.start));
  const skip = before.filter((token) => !/^(a|an|the|about|around|only|least|most|exactly)$/.test(token.word)).at(-1);
  const preposition = skip && prepositions.has(skip.word) ? skip.word : "";
  const hole = { start: preposition && skip ? skip.start : value.start, end: holeEnd(text, value) };
  const about = clause ? readRole(given, clause, value, preposition, hole) : null;
  if (clause && about === null) return null;
  const whole = text.slice(value.start, hole.end);
  const answer = value.kind === "number" && value.noun !== null ? whole : value.text;
  const asked = clause ? ownQuestions(clause, value, preposition, hole) : [];
  const entity = about?.entity ?? subjectOf(given.path, given.corpus) ?? text.split(" ").slice(0, 4).join(" ");
  const heading = subjectOf(given.path, given.corpus);
  const named = /\p{Lu}/u.test(entity.slice(1)) || (heading !== null && entity.includes(heading));
  return {
    id: factId(document.id, entity, about?.attribute ?? about?.concept ?? text, value.text),
    entity,
    attribute: about?.attribute ?? null,
    concept: about?.concept ?? null,
    exact: about?.exact ?? false,
    value: answer.replace(leading, ""),
    kind: value.kind,
    noun: value.noun,
    statement: text,
    asked,
    inPlace: {
      asked:
        `${text.slice(0, value.start)}${placeholderOf(value, preposition)}${value.noun && value.kind === "number" ? text.slice(value.end) : text.slice(hole.end)}`.replace(
          /[.!]+$/,
          "?",
        ),
      blank: `${text.slice(0, value.start)}____${text.slice(value.end)}`,
    },
    context: named ? null : heading,
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

interface Role {
  entity: string;
  attribute: string | null;
  concept: string | null;
  exact: boolean;
}

/** What the clause says the value is, of what; null when the value is only part of the subject's name. */
function readRole(
  given: Given,
  clause: Clause,
  value: Value,
  preposition: string,
  hole: { start: number; end: number },
): Role | null {
  const { text } = given;
  const subject = lowered(text.slice(clause.subject.start, clause.subject.end));
  if (value.start < clause.subject.end && value.end > clause.subject.start) {
    const covers = subject.replace(/^(the|a|an)\s+/, "") === value.text;
    if (!covers) return null;
    const object = lowered(
      text
        .slice(clause.verb.end)
        .trim()
        .replace(/[.!]+$/, "")
        .replace(/,.*$/, ""),
    );
    const concept = clause.passive || clause.lemma === "be" ? null : conceptOfVerb(clause.lemma, "by", value.kind);
    return { entity: object, attribute: null, concept, exact: concept !== null };
  }
  const between = text.slice(clause.verb.end, hole.start).trim();
  const noun = nounBefore(between);
  if (clause.lemma === "be") {
    const parts = ofPhrase.exec(subject);
    const owned = possessive.exec(subject);
    const attribute = parts?.[1] ?? owned?.[2] ?? null;
    if (attribute !== null)
      return { entity: (parts?.[2] ?? owned?.[1])!, attribute, ...conceptOf(attribute, value.kind) };
    const own = conceptOf(subject.replace(/^(the|a|an|our|its)\s+/, ""), value.kind);
    const heading = subjectOf(given.path, given.corpus);
    if (own.exact && heading !== null && !preposition)
      return { entity: heading, attribute: subject.replace(/^(the|a|an|our|its)\s+/, ""), ...own };
  }
  if (noun !== null && (clause.lemma === "have" || clause.lemma === "come" || clause.lemma === "offer"))
    return { entity: subject, attribute: noun, ...conceptOf(noun, value.kind) };
  const direct = between === "" || leading.test(`${between} `);
  const concept = direct ? conceptOfVerb(clause.lemma, preposition, value.kind) : null;
  return { entity: subject, attribute: null, concept, exact: concept !== null };
}

/** «a capacity» in «has a capacity of 40 litres». */
function nounBefore(between: string): string | null {
  const match = /^(?:with\s+)?(?:a|an|the)\s+([a-z][a-z\s-]{2,30})$/.exec(between);
  return match ? match[1]! : null;
}

const placePrepositions = /^(in|at|near|on|from|to)$/;

/** Question words for a value where it stands, best first. */
function questionWords(kind: ValueKind, preposition: string, value: Value): string[] {
  if (kind === "money") return ["how much"];
  if (kind === "percent") return ["by how many percent", "how much"].slice(preposition === "by" ? 0 : 1);
  if (kind === "date") return preposition === "by" || preposition === "until" ? ["by when"] : ["when", "on which day"];
  if (kind === "year") return ["when", "in which year"];
  if (kind === "time") return ["at what time", "when"];
  if (kind === "duration") {
    if (preposition === "within" || preposition === "in") return ["within what time", "how quickly"];
    if (preposition === "every") return ["how often"];
    return preposition === "after" ? ["after how long", "when"] : ["how long", "for how long"];
  }
  if (kind === "number") return [value.noun === null ? "what number" : `how many ${value.noun}`];
  if (kind === "measure") return ["how much"];
  if (kind === "name" && placePrepositions.test(preposition)) return ["where", `${preposition} which place`];
  if (kind === "name")
    return preposition === "by" || preposition === "with"
      ? [`${preposition} whom`, "who"].slice(0, 1)
      : ["what", "who"];
  return [preposition ? `${preposition} what` : "what"];
}

/** Questions that the clause's own words make. */
function ownQuestions(
  clause: Clause,
  value: Value,
  preposition: string,
  hole: { start: number; end: number },
): string[] {
  if (value.start < clause.subject.end) {
    if (value.start < clause.subject.start)
      return questionWords(value.kind, preposition, value).map((wh) => intro(clause, wh));
    return [askSubject(clause, value.kind === "name" ? "Who" : "What")];
  }
  return questionWords(value.kind, preposition, value).map((wh) => askFor(clause, hole, wh));
}

/** A value in the introduction («In 1987, …»): the main clause is asked as it stands. */
function intro(clause: Clause, wh: string): string {
  return askFor(clause, { start: 0, end: 0 }, wh);
}
