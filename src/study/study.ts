// A study: documents → passages → spans worth asking → questions by writers and plain forms → gates → training rows,
// and the coverage of the documents. A study never sees a benchmark; leakage.ts finds the rows that overlap one.
import type { Coverage } from "../contract/coverage.ts";
import type { SnapshotDocument } from "../contract/run-folder.ts";
import { coverageOf } from "./coverage.ts";
import { type GateCount, passGates } from "./gates.ts";
import { headingOf } from "./heading.ts";
import { type Languages, languagesOf } from "./languages.ts";
import { type Lexicon, lexiconOf } from "./lexicon.ts";
import { isCode, type Passage, passagesOf } from "./passages.ts";
import type { StudyRow } from "./row.ts";
import { type Phrased, type RowOptions, rowsOf } from "./rows.ts";
import { worthAsking } from "./spans.ts";
import { saidOf, studyTargets, type Target } from "./targets.ts";
import type { Speaker, Writer, Written } from "./writers/writer.ts";

export interface StudyParts {
  /** The base model without an adapter. */
  base: Speaker;
  /** Chooses the writer for the passages; null for plain forms alone. */
  writer: (passages: readonly Passage[]) => Promise<Writer | null>;
  /** Called between pieces of work. It throws to end the study. */
  progress(done: number, total: number, unit: string): Promise<void>;
}

export interface StudyReport {
  documents: number;
  passages: number;
  targets: number;
  rows: number;
  by_kind: Record<string, number>;
  languages: Languages;
  /** How the passage of a question is searched for. */
  search: "lexical";
  writer: WriterReport | null;
  contradictions: { qualified: number; dropped: number };
  coverage: Coverage;
}

export interface WriterReport {
  name: string;
  /**
   * Number of questions about the first passages, and how many of them passed every gate. If the share is below `leastUseful`,
   * the writer is not asked further and none of its questions are used.
   */
  probe: { questions: number; passed: number };
  used: boolean;
  gates: GateCount[];
}

/** Number of passages that the probe covers. */
const probed = 64;
/** Minimum share of a writer's questions that must pass in the probe. Below it, the time is better spent on plain forms. */
const leastUseful = 0.05;
/** Number of passages given to a writer at a time. */
const together = 16;

export async function study(
  { documents, organisation }: { documents: readonly SnapshotDocument[]; organisation: string | null },
  { base, writer: chooseWriter, progress }: StudyParts,
  options: RowOptions,
): Promise<{ rows: StudyRow[]; report: StudyReport }> {
  const passages = passagesOf(documents, organisation);
  const lexicon = lexiconOf(passages);
  const writer = await chooseWriter(passages);
  const targets = await chooseTargets(passages, lexicon, base, writer, progress);
  const { questions, report: written } = await write(targets, lexicon, base, writer, progress);
  const { rows, contradictions } = rowsOf(passages, targets, questions, lexicon, options);
  const by_kind: Record<string, number> = {};
  for (const { kind } of rows) by_kind[kind] = (by_kind[kind] ?? 0) + 1;
  return {
    rows,
    report: {
      documents: documents.length,
      passages: passages.length,
      targets: targets.length,
      rows: rows.length,
      by_kind,
      languages: languagesOf(passages),
      search: "lexical",
      writer: written,
      contradictions,
      coverage: coverageOf(documents, passages, rows),
    },
  };
}

/**
 * Chooses the targets: clauses with the parts that most surprise the base or that the writer proposes, and cells,
 * values and the documents' own questions.
 */
async function chooseTargets(
  passages: readonly Passage[],
  lexicon: Lexicon,
  base: Speaker,
  writer: Writer | null,
  progress: StudyParts["progress"],
): Promise<Target[]> {
  const targets: Target[] = [];
  for (let from = 0; from < passages.length; from += together) {
    const some = passages.slice(from, from + together);
    // Code has no spans that could surprise, and one block of it may be longer than the model's context.
    const read = some.filter((passage) => !isCode(passage));
    const scored = await base.score(
      read.map((passage) => ({ prompt: `${headingOf(passage)}\n\n`, text: passage.text })),
    );
    const scores = new Map(read.map((passage, at) => [passage, scored[at]!]));
    const proposed = writer === null ? [] : await writer.propose(some);
    for (const [at, passage] of some.entries()) {
      const { ends, logprobs } = scores.get(passage) ?? { ends: [], logprobs: [] };
      const nats = (start: number, end: number): number =>
        ends.reduce((sum, tokenEnd, token) => {
          const tokenStart = token === 0 ? 0 : ends[token - 1]!;
          return tokenEnd > start && tokenStart < end ? sum - logprobs[token]! : sum;
        }, 0);
      const spans = worthAsking(passage, proposed[at] ?? [], ({ start, end }) => nats(start, end), lexicon.tells, {
        isWhole: writer?.isTeacher ?? false,
      });
      targets.push(...studyTargets(passage, spans));
    }
    await progress(Math.min(from + together, passages.length), passages.length, "passages");
  }
  return targets;
}

/** Has the writer write questions. Returns those that passed the gates, by the target's id, and a report. */
async function write(
  targets: readonly Target[],
  lexicon: Lexicon,
  base: Speaker,
  writer: Writer | null,
  progress: StudyParts["progress"],
): Promise<{ questions: Map<string, Phrased[]>; report: WriterReport | null }> {
  const questions = new Map<string, Phrased[]>();
  if (writer === null) return { questions, report: null };
  const report: WriterReport = { name: writer.name, probe: { questions: 0, passed: 0 }, used: true, gates: [] };
  const byPassage = [...Map.groupBy(targets, (target) => target.passage.id).values()];
  for (let from = 0; from < byPassage.length; from += together) {
    const some = byPassage.slice(from, from + together).flat();
    const asked = await writer.write(some);
    const written = some.flatMap((target, at) => (asked[at] ?? []).map((question): Written => ({ target, question })));
    const { kept, counts } = await passGates(written, { lexicon, writer, base });
    add(report.gates, counts);
    for (const { target, question } of kept) {
      const answer = writer.answerTo?.(target, question) ?? saidOf(target);
      questions.set(target.id, [...(questions.get(target.id) ?? []), { question, answer }]);
    }
    if (from < probed) {
      report.probe.questions += written.length;
      report.probe.passed += kept.length;
    }
    await progress(Math.min(from + together, byPassage.length), byPassage.length, "passages with questions");
    const isProbed = from + together >= Math.min(probed, byPassage.length);
    if (isProbed && report.probe.passed < leastUseful * report.probe.questions) {
      report.used = false;
      questions.clear();
      break;
    }
  }
  report.used &&= questions.size > 0;
  return { questions, report };
}

function add(sums: GateCount[], counts: readonly GateCount[]): void {
  for (const { gate, ...count } of counts) {
    const known = sums.find((one) => one.gate === gate);
    if (known === undefined) sums.push({ gate, ...count });
    else {
      known.in += count.in;
      known.out += count.out;
    }
  }
}
