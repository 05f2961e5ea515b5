// GET models/{id}/confidence: the table, the curve and the threshold of a model whose held-out answers are known.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Calibration } from "../../src/confidence/calibration.ts";
import { groundingReference } from "../../src/confidence/grounding.ts";
import { modelOf } from "../helpers/calibration.ts";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";

let it: Scripted;
before(async () => {
  it = await scriptedHouse();
});
after(() => it.close());

/** 400 answers scored 20, a tenth of them right; 600 scored 98, six of them wrong. */
const counts = { n: new Array<number>(101).fill(0), right: new Array<number>(101).fill(0) };
[counts.n[20], counts.right[20], counts.n[98], counts.right[98]] = [400, 40, 600, 594];

function change(modelId: string, over: Partial<Calibration>): void {
  const row = it.store
    .prepare<[string], { calibration_json: string }>("SELECT calibration_json FROM aligned_model WHERE id = ?")
    .get(modelId)!;
  const changed = { ...(JSON.parse(row.calibration_json) as Calibration), ...over };
  it.store
    .prepare<[string, string]>("UPDATE aligned_model SET calibration_json = ? WHERE id = ?")
    .run(JSON.stringify(changed), modelId);
}

const heldOut: Calibration["held_out"] = {
  counts,
  prr: 0.9,
  brier_skill: 0.8,
  calibration_error: 0.02,
  perfect_calibration_error: { mean: 0.02, p95: 0.03 },
  debiased_calibration_error: 0,
};

test("the reliability table, the risk-coverage curve and a threshold with its bound", async () => {
  const { modelId } = await it.align();
  change(modelId, { held_out: heldOut, statistics: { n: 1000, accuracy: 0.634, auroc: 0.97, brier: 0.05 } });
  const { status, body } = await it.call("models.confidence", { params: { model_id: modelId } });
  assert.equal(status, 200);
  assert.deepEqual([body.calibrated, body.n, body.calibrator], [true, 1000, "platt"]);
  assert.deepEqual(
    body.reliability.map((row: { score: number; n: number; accuracy: number }) => [row.score, row.n, row.accuracy]),
    [
      [20, 400, 10],
      [98, 600, 99],
    ],
  );
  assert.deepEqual(body.risk_coverage, [
    { threshold: 98, coverage: 60, n: 600, error: 1 },
    { threshold: 20, coverage: 100, n: 1000, error: 36.6 },
  ]);
  assert.deepEqual([body.threshold.threshold, body.threshold.coverage], [98, 60]);
  assert.ok(body.threshold.error_bound > 1 && body.threshold.error_bound < 5);
  const strict = await it.call("models.confidence", { params: { model_id: modelId }, query: "max_error=1" });
  assert.equal(strict.body.threshold, null);
});

test("void on another engine: nothing is vouched for, and a chat's score is the prior's", async () => {
  const { modelId } = await it.align();
  change(modelId, {
    held_out: heldOut,
    identity: { base_sha256: "x", adapter_sha256: "x", template_sha256: "x", feature_source: "A", engine: "old" },
  });
  const { body } = await it.call("models.confidence", { params: { model_id: modelId } });
  assert.deepEqual([body.calibrated, body.calibrator, body.threshold], [false, "prior", null]);
  assert.match(body.reason, /^Calibrated with another base_sha256, engine$/);
  const chat = { model: modelId, messages: [{ role: "user", content: "Hello?" }] };
  const said = (await it.call("inference.chat", { body: chat })).body;
  assert.equal(said.confidence_score, 50);
  assert.deepEqual([said.confidence.calibrated, said.confidence.n, said.confidence.date], [false, 0, null]);
  assert.match(said.confidence.reason, /the prior of test is used$/);
});

test("the features that serve are named: grounding too where there is any, and none on what the first format stored", async () => {
  const { modelId } = await it.align();
  const featuresNow = async (): Promise<string[]> =>
    (await it.call("models.confidence", { params: { model_id: modelId } })).body.features;
  assert.deepEqual(await featuresNow(), ["logprob_sum"]);
  change(modelId, { model: modelOf("grounding_share", 1), grounding: groundingReference(["Hello."]) });
  assert.deepEqual(await featuresNow(), ["grounding_share"]);
  // JSON leaves out what is undefined: as it was stored before there was grounding.
  change(modelId, { format: 1, model: modelOf("logprob_sum", 1), grounding: undefined } as object);
  assert.deepEqual(await featuresNow(), ["logprob_sum"]);
  const chat = { model: modelId, messages: [{ role: "user", content: "Hello?" }] };
  assert.equal((await it.call("inference.chat", { body: chat })).body.confidence.calibrated, true);
});

test("a model without graded answers says so; a base, another's and a wrong max_error are refused", async () => {
  const { modelId } = await it.align();
  const { body } = await it.call("models.confidence", { params: { model_id: modelId } });
  assert.deepEqual([body.reliability, body.risk_coverage, body.threshold, body.date], [[], [], null, null]);
  assert.equal(body.drift.reason, "No encoder is installed");
  const refused: [string, string | undefined, string | undefined, number][] = [
    [it.baseId, undefined, undefined, 404],
    [modelId, undefined, it.otherKey, 404],
    [modelId, "max_error=0", undefined, 422],
    [modelId, "max_error=2.5", undefined, 422],
  ];
  for (const [id, query, key, status] of refused) {
    const input = { params: { model_id: id }, ...(query && { query }), ...(key && { key }) };
    assert.equal((await it.call("models.confidence", input)).status, status, `${id} ${query}`);
  }
});
