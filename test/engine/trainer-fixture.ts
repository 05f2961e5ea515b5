// What the trainer's tests share: the tiny models that the native build makes, a started worker, and seeded rows.
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { installation, readConfig } from "../../src/base/config.ts";
import { createLog } from "../../src/base/log.ts";
import type { AdapterShape, OptimStep, Trainer, WeightedRows } from "../../src/engine/train/trainer.ts";
import { startTrainer } from "../../src/engine/train/trainer-process.ts";

/** PLUMBLINE_TRAINER runs the tests against another build, such as one with sanitizers. */
export const executable = readConfig().trainer;

export function tinyModel(name: string): string {
  const path = join(installation, "build/fixtures", `${name}.gguf`);
  if (!existsSync(path)) throw new Error(`${path} is missing: npm run build:native`);
  return path;
}

/** "f32", "f32-untied", "q4_1", "q4_k" or "bf16" of an architecture. */
export const tinyModelOf = (architecture: string, kind: string): string =>
  tinyModel(architecture === "llama" ? `tiny-${kind}` : `tiny-${architecture}-${kind}`);

export const tinyVocabulary = 320;

export const silentLog = createLog("error");

/** A worker that ends with its test, passed or failed: a failed one must not keep the process alive. */
export function startWorker(t: TestContext): Trainer {
  const trainer = startTrainer({ executable, log: silentLog });
  t.after(() => trainer.close());
  return trainer;
}

/** In single precision, which is what tests can hold against other figures. */
export async function openWorker(t: TestContext, path: string, threads = 2, memoryBytes = 0): Promise<Trainer> {
  const trainer = startWorker(t);
  await trainer.open({ path, threads, memoryBytes, precision: "fp32" });
  return trainer;
}

export const everyTarget: AdapterShape["targets"] = [
  "attn_q",
  "attn_k",
  "attn_v",
  "attn_output",
  "ffn_gate",
  "ffn_up",
  "ffn_down",
];

export const tinyShape: AdapterShape = { rank: 4, alpha: 8, seed: 7, targets: everyTarget };

export const step = (learningRate: number): OptimStep => ({
  learningRate,
  beta1: 0.9,
  beta2: 0.95,
  eps: 1e-8,
  weightDecay: 0,
  gradClipNorm: 1,
});

/** A small generator of whole numbers below `below`, the same everywhere. */
export function numbers(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Rows of the given lengths; every token but the first of a row weighs 1 / (number of such tokens). */
export function rowsOf(lengths: number[], seed: number, vocabulary = tinyVocabulary): WeightedRows {
  const next = numbers(seed);
  const total = lengths.reduce((sum, length) => sum + length, 0);
  const weights = new Float32Array(total).fill(1 / (total - lengths.length));
  let at = 0;
  for (const length of lengths) {
    weights[at] = 0;
    at += length;
  }
  return {
    tokens: Int32Array.from({ length: total }, () => next(vocabulary)),
    rowLengths: Int32Array.from(lengths),
    weights,
  };
}

export const scratch = (): string => mkdtempSync(join(tmpdir(), "plumbline-trainer-"));
