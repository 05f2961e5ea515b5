// Builds the whole appliance, the House: creates the rooms in order, and gives each the functions of other rooms that it may call. When a
// room is created, it gets only functions of rooms above it in this file. What any room may look up is in the catalog.
import { createFloor, type HouseParts } from "./app/floor.ts";
import { createLifecycle, type House } from "./app/lifecycle.ts";
import { takeDataFolder } from "./base/data-folder.ts";
import type { Lock } from "./base/lock.ts";
import { contract } from "./contract/index.ts";
import { createAccess } from "./domain/access/index.ts";
import { createAgents } from "./domain/agents/index.ts";
import { createAlignmentsRoom } from "./domain/alignments/room.ts";
import { createSnapshots } from "./domain/alignments/snapshots.ts";
import { createBenchmarksRoom } from "./domain/benchmarks/room.ts";
import { createCaptures } from "./domain/captures/index.ts";
import { createDocuments } from "./domain/documents/index.ts";
import { createEvaluationsRoom } from "./domain/evaluations/room.ts";
import { createDriftMeter, createInference, upstreamsOf } from "./domain/inference/index.ts";
import { createModels } from "./domain/models/index.ts";
import { createServing } from "./domain/models/serving.ts";
import { createStock } from "./domain/models/stock.ts";
import { createSystem } from "./domain/system/index.ts";
import { createWebhooks, targetsOf } from "./domain/webhooks/index.ts";
import { type ApiHandlers, createApi } from "./http/api.ts";
import { createIdempotency } from "./store/idempotency.ts";

export async function createHouse(parts: HouseParts): Promise<House> {
  const lock = await takeDataFolder(parts.config);
  return build(parts, lock).catch((error) => {
    lock.release();
    throw error;
  });
}

async function build(parts: HouseParts, lock: Lock): Promise<House> {
  const base = await createFloor(parts);
  const { config, at, catalog, address } = base;
  const upstreams = upstreamsOf(config.upstreams, config.upstreamKeys);
  const hasUpstream = (name: string): boolean => upstreams.has(name);

  const access = createAccess({ ...base, onFirstKey: () => void address.open() });
  const floor = { ...base, audit: access.audit };
  const webhooks = createWebhooks({ ...floor, targets: targetsOf(config.webhooks, config.webhookSecrets) });
  const serving = createServing({
    ...floor,
    endpointUrl: () => `${address.publicUrl()}${contract["inference.chat"].path}`,
  });
  const { leaseForRequest, leaseForWork, freeIdle } = serving;
  const slotPool = { slots: config.slots, slotContext: config.slotContext };
  const hub = { mirror: config.hubMirror, freeDisk: config.freeDisk };
  const stock = createStock({ ...floor, folder: at.models, hub, slotPool, freeIdle });
  const { resolve, onlyBase, servable, encoderOf, describe } = catalog.models;
  const drift = createDriftMeter({ ...floor, encoderOf, lease: leaseForRequest });
  const inference = createInference({
    ...{ ...floor, drift, upstreams, resolve, onlyBase },
    hasDocument: catalog.documents.has,
    listModels: servable,
    lease: leaseForRequest,
  });
  const { say } = inference;
  const evaluations = createEvaluationsRoom({
    ...{ ...floor, drift, say, leaseForRequest, leaseForWork },
    // The metric is imported only when needed, because the import would add 50 ms to every start.
    loadMetric: () => import("./run/rewards/metric.ts"),
  });
  const snapshots = createSnapshots({ ...floor, runs: at.runs });
  const documents = createDocuments({
    ...{ ...floor, folder: at.blobs, personalData: config.personalData },
    snapshotsOf: catalog.runs.snapshotsOf,
    removeSnapshots: snapshots.remove,
  });
  const { score, askRewardModel, checkMetric, competitorsOf, keepGuards, isRight, declines } = evaluations;
  const { hubBase, storeAdapter, storeSources } = stock;
  const alignments = await createAlignmentsRoom({
    ...{ ...floor, runs: at.runs, snapshots, say, hasUpstream, hubBase, storeAdapter, storeSources },
    ...{ score, askRewardModel, checkMetric, competitorsOf, keepGuards },
    snapshotDocuments: documents.snapshot,
    loadPins: () => import("./run/plan/pins.ts"),
    makeRoom: freeIdle,
    registerModel: stock.registerAligned,
    enqueueEvaluation: evaluations.enqueue,
    enqueueWebhook: webhooks.enqueue,
  });
  const benchmarks = createBenchmarksRoom({
    ...{ ...floor, folder: at.uploads, say, hasUpstream, leaseForWork, grade: isRight },
    documentsOf: documents.read,
    keepDocument: documents.keepBenchmark,
    removeDocument: documents.removeBenchmark,
    removeEvaluation: evaluations.remove,
    loseBenchmark: alignments.loseBenchmark,
  });
  const models = createModels({
    ...{ ...floor, folder: at.models, serving, stock, slotPool, requireAdmin: access.requireAdmin },
    evaluationsOf: evaluations.ofModel,
    judgePromotion: evaluations.judgePromotion,
    forgetModel: evaluations.forgetModel,
    usageOf: inference.usageOf,
    modelGone: alignments.loseModel,
    peftFolderOf: alignments.peftFolderOf,
  });
  const captures = createCaptures({
    ...{ ...floor, folder: at.uploads, declines, proposes: config.autoAlign === "execute" },
    findPersonalData: documents.findPersonalData,
    uploadDocument: documents.handlers["documents.upload"],
    uploadBenchmark: benchmarks.handlers["benchmarks.upload"],
    beginAutoAlign: alignments.beginAutoAlign,
    enqueueWebhook: webhooks.enqueue,
  });
  const agents = createAgents({
    ...{ ...floor, describeModel: describe, baseUrl: address.publicUrl },
    ...{ onFeedback: captures.consider, onDelete: captures.agentGone },
    chat: inference.chatInRoom,
  });
  const system = createSystem({
    ...{ ...floor, waitingFor: serving.waiting, webhooks: webhooks.counts, autoAligns: alignments.autoAlignCounts },
    choices: { presets: alignments.presets, upstreams: [...upstreams.keys()] },
  });

  const handlers: ApiHandlers = {
    ...system,
    ...documents.handlers,
    ...benchmarks.handlers,
    ...models.handlers,
    ...evaluations.handlers,
    ...alignments.handlers,
    ...access.handlers,
    ...captures.handlers,
    ...inference.handlers,
    ...agents.handlers,
    ...captures.watch({ inference: inference.handlers, agents: agents.handlers }),
  };
  const server = createApi({
    ...{ ...floor, handlers, authenticate: access.authenticate, admit: access.admit },
    providers: [...upstreams.keys()],
    ...createIdempotency(floor),
  });
  return createLifecycle({
    ...{ ...floor, lock, server, access, webhooks, documents, serving, stock, alignments },
    verbs: { ...access.verbs, ...models.verbs, ...evaluations.verbs },
    workers: { ...alignments.workers, ...evaluations.workers, ...benchmarks.workers, ...serving.workers },
    closing: [
      documents.close,
      benchmarks.close,
      evaluations.close,
      alignments.close,
      floor.ballast.close,
      webhooks.close,
    ],
  });
}
