// Builds the whole appliance, the House: what is created, in which order, and what may call what. Domain modules meet only here.
import { existsSync } from "node:fs";
import { readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Config, environmentOf, installation, places } from "./base/config.ts";
import { Failure } from "./base/errors.ts";
import { makeFolder, sha256 } from "./base/files.ts";
import { randomWord } from "./base/ids.ts";
import { type Lock, tryLock } from "./base/lock.ts";
import { type Log, withRecent } from "./base/log.ts";
import { createMetrics } from "./base/metrics.ts";
import { startNode } from "./base/processes.ts";
import { type Clock, sleep, systemClock } from "./base/time.ts";
import { openTraces } from "./base/traces.ts";
import { trainerVersion, versionsInstalled } from "./base/versions.ts";
import type { Caller, Reply } from "./contract/endpoint.ts";
import { type Contract, contract, interfaceVersion } from "./contract/index.ts";
import type { Recipe } from "./contract/run-folder.ts";
import { atTheMachine, createAccess } from "./domain/access/index.ts";
import { createAgents } from "./domain/agents/index.ts";
import { createMoves, webhookOf } from "./domain/alignments/auto/moves.ts";
import { prepareAutoAligns } from "./domain/alignments/auto/store.ts";
import { createAutoAlignWork } from "./domain/alignments/auto/work.ts";
import { costOf as askCost, type RunCost } from "./domain/alignments/estimate.ts";
import { createAlignments } from "./domain/alignments/index.ts";
import { type BaseModel, createAlignWorker } from "./domain/alignments/job.ts";
import { createProver } from "./domain/alignments/proof.ts";
import { readRecipes } from "./domain/alignments/recipes.ts";
import { prepareAlignments } from "./domain/alignments/store.ts";
import { createMaker } from "./domain/benchmarks/create/job.ts";
import { createSaying } from "./domain/benchmarks/create/saying.ts";
import { createBenchmarks } from "./domain/benchmarks/index.ts";
import { createCaptures } from "./domain/captures/index.ts";
import { webhookOf as proposalWebhook } from "./domain/captures/proposals/index.ts";
import { createDocuments } from "./domain/documents/index.ts";
import { findPersonalData } from "./domain/documents/personal.ts";
import { declines } from "./domain/evaluations/declines.ts";
import { competitorsOf, grade } from "./domain/evaluations/grade.ts";
import { createGrading } from "./domain/evaluations/grading.ts";
import { createEvaluations } from "./domain/evaluations/index.ts";
import { createEvaluateWorker } from "./domain/evaluations/job.ts";
import { createLook } from "./domain/evaluations/look.ts";
import { createRewardModels } from "./domain/evaluations/reward-models.ts";
import { prepareEvaluations } from "./domain/evaluations/store.ts";
import { createDriftMeter, createInference, upstreamsOf } from "./domain/inference/index.ts";
import { createModels, type ExportOrder, exportFormats, type ImportSource } from "./domain/models/index.ts";
import { createSystem } from "./domain/system/index.ts";
import { createWebhooks, targetsOf } from "./domain/webhooks/index.ts";
import { createGenerator, type Generator } from "./engine/generator.ts";
import { createGpu } from "./engine/gpu.ts";
import { mergedWeightTypes } from "./engine/trainer.ts";
import { startTrainer } from "./engine/trainer-process.ts";
import { hostFor, urlOf } from "./http/address.ts";
import { askAdmin, serveAdmin, type Verbs, verbOf } from "./http/admin.ts";
import { renderDocs } from "./http/docs.ts";
import { type AnyHandler, mount } from "./http/mount.ts";
import { renderOpenApi } from "./http/openapi.ts";
import { createServer } from "./http/server.ts";
import { filesUnder, staticFiles } from "./http/static.ts";
import { createLocalExecutor } from "./jobs/executor.ts";
import { createQueue } from "./jobs/queue.ts";
import { createRunner, type Runner } from "./jobs/runner.ts";
import { createBallast } from "./store/ballast.ts";
import { createIdempotency } from "./store/idempotency.ts";
import { openStore } from "./store/open.ts";

export interface HouseParts {
  config: Config;
  log: Log;
  clock?: Clock;
  /** Bytes kept in reserve for a full disk. */
  ballastBytes?: number;
  /** Generates the tokens, in place of this machine's own engine. */
  generator?: Generator;
  /** Called when the disk fails under the database: what was committed is unknown until everything is opened again. */
  onFatal?: (error: Error) => void;
}

export interface House {
  /** Starts to answer requests; slow parts of the start follow in the background. Resolves to the base URL. */
  listen(): Promise<string>;
  /** Link at which a browser on this machine makes the first API key; null once there is one. */
  claimLink(): string | null;
  /** Performs a verb of the admin socket. */
  admin(verb: string, args: unknown): Promise<unknown>;
  close(): Promise<void>;
}

/** Imported when an auto-align first needs it: loading the verifiers would add 50 ms to every start. */
const loadMetric = () => import("./run/rewards/metric.ts");

const leave = (error: Error): never => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
};

export async function createHouse(parts: HouseParts): Promise<House> {
  const { config } = parts;
  const lock = await enter(config);
  try {
    const house = await furnish(parts);
    return { ...house, close: () => house.close().finally(() => lock.release()) };
  } catch (error) {
    lock.release();
    throw error;
  }
}

async function furnish(parts: HouseParts): Promise<House> {
  const { config, clock = systemClock, ballastBytes = 64 << 20, onFatal = leave } = parts;
  const { log, recent: recentLog } = withRecent(parts.log);
  const at = places(config.data);
  const installed = await versionsInstalled();
  let url = "";
  let host = "";
  let runner: Runner | null = null;
  const wake = (): void => runner?.wake();

  // Infrastructure below the domain modules.
  const store = openStore(at.database, { onIoError: onFatal });
  const ballast = createBallast({ path: at.ballast, bytes: ballastBytes, freeDisk: config.freeDisk, log });
  const queue = createQueue({ store, clock, log });
  const traces = await openTraces(config.traces, { version: installed.version, log });
  const metrics = createMetrics({ ...installed, database: at.database, freeDisk: config.freeDisk });
  const gpu = createGpu({ memoryBytes: config.memory, gpuBytes: config.gpuMemory, threads: config.threads });
  const generator = parts.generator ?? createGenerator({ config, log, gpu, watchLoad: (id) => models.watchLoad(id) });
  const executor = createLocalExecutor({ launch: (folder) => startRun(folder, config), log });

  // The domain modules, each with what it may call of the others.
  const access = createAccess({ store, clock, onFirstKey: () => void openAddress() });
  const audit = (act: string, subject: string, detail: Record<string, unknown>, by?: Caller): void =>
    access.audit(by ? { name: by.userName, keyId: by.keyId, requestId: null } : atTheMachine, act, subject, detail);
  const webhooks = createWebhooks({ store, clock, log, targets: targetsOf(config.webhooks, config.webhookSecrets) });
  const documents = createDocuments({
    store,
    clock,
    log,
    folder: at.blobs,
    personalData: config.personalData,
    snapshotsOf: (ownerId, documentId) => alignments.snapshotsOf(ownerId, documentId),
    removeSnapshots: (ownerId, documentId) => alignments.removeSnapshots(ownerId, documentId),
  });
  const benchmarks = createBenchmarks({
    store,
    clock,
    queue,
    wake,
    findDocuments: documents.snapshot,
    findModel: (ownerId, name) => models.find(ownerId, name ?? models.onlyBase(["text"])).modelId,
    hasUpstream: (name) => upstreams.has(name),
    keepDocument: documents.keepBenchmark,
    removeDocument: documents.removeBenchmark,
    checkedOf: (benchmarkId) => make.checked(benchmarkId),
    alignmentsOn: (benchmarkId) => alignments.measuredBy(benchmarkId),
    evaluationsOn: (benchmarkId) => evaluations.onBenchmark(benchmarkId),
    removeEvaluation: (evaluationId, caller) => evaluations.remove(evaluationId, caller),
    loseBenchmark: (benchmarkId) => alignments.loseBenchmark(benchmarkId),
    audit,
  });
  const models = createModels({
    store,
    queue,
    generator,
    clock,
    log,
    wake,
    folder: at.models,
    audit,
    requireAdmin: access.requireAdmin,
    usesOf: (modelId) => [
      ...evaluations.needing(modelId),
      ...benchmarks.needing(modelId),
      ...alignments.asking(modelId),
    ],
    forgetModel: (modelId) => evaluations.forgetModel(modelId),
    modelGone: (alignmentId) => alignments.loseModel(alignmentId),
    hub: { mirror: config.hubMirror, freeDisk: config.freeDisk },
    engine: installed.engine,
    seating: { seats: config.seats, seatContext: config.seatContext },
    gpu,
    startTrainer: () => startTrainer({ executable: config.trainer, log }),
    endpointUrl: () => `${url}${contract["inference.chat"].path}`,
    evaluationsOf: (modelId) => evaluations.ofModel(modelId),
    judgePromotion: (ownerId, modelId, inPlaceOf) => evaluations.judgePromotion(ownerId, modelId, inPlaceOf),
    usageOf: (modelId) => inference.usageOf(modelId),
    isAligning: (ownerId) => alignments.isAligning(ownerId),
    peftFolderOf: (alignmentId) => join(at.runs, alignmentId, "artefact/peft"),
  });
  const upstreams = upstreamsOf(config.upstreams, config.upstreamKeys);
  const drift = createDriftMeter({
    generator,
    encoderOf: models.encoderOf,
    lease: (ref) => models.lease(ref, "request"),
    log,
  });
  const inference = createInference({
    store,
    generator,
    clock,
    log,
    engine: installed.engine,
    drift,
    resolve: models.resolve,
    hasDocument: documents.has,
    upstreams,
    onlyBase: models.onlyBase,
    listModels: models.servable,
    metrics,
    traces,
    lease: (ref) => models.lease(ref, "request"),
  });
  const evaluationRows = prepareEvaluations(store);
  const evaluations = createEvaluations({
    store,
    sql: evaluationRows,
    queue,
    clock,
    wake,
    findModel: (ownerId, name) => {
      const { modelId, ref } = models.find(ownerId, name);
      return { modelId, baseId: ref.baseId };
    },
    findBenchmark: (ownerId, id) => {
      const found = benchmarks.owned(ownerId, id);
      if (!found) throw new Failure("not_found", "Benchmark not found");
      return { name: found.name };
    },
    itemsOf: benchmarks.items,
    answeredOf: (evaluationId) => evaluate.answered(evaluationId),
    waitingFor: (evaluationId) => evaluate.waitingFor(evaluationId),
    stopAnswering: (evaluationId) => evaluate.stop(evaluationId),
    audit,
  });
  const grading = createGrading();
  const evaluate = createEvaluateWorker({
    store,
    sql: evaluationRows,
    queue,
    clock,
    generator,
    grading,
    engine: installed.engine,
    drift,
    itemsOf: benchmarks.items,
    findModel: models.find,
    lease: (ref) => models.lease(ref, "evaluation"),
  });
  const score = createLook({
    sql: evaluationRows,
    clock,
    generator,
    grading,
    itemsOf: benchmarks.items,
    rewardOf: async (config) => (await loadMetric()).rewardScore(config, declines),
    lease: (ref) => models.lease(ref, "evaluation"),
  });
  const say = createSaying(inference.handlers["inference.chat"]);
  const make = createMaker({
    store,
    rows: benchmarks.rows,
    queue,
    clock,
    generator,
    folder: at.uploads,
    documentsOf: documents.read,
    findModel: models.find,
    lease: (ref) => models.lease(ref, "evaluation"),
    encoder: () => {
      const found = models.encoder();
      return found && models.encoderOf(found.sha256);
    },
    grade: (answer, { response, aliases, rivals }) => grade(answer, { response, aliases, competitors: rivals }).correct,
    say,
    keep: benchmarks.keep,
  });
  const prover = createProver();
  const baseOf = (id: string): BaseModel => {
    const base = models.baseOf(id);
    if (!base) throw new Failure("not_found", "The base model is gone");
    return base;
  };
  const costOf = async (base: BaseModel, recipe: Recipe): Promise<RunCost> => {
    const trainer = startTrainer({ executable: config.trainer, log });
    const hasGpu = gpu.snapshot().gpu !== null;
    const cost = await askCost(trainer, { base, recipe, threads: config.threads, hasGpu });
    if (cost.gpuBytes !== null) gpu.found(cost.gpuBytes);
    return cost;
  };
  const alignmentRows = prepareAlignments(store);
  const autoAlignRows = prepareAutoAligns(store);
  const moves = createMoves({
    sql: autoAlignRows,
    clock,
    onTransition: (moved) => webhooks.enqueue(webhookOf(moved)),
  });
  const align = createAlignWorker({
    sql: alignmentRows,
    autoAligns: createAutoAlignWork({ store, sql: autoAlignRows, queue, clock, log, moves }),
    score,
    sealedOf: (benchmarkId) => benchmarks.items(benchmarkId).filter(({ split }) => split === "sealed"),
    queue,
    executor,
    traces,
    prover,
    clock,
    log,
    wake,
    runs: at.runs,
    maxRuns: config.maxRuns,
    threads: config.threads,
    costOf,
    room: () => gpu.snapshot().runs,
    grant: ({ bytes, threads }, alignmentId) => gpu.reserveRun(`alignment ${alignmentId}`, bytes, threads),
    makeRoom: models.freeIdle,
    encoder: models.encoder,
    versions: async () => ({ plumbline: installed.version, trainer: await trainerVersion(config.trainer) }),
    baseOf,
    say,
    askRewardModel: createRewardModels({
      generator,
      findModel: models.find,
      lease: (ref) => models.lease(ref, "request"),
      say,
    }),
    questionsOf: benchmarks.items,
    storeAdapter: models.storeAdapter,
    storeSources: models.storeSources,
    registerModel: models.registerAligned,
    keepGuards: evaluations.keepGuards,
    enqueueEvaluation: evaluations.enqueue,
    ended: (alignmentId) => alignments.runEnded(alignmentId),
  });
  const recipes = await readRecipes(join(installation, "config/recipes"));
  const alignments = createAlignments({
    store,
    sql: alignmentRows,
    autoAlignsSql: autoAlignRows,
    queue,
    clock,
    moves,
    autoAligns: config.autoAlign === "execute",
    wake,
    runs: at.runs,
    recipes,
    findBase: models.baseOf,
    hubBase: models.hubBase,
    snapshotDocuments: documents.snapshot,
    findBenchmark: benchmarks.owned,
    itemsOf: benchmarks.items,
    findModel: (ownerId, model) => models.find(ownerId, model).modelId,
    describeModel: models.describe,
    hasUpstream: (name) => upstreams.has(name),
    costOf: async (baseModelId, recipe) => costOf(baseOf(baseModelId), recipe),
    waitingFor: align.waitingFor,
    competitorsOf,
    checkMetric: async (config, items) => (await loadMetric()).checkMetric(config, items, declines),
    stopRun: align.stop,
    cancelRun: align.cancel,
    interruptRun: align.interrupt,
    audit,
  });
  const captures = createCaptures({
    store,
    clock,
    log,
    findPersonalData,
    declines,
    audit,
    proposes: config.autoAlign === "execute",
    beginAutoAlign: alignments.beginAutoAlign,
    onProposed: (proposed) => webhooks.enqueue(proposalWebhook(proposed)),
    upload: {
      document: async (name, text, caller, also) => {
        const input = await uploadOf(at.uploads, name, text, "text/markdown");
        const keepReply = (reply: Reply<Contract["documents.upload"]>): void => also(reply.documents[0]!.document_id);
        return documents.handlers["documents.upload"]({ ...input, keepReply }, caller);
      },
      benchmark: async (name, text, caller, also) => {
        const input = await uploadOf(at.uploads, name, text, "application/jsonl");
        const keepReply = (reply: Reply<Contract["benchmarks.upload"]>): void => also(reply.benchmark_id);
        return benchmarks.handlers["benchmarks.upload"]({ ...input, keepReply }, caller);
      },
    },
  });
  const agents = createAgents({
    store,
    clock,
    describeModel: models.describe,
    chat: inference.handlers["inference.chat"],
    onFeedback: captures.consider,
    baseUrl: () => url,
  });
  const degraded = (): string[] => (ballast.isLow() ? ["The disk is nearly full: new work is refused"] : []);
  const system = createSystem({
    version: installed.version,
    clock,
    degraded,
    waitingFor: models.waiting,
    choices: { presets: [...recipes.keys()], upstreams: [...upstreams.keys()] },
    memory: gpu.snapshot,
    recentLog,
    renderMetrics: () =>
      metrics.render({
        occupancy: generator.occupancy,
        jobs: queue.counts,
        autoAligns: () => autoAlignRows.counts.all(),
        webhooks: webhooks.counts,
        memory: gpu.snapshot,
        degraded,
      }),
  });

  // The ways in: the API and the admin socket.
  const handlers: Record<keyof Contract, AnyHandler> = {
    ...system,
    ...documents.handlers,
    ...benchmarks.handlers,
    ...models.handlers,
    ...inference.handlers,
    ...evaluations.handlers,
    ...alignments.handlers,
    ...agents.handlers,
    ...access.handlers,
    ...captures.handlers,
    "inference.chat": captures.ofKey(inference.handlers["inference.chat"], "chat"),
    "inference.messages": captures.ofKey(inference.handlers["inference.messages"], "messages"),
    "inference.responses": captures.ofKey(inference.handlers["inference.responses"], "responses"),
    "agents.completions": captures.ofAgent(agents.handlers["agents.completions"], "chat"),
    "agents.run": captures.ofAgent(agents.handlers["agents.run"], "run"),
  };
  const { uploadBytes: fileBytes, uploadFiles: files, freeDisk, bodyBytes, modelBytes } = config;
  const paceOf = (seconds: number) => ({ seconds, rate: config.bodyRate, windowSeconds: 15 });
  const upload = { folder: at.uploads, fileBytes, files, freeDisk, pace: paceOf(config.uploadSeconds) };
  const describeApi = () => renderOpenApi(contract, interfaceVersion, [...upstreams.keys()]);
  const server = createServer({
    config,
    log,
    authenticate: access.authenticate,
    admit: access.admit,
    count: metrics.request,
    traces,
    pages: {
      "/openapi.json": { type: "application/json", render: () => JSON.stringify(describeApi()) },
      "/docs": { type: "text/html", render: () => renderDocs(describeApi()) },
    },
    files: staticFiles(consoleFiles()),
    routes: mount<keyof Contract>(contract, handlers, {
      ...{ bodyBytes, modelBytes, pace: paceOf(config.bodySeconds), upload, checkDisk: ballast.check },
      once: createIdempotency({ store, clock }).once,
    }),
  });
  const verbs: Verbs = {
    "key.create": access.console.createKey,
    "key.list": access.console.listKeys,
    "key.revoke": (args) => access.console.revokeKey(textOf(args, "id")),
    "key.rotate": access.console.rotateKey,
    "model.import": (args) => models.importBase(sourceOf(args)),
    "model.list": models.listBase,
    "model.remove": (args) => models.removeBase(textOf(args, "id")),
    "evaluation.stop": async (args) => evaluations.stopAny(textOf(args, "id")),
    "model.export": (args) => models.exportAligned(orderOf(args)),
  };

  await documents.prepare();
  await models.prepare();
  let door: { close(): Promise<void> } | null = null;
  let settling: Promise<void> = Promise.resolve();

  /** The slow part of the start, in the background. A starter model that cannot be imported does not prevent redeployment. */
  async function settle(): Promise<void> {
    await ballast.look();
    await alignments.tidy();
    runner = createRunner({ queue, log, traces, workers: { align, evaluate, generate: make, ...models.workers } });
    const unfinished = (what: string) => (error: unknown) => log("error", "start.unfinished", { what, error });
    await models.importStarter(config.starterModel).catch(unfinished("starter model"));
    await models.redeployAtStart().catch(unfinished("redeployment"));
    await documents.sweep();
  }

  /** Moves from loopback to the configured address, once the first key exists. */
  async function openAddress(): Promise<void> {
    if (url === "" || host === config.host) return;
    try {
      url = urlOf(await server.move(config.host));
      host = config.host;
      log("info", "listening", { url, host });
    } catch (error) {
      const hint = `Still on ${host}. Free ${config.host}:${config.port}, or set PLUMBLINE_HOST; then restart.`;
      log("error", "address_failed", { wanted: config.host, error, hint });
    }
  }

  return {
    async listen() {
      queue.recover();
      alignments.recover();
      host = hostFor(config, access.anyKey(), log);
      url = urlOf(await server.listen(config.port, host));
      door = await serveAdmin(at.adminSocket, verbs, log);
      webhooks.start();
      settling = settle().catch((error) => log("error", "start.unfinished", { error }));
      log("info", "listening", { url, version: installed.version });
      return url;
    },

    claimLink() {
      const token = access.claimToken();
      // In the fragment, which browsers do not send: only the page's script does.
      return token === null ? null : `${url}/first-key#${token}`;
    },

    admin: async (verb, args) => verbOf(verbs, verb)(args),

    async close() {
      await door?.close();
      await server.close();
      await settling;
      // Runs end first; they resume from their last checkpoint at the next start.
      await Promise.all([runner?.stop(), executor.close()]);
      await generator.dispose();
      await traces.close();
      await Promise.all([documents, benchmarks, grading, prover, ballast, webhooks].map((room) => room.close()));
      store.close();
    },
  };
}

/** The console's page, its files, and the charts' library. The page also makes the first key. */
function consoleFiles(): [path: string, file: string][] {
  const folder = join(import.meta.dirname, "console");
  const charts = join(installation, "node_modules/uplot/dist");
  return [
    ...filesUnder("/console/", folder),
    ["/", join(folder, "index.html")],
    ["/first-key", join(folder, "index.html")],
    ["/help", join(folder, "help/en.html")],
    ["/help/de", join(folder, "help/de.html")],
    ["/console/uplot.js", join(charts, "uPlot.iife.min.js")],
    ["/console/uplot.css", join(charts, "uPlot.min.css")],
  ];
}

const startRun = (folder: string, config: Config) =>
  startNode(join(import.meta.dirname, "cli/main.ts"), ["run", folder], { env: environmentOf(config) });

/** Locks the data folder for this process. The lock is released when the process ends, however it ends. */
async function enter(config: Config): Promise<Lock> {
  const at = places(config.data);
  for (const folder of [config.data, at.models, at.runs, at.uploads]) await makeFolder(folder);
  const lock = tryLock(at.lock);
  if (!lock) throw new Failure("data_locked", `Another plumbline uses ${config.data}`);
  if (existsSync(at.restoring)) {
    lock.release();
    throw new Failure("restore_unfinished");
  }
  if (existsSync(at.upgrading)) {
    // An upgrade that is alive starts this process itself.
    const upgrade = tryLock(at.upgrading);
    upgrade?.release();
    if (upgrade !== null) {
      lock.release();
      throw new Failure("upgrade_unfinished");
    }
  }
  for (const name of await readdir(at.uploads)) await rm(join(at.uploads, name), { recursive: true, force: true });
  return lock;
}

/** Input of an upload handler for a text made here, as if a client had sent it. */
async function uploadOf(folder: string, name: string, text: string, declaredType: string) {
  const path = join(folder, randomWord());
  const bytes = Buffer.from(text);
  await writeFile(path, bytes, { mode: 0o600 });
  return {
    ...{ params: {}, query: {}, headers: {}, body: {}, raw: {}, requestId: randomWord(), lastEventId: null },
    files: [{ name, declaredType, path, bytes: bytes.length, sha256: sha256(bytes) }],
    signal: new AbortController().signal,
    setHeader: () => {},
  };
}

function textOf(args: unknown, name: string): string {
  const value = (args as Record<string, unknown> | null)?.[name];
  if (typeof value !== "string") throw new Failure("bad_request", `${name} is missing`);
  return value;
}

function sourceOf(args: unknown): ImportSource {
  const { name, sha256, mode } = args as Partial<ImportSource>;
  return {
    path: textOf(args, "path"),
    mode: mode === "link" ? "link" : "copy",
    ...(name === undefined ? {} : { name }),
    ...(sha256 === undefined ? {} : { sha256 }),
  };
}

function orderOf(args: unknown): ExportOrder {
  return {
    id: textOf(args, "id"),
    path: textOf(args, "path"),
    format: oneOf(exportFormats, "format", textOf(args, "format")),
    weightType: oneOf(mergedWeightTypes, "weight_type", textOf(args, "weight_type")),
  };
}

function oneOf<T extends string>(known: readonly T[], name: string, value: string): T {
  const found = known.find((one) => one === value);
  if (found === undefined) throw new Failure("bad_request", `${name} must be one of ${known.join(", ")}`);
  return found;
}

/**
 * Performs a verb: in the running appliance through its socket, or else in a House of this process that never listens. Waits
 * for an appliance that holds the data folder but cannot be reached yet.
 */
export async function callAdmin(config: Config, log: Log, verb: string, args: unknown = {}): Promise<unknown> {
  for (let tries = 1; ; tries++) {
    const answered = await askAdmin(places(config.data).adminSocket, verb, args);
    if (answered) return answered.value;
    try {
      return await withHouse({ config, log }, (house) => house.admin(verb, args));
    } catch (error) {
      if (!(error instanceof Failure && error.code === "data_locked") || tries === 10) throw error;
      await sleep(300);
    }
  }
}

export async function withHouse<T>(parts: HouseParts, work: (house: House) => Promise<T>): Promise<T> {
  const house = await createHouse(parts);
  try {
    return await work(house);
  } finally {
    await house.close();
  }
}
