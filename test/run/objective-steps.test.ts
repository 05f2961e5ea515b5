// A whole PPO, CISPO and DRO step through the real worker. The rows of the published vectors are moved to what the tiny model says:
// q = lp − Δ keeps every ratio, gradient and advantage. The adapter's gradient is read back from one step of the optimizer and
// held against central differences of the objective, taken through real forward calls.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Losses, Trainer } from "../../src/engine/train/trainer.ts";
import {
  type Evaluated,
  evaluate,
  type LossBlock,
  type Objective,
  passLoss,
  resolveLoss,
  scaleOf,
  type Trajectory,
} from "../../src/run/objectives.ts";
import { openWorker, rowsOf, scratch, step, tinyModel, tinyShape } from "../engine/trainer-fixture.ts";

interface Vector {
  lp: number;
  q: number;
  A: number;
  ref: number;
  ppo: { loss: number; grad: number };
  cispo: { loss: number; grad: number };
  dro: { loss: number; grad: number };
}
const vectors = JSON.parse(
  readFileSync(new URL("../fixtures/rl_loss_vectors.json", import.meta.url), "utf8"),
) as Vector[];

/** Two answers behind prompts of two tokens: eight tokens, one a vector. */
const rows = rowsOf([7, 5], 12);
const places = [2, 3, 4, 5, 6, 9, 10, 11];
const mask = Array.from(rows.tokens, (_, t) => (places.includes(t) ? 1 : 0));

type Fixed = Pick<Trajectory, "sampled" | "reference" | "advantages" | "mask">;

const trajectoryOf = (fixed: Fixed, now: Losses): Trajectory => ({ ...fixed, logprobs: now.logprobs });

const asked = { ...rows, weights: Float32Array.from(mask) };

function readWeights(folder: string): Float32Array {
  const bytes = readFileSync(join(folder, "adapter.f32"));
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
}

/** Makes the checkpoint hold these weights. */
function writeWeights(folder: string, weights: Float32Array): void {
  const bytes = Buffer.from(weights.buffer, weights.byteOffset, weights.byteLength);
  writeFileSync(join(folder, "adapter.f32"), bytes);
  const path = join(folder, "manifest.json");
  const manifest = JSON.parse(readFileSync(path, "utf8")) as { files: { name: string; sha256: string }[] };
  for (const file of manifest.files)
    if (file.name === "adapter.f32") file.sha256 = createHash("sha256").update(bytes).digest("hex");
  writeFileSync(path, JSON.stringify(manifest));
}

/** With both betas 0 and eps 1 the step is rate · g / (|g| + 1): g follows from how far the weights went. */
async function gradientOf(trainer: Trainer, before: Float32Array, folder: string): Promise<Float64Array> {
  const learningRate = 1000;
  await trainer.optimStep("a", { ...step(learningRate), beta1: 0, beta2: 0, eps: 1, gradClipNorm: 0 });
  await trainer.save("a", folder);
  const after = readWeights(folder);
  return Float64Array.from(before, (value, i) => {
    const share = (value - after[i]!) / learningRate;
    return share / (1 - Math.abs(share));
  });
}

/** The loss at other log-probs; cispo's stopped coefficient stays what it was. */
function lossAt(objective: Objective, fixed: Fixed, at: Evaluated, now: Losses): number {
  const row = trajectoryOf(fixed, now);
  const { loss, losses, ...coefficients } = evaluate(objective, row, scaleOf(objective, [row]));
  if (objective.type !== "cispo") return loss + passLoss(coefficients, now);
  const scale = scaleOf(objective, [row]).token;
  // Without a KL term the coefficients are the stopped ones.
  return places.reduce((sum, t) => sum - scale * losses[t]! - at.weights[t]! * now.logprobs[t]!, loss);
}

const cases: [name: string, block: LossBlock, vectorsOf: "ppo" | "cispo" | "dro" | null][] = [
  ["ppo", { type: "ppo" }, "ppo"],
  ["cispo", { type: "cispo" }, "cispo"],
  ["dro", { type: "dro" }, "dro"],
  ["ppo of sequences", { type: "ppo", is_ratio_level: "sequence", ppo: { clip_low: 0.9, clip_high: 9 } }, null],
  ["ppo with KL, entropy and z", { type: "ppo", kl_coef: 0.5, entropy_coef: 0.1, z_loss_coef: 1e-2 }, null],
];

for (const [name, block, published] of cases)
  test(`a step of ${name}: the vectors' values, and the gradient of its loss`, async (t) => {
    const trainer = await openWorker(t, tinyModel("tiny-f32"));
    await trainer.createAdapter("a", tinyShape);
    await trainer.forwardBackward("a", rowsOf([20, 7, 33, 12], 3));
    await trainer.optimStep("a", step(0.02));
    const folder = join(scratch(), "before");
    await trainer.save("a", folder);
    const before = readWeights(folder).slice();

    const now = await trainer.forward("a", asked);
    const reference = await trainer.forward(null, asked);
    const sampled = Float64Array.from(now.logprobs);
    const advantages = new Float64Array(mask.length);
    for (const [i, t] of places.entries()) {
      sampled[t]! -= vectors[i]!.lp - vectors[i]!.q;
      advantages[t] = vectors[i]!.A;
    }
    // An answer has one advantage where its ratio is one.
    if (block.is_ratio_level === "sequence") for (const t of places) advantages[t] = t < 7 ? 1 : -0.5;
    const objective = resolveLoss(block);
    const fixed: Fixed = { sampled, advantages, mask, reference: reference.logprobs };
    const row = trajectoryOf(fixed, now);
    const at = evaluate(objective, row, scaleOf(objective, [row]));
    if (published !== null)
      for (const [i, t] of places.entries()) {
        const { lp, A, [published]: expected } = vectors[i]!;
        // cispo and dro have the log-prob itself in them: the rest of their value is the vector's.
        const here = now.logprobs[t]!;
        if (published === "ppo") close(at.losses[t]!, expected.loss, 1e-9);
        if (published === "cispo") close(at.losses[t]! / here, expected.loss / lp, 1e-9);
        if (published === "dro") close(at.losses[t]! + A * here, expected.loss + A * lp, 1e-9);
        close(-at.weights[t]! * places.length, expected.grad, 1e-9);
      }

    const sent = {
      ...rows,
      weights: Float32Array.from(at.weights),
      entropyWeights: Float32Array.from(at.entropyWeights),
      zWeights: Float32Array.from(at.zWeights),
    };
    const trained = await trainer.forwardBackward("a", sent);
    const surrogate = places.reduce(
      (sum, t) =>
        sum -
        at.weights[t]! * now.logprobs[t]! -
        at.entropyWeights[t]! * now.entropies[t]! +
        at.zWeights[t]! * now.logSums[t]! ** 2,
      0,
    );
    close(trained.loss, surrogate, 1e-5);
    const gradient = await gradientOf(trainer, before, join(scratch(), "after"));
    const norm = Math.sqrt(gradient.reduce((sum, g) => sum + g * g, 0));
    assert.ok(norm > 0.05, `a gradient of ${norm} shows nothing`);

    // Along the gradient, and along it within each quarter of the adapter: layers and matrices of their own.
    const quarter = gradient.length / 4;
    const directions = [0, 1, 2, 3].map((q) => (i: number) => (Math.floor(i / quarter) === q ? gradient[i]! : 0));
    for (const [d, direction] of [(i: number) => gradient[i]!, ...directions].entries()) {
      const along = Float64Array.from(gradient, (_, i) => direction(i));
      const length = Math.sqrt(along.reduce((sum, value) => sum + value * value, 0));
      const reach = 0.004;
      const values: number[] = [];
      for (const sign of [1, -1]) {
        const moved = Float32Array.from(before, (value, i) => value + (sign * reach * along[i]!) / length);
        writeWeights(folder, moved);
        await trainer.load("a", folder);
        values.push(lossAt(objective, fixed, at, await trainer.forward("a", asked)));
      }
      const numeric = (values[0]! - values[1]!) / (2 * reach);
      t.diagnostic(`direction ${d}: ${length} and by differences ${numeric}`);
      assert.ok(Math.abs(numeric - length) < 2e-3 * length, `direction ${d}: ${length}, by differences ${numeric}`);
    }
  });

function close(actual: number, expected: number, tolerance: number): void {
  assert.ok(Math.abs(actual - expected) <= tolerance * Math.max(1, Math.abs(expected)), `${actual}, not ${expected}`);
}
