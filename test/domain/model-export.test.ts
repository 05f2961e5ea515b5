// What leaves of an aligned model, read back by those it is for: the same adapter, byte for byte; PEFT's folder; and a merged
// model that says without an adapter what the base says with it.
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Failure, type FailureCode } from "../../src/base/errors.ts";
import { exportModel } from "../../src/domain/models/export.ts";
import type { AdapterShape } from "../../src/engine/train/trainer.ts";
import { startTrainer } from "../../src/engine/train/trainer-process.ts";
import { executable, openWorker, rowsOf, silentLog, step, tinyModel, tinyShape } from "../engine/trainer-fixture.ts";

const rows = rowsOf([60, 33, 120, 9], 4);
/** A trained adapter of a tiny model, exported as a run would. */
async function aligned(t: TestContext, model: string, shape: AdapterShape = tinyShape) {
  const folder = mkdtempSync(join(tmpdir(), "export-"));
  const basePath = tinyModel(model);
  const trainer = await openWorker(t, basePath, 1);
  await trainer.createAdapter("a", shape);
  for (let i = 0; i < 15; i++) {
    await trainer.forwardBackward("a", rows);
    await trainer.optimStep("a", step(0.01));
  }
  const adapterPath = join(folder, "adapter.gguf");
  await trainer.exportGguf("a", adapterPath, { "plumbline.alignment_id": "alignment_x", "plumbline.step": "15" });
  return { folder, source: { basePath, adapterPath }, trainer };
}

const failsWith = (code: FailureCode, message: RegExp) => (error: unknown) =>
  error instanceof Failure && error.code === code && message.test(error.message);

const start = () => startTrainer({ executable, log: silentLog });

test("an exported adapter is the adapter that serves, and nothing is overwritten", { timeout: 60_000 }, async (t) => {
  const { folder, source } = await aligned(t, "tiny-q4_1");
  const path = join(folder, "out.gguf");
  await exportModel(source, { format: "gguf", path, weightType: "f16" }, start);
  assert.deepEqual(readFileSync(path), readFileSync(source.adapterPath));
  for (const format of ["gguf", "peft", "merged"] as const)
    await assert.rejects(
      exportModel(source, { format, path, weightType: "f16" }, start),
      failsWith("trainer_error", /exists already/),
    );
  assert.deepEqual(readFileSync(path), readFileSync(source.adapterPath));
  const relative = exportModel(source, { format: "gguf", path: "out.gguf", weightType: "f16" }, start);
  await assert.rejects(relative, failsWith("bad_request", /absolute/));
});

test("an exported PEFT folder keeps what the adapter says of itself", { timeout: 60_000 }, async (t) => {
  const { folder, source } = await aligned(t, "tiny-q4_1");
  const path = join(folder, "peft");
  const files = await exportModel(source, { format: "peft", path, weightType: "f16" }, start);
  assert.deepEqual(readdirSync(path).sort(), files.map((file) => file.name).sort());
  const saved = readFileSync(join(path, "adapter_model.safetensors"));
  const header = JSON.parse(saved.toString("utf8", 8, 8 + Number(saved.readBigUInt64LE())));
  assert.equal(header.__metadata__["plumbline.alignment_id"], "alignment_x");
  assert.equal(JSON.parse(readFileSync(join(path, "adapter_config.json"), "utf8")).r, tinyShape.rank);
});

test("an exported merged model opens without the adapter and says the same", { timeout: 60_000 }, async (t) => {
  const { folder, source, trainer } = await aligned(t, "tiny-q4_1");
  const path = join(folder, "merged.gguf");
  await exportModel(source, { format: "merged", path, weightType: "f32" }, start);
  const merged = await openWorker(t, path, 1);
  const from = new Int32Array(rows.rowLengths.length).fill(1);
  const [said, expected, base] = [
    await merged.score(null, rows, from),
    await trainer.score("a", rows, from),
    await trainer.score(null, rows, from),
  ];
  const furthest = (a: Float32Array, b: Float32Array) => Math.max(...a.map((value, i) => Math.abs(value - b[i]!)));
  assert.ok(furthest(said, expected) <= 1e-3, `${furthest(said, expected)}`);
  assert.ok(furthest(said, base) > 0.1, "the adapter does nothing");
});

test("an adapter of the upper layers is exported as such", { timeout: 60_000 }, async (t) => {
  const { folder, source } = await aligned(t, "tiny-q4_1", { ...tinyShape, firstLayer: 1 });
  const gguf = join(folder, "out.gguf");
  await exportModel(source, { format: "gguf", path: gguf, weightType: "f16" }, start);
  assert.deepEqual(readFileSync(gguf), readFileSync(source.adapterPath));
  const peft = join(folder, "peft");
  await exportModel(source, { format: "peft", path: peft, weightType: "f16" }, start);
  const { layers_to_transform } = JSON.parse(readFileSync(join(peft, "adapter_config.json"), "utf8"));
  assert.equal(layers_to_transform[0], 1);
});
