// Sentences → facts: each value a sentence states, with the thing it is said of and the questions the sentence itself answers.

import type { SnapshotDocument } from "../../../contract/run-folder.ts";
import { type Piece, spanOf } from "./blocks.ts";
import { type Clause, readClause } from "./clauses.ts";
import { conceptOf } from "./concepts.ts";
import { type Corpus, subjectOf } from "./corpus.ts";
import { type Fact, factId, type Source } from "./fact.ts";
import { holeOf, isPersonal, joined, mentionsOf } from "./mentions.ts";
import { plainForm } from "./plain.ts";
import { ownQuestions } from "./questions.ts";
import { hedge, type Role, roleOf } from "./roles.ts";
import { clausesOf } from "./splitting.ts";
import { opensWithPronoun, resolved, type Topic, topicAfter } from "./topics.ts";
import { statesNothing } from "./vacuous.ts";
import { placeholderOf, type Value, valuesOf } from "./values.ts";

const segmenter = new Intl.Segmenter("en", { granularity: "sentence" });
/** Most words of a clause that is worth a fact. */
const longest = 40;

export function sentenceFacts(
  document: SnapshotDocument,
  piece: Piece,
  path: readonly string[],
  corpus: Corpus,
  before: Topic | null,
): { facts: Fact[]; topic: Topic } {
  const facts: Fact[] = [];
  const heading = subjectOf(path, corpus);
  let topic = before ?? { thing: heading, person: null };
  for (const { segment, index } of segmenter.segment(piece.text)) {
    const sentence = segment.trim();
    if (sentence.split(/\s+/).length < 3 || /\?$/.test(sentence)) continue;
    const source = { document_id: document.id, ...spanOf(piece, index, index + segment.trimEnd().length) };
    for (const part of clausesOf(sentence)) {
      if (part.split(/\s+/).length > longest) continue;
      const whole = plainForm(/[.!]$/.test(part) ? part : `${part}.`, corpus);
      const text = resolved(whole, topic, heading, corpus);
      const clause = readClause(text, introEnd(text));
      const given = { document, text, clause, source, heading, corpus };
      const values = mentionsOf(text, clause, corpus);
      for (const value of values) {
        const fact = valueFact(given, value, values.length === 1);
        if (fact) facts.push(fact);
      }
      if (clause && !opensWithPronoun(whole)) topic = topicAfter(clause, topic, heading, corpus);
    }
  }
  return { facts, topic };
}

const lead =
  /^(?:(?:In|On|At|By|Since|From|For|After|Before|During|Every|When|If|Until|Under|With|Within|As)\b[^,]{2,60},\s+|(?:In|Since|From|Until|By|On)\s(?:\d{1,2}\s)?(?:\p{L}+\s)?\d{4}\s+|At\s\d{1,2}:\d{2}\s+|(?:Today|Now|Currently|Usually|Normally|Until now|So far|Before that|Until then),?\s+)/u;

/** «In 1987, …»: where the main clause begins. */
const introEnd = (text: string): number => lead.exec(text)?.[0].length ?? 0;

/** «A notice period of 34 weeks applies to Lund and Sons»: the amount's noun is what the one thing named beside it has. */
function amountWith(text: string, value: Value, corpus: Corpus): Role | null {
  if (value.kind === "name" || value.kind === "text") return null;
  const noun = /\b(?:[Aa]n?|[Tt]he)\s+((?:\p{Ll}+\s){1,3})of\s+$/u.exec(text.slice(0, value.start))?.[1]?.trim();
  if (!noun || /\b(?:of|in|end|beginning)\b/.test(noun)) return null;
  const names = joined(text, valuesOf(text)).filter((other) => other.kind === "name" && other.text !== corpus.company);
  const [only] = names;
  if (names.length !== 1 || only!.start === 0) return null;
  if (/\b(?:in|near|from|into)\s$/.test(text.slice(0, only!.start))) return null;
  const article = /\bthe\s+$/.test(text.slice(0, only!.start)) ? "the " : "";
  const entity = `${article}${only!.text}${/^\s\p{Ll}+(?=[\s.,])/u.exec(article ? text.slice(only!.end) : "")?.[0] ?? ""}`;
  const asked = [`What ${noun} applies to ${entity}?`];
  return { ...nothingSaid, entity, attribute: noun, ...conceptOf(noun, value.kind, entity), asked };
}

const nothingSaid = { attribute: null, concept: null, exact: false, event: null };

/** «a notice period of 9 weeks»: what is said of it is read as said of the thing that has it. */
const amount = /^(?:an?|the) [a-z -]+ of \d/;
/** Nothing to ask of: who is meant is said elsewhere. */
const unresolved = /^(?:It|They|He|She|Us|Whoever|Everybody|Nobody)\b/;
/** What every organisation has: in its own documents it stands without an owner. */
const organ =
  /^(?:the|our) (?:(?:supervisory |executive |advisory )?board(?: of directors)?|accounts|books|management|works council|workforce|staff|annual report|articles of association|share capital)$/;

interface Given {
  document: SnapshotDocument;
  text: string;
  clause: Clause | null;
  source: Source;
  heading: string | null;
  corpus: Corpus;
}

function valueFact(given: Given, value: Value, alone: boolean): Fact | null {
  const { text, clause, document, source, heading, corpus } = given;
  const hole = holeOf(text, value);
  if (/^(?:us|them|you|it|me)$/i.test(value.text)) return null;
  const role = amountWith(text, value, corpus) ?? (clause ? roleOf(clause, value, hole, heading, corpus) : null);
  // A value inside the subject that is no name: the sentence itself can still be asked for it.
  const about: Role | null =
    role ??
    (clause && value.kind !== "name" && heading !== null ? { ...nothingSaid, entity: heading, asked: [] } : null);
  if (clause && about === null) return null;
  const unknown = about !== null && about.concept === null && about.attribute === null;
  if (clause && unknown && value.kind === "text" && statesNothing(value, clause, hole)) return null;
  if (clause && unresolved.test(text)) return null;
  if (unknown && value.kind === "name" && amount.test(about.entity)) return null;
  const counts = value.kind === "number" && value.noun !== null;
  const said = counts ? text.slice(value.start, hole.end) : value.text;
  const entity = about?.entity ?? heading ?? text.split(" ").slice(0, 4).join(" ");
  const somebody = value.kind === "name" && hole.preposition === "" && isPersonal(value.text);
  const tail = text.slice(counts ? value.end : hole.end);
  return {
    id: factId(document.id, entity, about?.attribute ?? about?.concept ?? text, value.text),
    entity,
    other: organ.test(entity) && heading === corpus.company && heading !== null ? `${entity} of ${heading}` : null,
    event: about?.event ?? null,
    attribute: about?.attribute ?? null,
    concept: about?.concept ?? null,
    exact: about?.exact ?? false,
    value: hole.preposition === "every" ? `every ${said}` : value.kind === "text" ? said : said.replace(hedge, ""),
    kind: value.kind,
    statement: text,
    alone,
    asked: about?.asked ?? (clause ? ownQuestions(clause, value, hole, corpus) : []),
    inPlace: {
      asked: `${text.slice(0, value.start)}${somebody ? "who" : placeholderOf(value, hole.preposition)}${tail}`.replace(
        /[.!]*$/,
        "?",
      ),
      blank: `${text.slice(0, value.start)}____${text.slice(value.end)}`,
    },
    context: standsAlone(entity, heading) || heading === corpus.company ? null : heading,
    group: about?.concept ? `${about.concept}:${value.kind}` : "",
    source,
    english: true,
  };
}

/** A thing with a name, many words, or its heading's own words needs no heading to be understood. */
const standsAlone = (entity: string, heading: string | null): boolean =>
  /\p{Lu}/u.test(entity.slice(1)) || entity.split(" ").length > 3 || (heading !== null && entity.includes(heading));
