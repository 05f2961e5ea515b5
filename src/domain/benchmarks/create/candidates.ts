// Facts → candidates for items: what is asked, what is right, where it stands, and what would be wrong.

import { sha256 } from "../../../base/files.ts";
import { seeded } from "../../../base/statistics/random.ts";
import { capitalised, hashOf, normalised, shuffled } from "../../../base/text.ts";
import type { ReadDocument } from "../../../contract/documents.ts";
import type { Citation } from "../read.ts";
import type { ItemType } from "../store.ts";
import { around, byConcept, byCount, byLabel, byNoun, byNounOfPerson, declined } from "./wordings.ts";

/** A document as it is cited: `start` and `end` of whatever is found in it count characters of `text`. */
export type SourceDocument = Pick<ReadDocument, "id" | "name" | "media_type" | "text" | "pages" | "chunks">;

/** What reading the documents found: one thing, one attribute, one value, at one place. */
export interface FoundFact {
  entity: string;
  /** Another name for it that is clearer: «the Sales department» for «Sales». */
  other: string | null;
  attribute: string | null;
  concept: string | null;
  exact: boolean;
  event: string | null;
  value: string;
  kind: string;
  /** The sentence that says it; null where a table or a list does. */
  statement: string | null;
  /** Questions in the sentence's own words. */
  asked: string[];
  /** The heading it stands under, where the thing alone would not be understood. */
  context: string | null;
  group: string;
  source: { document_id: string; start: number; end: number };
  english: boolean;
}

/** Shares of a benchmark, in per cent: the coverage plan. What the documents cannot fill goes to the first two. */
export const plan = {
  factual: 40,
  numeric: 10,
  multi_hop: 20,
  procedural: 15,
  unanswerable: 10,
  definition: 5,
} as const;
export type Category = keyof typeof plan;

export interface Candidate {
  category: Category;
  type: ItemType;
  /** Wordings, best first: the first that passes the gates is asked. */
  wordings: string[];
  response: string;
  aliases: string[];
  choices: string[];
  citations: Citation[];
  /** The documents' chunks that say it: what the answer must follow from, and all that a checker gets to see. */
  chunk: string;
  /** Values of other things, or of other attributes of this one: what a wrong answer would be. */
  rivals: string[];
  /** Values of the same attribute of other things. */
  siblings: string[];
  /** Items that fall together share this. */
  cluster: string;
  /** What is spoken of, for the gates. */
  about: { entity: string; attribute: string; document: string; names: string[] };
}

const numeric = new Set(["money", "percent", "duration", "measure", "number", "year"]);
const person = /(?:er|or|ent|ist|ant|head|lead|chair|contact|owner|person|officer)$/;
/** A fact whose value is longer is no short answer. */
const longestValue = 8;

export function candidatesOf(
  documents: readonly SourceDocument[],
  found: readonly FoundFact[],
  seed: number,
): Candidate[] {
  const byId = new Map(documents.map((document) => [document.id, document]));
  const facts = found
    .filter((fact) => isPlain(fact, byId.get(fact.source.document_id)!))
    .map((fact) => named(fact, byId.get(fact.source.document_id)!));
  const siblings = Map.groupBy(facts, (fact) => fact.group);
  const plain = facts
    .map((fact) => candidateOf(byId.get(fact.source.document_id)!, fact, facts, siblings))
    .filter((candidate) => candidate !== null);
  const asChoice = new Map(
    plain.flatMap((candidate, at): [Candidate, Candidate][] => {
      const choice = at % 6 === 5 ? choiceOf(candidate, seed) : null;
      return choice === null ? [] : [[candidate, choice]];
    }),
  );
  return [
    ...plain.filter((candidate) => !asChoice.has(candidate)),
    ...asChoice.values(),
    ...hopsOf(documents, facts, siblings),
    ...ofNothing(plain, documents, seed),
  ];
}

const noThing =
  /^(?:(?:in|on|at|to|for|with|by|from|of|under|after|before|until|since|we|us|you|it|they|both|our|your|this|these|that|who|what)\b|\d)/i;

/** The head of a letter or an e-mail says how it travelled, not what is so. */
const postal = /^(?:from|to|cc|bcc|subject|date|sent|reply-to|message-id)$/i;

/** What can be asked for in one plain question. Sentences are read with more care than tables, whose cells say what they are. */
function isPlain(fact: FoundFact, { text }: SourceDocument): boolean {
  const { entity, value, kind, concept, exact, attribute, statement } = fact;
  if (!fact.english || noThing.test(entity) || entity.split(/\s+/).length > 6) return false;
  if (postal.test(attribute ?? "")) return false;
  if (value.split(/\s+/).length > longestValue || overlaps(value, entity)) return false;
  if (statement === null) return true;
  const quote = text.slice(fact.source.start, fact.source.end);
  // What a pronoun stands for is a guess; what somebody is «at» another place is no post of theirs here.
  if (!holds(quote, entity) || /^(?:It|They|He|She|This|These|Its|Their|His|Her)\b/.test(quote)) return false;
  if (concept === "role" && /^(?:At|In|For|On|With)\b/.test(quote)) return false;
  // «Mill» of «Mill Road»: a name cut in the middle is another thing's.
  if (isCut(text, entity)) return false;
  if (!hasName(entity) && !isSubject(entity, statement)) return false;
  const meant = (concept !== null && exact) || attribute !== null;
  if (kind === "text") return meant && hasName(entity) && value.split(/\s+/).length <= 4;
  if (kind !== "name") return true;
  return meant && hasName(entity) && saysWho(fact);
}

function isCut(text: string, entity: string): boolean {
  const [within, part] = [text.toLowerCase(), entity.toLowerCase()];
  for (let at = within.indexOf(part); at >= 0; at = within.indexOf(part, at + 1))
    if (/^ \p{Lu}/u.test(text.slice(at + part.length))) return true;
  return false;
}

const isSubject = (entity: string, statement: string): boolean =>
  /^\s(?:is|are|was|were|must|may|can|will|has|have|lasts?|costs?)\b/.test(
    statement.slice(statement.toLowerCase().indexOf(entity.toLowerCase()) + entity.length),
  );

const hasName = (text: string): boolean => /\p{Lu}|\d/u.test(text);

/** «X is led by Ada», «Ada leads X», «the lead of X is Ada»; not «X leads Ada», which the same words would be. */
function saysWho({ concept, statement, entity, value }: FoundFact): boolean {
  if (!/^(?:head|founder|approver|supplier)$/.test(concept ?? "")) return true;
  const [before, after] = [statement!.indexOf(value), statement!.toLowerCase().indexOf(entity.toLowerCase())];
  return before < after || /\b(?:by|is|was|are)\b/.test(statement!.slice(after, before));
}

/** With the name that the document writes, which readers put in lower case where they take it for a common word. */
function named(fact: FoundFact, { text }: SourceDocument): FoundFact {
  if (fact.other !== null && hasName(fact.other)) return { ...fact, entity: fact.other };
  if (hasName(fact.entity) || fact.statement !== null) return fact;
  const at = text.toLowerCase().indexOf(fact.entity, fact.source.start);
  return at < 0 || at >= fact.source.end ? fact : { ...fact, entity: text.slice(at, at + fact.entity.length) };
}

function candidateOf(
  document: SourceDocument,
  fact: FoundFact,
  all: readonly FoundFact[],
  siblings: ReadonlyMap<string, readonly FoundFact[]>,
): Candidate | null {
  const wordings = wordingsOf(fact, document);
  if (wordings.length === 0) return null;
  const chunk = chunkOf(document, fact.source);
  return {
    category: categoryOf(fact),
    type: "short",
    wordings,
    response: answerOf(fact),
    aliases: aliasesOf(answerOf(fact)),
    choices: [],
    citations: [citationOf(document, fact.source)],
    chunk: chunk.text,
    ...rivalsOf(fact, all, siblings, document, chunk),
    cluster: clusterOf(fact),
    about: {
      entity: fact.entity,
      attribute: fact.attribute ?? fact.concept ?? fact.event ?? "",
      document: document.id,
      names: [fact.entity],
    },
  };
}

/**
 * By the thing and what is said of it, not by where. The same documents have the same clusters, and so the same splits, whenever
 * they are uploaded; and what two of them say, or one in two ways, is in one split.
 */
const clusterOf = ({ entity, value }: FoundFact): string =>
  `fact-${sha256(`${normalised(entity)}\n${normalised(value)}`).slice(0, 16)}`;

/** A bare number where the question says what is counted. */
const answerOf = ({ kind, attribute, value }: FoundFact): string =>
  kind === "number" && attribute !== null ? (/^\d[\d.,]*/.exec(value)?.[0] ?? value) : value;

function categoryOf(fact: FoundFact): Category {
  if (fact.attribute === "meaning") return "definition";
  if (fact.event !== null || /^(?:deadline|approver|interval|allowance)$/.test(fact.concept ?? "")) return "procedural";
  return numeric.has(fact.kind) ? "numeric" : "factual";
}

function wordingsOf(fact: FoundFact, document: SourceDocument): string[] {
  const { entity, attribute, concept, exact } = fact;
  const known = concept !== null && exact && fact.event === null ? (byConcept[concept] ?? []) : [];
  const out: string[] = [];
  if (attribute === null || attribute === concept) out.push(...known);
  if (attribute !== null && attribute !== "meaning") {
    if (!isNoun(attribute)) out.push(...byLabel);
    else if (/[^su]s$/.test(attribute) && fact.kind === "number") out.push(...byCount);
    else out.push(...(fact.kind === "name" && person.test(attribute) ? byNounOfPerson : byNoun));
  }
  const filled = out.map((wording) => wording.replaceAll("{e}", () => entity).replaceAll("{a}", () => attribute ?? ""));
  const own = fact.asked.find(
    (question) => ownWords[fact.kind]?.test(question) && !unfinished.test(question) && isOf(question, fact.statement),
  );
  if (own !== undefined && filled.length === 0 && !bounded.test(fact.statement ?? ""))
    filled.push(...around.map((wording) => wording.replace("{q}", () => lowerFirst(own))));
  return filled
    .filter((question) => !/\b(\p{L}+) of the \1 of\b/u.test(question))
    .map((question) => capitalised(standing(question, fact, document)));
}

/** How a sentence's own question begins where it asks for a value of this kind and nothing is lost of the sentence. */
const ownWords: Record<string, RegExp> = {
  money: /^how much (?:do|does|did|may|can|must|is|are|will)\b/i,
  percent: /^(?:how much|what percentage)\b/i,
  duration: /^(?:how long|how often|within what time|after how long|until when)\b/i,
  number: /^how many\b/i,
  date: /^(?:when|until when|by when|how often)\b/i,
  time: /^(?:at what time|when|until when)\b/i,
  year: /^(?:when|in which year)\b/i,
};
/** Its words are the sentence's, but for the question word, «do» and the form of the verb: no name was taken for a verb. */
function isOf(question: string, statement: string | null): boolean {
  const said = statement?.match(/[\p{L}\p{N}'’-]+/gu) ?? [];
  const words = question.match(/[\p{L}\p{N}'’-]+/gu) ?? [];
  return words.every(
    (word) =>
      asking.test(word) ||
      said.some((other) => other.toLowerCase() === word.toLowerCase()) ||
      said.some((other) => /^\p{Ll}/u.test(other) && other.startsWith(word.replace(/(?:e|y)$/, ""))),
  );
}

const asking =
  /^(?:how|many|much|long|often|soon|when|which|what|within|after|at|by|until|in|time|year|percentage|do|does|did)$/i;
const unfinished = /\b(?:of|in|at|by|on|for|from|to|until|within|the end|the start)\?$/i;
/** «above 80 decibels»: the question has lost the word before the number. */
const bounded = /\b(?:above|below|over|under|up to|more than|less than|at least|at most)\s[\p{Sc}\d]/u;
const verb =
  /\b(?:opens|closes|starts|begins|ends|runs|leaves|arrives|weighs|costs|expires|lasts|holds|works|sits|stands)$/i;
const isNoun = (attribute: string): boolean =>
  /^[\p{L}][\p{L}\s-]*$/u.test(attribute) &&
  !verb.test(attribute) &&
  !/(?:ed|\b(?:by|of|at|for|in|on|to|from))$/.test(attribute);
const lowerFirst = (text: string): string => (/^I\b/.test(text) ? text : text.charAt(0).toLowerCase() + text.slice(1));

/** A question that names nothing is told where it belongs: its heading, or its document. */
function standing(question: string, fact: FoundFact, document: SourceDocument): string {
  if (hasName(fact.entity)) return question;
  const title = titleOf(document);
  const where = [fact.context, title].filter((part) => part !== null && !question.includes(part));
  const unique = where.filter((part, at) => !where.some((other, index) => index > at && overlaps(part!, other!)));
  return unique.length === 0 ? question : `${unique.toReversed().join(", ")}: ${question}`;
}

/** Its first line, which most documents begin with as a title. */
function titleOf(document: Pick<SourceDocument, "text">): string | null {
  const first = document.text.split("\n").find((line) => line.trim() !== "") ?? "";
  const title = first.replace(/^#+\s*/, "").trim();
  return title.length > 0 && title.length <= 80 && !/[.,;:|]/.test(title) ? title : null;
}

const citationOf = (document: SourceDocument, { start, end }: { start: number; end: number }): Citation => ({
  document: document.id,
  page: document.pages?.filter((begin) => begin <= start).length || null,
  start,
  end,
  quote: document.text.slice(start, end),
});

interface Passage {
  text: string;
  start: number;
  end: number;
}

/** The chunk of the place under its headings, and of a table its first row too; of a place in two chunks both, in none nothing. */
function chunkOf({ text, chunks }: SourceDocument, place: { start: number; end: number }): Passage {
  const around = chunks.filter((chunk) => chunk.start < place.end && chunk.end > place.start);
  if (around.length === 0) return { text: "", ...place };
  const [{ start, path, header }, { end }] = [around[0]!, around.at(-1)!];
  const head = [...path, ...(header === null ? [] : [header])].map((line) => `${line}\n`).join("");
  return { text: head + text.slice(start, end), start, end };
}

const mostRivals = 6;

/** Siblings' values, and other values of the same kind in the same chunk. */
function rivalsOf(
  fact: FoundFact,
  all: readonly FoundFact[],
  siblings: ReadonlyMap<string, readonly FoundFact[]>,
  document: SourceDocument,
  chunk: Passage,
): { rivals: string[]; siblings: string[] } {
  const near = fact.group === "" ? [] : (siblings.get(fact.group) ?? []);
  const here = all.filter(
    (other) =>
      other.source.document_id === document.id &&
      other.source.start >= chunk.start &&
      other.source.end <= chunk.end &&
      other.kind === fact.kind,
  );
  const others = (list: readonly FoundFact[]): string[] => {
    const values = new Set<string>();
    for (const value of list.map(answerOf)) {
      if (!values.has(value) && !overlaps(value, fact.value)) values.add(value);
      if (values.size === mostRivals) break;
    }
    return [...values];
  };
  return { rivals: others([...here, ...near]), siblings: others(near) };
}

/** Other forms that are as right: a bare number where the unit is asked for by the question, dates without commas. */
function aliasesOf(value: string): string[] {
  const number = /^([\d.,]+)\s+\p{L}/u.exec(value)?.[1];
  const ungrouped = /^\d{1,3}(?:,\d{3})+/.test(value) ? value.replaceAll(",", "") : null;
  return [number, ungrouped].filter((alias) => alias !== undefined && alias !== null) as string[];
}

/** The same with four answers to choose from, all of one kind; null where there are too few wrong ones. */
function choiceOf(candidate: Candidate, seed: number): Candidate | null {
  const wrong = candidate.siblings.slice(0, 3);
  if (wrong.length < 3) return null;
  const random = seeded(seed ^ hashOf(candidate.cluster));
  return { ...candidate, type: "choice", aliases: [], choices: shuffled([candidate.response, ...wrong], random) };
}

const holds = (whole: string, part: string): boolean => ` ${normalised(whole)} `.includes(` ${normalised(part)} `);
const overlaps = (a: string, b: string): boolean => holds(a, b) || holds(b, a);

/** What is said of a thing that another thing names: «the room of the manager of the mill». */
function hopsOf(
  documents: readonly SourceDocument[],
  facts: readonly FoundFact[],
  siblings: ReadonlyMap<string, readonly FoundFact[]>,
): Candidate[] {
  const byId = new Map(documents.map((document) => [document.id, document]));
  const documentOf = (fact: FoundFact): SourceDocument => byId.get(fact.source.document_id)!;
  const ofEntity = Map.groupBy(facts, (fact) => normalised(fact.entity));
  const isStep = ({ attribute, entity }: FoundFact) => attribute !== null && isNoun(attribute) && hasName(entity);
  return facts
    .filter((first) => first.kind === "name" && isStep(first))
    .flatMap((first) =>
      (ofEntity.get(normalised(first.value)) ?? []).filter(isStep).flatMap((second): Candidate[] => {
        if (overlaps(second.value, first.entity)) return [];
        const meant = { ...second, entity: `the ${first.attribute} of ${first.entity}` };
        const base = candidateOf(documentOf(second), meant, facts, siblings);
        if (base === null) return [];
        const chunks = [chunkOf(documentOf(first), first.source).text, base.chunk];
        return [
          {
            ...base,
            category: "multi_hop",
            cluster: clusterOf(second),
            chunk: [...new Set(chunks)].join("\n\n"),
            citations: [citationOf(documentOf(first), first.source), ...base.citations],
            about: { ...base.about, names: [first.entity, first.value] },
          },
        ];
      }),
    );
}

/** Of the names in a thing's name the one that no other has: «Tivo», not «Project». */
function rarest(entity: string, texts: string): string {
  const times = (name: string): number => texts.split(name.toLowerCase()).length;
  const names = entity.match(/\p{Lu}\p{Ll}{2,}/gu)!;
  return names.reduce((best, name) => (times(name) < times(best) ? name : best));
}

const syllables = "bra dol fen gri hul jor kem lat mov nis pra quo rul sev tam ulo vex wim yor zad".split(" ");

/** Questions about things that no document knows: another name in the place of the thing's own. */
function ofNothing(plain: readonly Candidate[], documents: readonly SourceDocument[], seed: number): Candidate[] {
  const texts = documents.map(({ text }) => text.toLowerCase()).join("\n");
  return plain
    .filter(({ category, about }) => category !== "definition" && /\p{Lu}\p{Ll}{2,}/u.test(about.entity))
    .flatMap((candidate, at): Candidate[] => {
      if (at % 3 !== 0) return [];
      const random = seeded(seed ^ hashOf(`nothing ${candidate.cluster}`));
      const made = capitalised(shuffled(syllables, random).slice(0, 3).join(""));
      const name = rarest(candidate.about.entity, texts);
      const entity = candidate.about.entity.replace(name, made);
      if (texts.includes(made.toLowerCase())) return [];
      return [
        {
          ...candidate,
          category: "unanswerable",
          type: "refusal",
          wordings: candidate.wordings.map((wording) => wording.replaceAll(candidate.about.entity, entity)),
          response: declined,
          aliases: [],
          citations: [],
          rivals: [],
          siblings: [],
          cluster: `nothing-${normalised(entity).replaceAll(" ", "-")}`,
          about: { ...candidate.about, entity, names: [entity] },
        },
      ];
    });
}
