// A thread's work: rows by rules, which rows give questions away, and what the documents say for answers.
import { spread } from "../../base/spread.ts";
import type { SnapshotDocument } from "../../contract/run-folder.ts";
import { mostExemplars } from "../../engine/drift.ts";
import { type SupportReference, supportReference } from "../../engine/support.ts";
import { type Example, makeExamples } from "./examples.ts";
import { findOverlap } from "./leakage.ts";
import { passagesOf } from "./passages.ts";

type Made = ReturnType<typeof makeExamples>;

export const make = (task: { documents: SnapshotDocument[]; phrasings: number; rungs: number; seed: number }): Made =>
  makeExamples(task.documents, task);

/** Indices of the examples that give one of the questions away. */
export const overlapping = ({ questions, examples }: { questions: string[]; examples: Example[] }): number[] => [
  ...new Set(findOverlap(questions, examples).items.map((item) => item.example)),
];

export interface Passages {
  /** As many as drift compares a question with, evenly over all. */
  exemplars: readonly string[];
  /** Of all; null of documents without text. */
  support: SupportReference | null;
}

export function passages({ documents }: { documents: readonly SnapshotDocument[] }): Passages {
  const all = documents.flatMap(passagesOf);
  return { exemplars: spread(all, mostExemplars), support: supportReference(all) };
}
