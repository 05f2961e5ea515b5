// Objectives against their published values, their own derivatives, and every way to cut a step; advantages against their table.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import fc from "fast-check";
import { Failure } from "../../src/base/errors.ts";
import { advantagesOf, resolveAdvantage } from "../../src/run/advantages.ts";
import {
  evaluate,
  type LossBlock,
  metricsOf,
  passLoss,
  resolveLoss,
  scaleOf,
  type Trajectory,
} from "../../src/run/objectives.ts";

interface Vector {
  lp: number;
  q: number;
  A: number;
  ratio: number;
  ref: number;
  kl: Record<"k1" | "k2" | "k3" | "g1" | "g2" | "g3", number>;
  importance_sampling: { loss: number; grad: number };
  ppo: { loss: number; grad: number; clipped: boolean };
  cispo: { loss: number; grad: number; clipped: boolean };
  dro: { loss: number; grad: number };
}
const vectors = JSON.parse(
  readFileSync(new URL("../fixtures/rl_loss_vectors.json", import.meta.url), "utf8"),
) as Vector[];

const types = ["importance_sampling", "ppo", "cispo", "dro"] as const;

const close = (actual: number, expected: number, tolerance = 1e-12): void =>
  assert.ok(Math.abs(actual - expected) <= tolerance * Math.max(1, Math.abs(expected)), `${actual}, not ${expected}`);

/** All tokens of one row, active. */
const rowOf = (lp: number[], q: number[], A: number[], ref?: number[]): Trajectory => ({
  logprobs: lp,
  sampled: q,
  advantages: A,
  mask: lp.map(() => 1),
  ...(ref && { reference: ref }),
});

for (const type of types)
  test(`${type} gives every published value and gradient`, () => {
    const objective = resolveLoss({ type, token_reduction: "sum" });
    assert.equal(vectors.length, 8);
    const row = rowOf(
      vectors.map(({ lp }) => lp),
      vectors.map(({ q }) => q),
      vectors.map(({ A }) => A),
    );
    const { losses, weights: coefficients, loss, clipped } = evaluate(objective, row, scaleOf(objective, [row]));
    for (const [i, vector] of vectors.entries()) {
      close(losses[i]!, vector[type].loss);
      close(-coefficients[i]!, vector[type].grad);
    }
    close(
      loss,
      vectors.reduce((sum, vector) => sum + vector[type].loss, 0),
    );
    const expected = vectors.filter((vector) => "clipped" in vector[type] && vector[type].clipped).length;
    assert.equal(clipped, expected);
  });

test("each estimator of the KL gives every published value and gradient", () => {
  for (const kl_estimator of ["k1", "k2", "k3"] as const)
    for (const { lp, ref, kl } of [
      ...vectors,
      {
        lp: -3,
        ref: -0.4,
        kl: { k1: -2.6, k2: 3.38, k3: 9.863738035001692, g1: 1, g2: -2.6, g3: -12.463738035001692 },
      },
    ]) {
      const objective = resolveLoss({ type: "importance_sampling", kl_coef: 1, kl_estimator });
      const row = rowOf([lp], [lp], [0], [ref]);
      const { loss, weights } = evaluate(objective, row, scaleOf(objective, [row]));
      close(loss, kl[kl_estimator], 1e-11);
      close(-weights[0]!, kl[`g${kl_estimator.slice(1)}` as "g1"], 1e-11);
    }
});

test("the ratio of a sequence gives the published loss and gradient, and clips as a whole", () => {
  const row = rowOf([-1, -0.4, -2], [-1.1, -0.5, -1.9], [1, 1, 1]);
  const wide = resolveLoss({ type: "ppo", is_ratio_level: "sequence", ppo: { clip_low: 0.2, clip_high: 0.2 } });
  const { loss, weights } = evaluate(wide, row, scaleOf(wide, [row]));
  close(loss, -1.033895113513574);
  for (const weight of weights) close(weight, 1.033895113513574 / 3);
  const usual = resolveLoss({ type: "ppo", is_ratio_level: "sequence" });
  assert.deepEqual(usual.bounds, { low: 1 - 3e-4, high: 1 + 4e-4 });
  const clipped = evaluate(usual, row, scaleOf(usual, [row]));
  assert.deepEqual([...clipped.weights], [-0, -0, -0]);
  close(clipped.loss, -1.0004);
  // Tokens of a tool between them are no part of the mean.
  const masked: Trajectory = {
    logprobs: [-1, -9, -0.4, -2],
    sampled: [-1.1, -1, -0.5, -1.9],
    advantages: [1, 0, 1, 1],
    mask: [1, 0, 1, 1],
  };
  close(evaluate(wide, masked, scaleOf(wide, [masked])).loss, -1.033895113513574);
});

const blocks: Record<string, LossBlock> = {
  importance_sampling: { type: "importance_sampling" },
  ppo: { type: "ppo" },
  "ppo with a dual clip": { type: "ppo", ppo: { clip_c: 1.5 } },
  cispo: { type: "cispo" },
  dro: { type: "dro", dro: { beta: 0.3 } },
  "ppo of sequences": { type: "ppo", is_ratio_level: "sequence", ppo: { clip_low: 0.1, clip_high: 0.1 } },
  "importance_sampling of sequences": { type: "importance_sampling", is_ratio_level: "sequence" },
  "cispo of sequences": { type: "cispo", is_ratio_level: "sequence" },
};

const number = (min: number, max: number) => fc.double({ min, max, noNaN: true });
const row = fc
  .array(fc.tuple(number(-6, -0.01), number(-6, -0.01), number(-2, 2), number(-6, -0.01), fc.nat(3)), {
    minLength: 1,
    maxLength: 6,
  })
  .map((tokens): Trajectory => {
    // The advantage of an answer is one number where its ratio is.
    const [, , advantage] = tokens[0]!;
    return {
      logprobs: tokens.map(([lp]) => lp),
      sampled: tokens.map(([, q]) => q),
      advantages: tokens.map(() => advantage),
      reference: tokens.map(([, , , ref]) => ref),
      mask: tokens.map(([, , , , m]) => (m > 0 ? 1 : 0)),
    };
  });

for (const [name, block] of Object.entries(blocks))
  test(`${name}: the coefficients are the derivative of the loss`, () => {
    const objective = resolveLoss({ ...block, kl_coef: 0.3, kl_estimator: "k3", token_reduction: "sum" });
    fc.assert(
      fc.property(row, (trajectory) => {
        const scale = scaleOf(objective, [trajectory]);
        // What stop[] holds is held: cispo's coefficient is that of the unmoved log-probs.
        const at = evaluate(objective, trajectory, scale);
        for (let t = 0; t < trajectory.mask.length; t++) {
          const step = 1e-6;
          const moved = (by: number) => {
            const logprobs = [...(trajectory.logprobs as number[])];
            logprobs[t]! += by;
            const loss = evaluate(objective, { ...trajectory, logprobs }, scale).loss;
            if (objective.type !== "cispo") return loss;
            const held = at.losses.reduce((sum, value, i) => {
              const lp = trajectory.logprobs[i]!;
              return sum + (trajectory.mask[i] === 1 ? scale.token * (value / lp) * logprobs[i]! : 0);
            }, 0);
            const unheld = evaluate(objective, { ...trajectory, logprobs }, scale).losses.reduce(
              (sum, value) => sum + scale.token * value,
              0,
            );
            return loss - unheld + held;
          };
          const numeric = (moved(step) - moved(-step)) / (2 * step);
          const kinked = Math.abs((moved(step) - at.loss) / step - (at.loss - moved(-step)) / step) > 1e-3;
          const exact = -at.weights[t]!;
          assert.ok(
            kinked || Math.abs(numeric - exact) <= 2e-5 * Math.max(1, Math.abs(exact)),
            `token ${t}: ${exact}, by differences ${numeric}`,
          );
        }
      }),
      { numRuns: 300 },
    );
  });

test("a step cut into calls in any way has the same loss and coefficients, and mean is sum divided once", () => {
  fc.assert(
    fc.property(
      fc.array(row, { minLength: 1, maxLength: 5 }),
      fc.constantFrom(...Object.values(blocks)),
      (rows, block) => {
        const mean = resolveLoss({ ...block, token_reduction: "mean", z_loss_coef: 1e-3 });
        const sum = resolveLoss({ ...block, token_reduction: "sum", z_loss_coef: 1e-3 });
        const scale = scaleOf(mean, rows);
        const one = rows.map((trajectory) => evaluate(mean, trajectory, scale));
        const tokens = one.reduce((total, { tokens }) => total + tokens, 0);
        const sequences = one.filter(({ tokens }) => tokens > 0).length;
        assert.equal(metricsOf(one, true).tokens, tokens);
        for (const [i, trajectory] of rows.entries()) {
          const summed = evaluate(sum, trajectory, scaleOf(sum, rows));
          const perSequence = block.is_ratio_level === "sequence" && block.type !== "cispo";
          const divisor = perSequence ? sequences : tokens;
          for (const [t, value] of summed.weights.entries())
            if (trajectory.mask[t] === 1 && divisor > 1e-3) close(one[i]!.weights[t]!, value / divisor, 1e-9);
            else if (trajectory.mask[t] !== 1) assert.ok(value === 0 && one[i]!.weights[t] === 0);
        }
      },
    ),
    { numRuns: 200 },
  );
});

test("entropy and z-loss weigh active tokens alone, the entropy always as a mean", () => {
  for (const token_reduction of ["mean", "sum"]) {
    const objective = resolveLoss({ type: "ppo", token_reduction, entropy_coef: 0.05, z_loss_coef: 1e-3 });
    const trajectory: Trajectory = {
      logprobs: [0, -1, -2],
      sampled: [0, -1, -2],
      advantages: [0, 0, 0],
      mask: [0, 1, 1],
    };
    const made = evaluate(objective, trajectory, scaleOf(objective, [trajectory]));
    assert.deepEqual([...made.entropyWeights], [0, 0.025, 0.025]);
    const z = token_reduction === "mean" ? 5e-4 : 1e-3;
    assert.deepEqual([...made.zWeights], [0, z, z]);
    const passed = { entropies: [9, 2, 3], logSums: [9, 4, 5] };
    close(made.loss + passLoss(made, passed), -0.025 * (2 + 3) + z * (16 + 25));
  }
});

test("what is far apart is held, and has no gradient there", () => {
  const objective = resolveLoss({ type: "importance_sampling", kl_coef: 1, kl_estimator: "k3" });
  const far = rowOf([-0.1], [-50], [1], [-0.1]);
  const { loss, weights } = evaluate(objective, far, scaleOf(objective, [far]));
  close(loss, -Math.exp(20));
  assert.equal(Math.abs(weights[0]!), 0);
  const unlikely = rowOf([-30], [-30], [0], [-1]);
  const held = evaluate(objective, unlikely, scaleOf(objective, [unlikely]));
  close(held.loss, 10);
  assert.equal(Math.abs(held.weights[0]!), 0);
  const sequence = resolveLoss({ type: "importance_sampling", is_ratio_level: "sequence" });
  const long = rowOf([-1, -1], [-15, -15], [1, 1]);
  close(evaluate(sequence, long, scaleOf(sequence, [long])).loss, -Math.exp(10));
});

test("dro pulls at tokens without an advantage, and no token of the prompt is touched", () => {
  const objective = resolveLoss({ type: "dro" });
  const trajectory: Trajectory = {
    logprobs: [-5, -1.2],
    sampled: [0, -1.1],
    advantages: [0, 0],
    mask: [0, 1],
  };
  const { weights } = evaluate(objective, trajectory, scaleOf(objective, [trajectory]));
  close(weights[0]!, 0);
  close(weights[1]!, 0.005);
});

test("metrics are means over active tokens", () => {
  const objective = resolveLoss({ type: "ppo" });
  const rows = [rowOf([-1, -0.5], [-1, -1], [1, 1], [-2, -0.5]), { ...rowOf([-3], [-1], [1]), mask: [0] }];
  const scale = scaleOf(objective, rows);
  const metrics = metricsOf(
    rows.map((trajectory) => evaluate(objective, trajectory, scale)),
    true,
  );
  assert.equal(metrics.tokens, 2);
  assert.equal(metrics.clip_frac, 0.5);
  close(metrics.ratio_mean, (1 + Math.exp(0.5)) / 2);
  close(metrics.kl, -0.25);
  close(metrics.kl_reference!, 0.5);
  close(metrics.lp_mismatch_max, 0.5);
});

test("blocks are resolved to absolute bounds, and refused by the name of the field", () => {
  assert.deepEqual(resolveLoss({ type: "ppo" }).bounds, { low: 0.8, high: 1.2 });
  assert.deepEqual(resolveLoss({ type: "cispo" }).bounds, { low: 0, high: 4 });
  assert.equal(resolveLoss({ type: "dro" }).beta, 0.05);
  assert.equal(resolveLoss({}).type, "ppo");
  assert.match(resolveLoss({ type: "ppo", ppo: { clip_high: 1.2 } }).warnings[0]!, /absolute ratio/);
  const parameters = { ppo: { clip_low: 0.1 }, cispo: { eps_max: 5 }, dro: { beta: 0.1 } };
  for (const type of ["ppo", "cispo", "dro"])
    assert.deepEqual(
      resolveLoss({ type, ...parameters }).ignored.map(({ field }) => field),
      ["loss.ppo", "loss.cispo", "loss.dro"].filter((field) => field !== `loss.${type}`),
    );
  assert.match(resolveLoss({ type: "ppo", dro: { beta: 1 } }).ignored[0]!.reason, /^redundant: the loss is ppo$/);
  const refused: [LossBlock, string][] = [
    [{ type: "gspo" }, "loss.type"],
    [{ type: "ppo", ppo: { clip_low: 1.1 } }, "loss.ppo.clip_low"],
    [{ type: "ppo", ppo: { clip_high: 11 } }, "loss.ppo.clip_high"],
    [{ type: "ppo", ppo: { clip_c: 1 } }, "loss.ppo.clip_c"],
    [{ type: "cispo", cispo: { eps_max: 1 } }, "loss.cispo.eps_max"],
    [{ type: "dro", dro: { beta: 0 } }, "loss.dro.beta"],
    [{ type: "dro", is_ratio_level: "sequence" }, "loss.is_ratio_level"],
    [{ kl_coef: Number.NaN }, "loss.kl_coef"],
    [{ entropy_coef: -0.01 }, "loss.entropy_coef"],
    [{ z_loss_coef: 0.1 }, "loss.z_loss_coef"],
    [{ token_reduction: "median" }, "loss.token_reduction"],
  ];
  for (const [block, field] of refused)
    assert.throws(
      () => resolveLoss(block),
      (error: unknown) => error instanceof Failure && error.message.startsWith(`${field}: `),
      field,
    );
  const objective = resolveLoss({ type: "ppo", kl_coef: 0.1 });
  const bare = rowOf([-1], [-1], [1]);
  assert.throws(() => evaluate(objective, bare, scaleOf(objective, [bare])), /needs reference/);
});

const flat = (rewards: (number | null)[], block: Parameters<typeof resolveAdvantage>[0], lengths?: number[]) =>
  advantagesOf(resolveAdvantage(block), [rewards.map((reward, i) => ({ reward, length: lengths?.[i] ?? 1 }))])[0]!.map(
    (answer) => (answer === null ? null : answer[0]!),
  );

test("advantages are those of the table", () => {
  const third = 1 / 3;
  const table: [Parameters<typeof resolveAdvantage>[0], number[]][] = [
    [{ estimator: "grpo" }, [0.75, -0.25, -0.25, -0.25]],
    [{ estimator: "dr_grpo" }, [0.75, -0.25, -0.25, -0.25]],
    [{ estimator: "grpo", normalize_std: true }, [1.5, -0.5, -0.5, -0.5]],
    [{ estimator: "rloo" }, [1, -third, -third, -third]],
    [{ estimator: "max_rl" }, [3, -1, -1, -1]],
    [{ estimator: "reinforce", center: false }, [1, 0, 0, 0]],
    [{ center: "none" }, [1, 0, 0, 0]],
    [{ center: "mean" }, [0.75, -0.25, -0.25, -0.25]],
    [{ center: "median" }, [1, 0, 0, 0]],
  ];
  for (const [block, expected] of table)
    for (const [i, value] of flat([1, 0, 0, 0], block).entries()) close(value!, expected[i]!, 5e-6);
  for (const [i, value] of flat([1, 0, 0, 1], { normalize_std: true }).entries())
    close(value!, [0.866025, -0.866025, -0.866025, 0.866025][i]!, 5e-6);
  for (const [i, value] of flat([1, 0, 0, 1], { estimator: "rloo" }).entries())
    close(value!, [2, -2, -2, 2][i]! / 3, 1e-12);
  // Lengths 3, 1: the baseline is (3 · 1 + 1 · 0) / 4.
  assert.deepEqual(flat([1, 0], { estimator: "opo" }, [3, 1]), [0.25, -0.75]);
  assert.deepEqual(flat([0, 0, 0], { estimator: "max_rl" }), [0, 0, 0]);
  assert.deepEqual(flat([1, 4, 2], { center: "median" }), [-1, 2, 0]);
  assert.deepEqual(flat([1, 4, 2, 3], { estimator: "reinforce", center: "median" }), [-1.5, 1.5, -0.5, 0.5]);
});

test("a setting of the wrong type is refused by name, and one that the estimator does not read is told", () => {
  const refused: [Record<string, unknown>, RegExp][] = [
    [{ center: "middle" }, /^config\.advantage\.center: must be true, false, mean, median or none/],
    [{ center: 0 }, /^config\.advantage\.center: /],
    [{ normalize_std: "false" }, /^config\.advantage\.normalize_std: must be true or false$/],
    [{ skip_zero_advantage_groups: "false" }, /^config\.advantage\.skip_zero_advantage_groups: must be true or false$/],
    [{ gamma: "0.5" }, /^config\.advantage\.gamma: /],
    [{ scope: 1 }, /^config\.advantage\.scope: /],
  ];
  for (const [block, message] of refused) assert.throws(() => resolveAdvantage(block), { message });
  const given = { center: true, normalize_std: true, scope: "batch", gamma: 0.5, skip_zero_advantage_groups: true };
  const read: Record<string, string[]> = {
    grpo: ["center", "normalize_std", "scope"],
    dr_grpo: ["center"],
    reinforce: ["center"],
    reinforce_plus_plus: ["gamma"],
    rloo: [],
    opo: [],
    max_rl: [],
  };
  const told = (block: Record<string, unknown>) => resolveAdvantage(block).ignored.map(({ field }) => field);
  for (const [estimator, fields] of Object.entries(read))
    assert.deepEqual(
      told({ estimator, ...given }),
      ["center", "normalize_std", "scope", "gamma"]
        .filter((field) => !fields.includes(field))
        .map((field) => `advantage.${field}`),
      estimator,
    );
  assert.deepEqual(told({ scope: "batch" }), ["advantage.scope"]);
  assert.match(resolveAdvantage({ gamma: 0.9 }).ignored[0]!.reason, /^redundant: the estimator grpo does not use it$/);
});

test("an unknown reward is in no mean and gets nothing; alone or among equals an answer says nothing", () => {
  assert.deepEqual(flat([1, null, 0], { estimator: "grpo" }), [0.5, null, -0.5]);
  assert.deepEqual(flat([5], { estimator: "grpo" }), [0]);
  assert.deepEqual(flat([0.3, 0.3 + 1e-9], { normalize_std: true }), [0, 0]);
  assert.throws(() => resolveAdvantage({ estimator: "gae" }), /value model/);
  assert.throws(() => resolveAdvantage({ gamma: 0 }), /advantage.gamma/);
});

test("a batch's deviation divides every group, whose baseline stays its own", () => {
  const answers = (rewards: number[]) => rewards.map((reward) => ({ reward, length: 2 }));
  const plan = resolveAdvantage({ normalize_std: true, scope: "batch" });
  const [first, second] = advantagesOf(plan, [answers([1, 0]), answers([3, 5])]);
  // 1, 0, 3, 5: the sample deviation is √(14.75 / 3)
  const by = Math.sqrt(14.75 / 3);
  close(first![0]![1]!, 0.5 / by, 1e-5);
  close(second![0]![0]!, -1 / by, 1e-5);
});

test("reinforce_plus_plus discounts from the end and whitens over all tokens", () => {
  const plan = resolveAdvantage({ estimator: "reinforce_plus_plus", gamma: 0.5 });
  const [[long, short, none]] = advantagesOf(plan, [
    [
      { reward: 1, length: 3 },
      { reward: -1, length: 1 },
      { reward: null, length: 4 },
    ],
  ]) as [(Float64Array | null)[]];
  assert.equal(none, null);
  // Returns 1/4, 1/2, 1 and −1: mean 3/16, sample variance (Σ R² − 4 · mean²) / 3.
  const mean = 3 / 16;
  const by = Math.sqrt((1 / 16 + 1 / 4 + 1 + 1 - 4 * mean ** 2) / 3);
  for (const [t, value] of [0.25, 0.5, 1].entries()) close(long![t]!, (value - mean) / by, 1e-6);
  close(short![0]!, (-1 - mean) / by, 1e-6);
});
