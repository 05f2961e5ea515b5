// Models over HTTP with the real engine: import, service, and what a restart finds.
import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { readConfig } from "../../src/base/config.ts";
import { Failure } from "../../src/base/errors.ts";
import { eventually } from "../helpers/house.ts";
import { deployed, type Served, servedHouse, withoutModel } from "../helpers/served.ts";

describe("models", { skip: withoutModel }, () => {
  let it: Served;
  before(async () => {
    it = await servedHouse();
  });
  after(() => it.close());
  const statusOf = async (modelId: string): Promise<string> =>
    (await it.call("models.get", { params: { model_id: modelId } })).body.deployment_status;

  test("the starter model is there, and says whether it can be aligned", async () => {
    const [base] = (await it.call("models.base")).body.base_models;
    assert.equal(base.architecture, "llama");
    assert.equal(base.can_be_aligned, true);
    assert(base.parameters > 130e6 && base.memory_bytes > base.bytes);
    const same = await it.call("models.get", { params: { model_id: base.model_id }, key: it.otherKey });
    assert.deepEqual(same.body, base);
  });

  test("the same file again is the same model; what is no model is refused", async () => {
    const path = readConfig({}).starterModel;
    const again = (await it.house.admin("model.import", { path, mode: "copy" })) as { model_id: string };
    assert.equal(again.model_id, it.baseId);
    const broken = join(it.data, "broken.gguf");
    writeFileSync(broken, "GGUF and nothing more");
    const refused = (code: string) => (error: unknown) => error instanceof Failure && error.code === code;
    await assert.rejects(it.house.admin("model.import", { path: broken, mode: "copy" }), refused("model_invalid"));
    await assert.rejects(
      it.house.admin("model.import", { path: `${broken}.x`, mode: "copy" }),
      refused("file_missing"),
    );
    assert.equal((await it.call("models.base")).body.base_models.length, 1);
  });

  const ids = ["model_nobody", "x".repeat(200), "%2e%2e", "aligned", "alignment-"];
  for (const model_id of ids)
    test(`${model_id.slice(0, 20)} is not found, like another user's`, async () => {
      for (const name of ["models.get", "models.deploy", "models.undeploy", "models.deployment"] as const) {
        if (name === "models.get" && model_id === "aligned") continue;
        const reply = await it.call(name, { params: { model_id } });
        assert.equal(reply.status, 404);
        assert.equal(reply.body.detail, "Model not found");
      }
    });

  const pages: [string, number][] = [
    ["limit=0", 422],
    ["limit=1", 200],
    ["limit=100", 200],
    ["limit=101", 422],
    ["limit=1e2", 422],
    ["limit=", 422],
    ["limit=1&limit=1", 400],
    ["offset=-1", 422],
    ["deployment_status=deployed", 422],
    ["deployment_status='; DROP TABLE aligned_model", 422],
    ["base_model_id=%25", 200],
    ["owner=bob", 422],
  ];
  test("the list of aligned models", async (t) => {
    assert.equal((await it.call("models.aligned")).status, 404);
    it.align();
    for (const [query, status] of pages)
      await t.test(`${query}: ${status}`, async () => {
        const reply = await it.call("models.aligned", { query });
        assert.equal(reply.status, status, JSON.stringify(reply.body));
        if (query.startsWith("base_model_id")) assert.deepEqual(reply.body.domain_aligned_models, []);
      });
    const other = await it.call("models.aligned", { key: it.otherKey });
    assert.deepEqual([other.status, other.body.detail], [404, "No aligned models found"]);
  });

  test("a model goes into service, stays there over a restart, and goes out again", async () => {
    const { modelId, alignmentId } = it.align();
    const alias = alignmentId.replace("alignment_", "alignment-");
    const ask = async () =>
      (
        await it.call("inference.chat", {
          body: { model: alias, messages: [{ role: "user", content: "Hi" }], max_tokens: 1 },
        })
      ).status;
    assert.equal((await it.call("models.deployment", { params: { model_id: modelId } })).status, 404);
    assert.equal(await ask(), 409);
    assert.equal(await deployed(it, alias), "READY");
    assert.equal(await ask(), 200);
    assert.equal((await it.call("models.deploy", { params: { model_id: modelId } })).body.status, "READY");
    const foreign = await it.call("models.undeploy", { params: { model_id: modelId }, key: it.otherKey });
    assert.equal(foreign.status, 404);

    await it.restart();
    await eventually(async () => (await it.call("system.ready")).status === 200, 30_000);
    assert.equal(await ask(), 200);
    await it.call("models.undeploy", { params: { model_id: modelId } });
    await eventually(async () => (await statusOf(modelId)) === "UNDEPLOYED");
    assert.equal(await ask(), 409);
  });

  test("a damaged or missing adapter fails its deployment with a reason, and the appliance goes on", async () => {
    const damaged = join(it.data, "damaged.gguf");
    writeFileSync(damaged, "GGUF");
    const missing = join(it.data, "missing.gguf");
    for (const path of [damaged, missing]) {
      const { modelId } = it.align(path);
      assert.equal(await deployed(it, modelId), "FAILED");
      const task = (await it.call("models.deployment", { params: { model_id: modelId } })).body;
      assert(task.result.error.length > 0 && !task.result.error.includes(it.data), task.result.error);
      const record = (await it.call("models.get", { params: { model_id: modelId } })).body;
      assert.deepEqual([record.deployment_status, record.error], ["UNDEPLOYED", task.result.error]);
    }
    rmSync(damaged);
    assert.equal((await it.call("system.health")).status, 200);
  });
});
