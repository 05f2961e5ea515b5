// A base whose load ended the appliance: it is not loaded again by itself, not after a restart either; its record says why and what to
// do, and doing that mends it.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { installation } from "../../src/base/config.ts";
import { Failure } from "../../src/base/errors.ts";
import { createLoadWatch } from "../../src/domain/models/load-watch.ts";
import { openStore, type Store } from "../../src/store/open.ts";
import { type TestHouse, testHouse } from "../helpers/house.ts";

const path = join(installation, "build/fixtures/tiny-f32.gguf");

describe("a base whose load ended the appliance twice", () => {
  let it: TestHouse;
  let store: Store;
  let baseId: string;
  before(async () => {
    it = await testHouse({ PLUMBLINE_SLOTS: "2", PLUMBLINE_SLOT_CONTEXT: "128", PLUMBLINE_THREADS: "1" });
    store = openStore(join(it.data, "plumbline.db"));
    baseId = ((await it.house.admin("model.import", { path })) as { model_id: string }).model_id;
  });
  after(async () => {
    store.close();
    await it.close();
  });
  const ask = async () =>
    it.call("inference.completions", { body: { model: baseId, prompt: "the end", max_tokens: 2, temperature: 0 } });
  const record = async () => (await it.call("models.get", { params: { model_id: baseId } })).body;
  const begun = (): number =>
    store.prepare<[string], { n: number }>("SELECT loads_begun AS n FROM base_model WHERE id = ?").get(baseId)!.n;

  test("each load is counted until it ends, and a load that never did outlives the process", () => {
    const ended = createLoadWatch(store)(baseId);
    assert.equal(begun(), 1);
    ended();
    assert.equal(begun(), 0);
    createLoadWatch(store)(baseId);
    createLoadWatch(store)(baseId);
    assert.equal(begun(), 2);
    assert.throws(
      () => createLoadWatch(store)(baseId),
      (error) => error instanceof Failure && error.code === "load_ended_appliance",
    );
  });

  test("is not loaded for a request, nor after a restart, and the record says what to do", async () => {
    for (const _ of ["now", "after a restart"]) {
      const { status, body } = await ask();
      assert.equal(status, 409);
      assert.equal(body.error.code, "load_ended_appliance");
      assert.match(body.error.hint, /plumbline model import/);
      assert.match((await record()).load_error, /crashed the appliance 2 times.*plumbline model import/);
      await it.restart();
    }
    assert.equal(it.log.filter(({ event }) => event === "base_loading").length, 0);
  });

  test("is loaded again once its file was imported again", async () => {
    await it.house.admin("model.import", { path });
    assert.equal((await record()).load_error, null);
    assert.equal((await ask()).status, 200);
    assert.equal(begun(), 0);
  });
});
