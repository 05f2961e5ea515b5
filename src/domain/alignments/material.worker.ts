// A thread's work: reads facts, or makes rows and looks for questions in them.
import type { SnapshotDocument } from "../../contract/run-folder.ts";
import type { Fact } from "./examples/fact.ts";
import { makeExamples, readFacts } from "./examples.ts";
import { findOverlap } from "./leakage.ts";

export interface MaterialTask {
  documents: readonly SnapshotDocument[];
  /** Without them, the facts are asked for. */
  questions?: readonly string[];
}

/** As many wordings of a fact as no recipe surpasses: what is not among them is in no row. */
const phrasings = 100;

export default function answer({ documents, questions }: MaterialTask): Fact[] | boolean[] {
  if (questions === undefined) return readFacts(documents);
  const { examples } = makeExamples(documents, { phrasings, rungs: 1, seed: 1 });
  const found = new Set(findOverlap(questions, examples).items.map(({ question }) => question));
  return questions.map((_, at) => found.has(at));
}
