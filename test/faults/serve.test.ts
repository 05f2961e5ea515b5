// kill -9 of serve, at moments that are chosen and at moments that are not, with work of every kind under way; after each start
// the oracle. The random moments come from one seed, so that a failure comes back.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { demo, Killed, randomFrom } from "./killed.ts";

const folder = mkdtempSync(join(tmpdir(), "plumbline-faults-"));
const random = randomFrom(20_261_121);
const it = new Killed({ PLUMBLINE_DATA: join(folder, "data"), PLUMBLINE_LOG: "warn" }, random);

/** Kills in the middle of `act`, which resolves at the moment; starts again and asks the oracle. */
async function killedWhen(act: () => Promise<unknown>): Promise<void> {
  await act();
  await it.kill();
  await it.start();
  await it.consult();
}

after(async () => {
  await it.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

test("killed at any moment, it loses nothing it acknowledged and takes its work up again", async (context) => {
  await it.start();
  const step = async (name: string, act: () => Promise<unknown>): Promise<void> => {
    await context.test(name, () => killedWhen(act));
  };
  const baseId = await it.baseId();

  for (let round = 1; round <= 5; round++)
    await step(`while documents are uploaded, round ${round}`, async () => {
      const load = it.uploadOnAndOn();
      await delay(20 + random() * 400);
      load.gone();
    });
  await step("right after a benchmark was acknowledged", () => it.uploadBenchmark());
  const benchmarkId = await it.uploadBenchmark();
  const ids = await it.upload([
    { name: "who.md", mediaType: "text/markdown", content: demo("documents/departments.md") },
  ]);

  let alignmentId = "";
  await step("right after an alignment was acknowledged", async () => {
    alignmentId = await it.align(baseId, ids, benchmarkId);
  });
  await step("while its document is deleted and it prepares", () => it.deleteDocument(ids[0]!));
  await step("while it trains", () =>
    it.until("training", async () =>
      ["training", "checking", "packaging", "ended"].includes((await it.statusOf(alignmentId)).phase),
    ),
  );
  await step("at a random moment of the run", () => delay(random() * 8000));

  const status = await it.until("the end of the alignment", async () => {
    const status = await it.statusOf(alignmentId);
    assert.notEqual(status.status, "FAILED", String(status.error));
    return status.status === "COMPLETED" && status;
  });
  await step("right after it has completed, its evaluation queued", () => delay(random() * 500));
  const modelId = String(status.model_id);

  await step("while a model is deployed", () => it.client.api["models.deploy"]({ params: { model_id: modelId } }));
  await it.until("the deployment", async () => {
    const task = await it.client.api["models.deployment"]({ params: { model_id: modelId } });
    assert.notEqual(task.status, "FAILED", JSON.stringify(task.result));
    return task.status === "READY";
  });
  it.acknowledged.push({
    what: `deployment of ${modelId}`,
    still: async () => {
      const record = (await it.client.api["models.get"]({ params: { model_id: modelId } })) as {
        deployment_status?: string;
      };
      assert.equal(record.deployment_status, "DEPLOYED");
    },
  });
  // Two loads in a row that a kill ends are one too many: the appliance would rightly leave the model alone. So one is killed,
  // and from then on every moment comes after the load.
  await it.ready();
  await step("while deployed models load again", () => delay(random() * 300));
  await step("while it answers", async () => {
    await it.ready();
    const body = { model: modelId, messages: [{ role: "user", content: "Who leads Sales?" }], max_tokens: 200 };
    it.client.api["inference.chat"]({ body }).catch(() => {});
    await delay(300 + random() * 500);
  });
  let evaluationId = "";
  await step("right after an evaluation was acknowledged", async () => {
    await it.ready();
    evaluationId = await it.evaluate(baseId, benchmarkId);
  });
  await it.ready();
  await step("while an evaluation answers", () =>
    it.until("answers", async () => {
      const record = await it.client.api["evaluations.get"]({ params: { evaluation_id: evaluationId } });
      return record.n_samples_completed > 0;
    }),
  );
  await it.ready();
  await step("while it undeploys", () =>
    it.client.api["models.undeploy"]({ params: { model_id: modelId } }).then(() =>
      it.forget(`deployment of ${modelId}`),
    ),
  );
  await it.until("the evaluation", async () => {
    const record = await it.client.api["evaluations.get"]({ params: { evaluation_id: evaluationId } });
    return record.status === "READY";
  });
  await it.consult();
});
