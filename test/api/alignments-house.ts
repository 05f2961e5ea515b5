// The rooms of alignments and evaluations as main.ts puts them together, around a real store, queue, runner and executor; the
// run is a small script, the documents, benchmarks and models are tables of the test.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { installation } from "../../src/base/config.ts";
import { Failure } from "../../src/base/errors.ts";
import { sha256, sha256OfFile } from "../../src/base/files.ts";
import { newId } from "../../src/base/ids.ts";
import { createLog } from "../../src/base/log.ts";
import { startNode } from "../../src/base/processes.ts";
import { sleep, systemClock } from "../../src/base/time.ts";
import { noTraces } from "../../src/base/traces.ts";
import { type Catalog, createCatalog } from "../../src/catalog/index.ts";
import { alignments as alignmentPromises } from "../../src/contract/alignments.ts";
import { type Caller, type Endpoint, JsonText } from "../../src/contract/endpoint.ts";
import type { Recipe } from "../../src/contract/recipe.ts";
import { compile } from "../../src/contract/validate.ts";
import { createMoves, type Transition } from "../../src/domain/alignments/auto/moves.ts";
import { prepareAutoAligns } from "../../src/domain/alignments/auto/store.ts";
import { createAutoAlignWork } from "../../src/domain/alignments/auto/work.ts";
import { createErasure, type Erasure } from "../../src/domain/alignments/erasure.ts";
import type { Need, RunCost } from "../../src/domain/alignments/estimate.ts";
import { createAlignments } from "../../src/domain/alignments/index.ts";
import { type AlignParts, createAlignWorker } from "../../src/domain/alignments/job.ts";
import { createProver } from "../../src/domain/alignments/proof.ts";
import { readRecipes } from "../../src/domain/alignments/recipes.ts";
import { createSnapshots, type Snapshots } from "../../src/domain/alignments/snapshots.ts";
import { prepareAlignments } from "../../src/domain/alignments/store.ts";
import { competitorsOf } from "../../src/domain/evaluations/grade.ts";
import { createGpu, type Gpu } from "../../src/engine/gguf/gpu.ts";
import { createLocalExecutor } from "../../src/jobs/executor.ts";
import { createQueue } from "../../src/jobs/queue.ts";
import { createRunner } from "../../src/jobs/runner.ts";
import { checkMetric } from "../../src/run/rewards/metric.ts";
import { openStore } from "../../src/store/open.ts";
import type { Behaviour } from "../fixtures/fake-run.ts";
import { type Act, createActedRuns } from "../helpers/acting-run.ts";

export const ada: Caller = { userId: "user_ada", userName: "ada", keyId: "key_ada" };
export const bob: Caller = { userId: "user_bob", userName: "bob", keyId: "key_bob" };

const script = join(import.meta.dirname, "../fixtures/fake-run.ts");

export const item = (
  sample_num: number,
  split: "dev" | "sealed" | "retention",
  instruction: string,
  response: string,
) => ({
  sample_num,
  split,
  instruction,
  response,
  aliases: [] as string[],
  cluster: `c${sample_num}`,
});

export const items = [
  item(1, "dev", "Who leads the office in Berlin?", "Marta Keller"),
  item(2, "sealed", "Which colour has the door of the third warehouse of the company?", "teal"),
  item(3, "dev", "Who leads the office in Paris?", "Jo Lind"),
  item(4, "retention", "What is the capital of France?", "Paris"),
];

export interface AlignmentsHouse {
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they are.
  call(name: keyof typeof alignmentPromises, input?: Given, caller?: Caller): Promise<any>;
  /** Creates an alignment whose run behaves so. */
  align(behaviour?: Behaviour | Act, rest?: Record<string, unknown>, caller?: Caller): Promise<string>;
  // biome-ignore lint/suspicious/noExplicitAny: likewise
  until(id: string, status: string): Promise<any>;
  /** Until the run trains. */
  training(id: string): Promise<string>;
  store: ReturnType<typeof openStore>;
  queue: ReturnType<typeof createQueue>;
  alignments: ReturnType<typeof createAlignments>;
  catalog: Catalog;
  snapshots: Snapshots;
  erasure: Erasure;
  runs: string;
  /** What was registered and queued in completing transactions. */
  made: { models: string[]; evaluations: string[]; guards: string[]; acts: string[] };
  gpu: Gpu;
  /** Every move of an auto-align that was told. */
  told: Transition[];
  /** How many runs held memory at the same time, at most. */
  grants: { most: number };
  /** The recipes whose cost was asked. */
  costed: Recipe[];
  /** Documents that were deleted after they were read. */
  deleted: Set<string>;
  /** Goes down in order and starts again over the same folder; `meanwhile` may change what is in it. */
  restart(meanwhile?: (data: string) => void): Promise<void>;
  data: string;
  close(): Promise<void>;
}

interface Given {
  params?: object;
  query?: object;
  body?: object;
  lastEventId?: string;
  signal?: AbortSignal;
}

interface Settings {
  maxRuns?: number;
  /** Bytes for all runs; of the machine alone where there is a GPU. */
  memory?: number;
  /** Bytes of a GPU, where there is one: runs train on it. */
  gpuMemory?: number;
  /** What a run takes, from its largest passes to its smallest; else the machine's memory that a node process has. */
  needs?: Need[];
  costFails?: Failure;
  /** Gives up a model that nobody uses; whether there was one. */
  makeRoom?: () => Promise<boolean>;
  silenceMs?: number;
  ackMs?: number;
  /** A teacher's answer to one message; without it no project may have one. */
  say?: (content: string, signal: AbortSignal) => Promise<string>;
  /** What a model that a reward names says; without it none is asked. */
  askRewardModel?: AlignParts["askRewardModel"];
  /** Tokens a second that training may reach. */
  limit?: number;
  /** The benchmark's. */
  items?: typeof items;
  /** Acts runs in this process; else each is a small script of its own. */
  acted?: true;
  /** What a look finds; else everything right. */
  score?: AlignParts["score"];
}

export async function alignmentsHouse(settings: Settings = {}): Promise<AlignmentsHouse> {
  const data = mkdtempSync(join(tmpdir(), "plumbline-alignments-"));
  let parts = await build(data, settings);
  seed(parts.store);
  const house: AlignmentsHouse = {
    get store() {
      return parts.store;
    },
    get queue() {
      return parts.queue;
    },
    get alignments() {
      return parts.alignments;
    },
    get catalog() {
      return parts.catalog;
    },
    get snapshots() {
      return parts.snapshots;
    },
    get erasure() {
      return parts.erasure;
    },
    runs: join(data, "runs"),
    get made() {
      return parts.made;
    },
    get told() {
      return parts.told;
    },
    get gpu() {
      return parts.gpu;
    },
    get grants() {
      return parts.grants;
    },
    get costed() {
      return parts.costed;
    },
    get deleted() {
      return parts.deleted;
    },
    call: (name, input, caller) => call(parts.alignments.handlers, name, input, caller),
    async align(behaviour = {}, rest = {}, caller = ada) {
      const document_ids = [`document_${JSON.stringify(behaviour)}`];
      const body = { alignment_name: "it", base_model_id: "model_base", document_ids, workflow_id: "quick", ...rest };
      return (await house.call("alignments.create", { body }, caller)).alignment_id;
    },
    until: (id, status) => watch(house, id, (found) => found.status === status),
    async training(id) {
      await watch(house, id, (found) => found.phase === "training");
      return id;
    },
    data,
    async restart(meanwhile = () => {}) {
      await parts.close();
      meanwhile(data);
      parts = await build(data, settings);
    },
    async close() {
      await parts.close();
      rmSync(data, { recursive: true, force: true });
    },
  };
  return house;
}

// biome-ignore lint/suspicious/noExplicitAny: likewise
export async function watch(house: AlignmentsHouse, id: string, holds: (status: any) => boolean): Promise<any> {
  const end = performance.now() + 20_000;
  for (;;) {
    const found = await house.call("alignments.status", { params: { alignment_id: id } });
    if (holds(found)) return found;
    if (performance.now() > end) assert.fail(`never came: ${holds} of ${JSON.stringify(found)}`);
    await sleep(10);
  }
}

function seed(store: ReturnType<typeof openStore>): void {
  for (const { userId, userName } of [ada, bob])
    store.prepare<[string, string]>("INSERT INTO user VALUES(?, ?, '')").run(userId, userName);
  const base = store.prepare<[string, number, string | null, string]>(
    "INSERT INTO base_model VALUES(?, 'small', 'llama', 64, 1, 'Q4_1', 1, 1, ?, ?, NULL, ?, '/base.gguf', 1, '', 'text', 0)",
  );
  base.run("model_base", 1, null, sha256("base"));
  base.run("model_odd", 0, "its architecture is unknown", sha256("odd"));
  const document =
    "INSERT INTO document VALUES(?, ?, 'benchmark', 'b', 'text/plain', 1, 1, 'x', 'x', 1, '', NULL, NULL, NULL)";
  store.prepare<[string, string]>(document).run("document_benchmark", ada.userId);
  store
    .prepare<[string, string]>(
      "INSERT INTO benchmark(id, owner_id, document_id, name, sha256, created_seq, created_at, updated_at) VALUES(?, ?, 'document_benchmark', 'b', 'x', 1, '', '')",
    )
    .run("benchmark_ada", ada.userId);
}

const storeInPlace = async (file: string) => ({ path: file, sha256: await sha256OfFile(file) });

async function build(data: string, settings: Settings) {
  const log = createLog("error", () => {});
  const clock = systemClock;
  const runs = join(data, "runs");
  const store = openStore(join(data, "db"));
  const queue = createQueue({ store, clock, log });
  const sql = prepareAlignments(store);
  const recipes = await readRecipes(join(installation, "config/recipes"));
  const made = { models: [] as string[], evaluations: [] as string[], guards: [] as string[], acts: [] as string[] };
  const grants = { most: 0 };
  const costed: Recipe[] = [];
  const deleted = new Set<string>();
  const told: Transition[] = [];
  const { items: asked = items } = settings;
  const autoAlignsSql = prepareAutoAligns(store);
  const moves = createMoves({ sql: autoAlignsSql, clock, onTransition: (one) => void told.push(one) });
  const gpu = createGpu({ memoryBytes: settings.memory ?? 2 ** 40, gpuBytes: 0, threads: 8 });
  const gpuBytes = settings.gpuMemory ?? null;
  if (gpuBytes !== null) gpu.found(gpuBytes);
  const needs = settings.needs ?? [{ passTokens: 8, memoryBytes: 1, gpuMemoryBytes: 0 }];
  const cost: RunCost = { needs, tokensPerSecond: settings.limit ?? null, gpuBytes };
  const prover = settings.acted ? { prove: async () => {}, close: async () => {} } : createProver();
  const { silenceMs = 10_000, ackMs = 2000 } = settings;
  const executor = settings.acted
    ? createActedRuns()
    : createLocalExecutor({
        launch: (folder) => startNode(script, [folder]),
        log,
        patience: { silenceMs, ackMs, killMs: 200 },
      });

  const catalog = createCatalog({ store, log });
  const snapshots = createSnapshots({ runs, catalog });
  const erasure = createErasure({ store, sql, autoAlignsSql, runs });
  const runner = createRunner({ queue, log, traces: noTraces });
  const worker = createAlignWorker({
    sql,
    autoAligns: createAutoAlignWork({ store, sql: autoAlignsSql, queue, clock, log, moves }),
    sealedOf: () => asked.filter(({ split }) => split === "sealed"),
    score: settings.score ?? (async ({ samples }) => ({ scores: samples.map(() => 1), hours: 0.25 })),
    queue,
    executor,
    traces: noTraces,
    prover,
    clock,
    log,
    runs,
    maxRuns: settings.maxRuns ?? 2,
    threads: 8,
    costOf: async (_, recipe) => {
      costed.push(recipe);
      if (settings.costFails) throw settings.costFails;
      return cost;
    },
    loadPins: () => import("../../src/run/plan/pins.ts"),
    room: () => gpu.snapshot().runs,
    grant({ bytes, threads }, alignmentId) {
      const grant = gpu.reserveRun(alignmentId, bytes, threads);
      const { grants: live } = gpu.snapshot();
      grants.most = Math.max(grants.most, live.length);
      return grant;
    },
    makeRoom: settings.makeRoom ?? (async () => false),
    encoder: () => null,
    versions: async () => ({ plumbline: "0", trainer: "0" }),
    baseOf: (id) => ({ id, path: "/base.gguf", bytes: 1, parameters: 1, memory_bytes: 1, context_length: 4096 }),
    questionsOf: () => asked,
    storeAdapter: storeInPlace,
    storeSources: storeInPlace,
    registerModel({ alignmentId, adapter, sources, calibration, ownerId }) {
      const id = newId("model");
      const insert = `INSERT INTO aligned_model(id, owner_id, alignment_id, base_model_id, name, adapter_path, adapter_sha256,
        calibration_json, sources_path, created_seq, created_at)
        VALUES(?, ?, ?, 'model_base', 'it', ?, ?, ?, ?, 1, '')`;
      const { path, sha256 } = adapter;
      store
        .prepare<(string | null)[]>(insert)
        .run(id, ownerId, alignmentId, path, sha256, JSON.stringify(calibration), sources?.path ?? null);
      made.models.push(id);
      return id;
    },
    keepGuards: (modelId, guards) => void made.guards.push(...guards.map(({ name }) => `${modelId} ${name}`)),
    enqueueEvaluation: ({ modelId, benchmarkId }) => void made.evaluations.push(`${modelId} ${benchmarkId}`),
    say: async (_owner, _by, content, { signal }) => {
      const text = await (settings.say ?? assert.fail("no project of the test has a teacher"))(content, signal);
      return { text, isWhole: true };
    },
    askRewardModel: settings.askRewardModel ?? (() => assert.fail("no reward of the test asks a model")),
    wake: runner.wake,
    ended: erasure.runEnded,
  });
  const alignments = createAlignments({
    store,
    sql,
    autoAlignsSql,
    moves,
    snapshots,
    erasure,
    autoAligns: true,
    interruptRun: worker.interrupt,
    queue,
    clock,
    runs,
    recipes,
    wake: runner.wake,
    findBase: (name) =>
      store
        .prepare<[string], never>(
          "SELECT id, sha256, architecture, can_be_aligned, reason FROM base_model WHERE id = ?",
        )
        .get(name) ?? null,
    hubBase: async () => {
      throw new Failure("hub_unavailable");
    },
    snapshotDocuments: async (ownerId, ids) =>
      [...new Set(ids)].map((id) => {
        if (!id.startsWith("document_") || (id.startsWith("document_bob") && ownerId !== bob.userId))
          throw new Failure("not_found", "A document was not found");
        const text = id.slice("document_".length).replace(/#.*$/, "");
        return { document: { id, name: "a.txt", media_type: "text/plain", text }, sha256: sha256(text) };
      }),
    findBenchmark: (ownerId, id) =>
      id === "benchmark_ada" && ownerId === ada.userId ? { id, sha256: sha256("x") } : null,
    itemsOf: () => asked,
    checkDocuments(_owner, ids) {
      if (ids.some((id) => deleted.has(id))) throw new Failure("not_found", "A document was not found");
    },
    findModel: (_owner, model) => {
      if (model !== "model_teacher") throw new Failure("not_found", "No such model");
      return model;
    },
    describeModel: (ownerId, name) => {
      const kinds: Record<string, string> = { model_judge: "text", model_ranker: "rerank" };
      const kind = ownerId === ada.userId ? kinds[name] : undefined;
      return kind === undefined ? null : { modelId: name, kind };
    },
    hasUpstream: (name) => name === "elsewhere",
    costOf: async () => cost,
    waitingFor: worker.waitingFor,
    competitorsOf,
    checkMetric: async (config, asked) => checkMetric(config, asked, () => false),
    stopRun: worker.stop,
    cancelRun: worker.cancel,
    audit: (act, subject) => void made.acts.push(`${act} ${subject}`),
  });
  queue.recover();
  alignments.recover();
  await alignments.tidy();
  runner.start({ align: worker });
  return {
    store,
    queue,
    alignments,
    catalog,
    snapshots,
    erasure,
    made,
    gpu,
    told,
    grants,
    costed,
    deleted,
    async close() {
      await Promise.all([runner.stop(), executor.close()]);
      await prover.close();
      store.close();
    },
  };
}

/** As the outer floor does it: input and answer are checked against the promise. */
async function call(
  handlers: object,
  name: keyof typeof alignmentPromises,
  given: Given = {},
  caller: Caller = ada,
): Promise<unknown> {
  const endpoint: Endpoint = alignmentPromises[name];
  const checked = (schema: Endpoint["reply"] | undefined, value: unknown, at: string): unknown => {
    if (schema === undefined) return {};
    const result = compile(schema as Endpoint["reply"] & object)(structuredClone(value), [at]);
    if (!result.ok) throw new Failure("validation", at, { details: result.details });
    return result.value;
  };
  const input = {
    params: checked(endpoint.params, given.params ?? {}, "path"),
    query: checked(endpoint.query, given.query ?? {}, "query"),
    body: checked(endpoint.body, given.body ?? {}, "body"),
    headers: {},
    raw: given.body && "config" in given.body ? { config: JSON.stringify(given.body.config) } : {},
    files: [],
    requestId: "req",
    lastEventId: given.lastEventId ?? null,
    signal: given.signal ?? new AbortController().signal,
    keepReply: () => {},
  };
  const reply = await (handlers as Record<string, (input: unknown, caller: Caller) => Promise<unknown>>)[name]!(
    input,
    caller,
  );
  if (endpoint.events || endpoint.download) return reply;
  return checked(endpoint.reply, reply instanceof JsonText ? JSON.parse(reply.text) : reply, "reply");
}
