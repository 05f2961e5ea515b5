// Models without an engine: who finds which name, how a model gets into service and out of it, and what a crash leaves behind.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import { sha256 } from "../../src/base/files.ts";
import { newId } from "../../src/base/ids.ts";
import { createLog } from "../../src/base/log.ts";
import { systemClock } from "../../src/base/time.ts";
import { noTraces } from "../../src/base/traces.ts";
import { type Catalog, createCatalog } from "../../src/catalog/index.ts";
import { sourceReference } from "../../src/confidence/sources.ts";
import type { Caller, Input } from "../../src/contract/endpoint.ts";
import { createModels, type Models } from "../../src/domain/models/index.ts";
import { createServing, type Serving } from "../../src/domain/models/serving.ts";
import { createStock, type Stock } from "../../src/domain/models/stock.ts";
import type { Generator, ModelRef } from "../../src/engine/generator.ts";
import { createGpu, type Gpu } from "../../src/engine/gguf/gpu.ts";
import { createQueue } from "../../src/jobs/queue.ts";
import { createRunner, type Runner, type Workers } from "../../src/jobs/runner.ts";
import { openStore, type Store } from "../../src/store/open.ts";
import { calibrationWith } from "../helpers/calibration.ts";
import { emptyPool } from "../helpers/pool.ts";

const folder = mkdtempSync(join(tmpdir(), "plumbline-models-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const log = createLog("error", () => {});
const ada: Caller = { userId: "user_ada", userName: "ada", keyId: "key_ada" };
const bob: Caller = { userId: "user_bob", userName: "bob", keyId: "key_bob" };

const calibration = calibrationWith({ calibrated: false, reason: "none" });

/** A database with two users, a base, and one aligned model of ada's. */
function prepare(name: string): Store {
  const store = openStore(join(folder, `${name}.db`));
  for (const { userId, userName } of [ada, bob])
    store.prepare<[string, string]>("INSERT INTO user VALUES(?, ?, '')").run(userId, userName);
  const base = store.prepare<[string, string, string]>(
    `INSERT INTO base_model VALUES(?, ?, 'llama', 64, 1, 'Q4_1', 1, 1, 1, NULL, NULL, ?, '/base.gguf', 1, '', 'text', 0)`,
  );
  base.run("model_base", "small", "a");
  base.run("model_twin1", "twin", "b");
  base.run("model_twin2", "twin", "c");
  store
    .prepare<[string, string]>(
      `INSERT INTO alignment(id, owner_id, name, workflow_id, base_model_id, document_ids_json, document_names_json,
       document_sha256s_json, metrics_json, created_seq, created_at)
       VALUES(?, ?, 'it', 'quick', 'model_base', '[]', '[]', '["d0c"]', '{"dev_score": 80.5, "series": [1]}', 1, '')`,
    )
    .run("alignment_one", ada.userId);
  return store;
}

/** An alignment under way over the base of prepare; `teacher` is a model that it asks. */
function addAlignment(store: Store, { userId }: Caller, { teacher = null as string | null } = {}): void {
  const id = newId("alignment");
  store
    .prepare<(string | null)[]>(
      `INSERT INTO alignment(id, owner_id, name, workflow_id, base_model_id, document_ids_json, document_names_json,
       document_sha256s_json, teacher_json, created_seq, created_at)
       VALUES(?, ?, 'it', 'quick', 'model_base', '[]', '[]', '[]', ?, 3, '')`,
    )
    .run(id, userId, teacher && JSON.stringify({ model: teacher, provider: null }));
  createQueue({ store, clock: systemClock, log }).enqueue({ kind: "align", subjectId: id, ownerId: userId });
}

interface Room {
  models: Models;
  catalog: Catalog;
  serving: Serving;
  stock: Stock;
  gpu: Gpu;
  store: Store;
  modelId: string;
  loaded: string[];
  runner: Runner;
  call<K extends keyof Models["handlers"]>(
    name: K,
    modelId: string,
    caller?: Caller,
  ): ReturnType<Models["handlers"][K]>;
}

function open(
  store: Store,
  onLoad?: (ref: ModelRef) => Promise<void>,
  sources: { path: string; sha256: string } | null = null,
  others: Workers = {},
): Room {
  const { pool, loaded } = emptyPool(onLoad);
  const generator = { pool } as Generator;
  const queue = createQueue({ store, clock: systemClock, log });
  queue.recover();
  const runner = createRunner({ queue, log, traces: noTraces });
  const catalog = createCatalog({ store, log });
  const common = { store, queue, generator, clock: systemClock, log, catalog, audit: () => {}, wake: runner.wake };
  const kept = { folder: join(folder, "models"), slotPool: { slots: 1, slotContext: 64 } };
  const serving = createServing({ ...common, endpointUrl: () => "http://here/chat" });
  const gpu = createGpu({ memoryBytes: 1 << 30, gpuBytes: 0, threads: 1 });
  const stock = createStock({
    ...{ ...common, ...kept },
    hub: { mirror: "", freeDisk: 0 },
    gpu,
    freeIdle: serving.freeIdle,
    startTrainer: () => assert.fail("nothing is imported here"),
  });
  const models = createModels({
    ...{ ...common, ...kept, serving, stock },
    engine: "this one",
    requireAdmin: () => {},
    forgetModel: () => {},
    modelGone: () => {},
    peftFolderOf: () => "/none",
    startTrainer: () => assert.fail("nothing is exported here"),
    evaluationsOf: () => [],
    judgePromotion: () => assert.fail("nothing is promoted here"),
    usageOf: () => ({ requests: 0, prompt_tokens: 0, completion_tokens: 0 }),
  });
  const modelId = store.transaction(() =>
    stock.registerAligned({
      ownerId: ada.userId,
      alignmentId: "alignment_one",
      baseModelId: "model_base",
      name: "mine",
      adapter: { path: "/adapter.gguf", sha256: "x" },
      sources,
      calibration,
    }),
  );
  runner.start({ ...serving.workers, ...serving.afterRedeployment(others) });
  const call = (name: keyof Models["handlers"], id: string, caller = ada): unknown =>
    (models.handlers[name] as (input: unknown, caller: Caller) => unknown)({ params: { model_id: id } }, caller);
  return { models, catalog, serving, stock, gpu, store, modelId, loaded, runner, call: call as Room["call"] };
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let round = 0; round < 400; round++) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.fail("it never came true");
}

const failsWith = (code: string) => (error: unknown) => error instanceof Failure && error.code === code;

const statusOf = async (room: Room): Promise<string> =>
  ((await room.call("models.get", room.modelId)) as { deployment_status: string }).deployment_status;

describe("a calibration", () => {
  const room = open(prepare("calibrations"));
  after(() => room.runner.stop());
  const calibrationOf = (name = room.modelId) => room.catalog.models.find(ada.userId, name).calibration;
  /** Of what this room serves. */
  const served = { ...calibration.identity, base_sha256: "a", adapter_sha256: "x", engine: "this one" };
  const replace = (id: string, reason: string): void =>
    void room.store
      .prepare<[string, string]>("UPDATE aligned_model SET calibration_json = ? WHERE id = ?")
      .run(JSON.stringify(calibrationWith({ calibrated: false, reason, identity: served })), id);

  test("is read once for as long as it is the same", () => {
    const first = calibrationOf();
    assert.deepEqual(first, calibration);
    assert.equal(calibrationOf(), first);
    assert.equal(calibrationOf("alignment-one"), first);
    room.store.prepare("UPDATE aligned_model SET error = 'x', deployment_status = 'UNDEPLOYED'").run();
    assert.equal(calibrationOf(), first);
    assert.equal(calibrationOf("model_base"), null);
  });

  test("that is replaced is the new one at once, for requests and for the model's record", async () => {
    for (const reason of ["second", "third", "second"]) {
      replace(room.modelId, reason);
      assert.equal(calibrationOf()!.reason, reason);
      const { confidence } = (await room.call("models.get", room.modelId)) as { confidence: { reason: string } };
      assert.equal(confidence.reason, reason);
    }
  });

  test("of each of many models is its own, and those of a few are kept", () => {
    const ids = Array.from({ length: 40 }, (_, n) => {
      room.store
        .prepare<string[]>(
          `INSERT INTO alignment(id, owner_id, name, workflow_id, base_model_id, document_ids_json, document_names_json,
           document_sha256s_json, created_seq, created_at)
           SELECT ?, owner_id, name, workflow_id, base_model_id, '[]', '[]', '[]', created_seq, '' FROM alignment
           WHERE id = 'alignment_one'`,
        )
        .run(`alignment_many${n}`);
      return room.stock.registerAligned({
        ownerId: ada.userId,
        alignmentId: `alignment_many${n}`,
        baseModelId: "model_base",
        name: `many${n}`,
        adapter: { path: "/adapter.gguf", sha256: "x" },
        sources: null,
        calibration: calibrationWith({ reason: `of ${n}` }),
      });
    });
    const read = ids.map((id) => calibrationOf(id)!);
    assert.deepEqual(
      read.map(({ reason }) => reason),
      ids.map((_, n) => `of ${n}`),
    );
    assert.equal(calibrationOf(ids[39]!), read[39]);
    assert.notEqual(calibrationOf(ids[0]!), read[0]);
    assert.deepEqual(calibrationOf(ids[0]!), read[0]);
  });
});

describe("sources", () => {
  const text = JSON.stringify(sourceReference([{ document: "document_a", start: 3, end: 9, text: "The lamp: red." }]));
  const path = join(folder, "models/sources", `${sha256(text)}.json`);
  const room = open(prepare("sources"), undefined, { path, sha256: sha256(text) });
  after(() => room.runner.stop());
  const read = () => room.catalog.models.find(ada.userId, room.modelId).sources!();

  test("of a file that cannot be read are not known, and it is tried again", async () => {
    assert.equal(await read(), null);
    mkdirSync(join(folder, "models/sources"), { recursive: true });
    writeFileSync(path, text.slice(1));
    assert.equal(await read(), null);
    rmSync(path);
  });

  test("are kept as one file, named by its hash, and read once", async () => {
    const made = join(folder, "sources.json");
    writeFileSync(made, text);
    for (const _ of [1, 2]) assert.deepEqual(await room.stock.storeSources(made), { path, sha256: sha256(text) });
    assert.deepEqual(readdirSync(join(folder, "models/sources")), [`${sha256(text)}.json`]);
    const [first, again] = await Promise.all([read(), read()]);
    assert.deepEqual(first!.of("Which lamp?", "red"), [{ document: "document_a", start: 3, end: 9, grounding: 1 }]);
    assert.equal(again, first);
    rmSync(path);
    assert.equal(await read(), first);
  });

  test("a base has none, nor a model made before there were any", () => {
    assert.equal(room.catalog.models.find(ada.userId, "model_base").sources, null);
    const older = open(prepare("sourceless"));
    assert.equal(older.catalog.models.find(ada.userId, older.modelId).sources, null);
    return older.runner.stop();
  });
});

describe("names", () => {
  const room = open(prepare("names"));
  after(() => room.runner.stop());
  const rows: [string, Caller, string | null][] = [
    ["model_base", bob, "model_base"],
    ["small", bob, "model_base"],
    ["twin", bob, null],
    ["alignment-one", ada, room.modelId],
    ["alignment-alignment_one", ada, room.modelId],
    [room.modelId, ada, room.modelId],
    [room.modelId, bob, null],
    ["alignment-one", bob, null],
    ["alignment_one", ada, null],
    ["mine", ada, room.modelId],
    ["mine", bob, null],
    ["../../etc/passwd", ada, null],
    ["%", ada, null],
  ];
  for (const [name, caller, expected] of rows)
    test(`${name} of ${caller.userName} is ${expected === null ? "nothing" : "found"}`, () => {
      if (expected === null) assert.throws(() => room.catalog.models.find(caller.userId, name), failsWith("not_found"));
      else assert.equal(room.catalog.models.find(caller.userId, name).modelId, expected);
    });

  test("a name that several models have is that of the only deployed one, else nobody's", () => {
    const twin = room.store.prepare<string[]>(
      `INSERT INTO aligned_model(id, owner_id, alignment_id, base_model_id, name, adapter_path, adapter_sha256, calibration_json,
       deployment_status, created_seq, created_at) VALUES(?, ?, ?, 'model_base', 'mine', '/x', 'x', ?, 'UNDEPLOYED', 9, '')`,
    );
    room.store
      .prepare(
        `INSERT INTO alignment(id, owner_id, name, workflow_id, base_model_id, document_ids_json, document_names_json,
         document_sha256s_json, created_seq, created_at) VALUES('alignment_two', 'user_ada', 'it', 'quick', 'model_base', '[]', '[]', '[]', 2, '')`,
      )
      .run();
    twin.run("model_second", ada.userId, "alignment_two", JSON.stringify(calibration));
    const move = (status: string) =>
      room.store
        .prepare<[string]>("UPDATE aligned_model SET deployment_status = ? WHERE id = 'model_second'")
        .run(status);
    assert.throws(() => room.catalog.models.find(ada.userId, "mine"), {
      code: "not_found",
      message: `2 models are called mine; name one by its id: ${room.modelId}, model_second`,
    });
    assert.throws(() => room.catalog.models.find(bob.userId, "mine"), { message: "Model not found" });
    move("DEPLOYED");
    assert.equal(room.catalog.models.find(ada.userId, "mine").modelId, "model_second");
    room.store.prepare("DELETE FROM aligned_model WHERE id = 'model_second'").run();
    room.store.prepare("DELETE FROM alignment WHERE id = 'alignment_two'").run();
    assert.equal(room.catalog.models.find(ada.userId, "mine").modelId, room.modelId);
  });

  test("an undeployed model is 409 for inference", () => {
    assert.throws(() => room.catalog.models.resolve(ada, room.modelId), failsWith("not_deployed"));
  });

  test("the list is 404 only for who owns none at all", async () => {
    const list = (query: object, caller: Caller) =>
      room.models.handlers["models.aligned"](
        { query: { limit: 10, offset: 0, ...query } } as Input<never> as never,
        caller,
      );
    await assert.rejects(list({}, bob), failsWith("no_aligned_models"));
    // What is said is the contract's sentence; the hint is another one while the first is being made.
    addAlignment(room.store, bob);
    const first = await list({}, bob).catch((error) => error);
    assert.deepEqual(
      [first.code, first.status, first.message],
      ["first_model_under_way", 404, "No aligned models found"],
    );
    assert.match(first.hint, /in progress/);
    const ids = (answer: unknown) =>
      (answer as { domain_aligned_models: { model_id: string }[] }).domain_aligned_models.map((row) => row.model_id);
    assert.deepEqual(ids(await list({}, ada)), [room.modelId]);
    assert.deepEqual(ids(await list({ deployment_status: "DEPLOYED" }, ada)), []);
    assert.deepEqual(ids(await list({ base_model_id: "model_%" }, ada)), []);
    assert.deepEqual(ids(await list({ offset: 1 }, ada)), []);
  });

  test("the full record has the lineage, and of the metrics the figures", async () => {
    const record = (await room.call("models.get", "alignment-one")) as Record<string, unknown>;
    assert.deepEqual(record.performance_metrics, { dev_score: 80.5 });
    assert.deepEqual((record.lineage as { document_sha256s: string[] }).document_sha256s, ["d0c"]);
  });

  test("only an aligned model is exported, whoever's it is", async () => {
    const order = { format: "gguf", path: join(folder, "out.gguf"), weight_type: "f16" };
    const exportOf = async (id: string) => room.models.verbs["model.export"]!({ ...order, id });
    for (const id of ["model_none", "small", "model_twin1"]) await assert.rejects(exportOf(id), failsWith("not_found"));
    // Found, by both of its names; the adapter's file is none.
    for (const id of [room.modelId, "alignment-one"]) await assert.rejects(exportOf(id), failsWith("model_invalid"));
  });

  test("a base in use is not removed, an unused one is", async () => {
    const remove = async (id: string) => room.models.verbs["model.remove"]!({ id });
    await assert.rejects(remove("small"), failsWith("conflict"));
    addAlignment(room.store, ada, { teacher: "model_twin1" });
    await assert.rejects(remove("model_twin1"), failsWith("in_use"));
    await remove("model_twin2");
    assert.equal(room.catalog.models.find(bob.userId, "twin").modelId, "model_twin1");
  });
});

test("if no memory is left to test a file, the failure says how much the test needs", async () => {
  const room = open(prepare("trial"));
  const path = join(folder, "whole.gguf");
  writeFileSync(path, "GGUF");
  room.gpu.reserve("other models", { machine: 1 << 30, gpu: 0 });
  await assert.rejects(room.stock.importBase({ path, mode: "copy" }), {
    code: "out_of_memory",
    message: "Testing the file needs 65 MiB of memory",
  });
  await room.runner.stop();
});

describe("deployment", () => {
  test("goes round: one task while under way, the same READY task once done, conflict for the opposite", async () => {
    const gate = Promise.withResolvers<void>();
    const room = open(prepare("cycle"), () => gate.promise);
    await assert.rejects(async () => room.call("models.deployment", room.modelId), failsWith("not_found"));
    const task = await room.call("models.deploy", room.modelId);
    assert.equal(task.status, "PROCESSING");
    assert.equal(await statusOf(room), "DEPLOYING");
    assert.deepEqual(await room.call("models.deploy", "alignment-one"), task);
    await assert.rejects(async () => room.call("models.undeploy", room.modelId), failsWith("conflict"));
    await assert.rejects(async () => room.call("models.deploy", room.modelId, bob), failsWith("not_found"));
    gate.resolve();
    await until(async () => (await statusOf(room)) === "DEPLOYED");
    const ready = await room.call("models.deploy", room.modelId);
    assert.equal(ready.status, "READY");
    assert.equal((ready.result as { endpoint_url: string }).endpoint_url, "http://here/chat");
    assert.deepEqual(room.loaded, [room.modelId]);
    assert.equal(room.catalog.models.resolve(ada, room.modelId).modelId, room.modelId);

    // Running answers finish first.
    const lease = await room.serving.leaseForRequest(room.catalog.models.resolve(ada, room.modelId).ref);
    await room.call("models.undeploy", room.modelId);
    await until(async () => (await statusOf(room)) === "UNDEPLOYING");
    assert.throws(() => room.catalog.models.resolve(ada, room.modelId), failsWith("not_deployed"));
    await lease.release();
    await until(async () => (await statusOf(room)) === "UNDEPLOYED");
    await until(() => room.loaded.length === 0);
    assert.equal((await room.call("models.undeploy", room.modelId)).status, "READY");
    await room.runner.stop();
  });

  test("a load that fails leaves the model UNDEPLOYED with the reason in both places", async () => {
    const room = open(prepare("failing"), async () => {
      throw new Failure("out_of_memory");
    });
    await room.call("models.deploy", room.modelId);
    await until(async () => (await room.call("models.deployment", room.modelId)).status === "FAILED");
    const record = (await room.call("models.get", room.modelId)) as { deployment_status: string; error: string };
    assert.equal(record.deployment_status, "UNDEPLOYED");
    assert.match(record.error, /memory/);
    const task = await room.call("models.deployment", room.modelId);
    assert.deepEqual(task.result, { error: record.error });
    await room.runner.stop();
  });

  test("a move to where the model already is ends in a READY task, also as the latest one", async () => {
    let isFull = false;
    const room = open(prepare("again"), async () => {
      if (isFull) throw new Failure("out_of_memory");
    });
    const settled = () =>
      until(async () => (await room.call("models.deployment", room.modelId)).status !== "PROCESSING");
    for (const move of ["models.deploy", "models.undeploy"] as const) {
      await room.call(move, room.modelId);
      await settled();
    }
    isFull = true;
    await room.call("models.deploy", room.modelId);
    await settled();
    assert.equal((await room.call("models.deployment", room.modelId)).status, "FAILED");
    const task = await room.call("models.undeploy", room.modelId);
    assert.equal(task.status, "READY");
    assert.deepEqual(await room.call("models.deployment", room.modelId), task);
    assert.deepEqual(await room.call("models.undeploy", room.modelId), task);
    await room.runner.stop();
  });

  test("an end that cannot be written is tried again, until task and job end together", async () => {
    const store = prepare("unwritten");
    const room = open(store);
    const full = "BEFORE UPDATE OF status ON deployment BEGIN SELECT RAISE(ABORT, 'the disk is full'); END";
    store.prepare(`CREATE TRIGGER full ${full}`).run();
    await room.call("models.deploy", room.modelId);
    await until(() => room.loaded.length === 1);
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal((await room.call("models.deployment", room.modelId)).status, "PROCESSING");
    store.prepare("DROP TRIGGER full").run();
    await until(async () => (await statusOf(room)) === "DEPLOYED");
    assert.equal((await room.call("models.deployment", room.modelId)).status, "READY");
    assert.deepEqual(room.loaded, [room.modelId]);
    await room.runner.stop();
  });

  test("undeploying what never was deployed is a task that is done", async () => {
    const room = open(prepare("never"));
    assert.equal((await room.call("models.undeploy", room.modelId)).status, "READY");
    await room.runner.stop();
  });
});

describe("after a crash", () => {
  const crashed = async (name: string): Promise<Store> => {
    const store = prepare(name);
    const room = open(store);
    await room.call("models.deploy", room.modelId);
    await until(async () => (await statusOf(room)) === "DEPLOYED");
    await room.runner.stop();
    return store;
  };

  test("a deployed model is loaded again, and waited for", async () => {
    const gate = Promise.withResolvers<void>();
    const room = open(await crashed("loaded again"), () => gate.promise);
    assert.deepEqual(room.serving.waiting(), [room.modelId]);
    const done = room.serving.redeployAtStart();
    const lease = room.serving.leaseForRequest(room.catalog.models.resolve(ada, room.modelId).ref);
    gate.resolve();
    await done;
    await (await lease).release();
    assert.deepEqual(room.serving.waiting(), []);
    assert.deepEqual(room.loaded, [room.modelId]);
    await room.runner.stop();
  });

  test("work that was queued begins once the deployed model is loaded again, and not before", async () => {
    const store = await crashed("queued");
    addAlignment(store, ada);
    const gate = Promise.withResolvers<void>();
    const begun: string[] = [];
    const align = { concurrency: 1, run: async () => void begun.push("align") };
    const room = open(store, () => gate.promise, null, { align });
    const done = room.serving.redeployAtStart();
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.deepEqual(begun, []);
    gate.resolve();
    await done;
    await until(() => begun.length === 1);
    await room.runner.stop();
  });

  test("a model that is undeployed before it is loaded again is undeployed, and keeps nobody waiting", async () => {
    const room = open(await crashed("early"));
    await room.call("models.undeploy", room.modelId);
    await room.serving.redeployAtStart();
    await until(async () => (await statusOf(room)) === "UNDEPLOYED");
    assert.deepEqual([room.serving.waiting(), room.loaded], [[], []]);
    await room.runner.stop();
  });

  /** Two deployed models of a base, by their ids. */
  const crashedWithTwo = async (name: string): Promise<{ store: Store; first: string; second: string }> => {
    const store = await crashed(name);
    store
      .prepare(
        `INSERT INTO alignment(id, owner_id, name, workflow_id, base_model_id, document_ids_json, document_names_json,
         document_sha256s_json, created_seq, created_at) VALUES('alignment_two', 'user_ada', 'it', 'quick', 'model_base', '[]', '[]', '[]', 9, '')`,
      )
      .run();
    const room = open(store);
    const second = store.transaction(() =>
      room.stock.registerAligned({
        ownerId: ada.userId,
        alignmentId: "alignment_two",
        baseModelId: "model_base",
        name: "second",
        adapter: { path: "/second.gguf", sha256: "y" },
        sources: null,
        calibration,
      }),
    );
    await room.serving.redeployAtStart();
    await room.call("models.deploy", second);
    await until(() => room.loaded.length === 2);
    await until(async () => (await room.call("models.deployment", second)).status === "READY");
    await room.runner.stop();
    return { store, first: room.modelId, second };
  };

  test("a model whose load and whose failure cannot be written does not keep the next one waiting", async () => {
    const { store, first, second } = await crashedWithTwo("each");
    const full = "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END";
    const ofFirst = `WHEN new.model_id = '${first}' ${full}`;
    store.prepare(`CREATE TRIGGER full1 BEFORE UPDATE OF loads_begun ON deployment ${ofFirst}`).run();
    store.prepare(`CREATE TRIGGER full2 BEFORE INSERT ON deployment ${ofFirst}`).run();
    const room = open(store);
    assert.deepEqual(room.serving.waiting(), [first, second]);
    await room.serving.redeployAtStart();
    assert.deepEqual(room.serving.waiting(), []);
    assert.deepEqual(room.loaded, [second]);
    const lease = await room.serving.leaseForRequest(room.catalog.models.resolve(ada, first).ref);
    assert.deepEqual(room.loaded, [second, first]);
    await lease.release();
    await room.runner.stop();
  });

  test("orphans whose end cannot be written do not keep deployed models waiting", async () => {
    const { store, first, second } = await crashedWithTwo("orphans");
    store.prepare<[string]>("UPDATE aligned_model SET deployment_status = 'DEPLOYING' WHERE id = ?").run(first);
    const full = "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END";
    store.prepare(`CREATE TRIGGER full BEFORE UPDATE OF deployment_status ON aligned_model ${full}`).run();
    const room = open(store);
    await room.serving.redeployAtStart();
    assert.deepEqual(room.loaded, [second]);
    await room.runner.stop();
  });

  test("no load begins once a stop is requested, so none counts as a crash", async () => {
    const { store, first, second } = await crashedWithTwo("stopped");
    const gate = Promise.withResolvers<void>();
    const begun: string[] = [];
    const room = open(store, (ref) => {
      begun.push(ref.adapter!.id);
      return gate.promise;
    });
    const stopping = new AbortController();
    const done = room.serving.redeployAtStart(stopping.signal);
    await until(() => begun.length === 1);
    stopping.abort();
    gate.resolve();
    await done;
    assert.deepEqual([begun, room.loaded], [[first], [first]]);
    const lease = room.serving.leaseForRequest({
      baseId: "none",
      basePath: "none",
      adapter: { id: second, path: "none" },
    });
    room.serving.giveUp();
    await assert.rejects(lease, { code: "cut_off" });
    await room.runner.stop();
  });

  test("two loads that never ended are the last: UNDEPLOYED with an error, and a new deploy tries once more", async () => {
    const store = await crashed("loop");
    for (const begun of [1, 2]) {
      // The load takes the process down: nothing after it is ever written.
      const room = open(store, () => new Promise(() => {}));
      void room.serving.redeployAtStart();
      await until(
        () => store.prepare<[], { n: number }>("SELECT max(loads_begun) AS n FROM deployment").get()!.n === begun,
      );
      await room.runner.stop();
    }
    const room = open(store);
    await room.serving.redeployAtStart();
    const record = (await room.call("models.get", room.modelId)) as { deployment_status: string; error: string };
    assert.equal(record.deployment_status, "UNDEPLOYED");
    assert.match(record.error, /crashed the appliance 2 times/);
    assert.equal((await room.call("models.deployment", room.modelId)).status, "FAILED");
    assert.deepEqual(room.loaded, []);
    await room.call("models.deploy", room.modelId);
    await until(async () => (await statusOf(room)) === "DEPLOYED");
    await room.runner.stop();
  });
});
