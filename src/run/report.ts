// Makes the report of a run: what was learned, what was lost, what it cost, and what would help most. Everything except `cost` is the same
// whether or not the run was interrupted.

import { wordsWithin } from "../base/text.ts";
import type { Calibration } from "../confidence/calibration.ts";
import type { GuardResults } from "../contract/run-folder.ts";
import type { Comparison } from "../engine/train/adapter-check.ts";
import type { StudyReport } from "../study/study.ts";
import type { Candidate } from "./choose.ts";
import type { Run } from "./context.ts";
import type { DevAnswer } from "./dev-check.ts";
import type { Exported } from "./exported.ts";
import type { TrainingRow } from "./rows.ts";
import type { Training } from "./training.ts";
import { verdictOf } from "./verdict.ts";

export type Report = ReturnType<typeof reportOf>;

export function reportOf(
  run: Run,
  training: Training,
  exported: Exported,
  verification: Comparison,
  calibration: Calibration,
) {
  const { state, hello, model, prepared, peakRate } = training;
  const { alignment_id, recipe_name, recipe, base, documents, dev, versions, budget } = run.request;
  const { chosen } = exported;
  const learned = learnedOf(run, chosen, prepared.rows);
  const help = helpOf(learned, chosen, {
    silent: silentOf(prepared.report.study),
    hasTeacher: prepared.report.teacher !== null,
  });
  const { seconds: rowSeconds, ...rows } = prepared.report;
  return {
    format: 2 as const,
    verdict: verdictOf({ dev: devOf(learned), guards: chosen.guards, limits: recipe.guards, help }),
    alignment_id,
    recipe_name,
    recipe: { ...recipe, optimizer: { ...recipe.optimizer, learning_rate: peakRate } },
    base: { ...base, layers: model.layers, embedding: model.embedding, file_type: model.fileType },
    // `sha256` is the hash of the original document, `snapshot_sha256` the hash of its snapshot.
    documents: documents.map(({ sha256: snapshot_sha256, original_sha256 = null, ...document }) => ({
      ...document,
      sha256: original_sha256,
      snapshot_sha256,
    })),
    dev: dev && {
      benchmark_id: dev.benchmark_id,
      sha256: dev.benchmark_sha256 ?? null,
      items: dev.items,
      snapshot_sha256: dev.sha256,
    },
    learned,
    guards: chosen.guards,
    help,
    auto_align: exported.autoAlign,
    rows,
    training: {
      // Hash of the warm start; null if training started from the base.
      warm_start: state.warmStart ?? null,
      steps: state.step,
      rungs: { trained: state.rung.index + 1, planned: training.rungs.length },
      ended: state.ended,
      repaired_steps: state.repair === null ? 0 : state.step - state.repair.from,
      chosen_step: chosen.step,
      chosen_scale: chosen.scale,
      candidates: chosen.candidates.map(summaryOf),
      losses: state.losses,
      checks: state.checks,
      trained_tokens: state.trainedTokens,
      processed_tokens: state.processedTokens,
    },
    adapter: { ...exported.adapter, verification },
    confidence: {
      calibrated: calibration.calibrated,
      reason: calibration.reason,
      features: calibration.model.features,
      drift: calibration.drift === null ? calibration.drift_reason : calibration.drift.distances.length,
      ...calibration.statistics,
    },
    cost: {
      /** Seconds by phase, in the last process alone. */
      seconds: run.seconds,
      row_seconds: rowSeconds,
      train_seconds: state.trainSeconds,
      tokens_per_second: state.processedTokens / state.trainSeconds,
    },
    budget,
    versions: { ...versions, trainer: `${hello.version} ${hello.build}`, engine: run.parts.engine },
  };
}

const devOf = ({ dev, gained, lost }: ReturnType<typeof learnedOf>) =>
  dev && {
    n: dev.aligned.n,
    base: dev.base.score,
    aligned: dev.aligned.score,
    gained: gained.length,
    lost: lost.length,
  };

/** Returns the number of documents from which no row was made. */
const silentOf = ({ coverage }: StudyReport): number =>
  coverage.documents.filter(({ passages }) => passages.every(({ rows }) => rows === 0)).length;

/** Returns a candidate without its suites' questions. The questions of the chosen candidate are in `guards`. */
function summaryOf({ guards, ...candidate }: Candidate) {
  const suites = guards?.suites.map(({ name, base, aligned }) => ({ name, base, aligned }));
  return { ...candidate, guards: guards && { suites: suites!, drift: guards.drift } };
}

/**
 * A dev question that the adapter gets wrong. `taught` says whether the answer of any row contains the right answer, which was then
 * trained in vain. Reports in run folders use this field name.
 */
export interface Missed {
  sample_num: number;
  question: string;
  gold: string;
  answer: string;
  taught: boolean;
}

function learnedOf(run: Run, chosen: Exported["chosen"], rows: readonly TrainingRow[]) {
  const { base, answers } = chosen;
  if (answers.length === 0) return { dev: null, gained: [], lost: [], missed: [] as Missed[] };
  const score = (given: readonly DevAnswer[]) =>
    run.parts.interval(given.filter((one) => one.correct).length, given.length);
  const told = ({ item, answer }: DevAnswer, index: number) => ({
    sample_num: item.sample_num,
    question: item.instruction,
    gold: item.response,
    before: base[index]!.answer,
    answer,
  });
  const isSaid = wordsWithin(rows.map((row) => row.messages.at(-1)!.content).join("\n"));
  return {
    dev: { base: score(base), aligned: score(answers) },
    gained: answers.map(told).filter((_, index) => answers[index]!.correct && !base[index]!.correct),
    lost: answers.map(told).filter((_, index) => !answers[index]!.correct && base[index]!.correct),
    missed: answers
      .filter((one) => !one.correct)
      .map(({ item, answer }): Missed => {
        const golds = [item.response, ...item.aliases];
        const { sample_num, instruction: question, response: gold } = item;
        return { sample_num, question, gold, answer, taught: golds.some(isSaid) };
      }),
  };
}

/** Returns sentences about what would help, the most helpful first. */
function helpOf(
  learned: ReturnType<typeof learnedOf>,
  { guards, penalty, candidates }: { guards: GuardResults | null; penalty: number; candidates: readonly Candidate[] },
  { silent, hasTeacher }: { silent: number; hasTeacher: boolean },
): string[] {
  const untrained = learned.missed.filter((one) => !one.taught).length;
  const trained = learned.missed.length - untrained;
  const repaired = candidates.some((one) => one.repaired);
  const scaled = candidates.some((one) => one.scale < 1);
  const tried = [...(repaired ? ["repair"] : []), ...(scaled ? ["smaller scales"] : [])];
  const help: { weight: number; text: string }[] = [
    {
      weight: untrained,
      text: `${untrained} missed questions ask for facts that are in no training row. What would help most is documents that state them plainly, for example in a table, a «name: value» list or a short sentence.`,
    },
    {
      weight: trained,
      text: `${trained} missed questions were trained in other words. ${
        hasTeacher
          ? "More wordings (preset thorough) or a larger base model help."
          : "Without a teacher, questions have few words that the documents do not have. A teacher helps most (teacher_model): another model that reads the documents and writes the questions."
      }`,
    },
    {
      weight: silent,
      text: `${silent} documents gave no training rows: they contain no text, or no facts in a supported form.`,
    },
    {
      weight: guards !== null && penalty > 0 ? penalty : 0,
      text: `The base's earlier abilities were damaged more than the recipe allows${tried.length > 0 ? `, despite ${tried.join(" and ")}` : ""}. A larger replay_share, a lower learning rate or ${repaired ? "a larger weight_decay" : "a repair (preset standard or thorough)"} preserves more of them.`,
    },
    {
      weight: learned.dev === null ? 1 : 0,
      text: "There was no benchmark, so nothing shows what was learned. Upload questions with their answers, or have them made from the documents.",
    },
  ];
  const needed = help.filter((one) => one.weight > 0).sort((a, b) => b.weight - a.weight);
  return needed.length > 0 ? needed.map((one) => one.text) : ["By these measurements, nothing is missing."];
}
