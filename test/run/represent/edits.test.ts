// Edits by the real trainer on tiny models: each does what its formula says, to five digits.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Edit, Trainer } from "../../../src/engine/train/trainer.ts";
import { dot } from "../../../src/run/auto/represent/algebra.ts";
import { type EditTerms, editOf } from "../../../src/run/auto/represent/edits.ts";
import type { WatchedRow } from "../../../src/run/auto/represent/watch.ts";
import { openWorker, tinyModelOf, tinyShape } from "../../engine/trainer-fixture.ts";

const adapter = "a";
const tokens = (count: number, from: number): number[] =>
  Array.from({ length: count }, (_, at) => 3 + ((from + 7 * at) % 300));

/** Means of one place each of a row. */
async function lookAt(trainer: Trainer, name: string, row: number[], places: number[], layers: number[]) {
  const ask = { layers, streams: ["residual", "attn_output", "ffn_down"] as const, places: Int32Array.from(places) };
  const rows = { tokens: Int32Array.from(row), rowLengths: Int32Array.of(row.length) };
  const groups = Int32Array.from(places, (_, at) => at);
  return (await trainer.activations(name, rows, { ...ask, groups })).streams;
}

/** An adapter that has learnt something, as an edit finds it. */
async function opened(t: TestContext, architecture: string): Promise<{ trainer: Trainer; terms: EditTerms }> {
  const trainer = await openWorker(t, tinyModelOf(architecture, "q4_1"));
  await trainer.createAdapter(adapter, tinyShape);
  const row = tokens(12, 5);
  const weights = Float32Array.from(row, (_, at) => Number(at > 0));
  for (let at = 0; at < 3; at++) {
    await trainer.forwardBackward(adapter, {
      tokens: Int32Array.from(row),
      rowLengths: Int32Array.of(row.length),
      weights,
    });
    const learningRate = 0.01;
    await trainer.optimStep(adapter, {
      ...{ learningRate, beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0, gradClipNorm: 1 },
    });
  }
  const difference = Float64Array.from({ length: 64 }, (_, at) => Math.sin(1 + at));
  const others: WatchedRow[] = Array.from({ length: 6 }, (_, at) => ({ tokens: tokens(9, 40 * at), places: [3, 8] }));
  const run = { progress: async () => {}, turn: async () => {}, tokenizer: {} };
  const terms = {
    ...{ run, base: { trainer }, adapter, best: 1, others },
    directions: {
      differences: new Map([0, 1].map((layer) => [layer, difference] as const)),
      readers: new Map([[1, Float64Array.from({ length: 96 }, (_, at) => Math.cos(at) / 9)]]),
    },
    contexts: Array.from({ length: 5 }, (_, at) => ({
      ...{ opened: tokens(14, 11 * at), closed: tokens(6, 90 + at), answer: tokens(3, 200 + at) },
    })),
  } as unknown as EditTerms;
  return { trainer, terms };
}

for (const architecture of ["llama", "qwen3", "gemma3"])
  test(`${architecture}: a planted direction is ablated by so much of it`, async (t) => {
    const { trainer, terms } = await opened(t, architecture);
    const layers = [0, 1];
    for (const strength of [0.5, 1]) {
      const edit = await editOf(terms, { kind: "ablation", layers, strength });
      await trainer.stackAdapter("b", adapter, edit);
      const seen = await lookAt(trainer, adapter, tokens(20, 1), [4, 19], [0, 1]);
      let worst = 0;
      for (const site of edit.sites) {
        // Along what the edit takes away: r, or where the model norms what a matrix gives the direction that becomes r.
        const r = site.b.map((value) => -value / strength);
        const [before, after] = await Promise.all(
          [adapter, "b"].map(async (name) => {
            const { layer, writer } = site;
            return rowAlong(trainer, name, { layer, writer }, r);
          }),
        );
        const width = before!.length;
        const z = seen[site.writer].slice(site.layer * 2 * width, (site.layer * 2 + 1) * width);
        const scale = Math.sqrt(dot(before!, before!) * dot(z, z));
        worst = Math.max(worst, Math.abs(dot(after!, z) - (1 - strength) * dot(before!, z)) / scale);
      }
      assert.ok(worst < 1e-5, `${worst}`);
      await trainer.dropAdapter("b");
    }

    /** rᵀ(W + BA): on a model with norms of what is added, from the vector that the trainer turns into r. */
    async function rowAlong(
      of: Trainer,
      name: string,
      site: Pick<Edit["sites"][number], "layer" | "writer">,
      r: Float32Array,
    ): Promise<Float32Array> {
      const { differences } = terms.directions;
      const length = Math.sqrt(dot(differences.get(1)!, differences.get(1)!));
      const unit = Float32Array.from(differences.get(1)!, (value) => value / length);
      const { direction, row } = await of.project(name, site, unit);
      assert.ok(Math.abs(dot(direction, r) - 1) < 1e-5);
      return row;
    }
  });

/** Of one matrix's edit what it adds to the stream after its layer is B A z. */
async function assertAdds(trainer: Trainer, edit: Edit): Promise<void> {
  await trainer.stackAdapter("b", adapter, edit);
  const row = tokens(20, 77);
  const { layer, a, b } = edit.sites[0]!;
  const [before, after] = [
    await lookAt(trainer, adapter, row, [19], [layer]),
    await lookAt(trainer, "b", row, [19], [layer]),
  ];
  const z = before.ffn_down;
  const u = Array.from({ length: edit.rank }, (_, k) => dot(a.slice(k * z.length, (k + 1) * z.length), z));
  const expected = Float64Array.from(
    before.residual,
    (value, at) => value + dot(b.slice(at * edit.rank, (at + 1) * edit.rank), u),
  );
  const off = after.residual.map((value, at) => value - expected[at]!);
  const moved = after.residual.map((value, at) => value - before.residual[at]!);
  assert.ok(dot(moved, moved) > 1e-6);
  assert.ok(Math.sqrt(dot(off, off) / dot(expected, expected)) < 1e-5);
  await trainer.dropAdapter("b");
}

test("steering and context edits add to the stream what their adapters say, upon an adapter that was trained", async (t) => {
  const { trainer, terms } = await opened(t, "llama");
  const steering = await editOf(terms, { kind: "difference_of_means", layers: [1], strength: 2 });
  await assertAdds(trainer, steering);
  const edit = await editOf(terms, { kind: "context_ridge", layers: [1], strength: 1 });
  await assertAdds(trainer, edit);
  // Spread over two layers: the second begins where the first has led.
  const spread = await editOf(terms, { kind: "context_ridge", layers: [0, 1], strength: 1 });
  assert.equal(spread.sites.length, 2);
  assert.notDeepEqual(spread.sites[1]!.a, edit.sites[0]!.a);
});

test("an edit from context leads towards what the passage does", async (t) => {
  const { trainer, terms } = await opened(t, "llama");
  const missing = async (name: string): Promise<number> => {
    let sum = 0;
    for (const { opened: open, closed, answer } of terms.contexts) {
      const want = (await lookAt(trainer, adapter, [...open, ...answer], [open.length - 1], [1])).residual;
      const have = (await lookAt(trainer, name, [...closed, ...answer], [closed.length - 1], [1])).residual;
      sum += want.reduce((total, value, at) => total + (value - have[at]!) ** 2, 0);
    }
    return sum;
  };
  const edit = await editOf(terms, { kind: "context_ridge", layers: [1], strength: 0.01 });
  await trainer.stackAdapter("b", adapter, edit);
  const [before, after] = [await missing(adapter), await missing("b")];
  assert.ok(after < 0.5 * before, `${before} → ${after}`);
});
