// Puts the evaluations room together: its endpoints, its worker, and the functions that alignments call.
import { Failure } from "../../base/errors.ts";
import type { Item } from "../../catalog/benchmarks.ts";
import type { Catalog } from "../../catalog/index.ts";
import { textOf, type Verbs } from "../../contract/admin.ts";
import type { AutoAlignRequest } from "../../contract/auto-align.ts";
import type { ModelRef } from "../../engine/generator.ts";
import type { Worker } from "../../jobs/runner.ts";
import { declines } from "./declines.ts";
import { competitorsOf, isRight } from "./grade.ts";
import { createGrading } from "./grading.ts";
import { createEvaluations, type EvaluationParts, type Evaluations } from "./index.ts";
import { createEvaluateWorker, type EvaluateParts } from "./job.ts";
import { createLook, type LookParts, type ScoreLook } from "./look.ts";
import { type AskRewardModel, createRewardModels, type RewardModelsParts } from "./reward-models.ts";
import { prepareEvaluations } from "./store.ts";

type RewardConfig = AutoAlignRequest["config"];

/** Scores answers by the reward that a configuration names. `declines` returns whether an answer declines. */
export interface RewardMetric {
  /** Returns the scoring function. Null if the target is the share of right answers. */
  rewardScore(config: RewardConfig, declines: Declines): Awaited<ReturnType<LookParts["rewardOf"]>>;
  /** Throws a validation failure if the reward cannot score every item. */
  checkMetric(config: RewardConfig, items: readonly MetricItem[], declines: Declines): void;
}

type Declines = (answer: string) => boolean;
type MetricItem = Pick<Item, "sample_num" | "instruction" | "response" | "aliases">;

export type EvaluationsRoomParts = Pick<EvaluationParts, "store" | "queue" | "clock" | "wake" | "audit"> &
  Pick<EvaluateParts, "generator" | "engine" | "drift"> &
  Pick<RewardModelsParts, "say" | "log"> & {
    /** Loads the scoring by rewards when an auto-align first needs it, because loading it at once would slow every start. */
    loadMetric: () => Promise<RewardMetric>;
    catalog: Catalog;
    /** Loads a model and keeps it loaded until released. An aligned model must be deployed. */
    leaseForRequest: (ref: ModelRef) => Promise<{ release(): Promise<void> }>;
    /** As leaseForRequest, but an aligned model need not be deployed. */
    leaseForWork: (ref: ModelRef) => Promise<{ release(): Promise<void> }>;
  };

export interface EvaluationsRoom extends Evaluations {
  workers: { evaluate: Worker };
  verbs: Verbs;
  /** Scores a checkpoint of an auto-align on some sealed items. */
  score: ScoreLook;
  askRewardModel: AskRewardModel;
  checkMetric(config: RewardConfig, items: readonly MetricItem[]): Promise<void>;
  /** Whether an answer declines. */
  declines: Declines;
  isRight: typeof isRight;
  competitorsOf: typeof competitorsOf;
  close(): Promise<void>;
}

export function createEvaluationsRoom(parts: EvaluationsRoomParts): EvaluationsRoom {
  const { benchmarks, models } = parts.catalog;
  const sql = prepareEvaluations(parts.store);
  const grading = createGrading();
  const common = { ...parts, sql, grading, findModel: models.find, itemsOf: benchmarks.items };
  const evaluate = createEvaluateWorker({ ...common, lease: parts.leaseForWork });
  const evaluations = createEvaluations({
    ...common,
    findBenchmark(ownerId, id) {
      const found = benchmarks.owned(ownerId, id);
      if (!found) throw new Failure("not_found", "Benchmark not found");
      return found;
    },
    answeredOf: evaluate.answered,
    waitingFor: evaluate.waitingFor,
    stopAnswering: evaluate.stop,
  });
  return {
    ...evaluations,
    workers: { evaluate },
    verbs: { "evaluation.stop": async (args) => evaluations.stopAny(textOf(args, "id")) },
    score: createLook({
      ...common,
      lease: parts.leaseForWork,
      rewardOf: async (config) => (await parts.loadMetric()).rewardScore(config, declines),
    }),
    checkMetric: async (config, items) => (await parts.loadMetric()).checkMetric(config, items, declines),
    declines,
    isRight,
    competitorsOf,
    askRewardModel: createRewardModels({ ...common, lease: parts.leaseForRequest }),
    close: grading.close,
  };
}
