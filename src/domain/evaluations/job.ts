// The worker of an evaluation: answers the questions and grades the answers, one group at a time.
//
//   short, numeric, refusal   answered briefly and matched            ┐ each kind in item order, in groups of its own, so that
//   long                      answered at length and judged by rubric │ a group's batch has one shape
//   choice                    each choice scored as the answer        ┘
//
// Invariants:
//   1. A group's answers are written in one transaction under the claim. A restart therefore resumes at a group boundary, so that
//      the engine's batches, and with them the texts, are the same as without the restart.
//   2. No item is answered twice; none is left out.
//   3. All answers of one evaluation were made under the same settings.
//   4. The first answer to a sealed item is written in one transaction with the touch, which records that the split was used.

import { Failure } from "../../base/errors.ts";
import { sha256 } from "../../base/files.ts";
import { wilson } from "../../base/statistics/intervals.ts";
import type { Clock } from "../../base/time.ts";
import type { ItemType, Split } from "../../catalog/store.ts";
import { type Calibration, scoreConfidence, servedVoidReason } from "../../confidence/calibration.ts";
import { answerFeatures, featureNames } from "../../confidence/features.ts";
import type { EvaluatedAnswer, Generator, ModelRef } from "../../engine/generator.ts";
import type { Claim, Queue } from "../../jobs/queue.ts";
import type { Worker } from "../../jobs/runner.ts";
import type { Store } from "../../store/open.ts";
import {
  type Asking,
  answerTokens,
  type BenchmarkItem,
  briefTypes,
  chosenAnswers,
  gradedItem,
  groupSize,
  longAnswerTokens,
  promptOf,
} from "./asking.ts";
import { competition, type Grade } from "./grade.ts";
import type { Grading } from "./grading.ts";
import { correctedShare, createJudge, type Judge, measureJudge, rubricScore, type Verdict } from "./judge.ts";
import { type JudgeRecord, type Paired, pair, type Side, summarise } from "./results.ts";
import type { EvaluationRow, EvaluationsSql } from "./store.ts";

/** How an item was answered and graded, as stored. There is no seed, because decoding is greedy. */
export type Method =
  | { by: "answer"; max_tokens: number; reason: Grade["reason"] }
  | { by: "likelihood"; chosen: number; chosen_unnormalised: number; logprobs: number[] }
  | { by: "judge"; max_tokens: number; points: Verdict[] };

export interface EvaluatedModel {
  modelId: string;
  ref: ModelRef;
  /** Null for a base model. */
  calibration: Calibration | null;
  /** SHA-256 of the model's files: the base, and the adapter if there is one. */
  baseSha256: string;
  adapterSha256: string | null;
}

export interface EvaluateParts {
  store: Store;
  sql: EvaluationsSql;
  queue: Queue;
  clock: Clock;
  generator: Generator;
  grading: Grading;
  /** Name of the inference engine, stored in the settings. */
  engine: string;
  /**
   * The probability that a question is out of domain, computed as for served answers. Null if it is not known.
   */
  drift: {
    of(calibration: Calibration, question: string): Promise<{ outOfDomain: number | null }>;
  };
  /** The benchmark's items, in item order. */
  itemsOf: (benchmarkId: string) => BenchmarkItem[];
  /** Finds a model, deployed or not. Throws not_found. */
  findModel: (ownerId: string, modelId: string) => EvaluatedModel;
  /** Loads the model and keeps it loaded until released, whatever happens to the model meanwhile. Throws what loading throws. */
  lease: (ref: ModelRef) => Promise<{ release(): Promise<void> }>;
}

export interface EvaluateWorker extends Worker {
  /** Number of items answered so far. Includes those not written yet, because a group takes half a minute on a slow machine. */
  answered(evaluationId: string): number;
  /** Why the evaluation was put back into the queue. Null if it was not. */
  waitingFor(evaluationId: string): string | null;
  /** Interrupts the answering of an evaluation that is being stopped. */
  stop(evaluationId: string): void;
}

/**
 * Wait before the job is claimed again to see whether there is enough memory. The wait doubles each time, up to `longestWaitMs`.
 */
const firstWaitMs = 2_000;
const longestWaitMs = 60_000;

export function createEvaluateWorker(parts: EvaluateParts): EvaluateWorker {
  const { queue, clock } = parts;
  let current = { id: "", answered: 0, stopping: new AbortController() };
  let waiting: { id: string; reason: string; waitMs: number; untilMs: number } | null = null;

  async function answer(claim: Claim, row: EvaluationRow, signal: AbortSignal): Promise<void> {
    const work = { ...workOf(parts, claim, row), onAnswer: () => void current.answered++ };
    const leases = [await parts.lease(work.model.ref)];
    try {
      if (work.judgeModel) leases.push(await parts.lease(work.judgeModel.ref));
      await answerAll(work, signal);
      await finish(work, signal);
    } finally {
      for (const lease of leases) await lease.release();
    }
  }

  /**
   * Puts the job back into the queue while other models hold the memory that it needs. The job resumes later at a group boundary.
   */
  function waitForRoom(claim: Claim, error: Failure): void {
    const waitMs = waiting?.id === claim.subjectId ? Math.min(2 * waiting.waitMs, longestWaitMs) : firstWaitMs;
    waiting = { id: claim.subjectId, reason: error.message, waitMs, untilMs: clock.monotonicMs() + waitMs };
    queue.move(claim, "queued", { orderly: true, detail: error.message });
  }

  return {
    // One at a time, because two evaluations would only take turns in the engine and keep two models in memory.
    concurrency: 1,
    canStart: () => waiting === null || clock.monotonicMs() >= waiting.untilMs,
    answered: (evaluationId) => (current.id === evaluationId ? current.answered : 0),
    waitingFor: (evaluationId) => (waiting?.id === evaluationId ? waiting.reason : null),
    stop(evaluationId) {
      if (current.id === evaluationId) current.stopping.abort(new Failure("conflict", "The evaluation was stopped"));
    },
    async run(claim, signal) {
      const row = parts.sql.byId.get(claim.subjectId)!;
      current = { id: row.id, answered: row.answered, stopping: new AbortController() };
      try {
        await answer(claim, row, AbortSignal.any([signal, current.stopping.signal]));
        waiting = null;
      } catch (error) {
        if (signal.aborted) throw error;
        if (current.stopping.signal.aborted) queue.move(claim, "stopped");
        else if (error instanceof Failure && error.code === "out_of_memory" && error.context.fitsAlone === true)
          waitForRoom(claim, error);
        else throw error;
      }
    },
  };
}

/** An evaluation that is being worked on. */
interface Work {
  parts: EvaluateParts;
  claim: Claim;
  row: EvaluationRow;
  model: EvaluatedModel;
  judgeModel: EvaluatedModel | null;
  items: BenchmarkItem[];
  asking: Asking;
  /** Called after each generated answer, but not for choices. */
  onAnswer: () => void;
}

function workOf(parts: EvaluateParts, claim: Claim, row: EvaluationRow): Omit<Work, "onAnswer"> {
  const all = parts.itemsOf(row.benchmark_id);
  const splits = JSON.parse(row.splits_json) as Split[];
  const { judge } = JSON.parse(row.settings_json) as { judge?: { model_id: string } | null };
  const rivals = competition(all);
  const places = new Map(all.map((item, index) => [item.sample_num, index]));
  const model = parts.findModel(row.owner_id, row.model_id);
  return {
    parts,
    claim,
    row,
    model,
    judgeModel: judge ? parts.findModel(row.owner_id, judge.model_id) : null,
    items: all.filter((item) => splits.includes(item.split)),
    asking: {
      generator: parts.generator,
      ref: model.ref,
      rivalsOf: (item) => rivals(places.get(item.sample_num)!),
    },
  };
}

/** An answered and graded item. */
interface Answered {
  item: BenchmarkItem;
  prompt: readonly number[];
  text: string;
  score: number;
  method: Method;
  /** Features of a generated text. Null for a choice, and for an answer without tokens. */
  features: number[] | null;
  /** Null for a choice, and for a base model. */
  confidence: number | null;
}

/** All items of these types in order, and how many of them are already answered. Those are whole groups, by invariant 1. */
function open(work: Work, types: readonly ItemType[]): { items: BenchmarkItem[]; startAt: number } {
  const items = work.items.filter(({ type }) => types.includes(type));
  const answered = new Set(work.parts.sql.answered.all(work.row.id).map(({ sample_num }) => sample_num));
  return { items, startAt: items.filter(({ sample_num }) => answered.has(sample_num)).length };
}

async function answerAll(work: Work, signal: AbortSignal): Promise<void> {
  const { parts, model, row } = work;
  if (row.answered === work.items.length) return;
  keepSettings(work, sha256(parts.generator.tokenizer(model.ref.baseId).chatTemplate ?? ""));
  await answerBriefly(work, signal);
  await inGroups(work, ["long"], (group) => answerLong(work, group, signal));
  await inGroups(work, ["choice"], (group) => chooseAnswers(work, group, signal));
  signal.throwIfAborted();
}

/** Sends all brief questions in one engine request. Grading and writing run while the engine continues. */
async function answerBriefly(work: Work, signal: AbortSignal): Promise<void> {
  const { clock, generator } = work.parts;
  const { items, startAt } = open(work, briefTypes);
  if (startAt === items.length) return;
  const prompts = items.map((item) => promptOf(work.asking, item));
  const giveUp = new AbortController();
  let group: { item: BenchmarkItem; prompt: number[]; answer: EvaluatedAnswer }[] = [];
  let since = clock.monotonicMs();
  let written: Promise<void> = Promise.resolve();
  const onItem = (index: number, answer: EvaluatedAnswer): void => {
    work.onAnswer();
    group.push({ item: items[index]!, prompt: prompts[index]!, answer });
    if ((index + 1) % groupSize !== 0 && index !== items.length - 1) return;
    const full = group;
    const seconds = (clock.monotonicMs() - since) / 1000;
    group = [];
    since = clock.monotonicMs();
    written = written.then(async () => write(work, await matched(work, full), seconds));
    // After a failed write, the engine request is aborted. The awaits below throw the error itself.
    written.catch((error) => giveUp.abort(error));
  };
  try {
    await generator.evaluate({
      model: work.model.ref,
      prompts,
      maxTokens: answerTokens,
      signal: AbortSignal.any([signal, giveUp.signal]),
      onItem,
      startAt,
    });
  } catch (error) {
    await written;
    throw error;
  }
  await written;
}

/** Grades brief answers on the grading thread. */
async function matched(
  work: Work,
  group: readonly { item: BenchmarkItem; prompt: number[]; answer: EvaluatedAnswer }[],
): Promise<Answered[]> {
  const tasks = group.map(({ item, answer }) => ({ answer: answer.text, item: gradedItem(work.asking, item) }));
  const grades = await work.parts.grading.grade(tasks);
  const confidences = await Promise.all(group.map(({ item, answer }) => confidenceOf(work, item, answer)));
  return group.map(({ item, prompt, answer }, at) => ({
    item,
    prompt,
    text: answer.text,
    score: grades[at]!.correct ? 1 : 0,
    method: { by: "answer", max_tokens: answerTokens, reason: grades[at]!.reason },
    features: featuresOf(answer),
    confidence: confidences[at]!,
  }));
}

/** Works through the items in groups. Each group is answered, graded and written before the next begins. */
async function inGroups(
  work: Work,
  types: readonly ItemType[],
  answer: (group: readonly BenchmarkItem[]) => Promise<Answered[]>,
): Promise<void> {
  const { items, startAt } = open(work, types);
  for (let first = startAt; first < items.length; first += groupSize) {
    const began = work.parts.clock.monotonicMs();
    const answered = await answer(items.slice(first, first + groupSize));
    write(work, answered, (work.parts.clock.monotonicMs() - began) / 1000);
  }
}

async function answerLong(work: Work, group: readonly BenchmarkItem[], signal: AbortSignal): Promise<Answered[]> {
  const prompts = group.map((item) => promptOf(work.asking, item));
  const answers: EvaluatedAnswer[] = [];
  await work.parts.generator.evaluate({
    model: work.model.ref,
    prompts,
    maxTokens: longAnswerTokens,
    signal,
    onItem: (index, answer) => {
      work.onAnswer();
      answers[index] = answer;
    },
    startAt: 0,
  });
  const judged = group.map((item, at) => ({ item, answer: answers[at]!.text }));
  const verdicts = await judgeOf(work).judge(judged, signal);
  const confidences = await Promise.all(group.map((item, at) => confidenceOf(work, item, answers[at]!)));
  return group.map((item, at) => ({
    item,
    prompt: prompts[at]!,
    text: answers[at]!.text,
    score: rubricScore(item.rubric, verdicts[at]!),
    method: { by: "judge", max_tokens: longAnswerTokens, points: verdicts[at]! },
    features: featuresOf(answers[at]!),
    confidence: confidences[at]!,
  }));
}

const judgeOf = ({ parts, judgeModel }: Work): Judge => createJudge(parts.generator, judgeModel!.ref);

async function chooseAnswers(work: Work, group: readonly BenchmarkItem[], signal: AbortSignal): Promise<Answered[]> {
  const answers = await chosenAnswers(work.asking, group, signal);
  return answers.map(({ item, prompt, text, chosen: { index, rawIndex, scores } }) => {
    const logprobs = scores.map(({ logprob }) => logprob);
    return {
      item,
      prompt,
      text,
      score: text === item.response ? 1 : 0,
      method: { by: "likelihood", chosen: index, chosen_unnormalised: rawIndex, logprobs },
      features: null,
      confidence: null,
    };
  });
}

const featuresOf = (answer: EvaluatedAnswer): number[] | null =>
  answer.steps.length === 0 ? null : answerFeatures(answer.steps, answer.finishReason);

/** The confidence with which the answer would be served. Null for a base model, 0 for an answer without tokens. */
async function confidenceOf({ parts, model }: Work, item: BenchmarkItem, answer: EvaluatedAnswer) {
  const { calibration } = model;
  if (calibration === null) return null;
  const features = featuresOf(answer);
  if (features === null) return 0;
  const { outOfDomain } = await parts.drift.of(calibration, item.instruction);
  const said = { question: item.instruction, answer: answer.text };
  const voided = servedVoidReason(calibration, model, parts.generator.tokenizer(model.ref.baseId), parts.engine);
  return scoreConfidence(calibration, featureNames, features, { outOfDomain, said, voided }).score;
}

/** Stores the settings (invariant 3). Throws conflict if the engine or the chat template changed after the first answers. */
function keepSettings({ parts, claim, row }: Work, templateSha256: string): void {
  const asked = JSON.parse(row.settings_json) as object;
  const settings = JSON.stringify({ ...asked, template_sha256: templateSha256, engine: parts.engine });
  if (row.answered > 0 && settings !== row.settings_json)
    throw new Failure(
      "conflict",
      "The inference engine or its template changed during this evaluation; start another one",
    );
  const at = parts.clock.now();
  parts.sql.saveSettings.run({ id: row.id, settings, at, jobId: claim.jobId, fence: claim.fence });
}

/** Writes a group of answers in one transaction (invariants 1 and 4). */
function write({ parts, claim, row }: Work, group: readonly Answered[], seconds: number): void {
  const { store, sql, clock } = parts;
  store.transaction(() => {
    for (const { item, prompt, text, score, method, features, confidence } of group) {
      const { changes } = sql.insertAnswer.run({
        evaluationId: row.id,
        sample_num: item.sample_num,
        split: item.split,
        type: item.type,
        answer: text,
        correct: score === 1 ? 1 : 0,
        score,
        method_json: JSON.stringify(method),
        confidence,
        features: JSON.stringify(features ?? []),
        prompt_sha256: sha256(JSON.stringify(prompt)),
        jobId: claim.jobId,
        fence: claim.fence,
      });
      if (changes !== 1) throw new Failure("conflict", "Another process took over this evaluation");
    }
    const at = clock.now();
    if (group.some(({ item }) => item.split === "sealed"))
      sql.touch.run({
        benchmarkId: row.benchmark_id,
        evaluation_id: row.id,
        model_id: row.model_id,
        purpose: "evaluation",
        at,
      });
    sql.addSeconds.run({ id: row.id, seconds, at });
  });
}

async function finish(work: Work, signal: AbortSignal): Promise<void> {
  const { parts, claim, row } = work;
  const { sql, queue, clock } = parts;
  const answers = sql.items.all(row.id);
  if (answers.length !== row.n_samples)
    throw new Error(`only ${answers.length} of ${row.n_samples} items are answered`);
  const judge = await judgeRecord(work, signal);
  const result = JSON.stringify(summarise(answers, pairWithBase(sql, row), judge));
  queue.move(claim, "succeeded", {}, () => sql.finish.run({ id: row.id, result, at: clock.now() }));
}

/** The judge of the long answers and its error rates on this benchmark. Null if there are no long answers. */
async function judgeRecord(work: Work, signal: AbortSignal): Promise<JudgeRecord | null> {
  const { judgeModel, items, parts, row } = work;
  const long = items.filter(({ type }) => type === "long");
  if (judgeModel === null || long.length === 0) return null;
  const others = othersOf(long, parts.itemsOf(row.benchmark_id));
  const error = await measureJudge(judgeOf(work), long, others, signal);
  const points = pointsJudged(work);
  const observed = wilson(points.filter(({ met }) => met).length, points.length).score;
  return {
    model_id: judgeModel.modelId,
    same_base: judgeModel.ref.baseId === work.model.ref.baseId,
    ...error,
    observed,
    corrected: correctedShare(observed, error),
  };
}

/**
 * For each item, the reference of the next item about another fact, which therefore should not meet this item's rubric. If all items are
 * about one fact, that of the next item.
 */
function othersOf(items: readonly BenchmarkItem[], all: readonly BenchmarkItem[]): string[] {
  return items.map(({ sample_num, cluster }) => {
    const own = all.findIndex((one) => one.sample_num === sample_num);
    let at = (own + 1) % all.length;
    while (at !== own && all[at]!.cluster === cluster) at = (at + 1) % all.length;
    return all[at === own ? (own + 1) % all.length : at]!.response;
  });
}

const pointsJudged = ({ parts, row }: Work): Verdict[] =>
  parts.sql.items.all(row.id).flatMap(({ method_json }) => {
    const method = JSON.parse(method_json) as Method;
    return method.by === "judge" ? method.points : [];
  });

/** Compares with the owner's latest finished evaluation of the base. Null for a base model, or if there is none. */
export function pairWithBase(sql: EvaluationsSql, row: EvaluationRow): Paired | null {
  if (row.model_id === row.base_model_id) return null;
  const { owner_id: ownerId, base_model_id: modelId, benchmark_id: benchmarkId } = row;
  const other = sql.latestReady.get({ ownerId, modelId, benchmarkId });
  return other === undefined ? null : pair(sideOf(sql, row), sideOf(sql, other));
}

/** A finished evaluation as one side of a comparison. */
export const sideOf = (sql: EvaluationsSql, row: EvaluationRow): Side => ({
  modelId: row.model_id,
  baseModelId: row.base_model_id,
  evaluationId: row.id,
  answers: sql.items.all(row.id),
});
