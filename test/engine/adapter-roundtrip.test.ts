// Gate 6: an adapter trained here and exported says the same under llama.cpp, on the same GGUF, as under the trainer; and one
// whose alpha is doubled does not pass for it.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { getLlama, type Llama, LlamaLogLevel, type LlamaModel, type Token } from "node-llama-cpp";
import { installation, readConfig } from "../../src/base/config.ts";
import { compareScores } from "../../src/engine/train/adapter-check.ts";
import type { AdapterTarget, Rows, Trainer, WeightedRows } from "../../src/engine/train/trainer.ts";
import { everyTarget, openWorker, rowsOf, scratch, step, tinyModelOf } from "./trainer-fixture.ts";

async function startLlama(t: TestContext): Promise<Llama> {
  const llama = await getLlama({
    build: "never",
    skipDownload: true,
    gpu: false,
    progressLogs: false,
    logLevel: LlamaLogLevel.error,
  });
  t.after(() => llama.dispose());
  return llama;
}

const rowsOfTokens = (rows: Rows): number[][] => {
  let at = 0;
  return Array.from(rows.rowLengths, (length) => {
    at += length;
    return [...rows.tokens.subarray(at - length, at)];
  });
};

/** llama.cpp's exact log-probs of each row's tokens from the second on, under the adapter at a scale. */
async function llamaScores(
  model: LlamaModel,
  rows: Rows,
  adapter: { filePath: string; scale: number } | null,
): Promise<number[][]> {
  const context = await model.createContext({
    contextSize: 512,
    // Threads that wait for one another stand still when the machine has other work.
    threads: 1,
    // Half precision of keys and values, or of flash attention's products, would cost more than the difference that is looked for.
    flashAttention: false,
    experimentalKvCacheKeyType: "F32",
    experimentalKvCacheValueType: "F32",
    ...(adapter === null ? {} : { lora: { adapters: [adapter] } }),
  });
  const sequence = context.getSequence();
  const scores: number[][] = [];
  for (const row of rowsOfTokens(rows)) {
    await sequence.clearHistory();
    const output = await sequence.controlledEvaluate(
      row.slice(0, -1).map((token, i) => [
        token as Token,
        {
          generateNext: {
            totalLogitWeight: true,
            logits: { filter: { tokens: [row[i + 1] as Token], includeSelected: true } },
          },
        },
      ]),
    );
    scores.push(
      output.map((position, i) => {
        const { logits, totalLogitWeight } = position!.next;
        const most = Math.max(...logits!.values());
        return logits!.get(row[i + 1] as Token)! - most - Math.log(totalLogitWeight!);
      }),
    );
  }
  await context.dispose();
  return scores;
}

async function trainerScores(trainer: Trainer, adapter: string | null, rows: Rows): Promise<number[][]> {
  const logprobs = await trainer.score(adapter, rows, new Int32Array(rows.rowLengths.length).fill(1));
  let at = 0;
  return Array.from(rows.rowLengths, (length) => {
    at += length;
    return [...logprobs.subarray(at - length + 1, at)];
  });
}

interface RoundTrip {
  model: string;
  rows: (model: LlamaModel) => WeightedRows;
  targets?: AdapterTarget[];
  rank: number;
  steps: number;
  learningRate: number;
  quantised: boolean;
}

async function roundTrip(t: TestContext, trip: RoundTrip): Promise<void> {
  const llama = await startLlama(t);
  const model = await llama.loadModel({ modelPath: trip.model, useMmap: true });
  const rows = trip.rows(model);
  const trainer = await openWorker(t, trip.model);
  await trainer.createAdapter("a", {
    rank: trip.rank,
    alpha: 2 * trip.rank,
    seed: 1,
    targets: trip.targets ?? everyTarget,
  });
  for (let i = 0; i < trip.steps; i++) {
    await trainer.forwardBackward("a", rows);
    await trainer.optimStep("a", step(trip.learningRate));
  }
  const filePath = join(scratch(), "adapter.gguf");
  await trainer.exportGguf("a", filePath, { "plumbline.test": "round trip" });

  const trained = {
    base: await trainerScores(trainer, null, rows),
    aligned: await trainerScores(trainer, "a", rows),
  };
  const base = await llamaScores(model, rows, null);
  const compare = (aligned: number[][]) =>
    compareScores({ trainer: trained, generator: { base, aligned }, quantised: trip.quantised });
  const verdict = compare(await llamaScores(model, rows, { filePath, scale: 1 }));
  t.diagnostic(verdict.message);
  assert.equal(verdict.faithful, true, JSON.stringify(verdict));
  // Twice alpha is twice the scale.
  const doubled = compare(await llamaScores(model, rows, { filePath, scale: 2 }));
  t.diagnostic(`alpha doubled: ${doubled.message}`);
  assert.equal(doubled.faithful, false, JSON.stringify(doubled));
  if (trip.quantised) return;

  const mergedPath = join(scratch(), "merged.gguf");
  await trainer.exportMerged("a", mergedPath, "f32", {});
  const merged = await llama.loadModel({ modelPath: mergedPath, useMmap: true });
  const mergedVerdict = compare(await llamaScores(merged, rows, null));
  t.diagnostic(`merged: ${mergedVerdict.message}`);
  assert.equal(mergedVerdict.faithful, true, JSON.stringify(mergedVerdict));
}

for (const architecture of ["llama", "qwen2", "qwen3", "gemma3"]) {
  for (const kind of ["f32", "f32-untied"])
    test(`${architecture} ${kind} gate 6: token by token within 1e-3 nats`, { timeout: 120_000 }, async (t) => {
      const rows = rowsOf([60, 33, 120, 9], 4);
      await roundTrip(t, {
        model: tinyModelOf(architecture, kind),
        rows: () => rows,
        rank: 8,
        steps: 20,
        learningRate: 0.01,
        quantised: false,
      });
    });
  for (const kind of ["q4_1", "q4_k", "bf16"])
    test(`${architecture} ${kind} gate 6: no shift, no wider than without the adapter`, {
      timeout: 120_000,
    }, async (t) => {
      const rows = rowsOf([130, 130, 130, 130], 4);
      await roundTrip(t, {
        model: tinyModelOf(architecture, kind),
        rows: () => rows,
        rank: 8,
        steps: 20,
        learningRate: 0.01,
        quantised: true,
      });
    });
}

for (const targets of [["output"], [...everyTarget, "output"]] as AdapterTarget[][])
  test(`tiny-f32-untied: an adapted head within 1e-3 nats, ${targets.length} targets`, {
    timeout: 120_000,
  }, async (t) => {
    const rows = rowsOf([60, 33, 120, 9], 4);
    await roundTrip(t, {
      model: tinyModelOf("llama", "f32-untied"),
      rows: () => rows,
      targets,
      rank: 8,
      steps: 20,
      learningRate: 0.01,
      quantised: false,
    });
  });

test("the starter model: no shift, and no wider than without the adapter", { timeout: 300_000 }, async (t) => {
  const path = readConfig({}).starterModel;
  assert.ok(existsSync(path), `${path} is missing: ./install.sh brings it`);
  await roundTrip(t, {
    model: path,
    rows: (model) => textRows(model, 8, 80),
    rank: 16,
    steps: 8,
    learningRate: 1e-3,
    quantised: true,
  });
});

/** Rows of real text: on random tokens every probability is an accident of rounding. */
function textRows(model: LlamaModel, count: number, length: number): WeightedRows {
  const tokens = model.tokenize(readFileSync(join(installation, "LICENSE"), "utf8"), false).slice(0, count * length);
  assert.equal(tokens.length, count * length);
  const weights = new Float32Array(tokens.length).fill(1 / (tokens.length - count));
  for (let row = 0; row < count; row++) weights[row * length] = 0;
  return { tokens: Int32Array.from(tokens), rowLengths: new Int32Array(count).fill(length), weights };
}
