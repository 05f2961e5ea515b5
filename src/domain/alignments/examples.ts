// Documents → training rows. The rows never see a benchmark; what coincides with one is found by leakage.ts.

import { normalised } from "../../base/text.ts";
import type { SnapshotDocument } from "../../contract/run-folder.ts";
import { readCorpus } from "./examples/corpus.ts";
import type { Fact, Source } from "./examples/fact.ts";
import { factsOf } from "./examples/facts.ts";
import { rowsOfFact, rowsOfPassage, type Siblings } from "./examples/rows.ts";

export { type Generate, type ProposalReport, proposeQuestions } from "./examples/proposals.ts";

export interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

/** One training row. The loss stands on the assistant's words only. */
export interface Example {
  messages: Message[];
  /** Where in the document's text (characters) the row comes from; null for a row that comes from no document. */
  source: Source | null;
  /** How the row was made: asked, own, attribute, in_place, blank, contrast, which, check, recall, keywords, kind, proposed, replay, prose. */
  kind: string;
  /** Rows of one fact share this. */
  fact: string;
  /** The rung that trains it, from 0. */
  rung: number;
}

export interface ExamplesReport {
  documents: number;
  facts: number;
  rows: number;
  by_kind: Record<string, number>;
  /** Documents whose language has no rules: only their tables and key-value lines gave rows. */
  language_neutral: string[];
  /** Documents that gave no row at all. */
  silent: string[];
}

/** Rows by rules, in the order of the documents. The same documents, options and seed give the same rows. */
export function makeExamples(
  documents: readonly SnapshotDocument[],
  options: { phrasings: number; rungs: number; seed: number },
): { examples: Example[]; report: ExamplesReport } {
  const corpus = readCorpus(documents);
  const read = documents.map((document) => ({ document, ...factsOf(document, corpus) }));
  const facts = distinct(read.flatMap((one) => one.facts));
  const siblings = siblingsOf(facts);
  const examples = [
    ...facts.flatMap((fact) => rowsOfFact(fact, siblings(fact), corpus, options)),
    ...read.flatMap((one) => one.passages).flatMap(rowsOfPassage),
  ];
  const by_kind: Record<string, number> = {};
  for (const example of examples) by_kind[example.kind] = (by_kind[example.kind] ?? 0) + 1;
  const heard = new Set(examples.map((example) => example.source?.document_id));
  return {
    examples,
    report: {
      documents: documents.length,
      facts: facts.length,
      rows: examples.length,
      by_kind,
      language_neutral: read.filter((one) => !one.english).map((one) => one.document.id),
      silent: documents.filter((document) => !heard.has(document.id)).map((document) => document.id),
    },
  };
}

/** What the documents state, each fact once. */
export function readFacts(documents: readonly SnapshotDocument[]): Fact[] {
  const corpus = readCorpus(documents);
  return distinct(documents.flatMap((document) => factsOf(document, corpus).facts));
}

/** Neighbours of one group that a fact is held against, at most: a long table must not cost its square. */
const nearby = 8;

/** Of each fact: those before and after it that share its attribute, and whether no other of them has its value. */
function siblingsOf(facts: readonly Fact[]): (fact: Fact) => Siblings {
  const placed = new Map<Fact, Siblings>();
  const kinds = Map.groupBy(facts, (fact) => `${normalised(fact.entity)}:${fact.kind}`);
  for (const group of Map.groupBy(facts, (fact) => fact.group).values()) {
    const counts = Map.groupBy(group, (fact) => normalised(fact.value));
    for (const [at, fact] of group.entries()) {
      const from = Math.max(0, Math.min(at - nearby / 2, group.length - nearby - 1));
      const near = fact.group === "" ? [] : group.slice(from, from + nearby + 1).filter((other) => other !== fact);
      const soleOfKind = kinds.get(`${normalised(fact.entity)}:${fact.kind}`)!.length === 1;
      placed.set(fact, { near, unique: counts.get(normalised(fact.value))!.length === 1, soleOfKind });
    }
  }
  return (fact) => placed.get(fact)!;
}

/** One fact per (thing, attribute, value): what two documents say alike is taught once. */
function distinct(facts: readonly Fact[]): Fact[] {
  const seen = new Set<string>();
  return facts.filter((fact) => {
    const key = [fact.entity, fact.attribute ?? fact.concept ?? fact.statement ?? "", fact.value]
      .map(normalised)
      .join("\n");
    return !seen.has(key) && seen.add(key);
  });
}
