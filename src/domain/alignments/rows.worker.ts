// A thread's work: rows by rules, and which rows give questions away. Minutes on large document sets, during which the run must
// still answer its commands.
import type { SnapshotDocument } from "../../contract/run-folder.ts";
import { type Example, makeExamples } from "./examples.ts";
import { findOverlap } from "./leakage.ts";

type Made = ReturnType<typeof makeExamples>;

export const make = (task: { documents: SnapshotDocument[]; phrasings: number; rungs: number; seed: number }): Made =>
  makeExamples(task.documents, task);

/** Indices of the examples that give one of the questions away. */
export const overlapping = ({ questions, examples }: { questions: string[]; examples: Example[] }): number[] => [
  ...new Set(findOverlap(questions, examples).items.map((item) => item.example)),
];
