// The worker behind an evaluation: questions in, graded answers out, a group at a time.
//
// Invariants:
//   1. A group's answers are written in one transaction under the claim: a restart goes on at a group's border, so that the
//      engine's batches, and with them the texts, are the same as without it.
//   2. No item is answered twice; none is left out.
//   3. All answers of one evaluation were made under the same settings.
import { Failure } from "../../base/errors.ts";
import { sha256 } from "../../base/files.ts";
import type { Clock } from "../../base/time.ts";
import { formatChat } from "../../engine/chat-format.ts";
import { type Calibration, scoreConfidence } from "../../engine/confidence.ts";
import { answerFeatures, featureNames } from "../../engine/confidence-features.ts";
import type { EvaluatedAnswer, Generator, ModelRef } from "../../engine/generator.ts";
import type { Claim, Queue } from "../../jobs/queue.ts";
import type { Worker } from "../../jobs/runner.ts";
import type { Store } from "../../store/open.ts";
import { competition } from "./grade.ts";
import type { Grading } from "./grading.ts";
import { type Paired, pair, summarise } from "./results.ts";
import type { EvaluationRow, EvaluationsSql, Split } from "./store.ts";

export interface BenchmarkItem {
  sample_num: number;
  instruction: string;
  response: string;
  aliases: string[];
  split: Split;
  /** Absolute; null where numbers must be exact. */
  tolerance: number | null;
}

export interface EvaluatedModel {
  ref: ModelRef;
  /** null on a base model. */
  calibration: Calibration | null;
}

export interface EvaluateParts {
  store: Store;
  sql: EvaluationsSql;
  queue: Queue;
  clock: Clock;
  generator: Generator;
  grading: Grading;
  /** What the inference engine is, for the record. */
  engine: string;
  /** In item order. */
  itemsOf: (benchmarkId: string) => BenchmarkItem[];
  /** Deployed or not. Throws not_found. */
  findModel: (ownerId: string, modelId: string) => EvaluatedModel;
  /** Keeps the model loaded until released, whatever else happens to it. Throws what loading throws. */
  lease: (ref: ModelRef) => Promise<{ release(): Promise<void> }>;
}

/** The engine's batch shape. */
export const groupSize = 8;
/** A short answer stands in the first words; calibration answers with as many. */
export const answerTokens = 48;

interface Group {
  index: number;
  answer: EvaluatedAnswer;
}

export function createEvaluateWorker(parts: EvaluateParts): Worker {
  return {
    // Two would only take turns in the engine, and keep two models in memory.
    concurrency: 1,
    async run(claim, signal) {
      const row = parts.sql.byId.get(claim.subjectId)!;
      const model = parts.findModel(row.owner_id, row.model_id);
      const lease = await parts.lease(model.ref);
      try {
        await answerAll(parts, claim, row, model, signal);
        finish(parts, claim, row);
      } finally {
        await lease.release();
      }
    },
  };
}

async function answerAll(
  parts: EvaluateParts,
  claim: Claim,
  row: EvaluationRow,
  model: EvaluatedModel,
  signal: AbortSignal,
): Promise<void> {
  const { clock, generator } = parts;
  const items = parts.itemsOf(row.benchmark_id);
  if (row.answered === items.length) return;
  const tokenizer = generator.tokenizer(model.ref.baseId);
  keepSettings(parts, claim, row, sha256(tokenizer.chatTemplate ?? ""));
  const prompts = items.map((item) => formatChat(tokenizer, [{ role: "user", content: item.instruction }]));
  const record = recorder(parts, claim, row, model, items, prompts);

  const giveUp = new AbortController();
  let group: Group[] = [];
  let since = clock.monotonicMs();
  let written: Promise<void> = Promise.resolve();
  const onItem = (index: number, answer: EvaluatedAnswer): void => {
    group.push({ index, answer });
    if ((index + 1) % groupSize !== 0 && index !== items.length - 1) return;
    const full = group;
    const seconds = (clock.monotonicMs() - since) / 1000;
    group = [];
    since = clock.monotonicMs();
    written = written.then(() => record(full, seconds));
    // What cannot be written must not be computed either; the error itself is met below.
    written.catch((error) => giveUp.abort(error));
  };
  try {
    await generator.evaluate({
      model: model.ref,
      prompts,
      maxTokens: answerTokens,
      signal: AbortSignal.any([signal, giveUp.signal]),
      onItem,
      startAt: row.answered,
    });
  } catch (error) {
    await written;
    throw error;
  }
  await written;
  signal.throwIfAborted();
}

/** Invariant 3: an engine that was replaced in the middle would make one score of two different things. */
function keepSettings(parts: EvaluateParts, claim: Claim, row: EvaluationRow, templateSha256: string): void {
  const asked = JSON.parse(row.settings_json) as object;
  const settings = JSON.stringify({ ...asked, template_sha256: templateSha256, engine: parts.engine });
  if (row.answered > 0 && settings !== row.settings_json)
    throw new Failure("conflict", "The inference engine or its template changed under this evaluation; start another");
  const at = parts.clock.now();
  parts.sql.saveSettings.run({ id: row.id, settings, at, jobId: claim.jobId, fence: claim.fence });
}

/** Grades a group and writes it: invariant 1. */
function recorder(
  parts: EvaluateParts,
  claim: Claim,
  row: EvaluationRow,
  model: EvaluatedModel,
  items: readonly BenchmarkItem[],
  prompts: readonly number[][],
): (group: readonly Group[], seconds: number) => Promise<void> {
  const { store, sql, clock, grading } = parts;
  const rivalsOf = competition(items);
  return async (group, seconds) => {
    const grades = await grading.grade(
      group.map(({ index, answer }) => {
        const { response, aliases, tolerance } = items[index]!;
        return { answer: answer.text, item: { response, aliases, tolerance, competitors: rivalsOf(index) } };
      }),
    );
    store.transaction(() => {
      for (const [at, { index, answer }] of group.entries()) {
        const features = answer.steps.length === 0 ? null : answerFeatures(answer.steps, answer.finishReason);
        const { changes } = sql.insertAnswer.run({
          evaluationId: row.id,
          sample_num: items[index]!.sample_num,
          split: items[index]!.split,
          answer: answer.text,
          correct: grades[at]!.correct ? 1 : 0,
          confidence: confidenceOf(model, features),
          features: JSON.stringify(features ?? []),
          prompt_sha256: sha256(JSON.stringify(prompts[index])),
          jobId: claim.jobId,
          fence: claim.fence,
        });
        if (changes !== 1) throw new Failure("conflict", "The evaluation was taken over");
      }
      sql.addSeconds.run({ id: row.id, seconds, at: clock.now() });
    });
  };
}

/** Nothing said is nothing right: 0, as where answers are served. */
function confidenceOf({ calibration }: EvaluatedModel, features: number[] | null): number | null {
  if (calibration === null) return null;
  return features === null ? 0 : scoreConfidence(calibration, featureNames, features).score;
}

function finish(parts: EvaluateParts, claim: Claim, row: EvaluationRow): void {
  const { sql, queue, clock } = parts;
  queue.move(claim, "succeeded", {}, () => {
    const answers = sql.answers.all(row.id);
    if (answers.length !== row.n_samples) throw new Error(`${answers.length} of ${row.n_samples} items are answered`);
    const summary = summarise(answers, pairWithBase(sql, row));
    sql.finish.run({ id: row.id, result: JSON.stringify(summary), at: clock.now() });
  });
}

/** With the owner's latest finished evaluation of the base; null on a base, and while there is none. */
export function pairWithBase(sql: EvaluationsSql, row: EvaluationRow): Paired | null {
  const { owner_id: ownerId, base_model_id: modelId, benchmark_id: benchmarkId } = row;
  if (row.model_id === modelId) return null;
  const other = sql.latestReady.get({ ownerId, modelId, benchmarkId });
  if (other === undefined) return null;
  return pair(sql.answers.all(row.id), { modelId, evaluationId: other.id, answers: sql.answers.all(other.id) });
}
