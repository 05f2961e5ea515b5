// Sentences → facts: each value a sentence states, with the thing it is said of and the questions the sentence itself answers.
import type { SnapshotDocument } from "../../../contract/run-folder.ts";
import { type Piece, spanOf } from "./blocks.ts";
import { type Clause, readClause } from "./clauses.ts";
import { type Corpus, lowered, subjectOf } from "./corpus.ts";
import { type Fact, factId, type Source } from "./fact.ts";
import { holeOf, mentionsOf } from "./mentions.ts";
import { ownQuestions } from "./questions.ts";
import { hedge, roleOf } from "./roles.ts";
import { clausesOf } from "./splitting.ts";
import { capitalised } from "./text.ts";
import { placeholderOf, type Value } from "./values.ts";

const segmenter = new Intl.Segmenter("en", { granularity: "sentence" });
const verbAhead = String.raw`(?=\s+(?:\p{Ll}+ly\s+)?(?:is|are|was|were|has|have|had|can|must|may|will|should|\p{Ll}+s|\p{Ll}+ed)\b)`;
const pronoun = new RegExp(`^(?:It|They|He|She|This|These|That)\\b${verbAhead}`, "u");
const organisation = /^The (?:company|firm|organi[sz]ation|business|group|foundation|institute)\b/;
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
  const heading = subjectOf(path, corpus);
  let last = before ?? heading;
  for (const { segment, index } of segmenter.segment(piece.text)) {
    const sentence = segment.trim();
    if (sentence.split(/\s+/).length < 3 || /\?$/.test(sentence)) continue;
    const source = { document_id: document.id, ...spanOf(piece, index, index + segment.trimEnd().length) };
    for (const part of clausesOf(sentence)) {
      if (part.split(/\s+/).length > longest) continue;
      const whole = /[.!]$/.test(part) ? part : `${part}.`;
      const text = resolve(whole, last, corpus);
      const clause = readClause(text, introEnd(text));
      const given = { document, text, clause, source, heading, corpus };
      const values = mentionsOf(text, clause, corpus);
      for (const value of values) {
        const fact = valueFact(given, value, values.length === 1);
        if (fact) facts.push(fact);
      }
      if (clause && !pronoun.test(whole)) last = lowered(text.slice(clause.subject.start, clause.subject.end), corpus);
    }
  }
  return { facts, last };
}

const lead =
  /^(?:(?:In|On|At|By|Since|From|For|After|Before|During|Every|When|If|Until|Under|With|Within|As)\b[^,]{2,60},\s+|(?:In|Since|From|Until|By)\s(?:\p{L}+\s)?\d{4}\s+|(?:Today|Now|Currently|Usually|Normally),?\s+)/u;

/** «In 1987, …»: where the main clause begins. */
const introEnd = (text: string): number => lead.exec(text)?.[0].length ?? 0;

/** A leading pronoun gives way to what it stands for, «the company» to its name. */
function resolve(text: string, last: string | null, corpus: Corpus): string {
  if (organisation.test(text) && corpus.company !== null) return text.replace(organisation, corpus.company);
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

function valueFact(given: Given, value: Value, alone: boolean): Fact | null {
  const { text, clause, document, source, heading, corpus } = given;
  const hole = holeOf(text, value);
  const about = clause ? roleOf(clause, value, hole, heading, corpus) : null;
  if (clause && about === null) return null;
  const counts = value.kind === "number" && value.noun !== null;
  const said = counts ? text.slice(value.start, hole.end) : value.text;
  const entity = about?.entity ?? heading ?? text.split(" ").slice(0, 4).join(" ");
  const tail = text.slice(counts ? value.end : hole.end);
  return {
    id: factId(document.id, entity, about?.attribute ?? about?.concept ?? text, value.text),
    entity,
    other: null,
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
      asked: `${text.slice(0, value.start)}${placeholderOf(value, hole.preposition)}${tail}`.replace(/[.!]*$/, "?"),
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
