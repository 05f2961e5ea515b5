// Blocks → facts: which thing, which attribute, which value, in which sentence, at which place of the document.
import type { SnapshotDocument } from "../../../contract/run-folder.ts";
import { attributes } from "./attributes.ts";
import { type Block, blocksOf, type Piece, type Span, spanOf } from "./blocks.ts";
import { sentenceFacts } from "./sentences.ts";
import { tableFacts } from "./tables.ts";
import { hashOf, isEnglish, normalised } from "./text.ts";
import { kindOf, type ValueKind, valuesOf } from "./values.ts";

export interface Source extends Span {
  document_id: string;
}

export interface Fact {
  /** The same document gives the same id. */
  id: string;
  /** As it stands inside a question: «the Orrin plant», «Harrow». */
  entity: string;
  /** The document's own word for it («list price»), or null when a sentence says it by a verb. */
  attribute: string | null;
  /** Row of `attributes`, and whether the document's word is that attribute itself rather than one of its kinds. */
  concept: string | null;
  exact: boolean;
  value: string;
  kind: ValueKind;
  /** What a number counts. */
  noun: string | null;
  /** A sentence that says it; null in a language without rules. */
  statement: string | null;
  /** Questions read off the sentence itself, and the sentence with the value replaced: [asked in place, left blank]. */
  asked: string[];
  inPlace: { asked: string; blank: string } | null;
  /** The heading a subject without a name belongs to. */
  context: string | null;
  /** Facts of one group share an attribute: each other's contrast. */
  group: string;
  source: Source;
  english: boolean;
}

/** What belongs together and is short enough to be recalled whole: a section, or a table's row. */
export interface Passage {
  title: string;
  text: string;
  source: Source;
  english: boolean;
}

/** What a reader of all documents knows: the organisation's name. */
export interface Corpus {
  company: string | null;
}

export interface DocumentFacts {
  facts: Fact[];
  passages: Passage[];
  english: boolean;
}

export const factId = (document: string, entity: string, attribute: string, value: string): string =>
  hashOf(`${document}\n${normalised(entity)}\n${normalised(attribute)}\n${normalised(value)}`)
    .toString(16)
    .padStart(8, "0");

const conceptsByNoun = new Map<string, string[]>();
for (const [name, { nouns }] of Object.entries(attributes))
  for (const noun of nouns.split("|")) conceptsByNoun.set(noun, [...(conceptsByNoun.get(noun) ?? []), name]);

const conceptsByVerb = new Map<string, string[]>();
for (const [name, { verbs }] of Object.entries(attributes))
  for (const verb of verbs.split("|")) conceptsByVerb.set(verb, [...(conceptsByVerb.get(verb) ?? []), name]);

function fitting(names: readonly string[] | undefined, kind: ValueKind, strict: boolean): string | null {
  const fits = names?.find((name) => attributes[name]!.kinds?.includes(kind));
  return fits ?? names?.find((name) => !attributes[name]!.kinds || (!strict && kind === "text")) ?? null;
}

/** The attribute that a column, key or noun phrase means, by the whole phrase or by its last words. */
export function conceptOf(attribute: string, kind: ValueKind): { concept: string | null; exact: boolean } {
  const words = attribute.toLowerCase().split(/\s+/);
  for (let from = 0; from < words.length; from++) {
    const concept = fitting(conceptsByNoun.get(words.slice(from).join(" ")), kind, false);
    if (concept) return { concept, exact: from === 0 };
  }
  return { concept: null, exact: false };
}

/** The attribute that a verb with this preposition («» = plain object) means. */
export function conceptOfVerb(lemma: string, preposition: string, kind: ValueKind): string | null {
  return fitting(conceptsByVerb.get(`${lemma} ${preposition}`.trim()), kind, true);
}

const generic =
  /^(overview|general|introduction|facts?|details?|key (facts|figures|data)|figures|profile|summary|contacts?|data|about( us)?|at a glance|specifications?|technical data|notes?|information|background|history|contents?|scope|purpose|appendix|annex|misc(ellaneous)?|other|faq|questions and answers|company profile|fact sheet|data sheet)$/i;

/** The thing a heading path is about: its deepest heading that is not a mere label, else the organisation. */
export function subjectOf(path: readonly string[], corpus: Corpus): string | null {
  for (const heading of path.toReversed()) {
    const parts = heading
      .replace(/^(?:§\s*)?[\dIVX]+(?:\.\d+)*[.)]?\s+/, "")
      .split(/\s+[–—|]\s+|:\s+/)
      .map((part) => part.trim());
    const part = parts.find((text) => text !== "" && !generic.test(text) && text !== corpus.company);
    if (part) return part;
    if (parts.some((text) => text === corpus.company)) return corpus.company;
  }
  return corpus.company;
}

/** The name that most documents mention, when at least half of them do. */
export function readCorpus(documents: readonly SnapshotDocument[]): Corpus {
  const seen = new Map<string, { documents: Set<string>; count: number }>();
  for (const document of documents)
    for (const line of document.text.split(/\n+/))
      for (const value of valuesOf(line.replace(/^[#\s>*-]+/, ""))) {
        if (value.kind !== "name" || value.text.length < 4) continue;
        const entry = seen.get(value.text) ?? { documents: new Set<string>(), count: 0 };
        entry.documents.add(document.id);
        entry.count++;
        seen.set(value.text, entry);
      }
  const ranked = [...seen].sort(([, a], [, b]) => b.documents.size - a.documents.size || b.count - a.count);
  const [name, entry] = ranked[0] ?? [null, null];
  const enough = entry !== null && entry.documents.size >= 2 && entry.documents.size * 2 >= documents.length;
  return { company: enough ? name : null };
}

export function factsOf(document: SnapshotDocument, corpus: Corpus): DocumentFacts {
  const blocks = blocksOf(document);
  const prose = blocks.filter((block) => block.type === "prose");
  const letters = prose.length > 0 ? prose.map((block) => block.piece.text).join(" ") : "";
  const english = prose.length > 0 ? isEnglish(letters) : /^[\p{ASCII}\p{Sc}\p{P}\p{N}\s°µ²³]*$/u.test(document.text);
  const out: DocumentFacts = { facts: [], passages: [], english };
  let last: string | null = null;
  for (const block of blocks) {
    if (block.type === "heading") last = null;
    else if (block.type === "table") {
      const made = tableFacts(document, block, corpus, english);
      out.facts.push(...made.facts);
      out.passages.push(...made.passages);
    } else if (block.type === "pair") out.facts.push(...pairFacts(document, block, corpus, english));
    else if (english) {
      const made = sentenceFacts(document, block.piece, block.path, corpus, last);
      last = made.last;
      out.facts.push(...made.facts);
    }
  }
  if (english) out.passages.push(...sections(document, blocks, corpus));
  return out;
}

/** «Founded: 1987» under a heading. A key that is explained by a sentence is a term and its definition. */
function pairFacts(
  document: SnapshotDocument,
  block: Extract<Block, { type: "pair" }>,
  corpus: Corpus,
  english: boolean,
): Fact[] {
  const source = { document_id: document.id, start: spanOf(block.key).start, end: spanOf(block.value).end };
  const value = block.value.text.replace(/[.;,]$/, "");
  const words = value.split(/\s+/).length;
  if (words > 40) return [];
  const explained = words > 7 || /[.!]\s/.test(value);
  if (explained && english) return [definitionFact(document, block.key, block.value, source)];
  const entity = subjectOf(block.path, corpus) ?? block.key.text;
  const attribute = block.key.text.charAt(0).toLowerCase() + block.key.text.slice(1);
  return [attributeFact({ document, entity, attribute, value, source, english, group: `pair:${attribute}` })];
}

function definitionFact(document: SnapshotDocument, term: Piece, meaning: Piece, source: Source): Fact {
  const sentence = `${term.text}: ${meaning.text}`;
  return {
    id: factId(document.id, term.text, "meaning", meaning.text),
    entity: term.text,
    attribute: "meaning",
    concept: null,
    exact: false,
    value: meaning.text,
    kind: "text",
    noun: null,
    statement: sentence,
    asked: [`What does ${term.text} mean?`, `What is ${term.text}?`, `Can you explain ${term.text}?`, `${term.text}?`],
    inPlace: null,
    context: null,
    group: "",
    source,
    english: true,
  };
}

/** A fact that the document gives as attribute and value. */
export function attributeFact(given: {
  document: SnapshotDocument;
  entity: string;
  attribute: string;
  value: string;
  source: Source;
  english: boolean;
  group: string;
}): Fact {
  const { document, entity, attribute, value, source, english, group } = given;
  const kind = kindOf(value);
  const { concept, exact } = english ? conceptOf(attribute, kind) : { concept: null, exact: false };
  return {
    id: factId(document.id, entity, attribute, value),
    entity,
    attribute,
    concept,
    exact,
    value,
    kind,
    noun: null,
    statement: null,
    asked: [],
    inPlace: null,
    context: null,
    group,
    source,
    english,
  };
}

/** Longest text worth recalling whole, in words: longer ones cost more than they teach. */
const recallWords = 60;

/** Sections whose prose is short enough. */
function sections(document: SnapshotDocument, blocks: readonly Block[], corpus: Corpus): Passage[] {
  const passages: Passage[] = [];
  const bySection = new Map<string, Extract<Block, { type: "prose" }>[]>();
  for (const block of blocks)
    if (block.type === "prose") {
      const key = block.path.join("\n");
      bySection.set(key, [...(bySection.get(key) ?? []), block]);
    }
  for (const parts of bySection.values()) {
    const text = parts.map((part) => part.piece.text).join(" ");
    const title = subjectOf(parts[0]!.path, corpus);
    const words = text.split(/\s+/).length;
    if (title === null || words > recallWords || words < 8) continue;
    const source = {
      document_id: document.id,
      start: spanOf(parts[0]!.piece).start,
      end: spanOf(parts.at(-1)!.piece).end,
    };
    passages.push({ title, text, source, english: true });
  }
  return passages;
}
