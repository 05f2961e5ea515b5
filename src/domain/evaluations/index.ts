// Evaluations: a base or aligned model answers a benchmark, and every answer is graded.
//
//   QUEUED ──claimed──► PROCESSING ──► READY
//      ▲                    │  └─────► FAILED   (with `error`)
//      └──appliance restarted, or too little memory free (answers stay)
//
// Invariant: the public status is a view of the job's state, so the two cannot disagree.
import { Failure } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import { bootstrapSeed } from "../../base/statistics/intervals.ts";
import type { Clock } from "../../base/time.ts";
import type { Split } from "../../catalog/store.ts";
import type { Caller, Handlers, Reply } from "../../contract/endpoint.ts";
import type { evaluations } from "../../contract/evaluations.ts";
import type { Queue } from "../../jobs/queue.ts";
import { isTerminal, type JobState, statesShownAs } from "../../jobs/states.ts";
import { prepareForgetting } from "../../store/idempotency.ts";
import type { Store } from "../../store/open.ts";
import { answerTokens, type BenchmarkItem, groupSize, longAnswerTokens } from "./asking.ts";
import { createComparing, type Verdict } from "./compare.ts";
import { fromGuardRow, type Guard, toGuardRow } from "./guards.ts";
import { type Method, pairWithBase } from "./job.ts";
import { clustersOf, fallenIn, headlineOf, type Summary, splitNames, summarise } from "./results.ts";
import type { EvaluationRow, EvaluationsSql, ItemRow } from "./store.ts";

export type { Verdict } from "./compare.ts";
export type { Guard } from "./guards.ts";

type EvaluationRecord = Reply<(typeof evaluations)["evaluations.get"]>;
type Results = Reply<(typeof evaluations)["evaluations.results"]>;

export interface EvaluationParts {
  store: Store;
  sql: EvaluationsSql;
  queue: Queue;
  clock: Clock;
  /** Tells the runner that there is work. */
  wake: () => void;
  /** Finds the owner's model or a base, deployed or not. Throws not_found. */
  findModel: (ownerId: string, modelId: string) => { modelId: string; baseId: string };
  /** Finds the owner's benchmark. Throws not_found. */
  findBenchmark: (ownerId: string, benchmarkId: string) => { name: string };
  /** Items of all splits, in order. */
  itemsOf: (benchmarkId: string) => Pick<BenchmarkItem, "split" | "type">[];
  /** Number of items answered so far in the running evaluation, including those not written yet. 0 for any other evaluation. */
  answeredOf: (evaluationId: string) => number;
  /** What a queued evaluation waits for besides its turn. Null if it waits for nothing else. */
  waitingFor: (evaluationId: string) => string | null;
  /** Interrupts the answering of an evaluation that is being stopped. */
  stopAnswering: (evaluationId: string) => void;
  /** Writes an audit record in the caller's transaction. Without `by`, the record names the person at the machine. */
  audit: (act: string, subject: string, detail: Record<string, unknown>, by?: Caller) => void;
}

export interface NewEvaluation {
  ownerId: string;
  name?: string;
  modelId: string;
  baseId: string;
  benchmarkId: string;
  /** The alignment that queues the evaluation of its model. Null if a user's request queues it. */
  alignmentId: string | null;
  /** Default: all splits. */
  splits?: readonly Split[];
  /** Judge of long answers. Default: the model's base. */
  judgeModelId?: string;
}

export interface Evaluations {
  handlers: Handlers<typeof evaluations>;
  /** Queues an evaluation within the caller's transaction and returns its id. */
  enqueue(evaluation: NewEvaluation): string;
  /** Stops an evaluation of any owner. Throws not_found, or conflict if it has ended. */
  stopAny(evaluationId: string): void;
  /** Evaluations of an aligned model, newest first. */
  ofModel(modelId: string): {
    evaluation_id: string;
    benchmark_id: string;
    status: string;
    result: { score: number; low: number; high: number; n: number } | null;
  }[];
  /**
   * Stores the guards that a run measured, in the transaction that registers its model. A guard that is already stored stays unchanged.
   */
  keepGuards(modelId: string, guards: readonly Guard[]): void;
  /** Compares a model with the one that it would replace; see verdict.ts. Uses sealed splits, and records that use. */
  judgePromotion(ownerId: string, modelId: string, inPlaceOf: string): Verdict;
  /** Deletes an evaluation that has ended, within the caller's transaction. */
  remove(evaluationId: string, caller: Caller): void;
  /** Deletes a model's guards within the caller's transaction. Its evaluations stay. */
  forgetModel(modelId: string): void;
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
  const forgetReplies = prepareForgetting(store);

  const owned = (ownerId: string, id: string): EvaluationRow => {
    const row = sql.owned.get(id, ownerId);
    if (row === undefined) throw new Failure("not_found", "Evaluation not found");
    return row;
  };

  const enqueue = (wanted: NewEvaluation): string => {
    const { ownerId, modelId, baseId, benchmarkId, alignmentId, splits = splitNames } = wanted;
    const benchmark = parts.findBenchmark(ownerId, benchmarkId);
    const items = parts.itemsOf(benchmarkId).filter(({ split }) => splits.includes(split));
    if (items.length === 0) throw new Failure("conflict", `${benchmark.name} has no items in ${splits.join(", ")}`);
    const id = newId("evaluation");
    sql.insert.run({
      id,
      ownerId,
      name: wanted.name ?? `${sql.modelName.get({ id: modelId })?.name ?? modelId} on ${benchmark.name}`.slice(0, 200),
      modelId,
      baseModelId: baseId,
      benchmarkId,
      alignmentId,
      nSamples: items.length,
      splits: JSON.stringify(splitNames.filter((split) => splits.includes(split))),
      settings: JSON.stringify({
        decoding: "greedy",
        batch: `groups of ${groupSize} in item order`,
        max_tokens: answerTokens,
        max_tokens_long: longAnswerTokens,
        format: "chat, one user message",
        choices: "log-prob per character of each choice as the answer",
        judge: items.some(({ type }) => type === "long") ? { model_id: wanted.judgeModelId ?? baseId } : null,
        bootstrap_seed: bootstrapSeed,
      }),
      seq: store.nextSeq(),
      at: clock.now(),
    });
    queue.enqueue({ kind: "evaluate", subjectId: id, ownerId });
    return id;
  };

  const toRecord = (row: EvaluationRow): EvaluationRecord => ({
    ...recordOf(row, parts.answeredOf(row.id)),
    waiting_for: row.state === "queued" ? parts.waitingFor(row.id) : null,
  });

  const comparing = createComparing({ store, sql, clock });

  function remove(id: string, caller: Caller): void {
    sql.removeAnswers.run(id);
    sql.remove.run(id);
    forgetReplies(caller.userId, id);
    parts.audit("evaluation.delete", id, {}, caller);
  }

  function stop(id: string): void {
    if (queue.requestStop(id, "evaluate") === null) throw new Failure("conflict", "The evaluation has already ended");
    parts.stopAnswering(id);
  }

  return {
    enqueue,
    stopAny(id) {
      if (sql.byId.get(id) === undefined) throw new Failure("not_found", "Evaluation not found");
      store.transaction(() => {
        stop(id);
        parts.audit("evaluation.stop", id, {});
      });
    },
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
    keepGuards(modelId, guards) {
      for (const guard of guards) sql.saveGuard.run(toGuardRow(modelId, guard));
    },
    judgePromotion: comparing.judgePromotion,
    remove,
    forgetModel: (modelId) => void sql.removeGuards.run(modelId),
    handlers: {
      "evaluations.create": async ({ body, keepReply }, caller) => {
        const model = parts.findModel(caller.userId, body.model_id);
        parts.findBenchmark(caller.userId, body.benchmark_id);
        const judge =
          body.judge_model_id === undefined ? undefined : parts.findModel(caller.userId, body.judge_model_id).modelId;
        const record = store.transaction(() => {
          const id = enqueue({
            ownerId: caller.userId,
            modelId: model.modelId,
            baseId: model.baseId,
            benchmarkId: body.benchmark_id,
            alignmentId: null,
            splits: body.splits,
            ...(judge === undefined ? {} : { judgeModelId: judge }),
            ...(body.evaluation_name === undefined ? {} : { name: body.evaluation_name }),
          });
          const reply = toRecord(owned(caller.userId, id));
          keepReply(reply, [id]);
          return reply;
        });
        parts.wake();
        return record;
      },
      "evaluations.list": async ({ query }, { userId }) => {
        const { status, model_id: modelId = null, benchmark_id: benchmarkId = null, limit, offset } = query;
        const filter = {
          ownerId: userId,
          states: JSON.stringify(statesShownAs(statusOf, status)),
          modelId,
          benchmarkId,
        };
        return {
          evaluations: sql.page.all({ ...filter, limit, offset }).map(toRecord),
          total: sql.count.get(filter)!.n,
        };
      },
      "evaluations.stop": async ({ params }, { userId }) => {
        const { id } = owned(userId, params.evaluation_id);
        stop(id);
        return toRecord(owned(userId, id));
      },
      "evaluations.delete": async ({ params }, caller) => {
        const { id, state } = owned(caller.userId, params.evaluation_id);
        store.transaction(() => {
          if (!isTerminal(state) && (state !== "queued" || queue.requestStop(id, "evaluate") !== "stopped"))
            throw new Failure("under_way", "The evaluation is still running");
          remove(id, caller);
        });
        const message = "Deleted, with its answers. Its use of the sealed split stays on record.";
        return { evaluation_id: id, message };
      },
      "evaluations.get": async ({ params }, caller) => toRecord(owned(caller.userId, params.evaluation_id)),
      "evaluations.results": async ({ params }, caller) => toResults(sql, owned(caller.userId, params.evaluation_id)),
      "evaluations.compare": async ({ body }, { userId }) => {
        const [first, second] = [body.model_id, body.compared_with].map((name) => parts.findModel(userId, name));
        parts.findBenchmark(userId, body.benchmark_id);
        return comparing.compare(userId, first!.modelId, second!.modelId, body.benchmark_id);
      },
    },
  };
}

const summaryOf = (row: EvaluationRow): Summary | null =>
  row.result_json === null ? null : (JSON.parse(row.result_json) as Summary);

function recordOf(row: EvaluationRow, answered: number): EvaluationRecord {
  const perItem = row.answered > 0 ? row.seconds / row.answered : null;
  const rate = perItem ? 1 / perItem : null;
  const done = Math.max(row.answered, answered);
  const left = row.n_samples - done;
  return {
    evaluation_id: row.id,
    status: statusOf[row.state],
    evaluation_name: row.name,
    model_id: row.model_id,
    benchmark_id: row.benchmark_id,
    progress: (100 * done) / row.n_samples,
    n_samples_completed: row.answered,
    n_samples: row.n_samples,
    avg_time_per_sample: perItem,
    eta_seconds: null,
    progress_detail: isTerminal(row.state)
      ? null
      : {
          phase: row.state === "queued" ? "queued" : "answering",
          done,
          total: row.n_samples,
          unit: "items",
          rate,
          seconds_left: perItem === null ? null : perItem * left,
        },
    error: errorOf(row),
    stopped: row.state === "stopped",
    created_at: row.created_at,
    completed_at: row.finished_at,
    updated_at: row.finished_at ?? row.updated_at,
  };
}

const errorOf = ({ state, error_text }: EvaluationRow): string | null =>
  state === "stopped" ? "The evaluation was stopped" : error_text;

/** Maximum number of uses of a sealed split that are listed. */
const latestTouches = 50;

function toResults(sql: EvaluationsSql, row: EvaluationRow): Results {
  const kept = summaryOf(row);
  if (kept === null || row.state !== "succeeded")
    throw new Failure(
      "conflict",
      `The evaluation is ${statusOf[row.state]}: ${errorOf(row) ?? "results are available once it is READY"}`,
    );
  const items = sql.items.all(row.id);
  // The base may have been evaluated after the summary was stored, and an older version stored fewer fields.
  const paired = pairWithBase(sql, row) ?? kept.paired;
  const summary = "types" in kept && paired === null ? kept : summarise(items, paired, kept.judge ?? null);
  const { clusters } = clustersOf(items);
  const touches = sql.touches.all(row.benchmark_id);
  const guards = sql.guards.all(row.model_id).map(fromGuardRow);
  return {
    headline: headlineOf(summary.paired, guards),
    fell: fallenIn(guards),
    evaluation_id: row.id,
    model_id: row.model_id,
    benchmark_id: row.benchmark_id,
    ...summary,
    guards: guards.map((guard) => ({ ...guard, most: guard.most ?? null })),
    sealed_touches: {
      n: touches.length,
      models: new Set(touches.map(({ model_id }) => model_id)).size,
      latest: touches.slice(-latestTouches).reverse(),
    },
    settings: JSON.parse(row.settings_json) as Results["settings"],
    items: items.map((item, index) => ({
      sample_num: item.sample_num,
      split: item.split,
      type: item.type,
      instruction: item.instruction,
      response: item.response,
      answer: item.answer,
      correct: item.correct === 1,
      score: item.score,
      cluster: clusters[index]!,
      confidence_score: item.confidence,
      prompt_sha256: item.prompt_sha256,
      graded_by: gradedBy(item),
    })),
  };
}

const gradedBy = ({ method_json }: ItemRow): Results["items"][number]["graded_by"] => ({
  ...(JSON.parse(method_json) as Method),
  seed: null,
});
