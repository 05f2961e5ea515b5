// A thread's work: what a study makes of documents, which rows give questions away, what the documents say for answers, and what a benchmark may ask of them.
import type { MessagePort } from "node:worker_threads";
import { spread } from "../base/spread.ts";
import type { SnapshotDocument } from "../contract/run-folder.ts";
import { mostExemplars } from "../engine/drift.ts";
import { type SourceReference, sourceReference } from "../engine/sources.ts";
import { type SupportReference, supportReference } from "../engine/support.ts";
import { type CandidateTask, candidatesOf, type ItemCandidate } from "./items/candidates.ts";
import { type ItemPlan, planOf } from "./items/plan.ts";
import { type Overlap, overlapOf, type QuestionMarks } from "./leakage.ts";
import { lexiconOf } from "./lexicon.ts";
import { headingOf, type Passage, passagesOf, statementsOf } from "./passages.ts";
import { type Planned, planned } from "./plain.ts";
import { asking } from "./remote.ts";
import type { StudyRow } from "./row.ts";
import type { RowOptions } from "./rows.ts";
import { study as makeStudy } from "./study.ts";
import { selfWriter } from "./writers/self.ts";
import { shippedWriter } from "./writers/shipped.ts";
import { teacherWriter } from "./writers/teacher.ts";
import type { Writer } from "./writers/writer.ts";

/** Which rows give which questions away. */
export const overlap = ({ marks, rows }: { marks: QuestionMarks; rows: StudyRow[] }): Overlap => overlapOf(marks, rows);

export const passages = (task: { documents: SnapshotDocument[]; organisation: string | null }): Passage[] =>
  passagesOf(task.documents, task.organisation);

/** The text of the passage that each question's words find, under its headings; null where they find none. */
export function passagesFor({
  documents,
  organisation,
  questions,
}: {
  documents: SnapshotDocument[];
  organisation: string | null;
  questions: string[];
}): (string | null)[] {
  const { search } = lexiconOf(passagesOf(documents, organisation));
  return questions.map((question) => {
    const [found] = search(question);
    return found === undefined ? null : `${headingOf(found)}\n${found.text}`;
  });
}

export const forecast = (task: {
  documents: SnapshotDocument[];
  organisation: string | null;
  options: RowOptions;
}): Planned => planned(passagesOf(task.documents, task.organisation), task.options);

export interface References {
  /** As many statements as drift compares a question with, evenly over all. */
  exemplars: readonly string[];
  /** Of all; null of documents without text. */
  support: SupportReference | null;
  /** Of all passages. */
  sources: SourceReference;
}

export function references(task: { documents: readonly SnapshotDocument[]; organisation: string | null }): References {
  const all = statementsOf(task.documents);
  // The organisation's name stands in every heading then, and a question that says it is about every passage alike.
  const passages = passagesOf(task.documents, task.organisation).map((passage) => ({
    document: passage.document,
    start: passage.start,
    end: passage.end,
    text: `${headingOf(passage)}\n${passage.text}`,
  }));
  return {
    exemplars: spread(all, mostExemplars),
    support: supportReference(all),
    sources: sourceReference(passages),
  };
}

export interface StudyTask {
  documents: readonly SnapshotDocument[];
  organisation: string | null;
  options: RowOptions;
  /** Who phrases questions: a teacher, the shipped writer, or the base itself; null: plain forms alone. */
  writer:
    | { kind: "teacher"; name: string }
    | { kind: "shipped"; languages: readonly string[] }
    | { kind: "self" }
    | null;
}

/** What it asks goes through the port. */
export async function study({ port, ...task }: StudyTask & { port: MessagePort }): ReturnType<typeof makeStudy> {
  const { base, writer: speaker, lessons, progress } = asking(port);
  const { writer: by, options } = task;
  const writer = async (passages: readonly Passage[]): Promise<Writer | null> => {
    if (by === null) return null;
    if (by.kind === "self") return selfWriter(base, options);
    if (by.kind === "teacher") return teacherWriter(by.name, await lessons(passages));
    return shippedWriter(speaker!, { languages: by.languages, seed: options.seed });
  };
  try {
    return await makeStudy(task, { base, writer, progress }, options);
  } finally {
    port.close();
  }
}

export const plan = ({ documents, ...options }: PlanTask): ItemPlan[] => planOf(documents, options);

export interface PlanTask {
  documents: readonly SnapshotDocument[];
  seed: number;
  /** Questions. */
  wanted: number;
}

export const candidates = (task: CandidateTask): ItemCandidate[] => candidatesOf(task);
