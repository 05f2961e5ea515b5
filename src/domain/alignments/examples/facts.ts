// Blocks → facts: which thing, which attribute, which value, in which sentence, at which place of the document.

import { isEnglish } from "../../../base/text.ts";
import type { SnapshotDocument } from "../../../contract/run-folder.ts";
import { type Block, blocksOf, type Piece, spanOf } from "./blocks.ts";
import { type Corpus, subjectOf } from "./corpus.ts";
import { attributeFact, type DocumentFacts, type Fact, factId, type Passage, type Source } from "./fact.ts";
import { sentenceFacts } from "./sentences.ts";
import { columnOf, tableFacts } from "./tables.ts";
import type { Topic } from "./topics.ts";

export function factsOf(document: SnapshotDocument, corpus: Corpus): DocumentFacts {
  const blocks = blocksOf(document);
  const prose = blocks.filter((block) => block.type === "prose");
  const letters = prose.length > 0 ? prose.map((block) => block.piece.text).join(" ") : "";
  const english = prose.length > 0 ? isEnglish(letters) : /^[\p{ASCII}\p{Sc}\p{P}\p{N}\s°µ²³]*$/u.test(document.text);
  const out: DocumentFacts = { facts: [], passages: [], english };
  let topic: Topic | null = null;
  for (const block of blocks) {
    if (block.type === "heading") topic = null;
    else if (block.type === "table") {
      const made = tableFacts(document, block, corpus, english);
      out.facts.push(...made.facts);
      out.passages.push(...made.passages);
    } else if (block.type === "pair") out.facts.push(...pairFacts(document, block, corpus, english));
    else if (block.type === "prose" && english) {
      const made = sentenceFacts(document, block.piece, block.path, corpus, topic);
      topic = made.topic;
      out.facts.push(...made.facts);
    }
  }
  if (english) out.passages.push(...sections(document, blocks, corpus));
  return out;
}

/** Lines of a letter's head. */
const envelope = /^(?:from|to|cc|bcc|reply-to|sender)$/i;

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
  if (words > 40 || (envelope.test(block.key.text) && value.includes("@"))) return [];
  const explained = words > 7 || /[.!]\s/.test(value);
  if (explained && english) return [definitionFact(document, block.key, block.value, source)];
  const entity = subjectOf(block.path, corpus) ?? block.key.text;
  const { attribute } = columnOf(block.key.text, english);
  return [attributeFact({ document, entity, attribute, value, source, english, group: `pair:${attribute}` })];
}

function definitionFact(document: SnapshotDocument, term: Piece, meaning: Piece, source: Source): Fact {
  const sentence = `${term.text}: ${meaning.text}`;
  return {
    id: factId(document.id, term.text, "meaning", meaning.text),
    entity: term.text,
    other: null,
    event: null,
    attribute: "meaning",
    concept: null,
    exact: false,
    value: meaning.text,
    kind: "text",
    statement: sentence,
    alone: true,
    asked: [`What does ${term.text} mean?`, `What is ${term.text}?`, `Can you explain ${term.text}?`, `${term.text}?`],
    inPlace: null,
    context: null,
    group: "",
    source,
    english: true,
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
