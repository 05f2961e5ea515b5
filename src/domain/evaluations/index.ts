// Evaluations: a base or aligned model answers a benchmark, and every answer is graded.
//
//   QUEUED ──claimed──► PROCESSING ──► READY
//      ▲                    │  └─────► FAILED   (with `error`)
//      └──appliance restarted (answers stay)
//
// Invariant: the public status is a view of the job's state, so the two cannot disagree.
import { Failure } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import type { Clock } from "../../base/time.ts";
import type { Handlers, Reply } from "../../contract/endpoint.ts";
import type { evaluations } from "../../contract/evaluations.ts";
import type { Queue } from "../../jobs/queue.ts";
import { isTerminal, type JobState } from "../../jobs/states.ts";
import type { Store } from "../../store/open.ts";
import { answerTokens, groupSize, pairWithBase } from "./job.ts";
import type { Summary } from "./results.ts";
import type { EvaluationRow, EvaluationsSql } from "./store.ts";

type EvaluationRecord = Reply<(typeof evaluations)["evaluations.get"]>;
type Results = Reply<(typeof evaluations)["evaluations.results"]>;

export interface EvaluationParts {
  store: Store;
  sql: EvaluationsSql;
  queue: Queue;
  clock: Clock;
  /** Tells the runner that there is work. */
  wake: () => void;
  /** The caller's model or a base, deployed or not. Throws not_found. */
  findModel: (ownerId: string, modelId: string) => { modelId: string; baseId: string };
  /** The caller's benchmark and how many items it has. Throws not_found. */
  findBenchmark: (ownerId: string, benchmarkId: string) => { name: string; items: number };
}

export interface NewEvaluation {
  ownerId: string;
  name?: string;
  modelId: string;
  baseId: string;
  benchmarkId: string;
  /** When a run asks for it. */
  alignmentId: string | null;
}

export interface Evaluations {
  handlers: Handlers<typeof evaluations>;
  /** Inside the caller's transaction; the id of the new evaluation. */
  enqueue(evaluation: NewEvaluation): string;
  /** Of an aligned model, newest first. */
  ofModel(modelId: string): {
    evaluation_id: string;
    benchmark_id: string;
    status: string;
    result: { score: number; low: number; high: number; n: number } | null;
  }[];
}

const statusOf: Record<JobState, EvaluationRecord["status"]> = {
  queued: "QUEUED",
  running: "PROCESSING",
  stopping: "PROCESSING",
  succeeded: "READY",
  failed: "FAILED",
  stopped: "FAILED",
};

export function createEvaluations(parts: EvaluationParts): Evaluations {
  const { store, sql, queue, clock } = parts;

  const owned = (ownerId: string, id: string): EvaluationRow => {
    const row = sql.owned.get(id, ownerId);
    if (row === undefined) throw new Failure("not_found", "Evaluation not found");
    return row;
  };

  const enqueue = (wanted: NewEvaluation): string => {
    const { ownerId, modelId, baseId, benchmarkId, alignmentId } = wanted;
    const benchmark = parts.findBenchmark(ownerId, benchmarkId);
    const id = newId("evaluation");
    sql.insert.run({
      id,
      ownerId,
      name: wanted.name ?? `${modelId} on ${benchmark.name}`.slice(0, 200),
      modelId,
      baseModelId: baseId,
      benchmarkId,
      alignmentId,
      nSamples: benchmark.items,
      settings: JSON.stringify({
        decoding: "greedy",
        batch: `groups of ${groupSize} in item order`,
        max_tokens: answerTokens,
        format: "chat, one user message",
      }),
      seq: store.nextSeq(),
      at: clock.now(),
    });
    queue.enqueue({ kind: "evaluate", subjectId: id, ownerId });
    return id;
  };

  return {
    enqueue,
    ofModel: (modelId) =>
      sql.ofModel.all(modelId).map((row) => {
        const summary = summaryOf(row);
        return {
          evaluation_id: row.id,
          benchmark_id: row.benchmark_id,
          status: statusOf[row.state],
          result: summary && { score: summary.score, low: summary.low, high: summary.high, n: summary.n },
        };
      }),
    handlers: {
      "evaluations.create": async ({ body }, caller) => {
        const model = parts.findModel(caller.userId, body.model_id);
        parts.findBenchmark(caller.userId, body.benchmark_id);
        const id = store.transaction(() =>
          enqueue({
            ownerId: caller.userId,
            modelId: model.modelId,
            baseId: model.baseId,
            benchmarkId: body.benchmark_id,
            alignmentId: null,
            ...(body.evaluation_name === undefined ? {} : { name: body.evaluation_name }),
          }),
        );
        const record = toRecord(owned(caller.userId, id));
        parts.wake();
        return record;
      },
      "evaluations.get": async ({ params }, caller) => toRecord(owned(caller.userId, params.evaluation_id)),
      "evaluations.results": async ({ params }, caller) => toResults(sql, owned(caller.userId, params.evaluation_id)),
    },
  };
}

const summaryOf = (row: EvaluationRow): Summary | null =>
  row.result_json === null ? null : (JSON.parse(row.result_json) as Summary);

function toRecord(row: EvaluationRow): EvaluationRecord {
  const perItem = row.answered > 0 ? row.seconds / row.answered : null;
  const rate = perItem ? 1 / perItem : null;
  const left = row.n_samples - row.answered;
  return {
    evaluation_id: row.id,
    status: statusOf[row.state],
    evaluation_name: row.name,
    model_id: row.model_id,
    benchmark_id: row.benchmark_id,
    progress: (100 * row.answered) / row.n_samples,
    n_samples_completed: row.answered,
    n_samples: row.n_samples,
    avg_time_per_sample: perItem,
    eta_seconds: null,
    progress_detail: isTerminal(row.state)
      ? null
      : {
          phase: row.state === "queued" ? "queued" : "answering",
          done: row.answered,
          total: row.n_samples,
          unit: "items",
          rate,
          seconds_left: perItem === null ? null : perItem * left,
        },
    error: row.state === "stopped" ? "The evaluation was stopped" : row.error_text,
    created_at: row.created_at,
    completed_at: row.finished_at,
    updated_at: row.finished_at ?? row.updated_at,
  };
}

function toResults(sql: EvaluationsSql, row: EvaluationRow): Results {
  const summary = summaryOf(row);
  if (summary === null || row.state !== "succeeded")
    throw new Failure("conflict", `The evaluation is ${statusOf[row.state]}: results are there once it is READY`);
  return {
    evaluation_id: row.id,
    model_id: row.model_id,
    benchmark_id: row.benchmark_id,
    ...summary,
    // The base may have been evaluated since.
    paired: summary.paired ?? pairWithBase(sql, row),
    settings: JSON.parse(row.settings_json) as Results["settings"],
    items: sql.items.all(row.id).map((item) => ({
      sample_num: item.sample_num,
      split: item.split,
      instruction: item.instruction,
      response: item.response,
      answer: item.answer,
      correct: item.correct === 1,
      confidence_score: item.confidence,
      prompt_sha256: item.prompt_sha256,
    })),
  };
}
