// Assembles the room of alignments: its endpoints, the worker behind them, and what both share.
import { join } from "node:path";
import { type Config, installation } from "../../base/config.ts";
import { Failure } from "../../base/errors.ts";
import { trainerVersion } from "../../base/versions.ts";
import type { Catalog } from "../../catalog/index.ts";
import type { AutoAlignStatus } from "../../contract/auto-align.ts";
import type { Recipe } from "../../contract/recipe.ts";
import { evaluatedBytes, type Gpu, shapeOf } from "../../engine/gguf/gpu.ts";
import { readGgufHeader } from "../../engine/gguf/header.ts";
import type { Trainer } from "../../engine/train/trainer.ts";
import type { Worker } from "../../jobs/runner.ts";
import { createMoves, webhookOf } from "./auto/moves.ts";
import { prepareAutoAligns } from "./auto/store.ts";
import { createAutoAlignWork } from "./auto/work.ts";
import { createErasure, type Erasure } from "./erasure.ts";
import { costOf as askCost, type RunCost } from "./estimate.ts";
import { type Alignments, type AlignmentsParts, createAlignments } from "./index.ts";
import { type AlignParts, createAlignWorker } from "./job.ts";
import { createProver } from "./proof.ts";
import { readRecipes } from "./recipes.ts";
import type { BaseModel } from "./reservations.ts";
import { prepareAlignments } from "./store.ts";

export interface AlignmentsRoomParts
  extends Pick<
      AlignmentsParts,
      | "store"
      | "queue"
      | "clock"
      | "wake"
      | "snapshots"
      | "snapshotDocuments"
      | "hubBase"
      | "checkMetric"
      | "competitorsOf"
      | "hasUpstream"
      | "audit"
    >,
    Pick<
      AlignParts,
      | "log"
      | "traces"
      | "executor"
      | "score"
      | "say"
      | "askRewardModel"
      | "loadPins"
      | "makeRoom"
      | "storeAdapter"
      | "storeSources"
      | "registerModel"
      | "keepGuards"
      | "enqueueEvaluation"
    > {
  config: Pick<Config, "autoAlign" | "maxRuns" | "slotContext" | "threads" | "trainer">;
  catalog: Catalog;
  /** Version of plumbline. */
  version: string;
  /** Directory of the run folders. */
  runs: string;
  gpu: Gpu;
  startTrainer: () => Trainer;
  enqueueWebhook: (event: ReturnType<typeof webhookOf>) => void;
}

export interface AlignmentsRoom extends Alignments, Pick<Erasure, "loseModel" | "loseBenchmark"> {
  workers: { align: Worker };
  /** Names of the recipes. */
  presets: string[];
  /** Auto-aligns by status. */
  autoAlignCounts(): { status: AutoAlignStatus; count: number }[];
  /** Folder of the PEFT adapter that the alignment's run wrote. */
  peftFolderOf(alignmentId: string): string;
  close(): Promise<void>;
}

export async function createAlignmentsRoom(parts: AlignmentsRoomParts): Promise<AlignmentsRoom> {
  const { store, config, gpu, runs } = parts;
  const { benchmarks, models } = parts.catalog;
  const sql = prepareAlignments(store);
  const autoAlignsSql = prepareAutoAligns(store);
  const prover = createProver();
  const erasure = createErasure({ store, sql, autoAlignsSql, runs });
  const moves = createMoves({
    sql: autoAlignsSql,
    clock: parts.clock,
    onTransition: (moved) => parts.enqueueWebhook(webhookOf(moved)),
  });

  function baseOf(id: string): BaseModel {
    const base = models.base(id);
    if (!base) throw new Failure("not_found", "The base model no longer exists");
    return base;
  }

  async function costOf(base: BaseModel, recipe: Recipe): Promise<RunCost> {
    const hasGpu = gpu.snapshot().gpu !== null;
    const shape = shapeOf(readGgufHeader(base.path));
    const slotContext = Math.max(config.slotContext, recipe.rendering.max_seq_len);
    const asked = { path: base.path, layers: shape.layers, memory_bytes: evaluatedBytes(shape, slotContext) };
    const cost = await askCost(parts.startTrainer(), { base: asked, recipe, threads: config.threads, hasGpu });
    if (cost.gpuBytes !== null) gpu.found(cost.gpuBytes);
    return cost;
  }

  const align = createAlignWorker({
    ...parts,
    sql,
    prover,
    autoAligns: createAutoAlignWork({ ...parts, sql: autoAlignsSql, moves }),
    sealedOf: (benchmarkId) => benchmarks.items(benchmarkId).filter(({ split }) => split === "sealed"),
    maxRuns: config.maxRuns,
    threads: config.threads,
    costOf,
    room: () => gpu.snapshot().runs,
    grant: ({ bytes, threads }, alignmentId) => gpu.reserveRun(`alignment ${alignmentId}`, bytes, threads),
    encoder: models.encoder,
    versions: async () => ({ plumbline: parts.version, trainer: await trainerVersion(config.trainer) }),
    baseOf,
    questionsOf: benchmarks.items,
    ended: erasure.runEnded,
  });
  const recipes = await readRecipes(join(installation, "config/recipes"));
  const alignments = createAlignments({
    ...parts,
    sql,
    autoAlignsSql,
    moves,
    erasure,
    autoAligns: config.autoAlign === "execute",
    recipes,
    findBase: models.base,
    findBenchmark: benchmarks.owned,
    itemsOf: benchmarks.items,
    checkDocuments: parts.catalog.documents.check,
    findModel: (ownerId, model) => models.find(ownerId, model).modelId,
    describeModel: models.describe,
    costOf: async (baseModelId, recipe) => costOf(baseOf(baseModelId), recipe),
    waitingFor: align.waitingFor,
    stopRun: align.stop,
    cancelRun: align.cancel,
    interruptRun: align.interrupt,
  });
  return {
    ...alignments,
    loseModel: erasure.loseModel,
    loseBenchmark: erasure.loseBenchmark,
    workers: { align },
    presets: [...recipes.keys()],
    autoAlignCounts: () => autoAlignsSql.counts.all(),
    peftFolderOf: (alignmentId) => join(runs, alignmentId, "artefact/peft"),
    close: prover.close,
  };
}
