// The tasks of the study's thread: making or forecasting a study, finding rows that give questions away, searching passages,
// preparing the references for answers, and planning a benchmark.
import type { MessagePort } from "node:worker_threads";
import { spread } from "../base/spread.ts";
import { mostExemplars } from "../confidence/drift.ts";
import { type GroundingReference, groundingReference } from "../confidence/grounding.ts";
import { type SourceReference, sourceReference } from "../confidence/sources.ts";
import type { SnapshotDocument } from "../contract/run-folder.ts";
import { headingOf } from "./heading.ts";
import { type CandidateTask, candidatesOf, type ItemCandidate } from "./items/candidates.ts";
import { type ItemPlan, inUsualLanguage, planOf } from "./items/plan.ts";
import { type Overlap, overlapOf, type QuestionMarks } from "./leakage.ts";
import { type Lexicon, lexiconOf } from "./lexicon.ts";
import { type Passage, passagesOf, statementsOf } from "./passages.ts";
import { type Planned, planned } from "./plain.ts";
import { asking } from "./remote.ts";
import type { StudyRow } from "./row.ts";
import type { RowOptions } from "./rows.ts";
import { study as makeStudy } from "./study.ts";
import { selfWriter } from "./writers/self.ts";
import { shippedWriter } from "./writers/shipped.ts";
import { teacherWriter } from "./writers/teacher.ts";
import type { Writer } from "./writers/writer.ts";

/** Finds which rows give which questions away. */
export const overlap = ({ marks, rows }: { marks: QuestionMarks; rows: StudyRow[] }): Overlap => overlapOf(marks, rows);

export const passages = (task: { documents: SnapshotDocument[]; organisation: string | null }): Passage[] =>
  passagesOf(task.documents, task.organisation);

interface Searched {
  documents: readonly SnapshotDocument[];
  organisation?: string | null;
}

const lexiconFor = ({ documents, organisation = null }: Searched): Lexicon =>
  lexiconOf(inUsualLanguage(passagesOf(documents, organisation)));

/** The index that `search` uses. The thread's only worker keeps it until the thread is closed. */
let indexed: Lexicon | null = null;

export function index(documents: Searched): void {
  indexed = lexiconFor(documents);
}

/** Maximum passages found for a question. */
const mostFound = 4;

/** For each question, the passages that a search by its words finds in the indexed documents, best first. */
export function search(questions: readonly string[]): Passage[][] {
  const lexicon = indexed!;
  return questions.map((question) => lexicon.search(question).slice(0, mostFound));
}

/**
 * For each question, the text of the passage that ranks first for its words, under its headings; null if no passage has
 * them.
 */
export function passagesFor({
  questions,
  ...documents
}: Searched & { questions: readonly string[] }): (string | null)[] {
  const lexicon = lexiconFor(documents);
  return questions.map((question) => {
    const [found] = lexicon.search(question);
    return found === undefined ? null : `${headingOf(found)}\n${found.text}`;
  });
}

export const forecast = (task: {
  documents: SnapshotDocument[];
  organisation: string | null;
  options: RowOptions;
}): Planned => planned(passagesOf(task.documents, task.organisation), task.options);

export interface References {
  /** Statements with which a question is compared to find drift, spread evenly over all documents. */
  exemplars: readonly string[];
  /** Made from all statements; null for documents without text. */
  grounding: GroundingReference | null;
  /** Made from all passages. */
  sources: SourceReference;
}

export function references(task: { documents: readonly SnapshotDocument[]; organisation: string | null }): References {
  const all = statementsOf(task.documents);
  // With the organisation's name in every heading, a question that names the organisation matches every passage alike.
  const passages = passagesOf(task.documents, task.organisation).map((passage) => ({
    document: passage.document,
    start: passage.start,
    end: passage.end,
    text: `${headingOf(passage)}\n${passage.text}`,
  }));
  return {
    exemplars: spread(all, mostExemplars),
    grounding: groundingReference(all),
    sources: sourceReference(passages),
  };
}

export interface StudyTask {
  documents: readonly SnapshotDocument[];
  organisation: string | null;
  options: RowOptions;
  /** Who phrases the questions: a teacher, the shipped writer, or the base itself; null for plain forms alone. */
  writer:
    | { kind: "teacher"; name: string }
    | { kind: "shipped"; languages: readonly string[] }
    | { kind: "self" }
    | null;
}

/** Makes a study. Its calls to models go through the port. */
export async function study({ port, ...task }: StudyTask & { port: MessagePort }): ReturnType<typeof makeStudy> {
  const { base, writer: speaker, teacherReplies, progress } = asking(port);
  const { writer: by, options } = task;
  const writer = async (passages: readonly Passage[]): Promise<Writer | null> => {
    if (by === null) return null;
    if (by.kind === "self") return selfWriter(base, options);
    if (by.kind === "teacher") return teacherWriter(by.name, await teacherReplies(passages));
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
  /** Number of questions wanted. */
  wanted: number;
}

export const candidates = (task: CandidateTask): ItemCandidate[] => candidatesOf(task);
