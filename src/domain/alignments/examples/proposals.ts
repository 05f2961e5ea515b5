// Question-answer pairs that the base proposes itself, and the gates that drop what is bad.

import { containsWords, hashOf, jaccard, normalised, wordsOf } from "../../../base/text.ts";
import type { SnapshotDocument } from "../../../contract/run-folder.ts";
import type { Example, Message } from "../examples.ts";
import { type Block, blocksOf, type Piece, type Span, spanOf } from "./blocks.ts";

/** One answer of the base, greedy. */
export type Generate = (messages: Message[], options: { maxTokens: number }) => Promise<string>;

export interface ProposalReport {
  chunks: number;
  proposed: number;
  /** Dropped at each gate, in the order of the gates. */
  dropped: {
    unreadable: number;
    not_stand_alone: number;
    not_grounded: number;
    duplicate: number;
    not_answerable: number;
  };
  kept: number;
}

interface Chunk extends Span {
  document_id: string;
  text: string;
}

/** Words of a chunk: small enough that a small model keeps all of it in view. */
const chunkWords = 120;
const nearDuplicate = 0.8;
const leansOnText =
  /\b(?:according to|(?:this|the|above|given|following) (?:text|passage|section|document|paragraph|table|article|context|excerpt))\b/i;
const unresolved = /\b(?:it|its|they|their|them|he|she|his|her|this|these|those)\b/i;

/** Asks the base for `perChunk` pairs on every chunk and keeps what passes all gates. `existing`: rows not to repeat. */
export async function proposeQuestions(
  documents: readonly SnapshotDocument[],
  generate: Generate,
  options: { perChunk: number; existing: readonly Example[] },
): Promise<{ examples: Example[]; report: ProposalReport }> {
  const dropped = { unreadable: 0, not_stand_alone: 0, not_grounded: 0, duplicate: 0, not_answerable: 0 };
  const report: ProposalReport = { chunks: 0, proposed: 0, dropped, kept: 0 };
  const examples: Example[] = [];
  const known = options.existing.map((example) => new Set(wordsOf(example.messages.at(-2)?.content ?? "")));
  for (const chunk of options.perChunk > 0 ? documents.flatMap(chunksOf) : []) {
    report.chunks++;
    const text = await generate(proposalPrompt(chunk.text, options.perChunk), { maxTokens: 48 * options.perChunk });
    const pairs = readPairs(text).slice(0, options.perChunk);
    report.proposed += options.perChunk;
    dropped.unreadable += options.perChunk - pairs.length;
    for (const { question, answer } of pairs) {
      const words = new Set(wordsOf(question));
      if (leansOnText.test(question) || unresolved.test(question)) dropped.not_stand_alone++;
      else if (!containsWords(chunk.text, answer)) dropped.not_grounded++;
      else if (known.some((other) => jaccard(words, other) >= nearDuplicate)) dropped.duplicate++;
      else if (!containsWords(await generate(openBook(chunk.text, question), { maxTokens: 32 }), answer))
        dropped.not_answerable++;
      else {
        known.push(words);
        examples.push(rowOf(chunk, question, answer));
      }
    }
  }
  report.kept = examples.length;
  return { examples, report };
}

function rowOf(chunk: Chunk, question: string, answer: string): Example {
  return {
    messages: [
      { role: "user", content: question },
      { role: "assistant", content: answer },
    ],
    source: { document_id: chunk.document_id, start: chunk.start, end: chunk.end },
    kind: "proposed",
    fact: `proposed:${hashOf(normalised(`${question} ${answer}`)).toString(16)}`,
    rung: 0,
  };
}

/** Neighbouring blocks of one section, as many as fit; each chunk under its headings. */
function chunksOf(document: SnapshotDocument): Chunk[] {
  const chunks: Chunk[] = [];
  let path: string | null = null;
  for (const block of blocksOf(document)) {
    if (block.type === "heading" || block.type === "verbatim") continue;
    const here = block.path.join(" › ");
    for (const line of linesOf(block)) {
      const spans = line.filter((piece) => piece.text !== "").map((piece) => spanOf(piece));
      if (spans.length === 0) continue;
      const text = line.map((piece) => piece.text).join(block.type === "pair" ? ": " : " | ");
      const span = { start: Math.min(...spans.map((one) => one.start)), end: Math.max(...spans.map((one) => one.end)) };
      const open = chunks.at(-1);
      if (open && path === here && wordsOf(`${open.text} ${text}`).length <= chunkWords) {
        open.end = span.end;
        open.text += `\n${text}`;
      } else chunks.push({ document_id: document.id, ...span, text: `${here}\n${text}` });
      path = here;
    }
  }
  return chunks;
}

function linesOf(block: Exclude<Block, { type: "heading" | "verbatim" }>): Piece[][] {
  if (block.type === "table") return [block.header, ...block.rows];
  return [block.type === "pair" ? [block.key, block.value] : [block.piece]];
}

function proposalPrompt(text: string, count: number): Message[] {
  const ask = `Write ${count} short questions that the text answers, each with its answer copied from the text. One pair per line, in this form:\nQ: question A: answer`;
  return [{ role: "user", content: `${text}\n\n${ask}` }];
}

const openBook = (text: string, question: string): Message[] => [
  { role: "user", content: `${text}\n\nAnswer in a few words: ${question}` },
];

/** «Q: … A: …», on one line or two. */
function readPairs(text: string): { question: string; answer: string }[] {
  return [...text.matchAll(/\bQ\d*[:.]\s*(.+?)\s+A\d*[:.]\s*(.+?)(?=\s*(?:\n|\bQ\d*[:.]|$))/gs)]
    .map((match) => ({ question: match[1]!.trim(), answer: match[2]!.trim() }))
    .filter(({ question, answer }) => question.endsWith("?") && answer !== "" && answer.split(/\s+/).length <= 20);
}
