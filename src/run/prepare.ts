// Turns the snapshot into rows of token ids. What models say meanwhile (written questions, replayed answers) is remembered call by call, so
// that a run killed here does not repeat finished calls and makes exactly the same rows.
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { Failure } from "../base/errors.ts";
import { formatChat, formatTrainingRow } from "../engine/format/chat-format.ts";
import type { Trainer } from "../engine/train/trainer.ts";
import { marksOf, type Overlap } from "../study/leakage.ts";
import type { StudyRow } from "../study/row.ts";
import type { StudyTask } from "../study/study.worker.ts";
import { openStudyThread } from "../study/thread.ts";
import type { InstalledWriter } from "../study/writers/installed.ts";
import type { Run } from "./context.ts";
import { type Memory, openMemory, removeMemory } from "./folder/memory.ts";
import { identityOf } from "./folder/request.ts";
import { type PrepareReport, preparedFolder } from "./folder/rows.ts";
import { readReplies, type TeacherReport } from "./folder/teacher.ts";
import { naturalShareOf, replayRows } from "./replay.ts";
import { type Prepared, preparedForm, rowsFormat, type TrainingRow } from "./rows.ts";
import { createSpeaker } from "./speaker.ts";
import { stage } from "./stage.ts";
import { opening } from "./training.ts";

/** Makes the rows of the documents, the replayed rows and the dev questions, as token ids. This is done once per run. */
export async function prepare(run: Run): Promise<Prepared> {
  const identity = `rows ${rowsFormat} ${identityOf(run.request)}`;
  const prepared = await stage(join(run.folder, preparedFolder), identity, () => makePrepared(run), preparedForm);
  await removeMemory(run.folder);
  return prepared;
}

async function makePrepared(run: Run): Promise<Omit<Prepared, "sha256">> {
  await run.enter("preparing");
  const began = run.parts.clock.monotonicMs();
  const made = await makeRows(run);
  const { rows: own, tooLong } = await tokenised(run, made.rows);
  if (own.length === 0) throw new Failure("no_training_rows");
  const rows = [...own, ...made.replayed];
  const dev = run.snapshot.dev.map((item) => ({
    item,
    tokens: formatChat(run.tokenizer, [{ role: "user", content: item.instruction }]),
  }));
  const report: PrepareReport = {
    ...made.report,
    too_long: tooLong,
    rows: rows.length,
    by_kind: countBy(rows.map((row) => row.kind)),
    seconds: made.secondsBefore + (run.parts.clock.monotonicMs() - began) / 1000,
  };
  return { rows, dev, report };
}

type Made = {
  rows: StudyRow[];
  replayed: TrainingRow[];
  /** Seconds that earlier processes took for the answers of models that they left. */
  secondsBefore: number;
  report: Omit<PrepareReport, "too_long" | "rows" | "by_kind" | "seconds">;
};

/** Converts rows to token ids. This is long work on this thread, so it yields often, to let commands and heartbeats through. */
async function tokenised(run: Run, made: readonly StudyRow[]): Promise<{ rows: TrainingRow[]; tooLong: number }> {
  const rows: TrainingRow[] = [];
  let tooLong = 0;
  let reported = run.parts.clock.monotonicMs();
  for (const [index, { kind, messages, target, stage }] of made.entries()) {
    const row = formatTrainingRow(run.tokenizer, messages);
    if (row.tokens.length > run.request.recipe.rendering.max_seq_len) tooLong++;
    else rows.push({ kind, messages, target, rung: stage, ...row });
    if (index % 32 === 31) await setImmediate();
    if (run.parts.clock.monotonicMs() - reported > 1000) {
      reported = run.parts.clock.monotonicMs();
      await run.turn();
      await run.progress(index + 1, made.length, "rows");
    }
  }
  return { rows, tooLong };
}

/** Makes the rows of the study and the replayed rows, and drops those that give a benchmark question away. */
async function makeRows(run: Run): Promise<Made> {
  const { documents, dev, marks, dataSet = [] } = run.snapshot;
  const { dataset, training } = run.request.recipe;
  const { phrasings, rungs: stages = 1, replay_share: share, teacher_rounds: rounds } = dataset;
  // Older folders have no marks. There the run can only look for the dev questions, which are in its folder.
  const avoided =
    marks ??
    marksOf(
      dev.map((item) => item.instruction),
      "",
    );
  const { writer, shipped } = writerOf(run);
  const thread = openStudyThread(run.parts.control.signal);
  const memory = await openMemory(run.folder, { clock: run.parts.clock });
  const asked = openAsked(run, memory, shipped);
  let teacher: TeacherReport | null = null;
  try {
    const { rows: studied, report } = await thread.study(
      {
        documents,
        organisation: run.request.organisation ?? null,
        options: { phrasings, stages, seed: training.seed },
        writer,
      },
      {
        base: asked.base,
        writer: asked.writer,
        teacherReplies: async (passages) => {
          const { replies, report } = await readReplies(run.folder, passages, { rounds });
          teacher = report;
          await warnOfTeacher(run, report);
          return replies;
        },
        progress: async (done, total, unit) => {
          await run.turn();
          await run.progress(done, total, unit);
        },
      },
    );
    const rows = [...dataSet, ...studied];
    const overlap = await thread.overlap({ marks: avoided, rows });
    const { kept, met } = withoutMet(rows, overlap);
    const lost = lostFacts(rows, kept, overlap);
    await warnOfCoincidence(run, met, lost, avoided.questions.length);
    // The share is n / (n + m) for n replayed rows and m others in a stage.
    const inStage: number[] = [];
    for (const { stage } of kept) inStage[stage] = (inStage[stage] ?? 0) + 1;
    const counts = Array.from(inStage, (own = 0) => Math.round((own * share) / (1 - share)));
    const natural = naturalShareOf(kept);
    const said = share === 0 ? [] : await replayRows(run, await asked.trainer(), counts, { memory, natural });
    const repeated = await thread.overlap({ marks: avoided, rows: said.map(rowOfReplayed) });
    const sound = withoutMet(said, repeated).kept;
    const all = [...kept, ...sound.map(rowOfReplayed)];
    return {
      rows: kept,
      replayed: sound,
      secondsBefore: memory.secondsBefore,
      report: {
        study: report,
        teacher,
        overlap_dropped: rows.length - kept.length + said.length - sound.length,
        overlap_questions: met,
        overlap_lost: lost,
        overlap: (await thread.overlap({ marks: avoided, rows: all })).overlap,
      },
    };
  } finally {
    await asked.close();
    await memory.close();
    await thread.close();
  }
}

/**
 * Returns who writes the questions. This is the teacher if the project names one; otherwise the shipped writer, if it was trained for this
 * base, and then its adapter too; otherwise the base itself. Null if the recipe disables written questions. Throws installation_damaged.
 */
function writerOf({ request: { teacher, base, recipe }, parts }: Run): {
  writer: StudyTask["writer"];
  shipped: InstalledWriter | null;
} {
  if (recipe.dataset.synthetic?.enabled === false) return { writer: null, shipped: null };
  if (teacher != null) return { writer: { kind: "teacher", name: teacher.model }, shipped: null };
  const shipped = parts.writer();
  return shipped?.base.sha256 === base.sha256
    ? { writer: { kind: "shipped", languages: shipped.languages }, shipped }
    : { writer: { kind: "self" }, shipped: null };
}

const writerAdapter = "writer";

/** Returns access to the models that are asked while rows are made: the base, and if it is used, the shipped writer's adapter. */
function openAsked(run: Run, memory: Memory, writer: InstalledWriter | null) {
  const { base } = run.request;
  let started: Trainer | null = null;
  let opened: Promise<Trainer> | null = null;
  const open = async (): Promise<Trainer> => {
    started = run.parts.startTrainer();
    await started.open(opening(run));
    if (writer !== null) {
      await started.createAdapter(writerAdapter, writer.shape);
      await started.load(writerAdapter, writer.path);
    }
    return started;
  };
  /** Returns the trainer, which is opened on first use. */
  const trainer = (): Promise<Trainer> => (opened ??= open());
  const common = { tokenizer: run.tokenizer, memory, trainer };
  return {
    trainer,
    base: createSpeaker(run, { ...common, name: base.sha256, adapter: null }),
    writer: writer && createSpeaker(run, { ...common, name: writer.sha256, adapter: writerAdapter }),
    close: async (): Promise<void> => started?.close(),
  };
}

const rowOfReplayed = ({ kind, messages, rung }: TrainingRow): StudyRow => ({
  kind,
  messages,
  stage: rung,
  source: null,
  target: "replay",
});

/** Drops the rows that give a question away. `met` is the number of questions that were given away. */
function withoutMet<T>(rows: readonly T[], { items }: Overlap): { kept: T[]; met: number } {
  const gone = new Set(items.map(({ row }) => row));
  return {
    kept: rows.filter((_, index) => !gone.has(index)),
    met: new Set(items.map(({ question }) => question)).size,
  };
}

/**
 * Returns the number of questions that were given away and for whose facts no row is left. The clauses of an answer that the document itself
 * gives, and of a passage that is asked for as a whole, are targets too, so a row about one of them is enough. A passage has several facts,
 * so its row as a whole decides only if no row about a single fact was met.
 */
function lostFacts(rows: readonly StudyRow[], kept: readonly StudyRow[], { items }: Overlap): number {
  /** Source of each target that has rows left. */
  const left = new Map(kept.map(({ target, source }) => [target, source]));
  const isLeft = ({ kind, target, source }: StudyRow): boolean =>
    left.has(target) || ((kind === "asked" || kind === "recall") && left.values().some((one) => isWithin(one, source)));
  const lost = Map.groupBy(items, ({ question }) => question)
    .values()
    .filter((met) => {
      const all = met.map(({ row }) => rows[row]!);
      const facts = all.filter(({ kind }) => kind !== "recall");
      return !(facts.length > 0 ? facts : all).some(isLeft);
    });
  return [...lost].length;
}

const isWithin = (inner: StudyRow["source"], outer: StudyRow["source"]): boolean =>
  inner !== null &&
  outer !== null &&
  inner.document_id === outer.document_id &&
  inner.start >= outer.start &&
  inner.end <= outer.end;

/** If at least this share of a benchmark's questions occurs in the documents, it is no coincidence. */
const planted = 0.5;

const warn = (run: Run, code: string, message: string, parameters: Record<string, number>): Promise<void> =>
  run.events.append({ kind: "warning", phase: "preparing", code, message, parameters });

/**
 * Warns the user if facts cannot be learned, or if the documents contain the benchmark. A few questions that occur by coincidence are only
 * counted in the report.
 */
async function warnOfCoincidence(run: Run, met: number, lost: number, questions: number): Promise<void> {
  if (lost > 0)
    await warn(
      run,
      "facts_dropped",
      `${lost} benchmark questions occur in every row about the facts that they ask for. These facts are not trained; phrase the questions differently from the documents.`,
      { n: lost },
    );
  if (questions > 0 && met >= planted * questions && met > 1)
    await warn(
      run,
      "benchmark_in_documents",
      `${met} of ${questions} benchmark questions occur in the documents. Their rows were dropped; remove the benchmark from the documents.`,
      { n: met, all: questions },
    );
}

/** Share of the passages without a fact, and of the facts that are not used, from which the user is warned. */
const poor = 0.1;

async function warnOfTeacher(run: Run, { passages, unasked, silent, facts, unfounded }: TeacherReport): Promise<void> {
  const all = facts + unfounded;
  if (unasked > 0)
    await warn(
      run,
      "teacher_unasked",
      `There is no reply, or not a whole one, of the teacher about ${unasked} of ${passages} passages: it refused them or said nothing, or the documents were divided otherwise when it was asked. A new alignment asks about them again.`,
      { unasked, passages },
    );
  if (silent > poor * passages || unfounded > poor * all)
    await warn(
      run,
      "teacher_unread",
      `The teacher's replies have no usable question about ${silent} of ${passages} passages. ${unfounded} of its ${all} answers are not in the words of their passage and are not used. Another teacher model may do better.`,
      { silent, passages, unfounded, all },
    );
}

function countBy(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}
