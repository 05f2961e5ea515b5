// A warm start inside an adapter of another shape computes what it computed alone.
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { sha256OfFile } from "../../src/base/files.ts";
import { shrinkAdapter } from "../../src/engine/gguf/adapter-file.ts";
import type { ShippedAdapter } from "../../src/engine/train/shipped-adapter.ts";
import type { AdapterShape, Trainer } from "../../src/engine/train/trainer.ts";
import type { Run } from "../../src/run/context.ts";
import type { Prepared } from "../../src/run/rows.ts";
import { installedWarmStart } from "../../src/run/warm-start/installed.ts";
import { loadWarmStart } from "../../src/run/warm-start/start.ts";
import { openWorker, rowsOf, scratch, step, tinyModelOf, tinyShape } from "../engine/trainer-fixture.ts";

const rows = rowsOf([14], 5);

/** The log-probabilities of the row under an adapter. */
const score = (trainer: Trainer, adapter: string | null): Promise<Float32Array> =>
  trainer.score(adapter, rows, Int32Array.of(1));

/** An adapter of the upper layer that was trained a little, as it is shipped. */
async function shipped(trainer: Trainer, folder: string): Promise<ShippedAdapter> {
  const shape: AdapterShape = { ...tinyShape, rank: 3, alpha: 6, firstLayer: 1 };
  await trainer.createAdapter("shipped", shape);
  for (let count = 0; count < 4; count++) {
    await trainer.forwardBackward("shipped", rows);
    await trainer.optimStep("shipped", step(0.02));
  }
  const path = join(folder, "shipped.gguf");
  await trainer.exportGguf("shipped", `${path}.f32`, {});
  await shrinkAdapter(`${path}.f32`, path, "F16");
  return { path, sha256: await sha256OfFile(path), base: { sha256: "1".repeat(64) }, shape };
}

const runWith = (folder: string, warmStart: ShippedAdapter | null, adapter: object = {}, told: string[] = []): Run =>
  ({
    folder,
    phase: "training",
    events: { append: async ({ message }: { message: string }) => told.push(message) },
    parts: { warmStart: () => warmStart },
    request: { base: { sha256: "1".repeat(64) }, recipe: { adapter } },
  }) as unknown as Run;

/** Rows of documents in two languages. */
const prepared = {
  report: { study: { languages: { en: { passages: 2 }, de: { passages: 3 }, unknown: { passages: 9 } } } },
} as unknown as Prepared;

for (const architecture of ["llama", "qwen3"])
  test(`${architecture}: a wider adapter over more layers starts where the warm start ended`, async (t) => {
    const folder = scratch();
    const trainer = await openWorker(t, tinyModelOf(architecture, "q4_1"));
    const warmStart = await shipped(trainer, folder);
    const shape = { ...tinyShape, rank: 5, alpha: 5, firstLayer: 0 };
    await trainer.createAdapter("main", shape);
    await loadWarmStart(runWith(folder, warmStart), trainer, { adapter: "main", shape, prepared });
    const [base, alone, inside] = [
      await score(trainer, null),
      await score(trainer, "shipped"),
      await score(trainer, "main"),
    ];
    const farthest = (from: Float32Array, to: Float32Array): number =>
      Math.max(...from.map((value, at) => Math.abs(value - to[at]!)));
    assert.ok(farthest(base, alone) > 0.1, `trained ${farthest(base, alone)}`);
    // Half precision alone makes the difference.
    assert.ok(farthest(alone, inside) < 0.01 * farthest(base, alone), `inside ${farthest(alone, inside)}`);
    // What is left of the adapter still learns.
    await trainer.forwardBackward("main", rows);
    await trainer.optimStep("main", step(0.001));
    assert.ok(farthest(inside, await score(trainer, "main")) > 0);
  });

test("an adapter that cannot hold the warm start, another base and a recipe without it start from the base", async () => {
  const folder = scratch();
  const trainer = {} as Trainer;
  const shape: AdapterShape = { ...tinyShape, rank: 3, alpha: 6, firstLayer: 1 };
  const found = { path: join(folder, "none"), sha256: "0".repeat(64), base: { sha256: "1".repeat(64) }, shape };
  const load = (run: Run, of: AdapterShape): Promise<string | null> =>
    loadWarmStart(run, trainer, { adapter: "main", shape: of, prepared });
  const told: string[] = [];
  for (const of of [
    { ...shape, rank: 2 },
    { ...shape, firstLayer: 2 },
    { ...shape, targets: shape.targets.slice(1) },
  ])
    assert.equal(await load(runWith(folder, found, {}, told), of), null);
  assert.equal(told.length, 3);
  assert.match(told[0]!, /from the base.* a rank of at least 3/);
  assert.equal(await load(runWith(folder, found, { warm_start: false }, told), shape), null);
  assert.equal(await load(runWith(folder, { ...found, base: { sha256: "2".repeat(64) } }, {}, told), shape), null);
  assert.equal(await load(runWith(folder, null, {}, told), shape), null);
  assert.equal(told.length, 3);
});

test("a file that is not what its card says is refused, and so is half an installation", async (t) => {
  const folder = scratch();
  const trainer = await openWorker(t, tinyModelOf("llama", "q4_1"));
  const warmStart = await shipped(trainer, folder);
  const shape = { ...tinyShape, rank: 5 };
  await trainer.createAdapter("main", shape);
  const load = (found: ShippedAdapter): Promise<string | null> =>
    loadWarmStart(runWith(folder, found), trainer, { adapter: "main", shape, prepared });
  const damaged = { code: "installation_damaged" };
  await assert.rejects(load({ ...warmStart, sha256: "3".repeat(64) }), damaged);
  await assert.rejects(load({ ...warmStart, shape: { ...warmStart.shape, rank: 2 } }), damaged);
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.startsWith(".tmp-")),
    [],
  );
  assert.equal(installedWarmStart("en", scratch()), null);
  const half = scratch();
  writeFileSync(join(half, "adapter.gguf"), "");
  assert.throws(() => installedWarmStart(null, half), damaged);
});

test("documents start from the adapter of the language of most of their passages, and from the general one where it has none", async () => {
  const folder = scratch();
  const card = { format: 1, base: { sha256: "1".repeat(64) }, adapter: { ...tinyShape, sha256: "2".repeat(64) } };
  for (const place of [folder, join(folder, "de")]) {
    mkdirSync(place, { recursive: true });
    writeFileSync(join(place, "adapter.gguf"), "");
    writeFileSync(join(place, "card.json"), JSON.stringify(card));
  }
  const placeOf = (language: string | null) => installedWarmStart(language, folder)!.path;
  assert.equal(placeOf("de"), join(folder, "de/adapter.gguf"));
  for (const other of ["en", null]) assert.equal(placeOf(other), join(folder, "adapter.gguf"));
  writeFileSync(join(folder, "de/card.json"), "{");
  assert.throws(() => placeOf("de"), { code: "installation_damaged" });

  const asked: (string | null)[] = [];
  const run = runWith(folder, null);
  run.parts.warmStart = (language) => {
    asked.push(language);
    return null;
  };
  const load = (languages: object): Promise<string | null> => {
    const of = { report: { study: { languages } } } as unknown as Prepared;
    return loadWarmStart(run, {} as Trainer, { adapter: "main", shape: tinyShape, prepared: of });
  };
  await load(prepared.report.study.languages);
  await load({ unknown: { passages: 1 } });
  assert.deepEqual(asked, ["de", null]);
});
