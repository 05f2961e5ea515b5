// What its owner deletes is gone, with its files; what something else needs is refused with what to do; histories stay.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { newId } from "../../src/base/ids.ts";
import type { Contract } from "../../src/contract/index.ts";
import type { JobKind } from "../../src/jobs/states.ts";
import { eventually, type TestReply } from "../helpers/house.ts";
import { insertAlignment } from "../helpers/rows.ts";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";

let it: Scripted;
let adminKey: string;
before(async () => {
  it = await scriptedHouse();
  adminKey = ((await it.house.admin("key.create", { user: "ada", scopes: ["models", "admin"] })) as { key: string })
    .key;
});
after(() => it.close());

const rows = (n: number) =>
  Array.from({ length: n }, (_, index) => ({
    instruction: `What is thing ${index + 1} of ${keyCount}?`,
    response: `value${index + 1}`,
    split: index % 2 === 0 ? "dev" : "sealed",
  }));
let keyCount = 0;

async function uploaded(headers: Record<string, string> = {}): Promise<string> {
  keyCount++;
  const content = rows(4)
    .map((row) => JSON.stringify(row))
    .join("\n");
  const { body } = await it.call("benchmarks.upload", { files: [{ name: "q.jsonl", content }], headers });
  return body.benchmark_id;
}

async function evaluated(benchmark_id: string, model_id = it.baseId): Promise<string> {
  const { body } = await it.call("evaluations.create", { body: { model_id, benchmark_id } });
  const { evaluation_id } = body;
  await eventually(async () => (await evaluation(evaluation_id)).body.status === "READY", 30_000);
  return evaluation_id;
}

const evaluation = (evaluation_id: string) => it.call("evaluations.get", { params: { evaluation_id } });
const benchmark = (benchmark_id: string) => it.call("benchmarks.get", { params: { benchmark_id } });
const remove = (name: keyof Contract, params: Record<string, string>, query = "", key?: string): Promise<TestReply> =>
  it.call(name, { params, ...(query === "" ? {} : { query }), ...(key === undefined ? {} : { key }) });

function refused(reply: TestReply, status: number, code: string, words = /./): void {
  assert.deepEqual([reply.status, reply.body.error?.code], [status, code], JSON.stringify(reply.body));
  assert.match(reply.body.error.message, words);
  assert.notEqual(reply.body.error.hint, "");
}

/** Work that is under way for as long as the test says; what is returned ends it. */
function underWay(kind: JobKind, subjectId: string): () => void {
  // A job that has ended never moves again, and a subject has one.
  it.store
    .prepare<string[]>("UPDATE job SET subject_id = ? WHERE subject_id = ? AND kind = ?")
    .run(newId("job"), subjectId, kind);
  const id = newId("job");
  it.store.transaction(() =>
    it.store
      .prepare<unknown[]>(
        `INSERT INTO job(id, owner_id, kind, subject_id, state, epoch, created_seq, created_at)
         SELECT ?, id, ?, ?, 'running', (SELECT epoch FROM supervisor), ?, '' FROM user WHERE name = 'ada'`,
      )
      .run(id, kind, subjectId, it.store.nextSeq()),
  );
  return () =>
    void it.store
      .prepare<[string]>("UPDATE job SET state = 'succeeded', epoch = NULL, finished_at = '' WHERE id = ?")
      .run(id);
}

const acts = (subject: string): string[] =>
  it.store
    .prepare<[string], { act: string }>("SELECT act FROM audit WHERE subject = ? ORDER BY seq")
    .all(subject)
    .map(({ act }) => act);

const blobs = (): number =>
  readdirSync(join(it.data, "blobs"), { recursive: true, encoding: "utf8" }).filter((name) =>
    /[0-9a-f]{64}$/.test(name),
  ).length;

describe("a benchmark", () => {
  test("goes with its file, and with its evaluations only where that is asked for", async () => {
    const before = blobs();
    const id = await uploaded({ "idempotency-key": "to-be-deleted" });
    assert.ok(blobs() > before);
    const evaluation_id = await evaluated(id);
    refused(await remove("benchmarks.delete", { benchmark_id: id }, "", it.otherKey), 404, "not_found");
    refused(await remove("benchmarks.delete", { benchmark_id: id }), 409, "in_use", new RegExp(evaluation_id));
    assert.equal((await evaluation(evaluation_id)).status, 200);
    const { status, body } = await remove("benchmarks.delete", { benchmark_id: id }, "evaluations=true");
    assert.equal(status, 200, JSON.stringify(body));
    assert.equal(body.benchmark_id, id);
    assert.equal((await benchmark(id)).status, 404);
    assert.equal((await evaluation(evaluation_id)).status, 404);
    assert.equal(blobs(), before);
    const listed = (await it.call("benchmarks.list")).body.benchmarks.map(
      (one: { benchmark_id: string }) => one.benchmark_id,
    );
    assert.ok(!listed.includes(id));
    refused(await remove("benchmarks.delete", { benchmark_id: id }), 404, "not_found");
    assert.deepEqual(acts(id), ["benchmark.delete"]);
    const again = await it.call("benchmarks.upload", {
      files: [
        {
          name: "q.jsonl",
          content: rows(4)
            .map((row) => JSON.stringify(row))
            .join("\n"),
        },
      ],
      headers: { "idempotency-key": "to-be-deleted" },
    });
    assert.equal(again.status, 410);
  });

  test("that an alignment or an evaluation under way needs is refused", async () => {
    const id = await uploaded();
    const alignmentId = insertAlignment(it.store, "ada", it.baseId);
    it.store.prepare<[string, string]>("UPDATE alignment SET benchmark_id = ? WHERE id = ?").run(id, alignmentId);
    const end = underWay("align", alignmentId);
    refused(await remove("benchmarks.delete", { benchmark_id: id }), 409, "in_use", new RegExp(alignmentId));
    end();
    const evaluation_id = await evaluated(id);
    const done = underWay("evaluate", evaluation_id);
    const query = "evaluations=true";
    refused(await remove("benchmarks.delete", { benchmark_id: id }, query), 409, "in_use", new RegExp(evaluation_id));
    refused(await remove("evaluations.delete", { evaluation_id }), 409, "under_way");
    done();
    assert.equal((await remove("benchmarks.delete", { benchmark_id: id }, query)).status, 200);
    // The alignment keeps its name.
    const status = await it.call("alignments.status", { params: { alignment_id: alignmentId } });
    assert.equal(status.body.benchmark_id, id);
  });

  test("its later version stays, and the file that both were made of until the last one goes", async () => {
    const before = blobs();
    const first = await uploaded();
    const second = (
      await it.call("benchmarks.strike", { params: { benchmark_id: first }, body: { items: [1], reason: "wrong" } })
    ).body.benchmark_id;
    assert.equal((await remove("benchmarks.delete", { benchmark_id: first })).status, 200);
    const { body } = await benchmark(second);
    assert.deepEqual([body.version, body.previous_id, body.n_samples], [2, null, 3]);
    assert.equal((await it.call("benchmarks.data", { params: { benchmark_id: second } })).body.samples.length, 3);
    assert.ok(blobs() > before);
    assert.equal((await remove("benchmarks.delete", { benchmark_id: second })).status, 200);
    assert.equal(blobs(), before);
  });

  test("that was never made goes; one being made has to be stopped first", async () => {
    const { document_id } = (await it.call("documents.upload", { files: [{ name: "a.txt", content: "Six is six." }] }))
      .body.documents[0];
    const { benchmark_id } = (
      await it.call("benchmarks.create", { body: { document_ids: [document_id], model: it.baseId } })
    ).body;
    await eventually(async () => (await benchmark(benchmark_id)).body.status !== "PROCESSING", 60_000);
    assert.equal((await benchmark(benchmark_id)).body.status, "FAILED");
    const end = underWay("generate", benchmark_id);
    refused(await remove("benchmarks.delete", { benchmark_id }), 409, "under_way");
    end();
    assert.equal((await remove("benchmarks.delete", { benchmark_id })).status, 200);
    assert.equal((await benchmark(benchmark_id)).status, 404);
  });
});

test("a benchmark that was made goes with what it was made by, once no version of it is left", async () => {
  const made = await uploaded();
  it.store.transaction(() => {
    it.store
      .prepare<[string]>(
        `INSERT INTO benchmark_draft(id, owner_id, name, document_ids_json, settings_json, phase, created_seq, created_at, updated_at)
         SELECT ?, id, 'made', '["d"]', '{"model_id":"m","wanted":4,"seed":1,"generator":null}', 'done', 1, '', '' FROM user WHERE name = 'ada'`,
      )
      .run(made);
    it.store.prepare<[string, string]>("UPDATE benchmark SET draft_id = ? WHERE id = ?").run(made, made);
  });
  underWay("generate", made)();
  const later = (
    await it.call("benchmarks.strike", { params: { benchmark_id: made }, body: { items: [1], reason: "wrong" } })
  ).body.benchmark_id;
  const total = async () => (await it.call("benchmarks.list")).body.total;
  const before = await total();
  assert.equal((await remove("benchmarks.delete", { benchmark_id: made })).status, 200);
  assert.equal((await benchmark(made)).status, 404);
  assert.equal(await total(), before - 1);
  assert.equal((await benchmark(later)).body.generation.wanted, 4);
  assert.equal((await remove("benchmarks.delete", { benchmark_id: later })).status, 200);
  assert.equal(it.store.prepare<[string]>("SELECT 1 AS one FROM benchmark_draft WHERE id = ?").get(made), undefined);
});

describe("evaluations", () => {
  test("are listed with filters, newest first, the caller's own alone", async () => {
    const { modelId } = await it.align();
    const one = await uploaded();
    const ids = [await evaluated(one), await evaluated(one, modelId), await evaluated(one)];
    const listed = async (query: string, key?: string) => {
      const { status, body } = await it.call("evaluations.list", { query, ...(key ? { key } : {}) });
      assert.equal(status, 200, JSON.stringify(body));
      return [body.evaluations.map((row: { evaluation_id: string }) => row.evaluation_id), body.total];
    };
    assert.deepEqual(await listed(`benchmark_id=${one}`), [ids.toReversed(), 3]);
    assert.deepEqual(await listed(`benchmark_id=${one}&limit=1&offset=1`), [[ids[1]], 3]);
    assert.deepEqual(await listed(`model_id=${modelId}`), [[ids[1]], 1]);
    assert.deepEqual(await listed(`benchmark_id=${one}&status=QUEUED`), [[], 0]);
    assert.deepEqual(await listed(`benchmark_id=${one}&status=READY&limit=2`), [[ids[2], ids[1]], 3]);
    assert.deepEqual(await listed(`benchmark_id=${one}`, it.otherKey), [[], 0]);
    assert.equal((await it.call("evaluations.list", { query: "status=DONE" })).status, 422);
  });

  test("go with their answers; their look at the sealed split stays on record", async () => {
    const id = await uploaded();
    const [first, second] = [await evaluated(id), await evaluated(id)];
    refused(await remove("evaluations.delete", { evaluation_id: first }, "", it.otherKey), 404, "not_found");
    assert.equal((await remove("evaluations.delete", { evaluation_id: first })).status, 200);
    refused(await evaluation(first), 404, "not_found");
    refused(await it.call("evaluations.results", { params: { evaluation_id: first } }), 404, "not_found");
    const left = it.store
      .prepare<[string]>("SELECT 1 AS one FROM evaluation_answer WHERE evaluation_id = ?")
      .all(first);
    assert.deepEqual(left, []);
    const results = (await it.call("evaluations.results", { params: { evaluation_id: second } })).body;
    assert.equal(results.sealed_touches.n, 2);
    assert.deepEqual(acts(first), ["evaluation.delete"]);
  });
});

/** An alignment's folder with a file in it. */
function withRun(alignmentId: string): string {
  const folder = join(it.data, "runs", alignmentId);
  mkdirSync(join(folder, "artefact/peft"), { recursive: true });
  writeFileSync(join(folder, "artefact/report.html"), "<!doctype html>");
  return folder;
}

/** Gives a model files of its own, as a run's end does. */
function withFiles(modelId: string, names: { adapter: string; sources: string }): string[] {
  const paths = [join(it.data, "models/adapters", names.adapter), join(it.data, "models/sources", names.sources)];
  for (const path of paths) {
    mkdirSync(join(path, ".."), { recursive: true });
    writeFileSync(path, "x");
  }
  it.store
    .prepare<string[]>("UPDATE aligned_model SET adapter_path = ?, sources_path = ? WHERE id = ?")
    .run(paths[0]!, paths[1]!, modelId);
  return paths;
}

async function undeployed(modelId: string): Promise<void> {
  it.store.prepare<[string]>("UPDATE aligned_model SET deployment_status = 'UNDEPLOYED' WHERE id = ?").run(modelId);
}

describe("an aligned model", () => {
  test("that is deployed, promoted or needed is refused; else it goes with its files, but for those another has", async () => {
    const [one, other] = [await it.align(), await it.align()];
    const [adapter, sources] = withFiles(one.modelId, { adapter: "one.gguf", sources: "shared.json" });
    withFiles(other.modelId, { adapter: "other.gguf", sources: "shared.json" });
    const params = { model_id: one.modelId };
    refused(await remove("models.delete", params, "", it.otherKey), 404, "not_found");
    refused(await remove("models.delete", params), 409, "still_deployed");
    await undeployed(one.modelId);

    const body = { channel: "harbour", override: true, reason: "For a test" };
    assert.equal((await it.call("models.promote", { params, body })).status, 200);
    await eventually(
      async () => (await it.call("models.get", { params })).body.deployment_status === "DEPLOYED",
      30_000,
    );
    await undeployed(one.modelId);
    refused(await remove("models.delete", params), 409, "still_promoted", /harbour/);
    assert.equal((await it.call("models.promote", { params: { model_id: other.modelId }, body })).status, 200);

    const benchmarkId = await uploaded();
    const evaluationId = await evaluated(benchmarkId, one.modelId);
    const end = underWay("evaluate", evaluationId);
    refused(await remove("models.delete", params), 409, "in_use", new RegExp(evaluationId));
    end();

    assert.equal((await remove("models.delete", params)).status, 200);
    refused(await it.call("models.get", { params }), 404, "not_found");
    refused(await remove("models.delete", params), 404, "not_found");
    assert.deepEqual([existsSync(adapter!), existsSync(sources!)], [false, true]);
    assert.deepEqual(acts(one.modelId), ["model.promote", "model.delete"]);
    // What was measured of it, the history of its channel and the alignment stay.
    assert.equal((await evaluation(evaluationId)).status, 200);
    assert.equal((await it.call("evaluations.results", { params: { evaluation_id: evaluationId } })).status, 200);
    const history = (await it.call("models.promotions")).body.promotions;
    assert.ok(history.some((row: { model_id: string }) => row.model_id === one.modelId));
    const back = await it.call("models.rollback", { params: { model_id: other.modelId }, body: {} });
    refused(back, 409, "conflict", /was deleted/);
    const status = await it.call("alignments.status", { params: { alignment_id: one.alignmentId } });
    assert.deepEqual([status.status, status.body.model_id], [200, null]);
  });
});

describe("an alignment", () => {
  const statusOf = (alignment_id: string) => it.call("alignments.status", { params: { alignment_id } });

  test("that has ended goes with its run's files; its model stays and says what it was made of", async () => {
    const { modelId, alignmentId } = await it.align();
    const benchmarkId = await uploaded();
    it.store
      .prepare<[string, string]>(
        `UPDATE alignment SET benchmark_id = ?, document_ids_json = '["document_x"]', report_json = '{"secret":1}' WHERE id = ?`,
      )
      .run(benchmarkId, alignmentId);
    await it.call("alignments.auto_align", { params: { alignment_id: alignmentId }, body: { target_score: 5 } });
    const folder = withRun(alignmentId);
    const params = { alignment_id: alignmentId };
    refused(await remove("alignments.delete", params, "", it.otherKey), 404, "not_found");
    const end = underWay("align", alignmentId);
    it.store.prepare<[string]>("UPDATE alignment SET phase = 'training' WHERE id = ?").run(alignmentId);
    refused(await remove("alignments.delete", params), 409, "under_way", /training/);
    end();

    const { status, body } = await remove("alignments.delete", params);
    assert.equal(status, 200, JSON.stringify(body));
    assert.match(body.message, new RegExp(modelId));
    assert.equal(existsSync(folder), false);
    refused(await statusOf(alignmentId), 404, "not_found");
    for (const name of ["alignments.report", "alignments.events", "alignments.coverage", "alignments.stop"] as const)
      assert.equal((await it.call(name, { params })).status, 404, name);
    refused(await remove("alignments.delete", params), 404, "not_found");
    const listed = (await it.call("alignments.list", { query: "limit=100" })).body.alignment_projects;
    assert.ok(!listed.some(({ id }: { id: string }) => id === alignmentId));

    assert.equal((await remove("benchmarks.delete", { benchmark_id: benchmarkId })).status, 200);
    const model = await it.call("models.get", { params: { model_id: modelId } });
    assert.equal(model.status, 200);
    assert.deepEqual(model.body.lineage.document_ids, ["document_x"]);
    assert.equal(model.body.lineage.benchmark_id, benchmarkId);
    const kept = () =>
      it.store
        .prepare<[string], { report_json: string | null }>("SELECT report_json FROM alignment WHERE id = ?")
        .get(alignmentId);
    assert.equal(kept()!.report_json, null);
    await undeployed(modelId);
    assert.equal((await remove("models.delete", { model_id: modelId })).status, 200);
    assert.equal(kept(), undefined);
  });

  test("without a model goes whole", async () => {
    const alignmentId = insertAlignment(it.store, "ada", it.baseId, "failed");
    const folder = withRun(alignmentId);
    assert.equal((await remove("alignments.delete", { alignment_id: alignmentId })).status, 200);
    assert.equal(existsSync(folder), false);
    assert.equal(it.store.prepare<[string]>("SELECT 1 AS one FROM alignment WHERE id = ?").get(alignmentId), undefined);
  });
});

describe("a base model", () => {
  test("is deleted by an administrator alone, once nothing made of it is left", async () => {
    const house = await scriptedHouse();
    try {
      const admin = (await house.house.admin("key.create", {
        user: "ada",
        scopes: ["models", "admin", "alignments"],
      })) as { key: string };
      const params = { model_id: house.baseId };
      const { modelId, alignmentId } = await house.align();
      refused(await house.call("models.delete", { params }), 403, "forbidden", /scope admin/);
      refused(await house.call("models.delete", { params, key: admin.key }), 409, "conflict", /1 models, 1 alignments/);
      house.store
        .prepare<[string]>("UPDATE aligned_model SET deployment_status = 'DEPLOYED' WHERE id = ?")
        .run(modelId);
      const promoted = { params: { model_id: modelId }, body: { channel: "l", override: true, reason: "For a test" } };
      assert.equal((await house.call("models.promote", promoted)).status, 200);
      assert.equal((await house.call("models.rollback", { ...promoted, body: {} })).status, 200);
      house.store
        .prepare<[string]>("UPDATE aligned_model SET deployment_status = 'UNDEPLOYED' WHERE id = ?")
        .run(modelId);
      assert.equal((await house.call("alignments.delete", { params: { alignment_id: alignmentId } })).status, 200);
      assert.equal((await house.call("models.delete", { params: { model_id: modelId } })).status, 200);
      assert.equal((await house.call("models.delete", { params, key: admin.key })).status, 200);
      assert.equal((await house.call("models.get", { params })).status, 404);
      assert.equal((await house.call("models.promotions")).body.total, 2);
    } finally {
      await house.close();
    }
  });

  test("is imported by an administrator alone", async () => {
    const body = { source: "hf://organisation/name" };
    refused(await it.call("models.import", { body }), 403, "forbidden");
    refused(await it.call("models.import", { body, key: adminKey }), 400, "hub_unavailable");
    const wrong = await it.call("models.import", { body: { source: "hf://nothing" }, key: adminKey });
    assert.deepEqual([wrong.status, wrong.body.detail[0].loc], [422, ["body", "source"]]);
    assert.equal((await it.call("models.import", { body: { source: "/etc/passwd" }, key: adminKey })).status, 422);
    const files = [{ name: "notes.gguf", content: "no model" }];
    refused(await it.call("models.upload", { files }), 403, "forbidden");
    refused(await it.call("models.upload", { files, key: adminKey }), 422, "model_file_type", /^notes\.gguf /);
    assert.deepEqual(readdirSync(join(it.data, "uploads")), []);
  });
});
